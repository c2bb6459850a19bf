// SPDX-License-Identifier: GPL-2.0-only
//! Helpers and kfuncs for locks and critical sections.
//!
//! Each callback runs to completion before the next one. A lock that is already held is therefore
//! held by the same callback, and acquiring it is a deadlock. Waits for locks of other CPUs are
//! part of the simulated machine, which charges time for them.

use crate::engine::func::Func;
use crate::engine::world::World;
use crate::errno::long::*;
use crate::fault::Fault;
use crate::rows::*;

pub(super) fn table<W: World>() -> Vec<Func<W>> {
    let nothing = |_: &mut W| ();
    let mut table = crate::helpers! {
        93 "bpf_spin_lock"
        { args: [SPIN_LOCK], returns: Nothing, rules: does(Lock).under_lock(), native: 1, run: spin_lock }
        94 "bpf_spin_unlock"
        { args: [SPIN_LOCK], returns: Nothing, rules: does(Unlock).under_lock(), native: 1, run: spin_unlock }
    };
    table.extend(crate::kfuncs! {
        "int bpf_res_spin_lock(struct bpf_res_spin_lock *lock)"
        { releases: V6_15.., contexts: ANY, rules: does(Lock).under_lock(), native: CALL, run: res_spin_lock }
        "void bpf_res_spin_unlock(struct bpf_res_spin_lock *lock)"
        { releases: V6_15.., contexts: ANY, rules: does(Unlock).under_lock(), native: CALL, run: spin_unlock }
        "int bpf_res_spin_lock_irqsave(struct bpf_res_spin_lock *lock, unsigned long *flags__irq_flag)"
        { releases: V6_15.., contexts: ANY, rules: does(Lock).under_lock(), native: CALL,
          run: |w: &mut W, lock: u64, _flags: u64| res_spin_lock(w, lock) }
        "void bpf_res_spin_unlock_irqrestore(struct bpf_res_spin_lock *lock, unsigned long *flags__irq_flag)"
        { releases: V6_15.., contexts: ANY, rules: does(Unlock).under_lock(), native: CALL,
          run: |w: &mut W, lock: u64, _flags: u64| spin_unlock(w, lock) }
        "void bpf_rcu_read_lock(void)"
        { releases: V6_12.., contexts: ANY, rules: does(RcuLock), native: 0, run: nothing }
        "void bpf_rcu_read_unlock(void)"
        { releases: V6_12.., contexts: ANY, rules: does(RcuUnlock), native: 0, run: nothing }
        "void bpf_preempt_disable(void)"
        { releases: V6_12.., contexts: ANY, rules: does(PreemptDisable), native: CALL, run: nothing }
        "void bpf_preempt_enable(void)"
        { releases: V6_12.., contexts: ANY, rules: does(PreemptEnable), native: CALL, run: nothing }
        "void bpf_local_irq_save(unsigned long *flags__irq_flag)"
        { releases: V6_14.., contexts: ANY, rules: does(IrqSave), native: CALL, run: |_: &mut W, _: u64| () }
        "void bpf_local_irq_restore(unsigned long *flags__irq_flag)"
        { releases: V6_14.., contexts: ANY, rules: does(IrqRestore), native: CALL, run: |_: &mut W, _: u64| () }
    });
    table
}

fn spin_lock<W: World>(w: &mut W, lock: u64) -> Result<(), Fault> {
    w.await_lock(lock)?;
    if w.region().load::<u32>(lock)? != 0 {
        return Err(Fault::func(format!(
            "deadlock: bpf_spin_lock at {lock:#x} is already held"
        )));
    }
    w.region().store(lock, 1u32)?;
    w.spin_lock(lock)?;
    Ok(())
}

fn res_spin_lock<W: World>(w: &mut W, lock: u64) -> Result<i64, Fault> {
    if w.await_lock(lock).is_err() {
        return Ok(-EDEADLK);
    }
    if w.region().load::<u32>(lock)? != 0 {
        return Ok(-EDEADLK);
    }
    w.region().store(lock, 1u32)?;
    w.spin_lock(lock)?;
    Ok(0)
}

fn spin_unlock<W: World>(w: &mut W, lock: u64) -> Result<(), Fault> {
    if w.region().load::<u32>(lock)? == 0 {
        return Err(Fault::func(format!(
            "unlock of the lock at {lock:#x}, which is not held"
        )));
    }
    w.region().store(lock, 0u32)?;
    w.spin_unlock(lock);
    Ok(())
}
