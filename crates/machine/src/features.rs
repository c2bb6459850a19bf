// SPDX-License-Identifier: GPL-2.0-only
//! Features of the scheduler that can be switched on and off (kernel/sched/features.h).
//!
//! On a real machine, `echo NO_NI_RANDOM >/sys/kernel/debug/sched/features` switches one off.

use input::{Error, suggest};
use serde::{Serialize, Serializer};

/// Defines the modelled features in the kernel's order, with their names and defaults.
macro_rules! features {
    ($($(#[$doc:meta])* $feature:ident = $name:literal, $default:literal;)*) => {
        /// A feature of the scheduler.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub enum Feature {
            $($(#[$doc])* $feature,)*
        }

        /// The features that the simulator models: feature, name in Linux, and whether it is on by
        /// default.
        const MODELLED: &[(Feature, &str, bool)] = &[$((Feature::$feature, $name, $default),)*];
    };
}

features! {
    /// A task keeps its lag while it sleeps or migrates. Otherwise, it is queued with lag 0.
    PlaceLag = "PLACE_LAG", true;
    /// A new task starts with half a slice.
    PlaceDeadlineInitial = "PLACE_DEADLINE_INITIAL", true;
    /// A task keeps the rest of its slice when it migrates.
    PlaceRelDeadline = "PLACE_REL_DEADLINE", true;
    /// The running task is protected from preemption until the end of its slice, or of the shortest slice
    /// on the queue.
    RunToParity = "RUN_TO_PARITY", true;
    /// A woken task with a shorter slice ends the protection of the running task.
    PreemptShort = "PREEMPT_SHORT", true;
    /// The task that was woken last is picked next while it is eligible.
    NextBuddy = "NEXT_BUDDY", false;
    /// The task that a wake-up has chosen as the next one is picked first.
    PickBuddy = "PICK_BUDDY", true;
    /// Load balancing treats the task that a wake-up has chosen as the next one as cache-hot.
    CacheHotBuddy = "CACHE_HOT_BUDDY", true;
    /// A task that goes to sleep with negative lag stays in the queue until it is eligible.
    DelayDequeue = "DELAY_DEQUEUE", true;
    /// Such a task does not gain positive lag.
    DelayZero = "DELAY_ZERO", true;
    /// Woken tasks may preempt the running task.
    WakeupPreemption = "WAKEUP_PREEMPTION", true;
    /// A high-resolution tick ends the slice of a task.
    Hrtick = "HRTICK", true;
    /// CPUs queue tasks themselves that other CPUs wake.
    TtwuQueue = "TTWU_QUEUE", true;
    /// The search for an idle CPU examines fewer CPUs, the busier the LLC is.
    SisUtil = "SIS_UTIL", true;
    /// Load balancing does not move tasks with little load at first.
    LbMin = "LB_MIN", false;
    /// The load of a task that enters the fair class decays for the time outside of the class.
    AttachAgeLoad = "ATTACH_AGE_LOAD", true;
    /// wake_affine() prefers an idle CPU.
    WaIdle = "WA_IDLE", true;
    /// wake_affine() prefers the CPU with less load.
    WaWeight = "WA_WEIGHT", true;
    /// wake_affine() takes the waker's CPU only if the other one has clearly more load.
    WaBias = "WA_BIAS", true;
    /// The utilization of a task is estimated from that of its last activations.
    UtilEst = "UTIL_EST", true;
    /// New-idle balancing skips domains at random, the more often the less it succeeds there.
    NiRandom = "NI_RANDOM", true;
    /// New-idle balancing skips fewer attempts if they are rare.
    NiRate = "NI_RATE", true;
}

/// Features that Linux 7.3 has and the simulator does not model.
const NOT_MODELLED: &[&str] = &[
    "PARANOID_AVG",
    "HRTICK_DL",
    "NONTASK_CAPACITY",
    "WARN_DOUBLE_CLOCK",
    "RT_PUSH_IPI",
    "RT_RUNTIME_SHARE",
    "LATENCY_WARN",
];

/// The features of a kernel that are switched on. The default is that of Linux 7.3.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Features(u32);

impl Features {
    /// Returns whether a feature is on (sched_feat).
    #[inline(always)]
    pub const fn has(self, feature: Feature) -> bool {
        self.0 & (1 << feature as u32) != 0
    }

    /// Switches a feature on or off.
    pub fn set(&mut self, feature: Feature, on: bool) {
        let bit = 1 << feature as u32;
        self.0 = if on { self.0 | bit } else { self.0 & !bit };
    }

    /// Switches a feature on, or off if its name begins with `NO_`. `key` is the key or argument in
    /// which the user has written the name.
    ///
    /// # Errors
    /// The feature is unknown or not modelled.
    pub fn apply(&mut self, key: &str, text: &str) -> Result<(), Error> {
        let (name, on) = match text.strip_prefix("NO_") {
            Some(name) => (name, false),
            None => (text, true),
        };
        if let Some(&(feature, ..)) = MODELLED.iter().find(|known| known.1 == name) {
            self.set(feature, on);
            return Ok(());
        }
        let names: Vec<&str> = MODELLED.iter().map(|known| known.1).collect();
        let known = format!("known are {}; NO_ before a name switches it off", names.join(", "));
        if NOT_MODELLED.contains(&name) {
            let message = format!("{key}: the feature {name} of Linux is not modelled");
            return Err(Error::new(message).hint(format!("remove it; {known}")));
        }
        let error = Error::new(format!("{key}: Linux 7.3 has no scheduler feature {name:?}"));
        Err(match suggest::nearest(name, names.iter().copied()) {
            Some(near) => error.hint(format!("did you mean {near}? {known}")),
            None => error.hint(known),
        })
    }

    /// Returns the features that differ from the default, as the user writes them.
    pub fn differences(self) -> Vec<String> {
        let changed = MODELLED
            .iter()
            .filter(|&&(feature, _, default)| self.has(feature) != default);
        changed
            .map(|&(_, name, default)| if default { format!("NO_{name}") } else { name.to_owned() })
            .collect()
    }
}

impl Default for Features {
    fn default() -> Features {
        let on = MODELLED.iter().filter(|known| known.2);
        Features(on.map(|&(feature, ..)| 1 << feature as u32).sum())
    }
}

impl std::fmt::Debug for Features {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.differences()).finish()
    }
}

impl Serialize for Features {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.differences().serialize(serializer)
    }
}
