// SPDX-License-Identifier: GPL-2.0-only
//! System calls that set the calling task's name, affinity, scheduling policy and nice value.

use super::refusal::Request;
use workload::SchedPolicy;

/// From include/uapi/linux/sched.h.
const SCHED_EXT: i32 = 7;

pub fn rename(comm: &str) {
    let mut name = [0_u8; 16];
    let length = comm.len().min(15);
    name[..length].copy_from_slice(&comm.as_bytes()[..length]);
    // SAFETY: `name` is NUL-terminated.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// Restricts a thread to `cpus`. Returns whether the kernel accepted the request. A `tid` of 0
/// means the calling thread.
pub fn set_affinity(tid: i32, cpus: &[u32]) -> bool {
    // SAFETY: a CPU set is plain data, and CPU_SET ignores CPUs beyond its end.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        cpus.iter().for_each(|&cpu| libc::CPU_SET(cpu as usize, &mut set));
        libc::sched_setaffinity(tid, size_of::<libc::cpu_set_t>(), &set) == 0
    }
}

/// Returns the CPUs that the calling thread may use.
pub fn affinity() -> Vec<u32> {
    // SAFETY: a CPU set is plain data.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set);
        let all = 0..libc::CPU_SETSIZE as usize;
        all.filter(|&cpu| libc::CPU_ISSET(cpu, &set))
            .map(|cpu| cpu as u32)
            .collect()
    }
}

/// Sets the calling thread's scheduling policy.
///
/// # Errors
/// The request that the kernel refused.
pub fn set_policy(policy: SchedPolicy) -> Result<(), Request> {
    let (class, nice, priority) = match policy {
        SchedPolicy::Normal { nice } => (libc::SCHED_OTHER, nice, 0),
        SchedPolicy::Batch { nice } => (libc::SCHED_BATCH, nice, 0),
        SchedPolicy::Idle => (libc::SCHED_IDLE, 0, 0),
        // The kernel may refuse SCHED_DEADLINE (admission control). SCHED_FIFO with the highest
        // priority is the most similar policy without admission control.
        SchedPolicy::Deadline { .. } => (libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, 0, 99),
        SchedPolicy::Ext { nice } => (SCHED_EXT, nice, 0),
        // Because of the flag, child processes start as SCHED_OTHER. They then request their own
        // policy.
        SchedPolicy::Fifo { rt_priority } => (libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, 0, rt_priority),
        SchedPolicy::RoundRobin { rt_priority } => (libc::SCHED_RR | libc::SCHED_RESET_ON_FORK, 0, rt_priority),
    };
    let classed = set_class(class, priority);
    // SAFETY: sets the nice value of the calling thread.
    if priority == 0 && unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) } != 0 {
        return Err(Request::Nice);
    }
    match (classed, class) {
        (true, _) => Ok(()),
        (false, SCHED_EXT) => Err(Request::Ext),
        (false, _) => Err(Request::RealTime),
    }
}

/// Requests slices of `ns` for the calling thread, which must have the policy SCHED_OTHER,
/// SCHED_BATCH or SCHED_EXT.
///
/// # Errors
/// Kernels before 6.12 ignore the request.
pub fn set_slice(ns: u64) -> Result<(), Request> {
    let mut attributes = attributes().ok_or(Request::Slice)?;
    attributes.sched_runtime = ns;
    // SAFETY: `attributes` is valid, and its field `size` is its size.
    let accepted = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) == 0 };
    let slice = self::attributes().map_or(0, |attributes| attributes.sched_runtime);
    if accepted && (ns == 0 || slice != 0) {
        Ok(())
    } else {
        Err(Request::Slice)
    }
}

/// Returns the scheduling attributes of the calling thread.
fn attributes() -> Option<libc::sched_attr> {
    // SAFETY: the attributes are plain data, and the kernel writes at most their size.
    unsafe {
        let mut attributes: libc::sched_attr = std::mem::zeroed();
        let size = size_of::<libc::sched_attr>();
        let read = libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0);
        (read == 0).then_some(attributes)
    }
}

/// Sets the scheduling class of the calling thread (SCHED_OTHER, ...) and its real-time priority.
/// Returns whether the kernel accepted the request.
pub fn set_class(class: i32, priority: u32) -> bool {
    set_class_of(0, class, priority)
}

/// Does the same as [`set_class`] for the thread `tid` of this process.
pub fn set_class_of(tid: i32, class: i32, priority: u32) -> bool {
    let parameters = libc::sched_param {
        sched_priority: priority as i32,
    };
    // SAFETY: `parameters` is valid.
    unsafe { libc::sched_setscheduler(tid, class, &parameters) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_limits_requested_slices_or_has_none() {
        // The attributes are those of the calling thread.
        let requested = |ns| {
            let accepted = set_slice(ns).is_ok();
            let slice = attributes().expect("the kernel has sched_getattr").sched_runtime;
            (accepted, slice)
        };
        let found = std::thread::spawn(move || [3_000_000, 1, 1_000_000_000].map(requested)).join();
        match found.expect("the thread does not panic") {
            [(false, 0), (false, 0), (false, 0)] => golden::skip!("this kernel has no custom slices"),
            found => assert_eq!(found, [(true, 3_000_000), (true, 100_000), (true, 100_000_000)]),
        }
    }
}
