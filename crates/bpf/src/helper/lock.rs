// SPDX-License-Identifier: GPL-2.0-only
//! Locks and critical sections. A program's callback runs to its end before anything else does, so a lock found taken was
//! taken by the same program on the way: a deadlock. The time a lock costs is the world's to charge.

use crate::engine::context::ANY;
use crate::engine::func::Func;
use crate::engine::world::World;
use crate::errno::*;
use crate::fault::Fault;

pub(super) fn table<W: World>() -> Vec<Func<W>> {
    let nothing = |_: &mut W| ();
    vec![
        Func::helper(93, "bpf_spin_lock", spin_lock),
        Func::helper(94, "bpf_spin_unlock", spin_unlock),
        Func::kfunc(
            ANY,
            "int bpf_res_spin_lock(struct bpf_res_spin_lock *lock)",
            res_spin_lock,
        ),
        Func::kfunc(
            ANY,
            "void bpf_res_spin_unlock(struct bpf_res_spin_lock *lock)",
            spin_unlock,
        ),
        Func::kfunc(
            ANY,
            "int bpf_res_spin_lock_irqsave(struct bpf_res_spin_lock *lock, unsigned long *flags__irq_flag)",
            |w: &mut W, lock: u64, _flags: u64| res_spin_lock(w, lock),
        ),
        Func::kfunc(
            ANY,
            "void bpf_res_spin_unlock_irqrestore(struct bpf_res_spin_lock *lock, unsigned long *flags__irq_flag)",
            |w: &mut W, lock: u64, _flags: u64| spin_unlock(w, lock),
        ),
        Func::kfunc(ANY, "void bpf_rcu_read_lock(void)", nothing),
        Func::kfunc(ANY, "void bpf_rcu_read_unlock(void)", nothing),
        Func::kfunc(ANY, "void bpf_preempt_disable(void)", nothing),
        Func::kfunc(ANY, "void bpf_preempt_enable(void)", nothing),
        Func::kfunc(
            ANY,
            "void bpf_local_irq_save(unsigned long *flags__irq_flag)",
            |_: &mut W, _: u64| (),
        ),
        Func::kfunc(
            ANY,
            "void bpf_local_irq_restore(unsigned long *flags__irq_flag)",
            |_: &mut W, _: u64| (),
        ),
    ]
}

fn spin_lock<W: World>(w: &mut W, lock: u64) -> Result<(), Fault> {
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
