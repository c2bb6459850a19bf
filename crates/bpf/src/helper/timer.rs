// SPDX-License-Identifier: GPL-2.0-only
//! Helpers and kfuncs for `struct bpf_timer` and `struct bpf_wq`. This file stores the callbacks of
//! timers, and the simulated machine stores when each timer expires. A work item is a timer that
//! expires immediately, because the simulator has no kworkers.

use super::state::Timer;
use crate::engine::func::Func;
use crate::engine::vm::Vm;
use crate::engine::world::World;
use crate::errno::long::*;
use crate::fault::Fault;
use crate::image::FieldKind;
use crate::memory::Use;
use crate::rows::*;

const BPF_F_TIMER_ABS: u64 = 1;
const BPF_F_TIMER_CPU_PIN: u64 = 2;

pub(super) fn table<W: World>() -> Vec<Func<W>> {
    let mut table = crate::helpers! {
        169 "bpf_timer_init"
        { args: [TIMER, V, V], returns: Number, rules: does(TimerInit), native: CALL, run: init }
        170 "bpf_timer_set_callback"
        { args: [TIMER, V], returns: Number, rules: PLAIN, native: CALL, run: set_callback }
        171 "bpf_timer_start"
        { args: [TIMER, V, V], returns: Number, rules: PLAIN, native: CALL, run: start }
        172 "bpf_timer_cancel"
        { args: [TIMER], returns: Number, rules: PLAIN, native: CALL, run: cancel }
    };
    table.extend(crate::kfuncs! {
        "int bpf_timer_cancel_async(struct bpf_timer *timer)"
        { releases: V7_0.., contexts: ANY, rules: PLAIN, native: CALL, run: cancel_async }
        "int bpf_wq_init(struct bpf_wq *wq, void *p__map, unsigned int flags)"
        { releases: V6_12.., contexts: ANY, rules: does(TimerInit), native: CALL, run: wq_init }
        "int bpf_wq_set_callback(struct bpf_wq *wq, int (callback_fn)(void *map, int *key, void *value), \
         unsigned int flags)"
        { releases: V7_0.., contexts: ANY, rules: PLAIN, native: CALL, run: wq_set_callback }
        "int bpf_wq_set_callback_impl(struct bpf_wq *wq, int (callback_fn)(void *map, int *key, void *value), \
         unsigned int flags, void *aux__prog)"
        { releases: V6_12..V7_0, contexts: ANY, rules: PLAIN, native: CALL, run: wq_set_callback }
        "int bpf_wq_start(struct bpf_wq *wq, unsigned int flags)"
        { releases: V6_12.., contexts: ANY, rules: PLAIN, native: CALL, run: wq_start }
    });
    table
}

fn init<W: World>(w: &mut W, timer: u64, map: u64, flags: u64) -> Result<i64, Fault> {
    w.region().check_writable(timer, 16)?;
    w.vm().map(map)?;
    // CLOCK_REALTIME, CLOCK_MONOTONIC and CLOCK_BOOTTIME are allowed.
    if !matches!(flags, 0 | 1 | 7) {
        return Ok(-EINVAL);
    }
    enter(w, timer, map, false)
}

/// Records that a timer or work item was initialised. Returns -EBUSY if this was recorded before.
fn enter<W: World>(w: &mut W, timer: u64, map: u64, work: bool) -> Result<i64, Fault> {
    let mut state = w.vm().state().borrow_mut();
    if state.timers.contains_key(&timer) {
        return Ok(-EBUSY);
    }
    w.region().memory().charge_record(Use::Timers)?;
    let timed = Timer { map, callback: 0, work };
    state.timers.insert(timer, timed);
    Ok(0)
}

fn wq_init<W: World>(w: &mut W, wq: u64, map: u64, flags: u32) -> Result<i64, Fault> {
    w.region().check_writable(wq, 16)?;
    w.vm().map(map)?;
    if flags != 0 {
        Ok(-EINVAL)
    } else {
        enter(w, wq, map, true)
    }
}

fn wq_set_callback<W: World>(w: &mut W, wq: u64, callback: u64, flags: u32) -> i64 {
    if flags != 0 {
        -EINVAL
    } else {
        set_callback(w, wq, callback)
    }
}

fn wq_start<W: World>(w: &mut W, wq: u64, flags: u32) -> Result<i64, Fault> {
    if flags != 0 { Ok(-EINVAL) } else { start(w, wq, 0, 0) }
}

fn set_callback<W: World>(w: &mut W, timer: u64, callback: u64) -> i64 {
    match w.vm().state().borrow_mut().timers.get_mut(&timer) {
        None => -EINVAL,
        Some(timer) => {
            timer.callback = callback;
            0
        }
    }
}

fn start<W: World>(w: &mut W, timer: u64, ns: u64, flags: u64) -> Result<i64, Fault> {
    let ready = w
        .vm()
        .state()
        .borrow()
        .timers
        .get(&timer)
        .is_some_and(|timer| timer.callback != 0);
    if !ready || flags & !(BPF_F_TIMER_ABS | BPF_F_TIMER_CPU_PIN) != 0 {
        return Ok(-EINVAL);
    }
    w.timer_start(timer, ns, flags)?;
    Ok(0)
}

/// Cancels a timer and returns whether it was pending. Before the timer can be used again, its
/// callback must be set again. In the kernel, this function waits until a running callback has
/// ended. It therefore fails in contexts in which the callback could never end.
fn cancel<W: World>(w: &mut W, timer: u64) -> i64 {
    if w.irqs_disabled() {
        return -EOPNOTSUPP;
    }
    {
        let mut state = w.vm().state().borrow_mut();
        let running = state.running_timer == Some(timer);
        match state.timers.get_mut(&timer) {
            None => return -EINVAL,
            Some(_) if running => return -EDEADLK,
            Some(timer) => timer.callback = 0,
        }
    }
    i64::from(w.timer_cancel(timer))
}

/// Cancels a timer without waiting for its callback. Returns whether the timer was pending, or -1
/// if its callback is running.
fn cancel_async<W: World>(w: &mut W, timer: u64) -> i64 {
    if !w.vm().state().borrow().timers.contains_key(&timer) {
        return -EINVAL;
    }
    match w.timer_cancel(timer) {
        true => 1,
        false if w.vm().state().borrow().running_timer == Some(timer) => -1,
        false => 0,
    }
}

/// Removes a timer. Called when the value that contains the timer is about to be removed.
pub(super) fn forget<W: World>(w: &mut W, timer: u64) {
    if w.vm().state().borrow_mut().timers.remove(&timer).is_some() {
        w.region().memory().uncharge_records(Use::Timers, 1);
        w.timer_cancel(timer);
    }
}

impl<W: World> Vm<W> {
    /// Calls the callback of the timer at this address, which has expired. The arguments of the
    /// callback are the map, the key and the value. Does nothing if the timer was removed.
    pub fn run_timer(world: &mut W, timer: u64) -> Result<(), Fault> {
        let found = world.vm().state().borrow().timers.get(&timer).copied();
        let Some(Timer { map, callback, work }) = found else {
            return Ok(());
        };
        let (key, value) = {
            let map = world.vm().map(map)?;
            let kind = if work { FieldKind::Workqueue } else { FieldKind::Timer };
            let field = map.def().fields.iter().find(|field| field.kind == kind);
            let value = timer.wrapping_sub(field.map_or(0, |field| u64::from(field.offset)));
            (map.key_for_value(world.region(), value), value)
        };
        let outer = world.vm().state().borrow_mut().running_timer.replace(timer);
        let result = Vm::with_stack(world, &key, |w, key| {
            Vm::call_address(w, callback, [map, key, value, 0, 0])
        });
        world.vm().state().borrow_mut().running_timer = outer;
        result.map(drop)
    }
}
