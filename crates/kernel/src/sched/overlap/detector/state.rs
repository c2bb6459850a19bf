// SPDX-License-Identifier: GPL-2.0-only
//! State of the race detector.

mod table;

use crate::layout::callbacks::Callback;
use crate::simulation::id::CpuId;
use crate::simulation::timeline::LockId;
use std::collections::BTreeMap;
use std::rc::Rc;
pub(crate) use table::Table;
use table::Variables;

/// Logical time of each CPU, as far as a CPU knows it.
pub(crate) type Clock = Vec<u32>;

/// An object through which one CPU orders its accesses before those of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum SyncId {
    Lock(LockId),
    /// The life of a task: its callbacks follow one another. Identified by the task's address.
    Task(u64),
    /// An atomic variable, timer or map at this address.
    Address(u64),
    /// The allocator of objects: a freed object may be allocated again.
    Allocator,
}

/// One access, for a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub pc: usize,
    pub cpu: CpuId,
    /// The callback, or `None` for a timer or other BPF code.
    pub op: Option<Callback>,
    pub value: u64,
    /// Local time of the CPU, ns.
    pub time: u64,
    /// Number of the point before the access, 0 if there was none.
    pub point: u64,
}

/// A store that is remembered for comparison with accesses of other CPUs.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    /// Logical time of the storing CPU.
    pub epoch: u32,
    pub seen: Seen,
    /// The load of the same callback that precedes this store.
    pub load: Option<Loaded>,
    /// Whether the store belongs to an atomic read-modify-write.
    pub modifies: bool,
}

/// A load that precedes a store of the same callback.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loaded {
    pub seen: Seen,
    pub kind: RaceKind,
}

/// How a store comes by its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// It is not known to depend on the variable's old value.
    Plain,
    /// It is calculated from a value that was loaded from the variable.
    Derived,
    /// An atomic instruction stores it without a look at the old value.
    Released,
    /// An atomic instruction calculates it from the old value.
    Modified,
}

impl Stored {
    pub fn is_atomic(self) -> bool {
        matches!(self, Stored::Released | Stored::Modified)
    }
}

/// Use of the value that a callback loads before it stores the same variable. The kinds are ordered
/// by how likely a race on them is a defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RaceKind {
    /// The stored value is calculated from the loaded one: `nr++`.
    Update,
    /// The loaded value influences something before the store: `if (!busy) busy = 1`.
    Check,
    /// The loaded value influences nothing before the store: `nr = new; new = 0`.
    Replace,
    /// Like `Check` or `Replace`, but the other CPU stores the variable without a look at its value.
    /// Both CPUs only announce something, such as a time or a flag.
    Flag,
}

/// The last load of a variable by a callback.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    /// Number of the callback that loaded the variable.
    pub callback: u64,
    /// The clock of the CPU at the load. Its own component may be out of date.
    pub clock: Rc<[u32]>,
    pub seen: Seen,
    /// Number of stores to the variable before the load.
    pub version: u64,
    /// Whether the loaded value has already influenced anything.
    pub decided: bool,
}

/// A variable of the policy, with the last accesses of each CPU.
#[derive(Clone, Debug)]
pub(crate) struct Variable {
    pub addr: u64,
    /// Last accesses of each CPU that has accessed the variable, in the order of the CPUs.
    pub cpus: Vec<Accesses>,
    /// Number of stores.
    pub version: u64,
    /// Whether a loaded value has influenced anything except the variable itself.
    pub decides: bool,
    /// Size of the last atomic read-modify-write, or 0 if there was none.
    pub atomic_size: u8,
    /// Whether the variable was recognised as the lock word of an arena_spin_lock().
    pub is_lock_word: bool,
    /// The last access.
    pub last: Option<Seen>,
}

/// The last load and store of a variable by one CPU.
#[derive(Clone, Debug)]
pub(crate) struct Accesses {
    pub cpu: CpuId,
    pub load: Option<Load>,
    pub store: Option<Store>,
}

impl Variable {
    pub(crate) fn new(addr: u64) -> Variable {
        Variable {
            addr,
            cpus: Vec::new(),
            version: 0,
            decides: false,
            atomic_size: 0,
            is_lock_word: false,
            last: None,
        }
    }

    /// Returns the accesses of a CPU.
    pub(crate) fn of_cpu(&mut self, cpu: CpuId) -> &mut Accesses {
        let at = match self.cpus.binary_search_by_key(&cpu, |accesses| accesses.cpu) {
            Ok(at) => at,
            Err(at) => {
                let accesses = Accesses {
                    cpu,
                    load: None,
                    store: None,
                };
                self.cpus.insert(at, accesses);
                at
            }
        };
        &mut self.cpus[at]
    }
}

/// Two CPUs change a variable, and nothing orders the changes: one of them loads the variable and
/// then stores it, and the other can store in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Race {
    /// Address of the variable.
    pub addr: u64,
    /// Number of bytes.
    pub size: u8,
    pub load: Seen,
    pub store: Seen,
    /// The store of the other CPU.
    pub other: Seen,
    pub kind: RaceKind,
    /// Whether the store of the other CPU did happen between the load and the store, so that its
    /// value was lost.
    pub lost: bool,
    /// Whether the variable is a statistics counter: no loaded value has influenced anything except
    /// the variable itself.
    pub benign: bool,
}

/// The happens-before race detector.
pub struct Detector {
    pub(crate) clocks: Vec<Clock>,
    /// For each CPU a copy of its clock, which loads share until the CPU learns of a later time of a
    /// different CPU.
    pub(crate) snapshots: Vec<Option<Rc<[u32]>>>,
    pub(crate) objects: Table<SyncId, Clock>,
    pub(crate) variables: Variables,
    /// Number of the callback that each CPU executes.
    pub(crate) callbacks: Vec<u64>,
    pub(crate) nr_callbacks: u64,
    /// The first race of each pair of instructions.
    pub(crate) races: BTreeMap<(usize, usize), Race>,
    /// Pairs of instructions on different CPUs that accessed the same variable one after the other,
    /// and the point of the first access when this happened last.
    pub(crate) pairs: Table<(usize, usize), u64>,
}

impl Detector {
    pub(crate) fn new(nr_cpus: u32) -> Detector {
        let nr = nr_cpus as usize;
        let mut clocks = vec![vec![0; nr]; nr];
        for (cpu, clock) in clocks.iter_mut().enumerate() {
            clock[cpu] = 1;
        }
        Detector {
            clocks,
            snapshots: vec![None; nr],
            objects: Table::default(),
            variables: Variables::default(),
            callbacks: vec![0; nr],
            nr_callbacks: 0,
            races: BTreeMap::new(),
            pairs: Table::default(),
        }
    }
}
