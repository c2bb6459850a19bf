// SPDX-License-Identifier: GPL-2.0-only
//! Reads the state of sched_ext in the running kernel, and checks whether a policy can be loaded.

use input::error::Error;
use std::fs;
use std::path::Path;

const SCHED_EXT: &str = "/sys/kernel/sched_ext";
/// Name of the scheduler if no policy is loaded.
pub const NO_POLICY: &str = "default";

/// The type information (BTF) of the running kernel. With it, libbpf adjusts the field offsets in a
/// policy's code.
pub const BTF: &str = "/sys/kernel/btf/vmlinux";
/// From include/uapi/linux/capability.h.
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// Returns the trimmed text of a file in /sys/kernel/sched_ext, or an empty string if it cannot be
/// read.
pub fn file(name: &str) -> String {
    let text = fs::read_to_string(format!("{SCHED_EXT}/{name}")).unwrap_or_default();
    text.trim().to_owned()
}

/// Returns the state of sched_ext: `disabled`, `enabling`, `enabled` or `disabling`. The text is
/// empty if the kernel has no sched_ext.
pub fn state() -> String {
    file("state")
}

/// Returns the name of the loaded sched_ext scheduler, or an empty string if none is loaded.
pub fn ops() -> String {
    file("root/ops")
}

/// Returns the name of the loaded sched_ext scheduler, or `default` if none is loaded.
pub fn scheduler() -> String {
    match ops() {
        ops if ops.is_empty() => NO_POLICY.to_owned(),
        ops => ops,
    }
}

/// Returns the kernel's counters of sched_ext events since the scheduler was loaded. Counters that
/// are 0 are left out.
pub fn events() -> Vec<(String, u64)> {
    let text = file("root/events");
    let lines = text.lines().filter_map(|line| line.split_once([' ', ':']));
    lines
        .map(|(name, count)| (name.to_owned(), count.trim_matches([' ', ':']).parse().unwrap_or(0)))
        .filter(|&(_, count)| count > 0)
        .collect()
}

/// Returns the kernel release that `uname -r` prints.
pub fn release() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease").map_or_else(|_| "?".into(), |text| text.trim().to_owned())
}

/// Returns whether a sub-scheduler is attached to the cgroup with this id. The directories of
/// sub-schedulers lie in that of their parent.
pub fn has_sub(cgroup_id: u64) -> bool {
    fn contains(folder: &Path, name: &str) -> bool {
        let Ok(entries) = fs::read_dir(folder.join("sub")) else {
            return false;
        };
        let mut subs = entries.flatten().map(|entry| entry.path());
        subs.any(|sub| sub.is_dir() && (sub.ends_with(name) || contains(&sub, name)))
    }
    contains(&Path::new(SCHED_EXT).join("root"), &format!("sub-{cgroup_id}"))
}

/// Checks that a sub-scheduler can be attached now.
///
/// # Errors
/// The kernel has no sched_ext or no BTF, this process lacks a privilege, or no scheduler is loaded.
pub fn can_attach() -> Result<(), Error> {
    can_use_bpf()?;
    match state().as_str() {
        "enabled" => Ok(()),
        state => Err(Error::new(format!(
            "no policy is loaded that could accept a sub-scheduler (state: {state})"
        ))
        .hint("load a policy with ops.sub_attach() first: `windtunnel live load`")),
    }
}

/// Checks that a policy can be loaded now.
///
/// # Errors
/// The kernel has no sched_ext or no BTF, this process lacks a privilege, or a scheduler is already
/// loaded.
pub fn can_load() -> Result<(), Error> {
    can_use_bpf()?;
    if state() != "disabled" {
        let ops = match ops() {
            name if name.is_empty() => String::new(),
            name => format!(" '{name}'"),
        };
        return Err(
            Error::new(format!("another scheduler{ops} is loaded (state: {})", state())).hint(
                "`windtunnel live unload` unloads what windtunnel loaded; end the process that loaded any other, or \
                 `echo S > /proc/sysrq-trigger`",
            ),
        );
    }
    Ok(())
}

/// # Errors
/// The kernel has no sched_ext or no BTF, or this process lacks a privilege.
fn can_use_bpf() -> Result<(), Error> {
    has_sched_ext()?;
    if !Path::new(BTF).exists() {
        return Err(Error::new(format!(
            "this kernel ({}) has no type information: {BTF} does not exist",
            release()
        ))
        .hint("a kernel built with CONFIG_DEBUG_INFO_BTF=y is needed"));
    }
    if !privileged() {
        return Err(
            Error::new("no privilege to load a policy: CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN are needed")
                .hint("run it as root: sudo windtunnel live load ..."),
        );
    }
    Ok(())
}

/// # Errors
/// This kernel has no sched_ext.
pub fn has_sched_ext() -> Result<(), Error> {
    if Path::new(SCHED_EXT).is_dir() {
        return Ok(());
    }
    Err(Error::new(format!(
        "this kernel ({}) has no sched_ext: there is no {SCHED_EXT}",
        release()
    ))
    .hint(
        "boot a kernel of 6.12 or later built with CONFIG_SCHED_CLASS_EXT=y; `make live-test` boots one in QEMU, \
         `windtunnel run` simulates one",
    ))
}

/// Returns whether this process has the capabilities that loading a policy needs.
pub fn privileged() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    has_capabilities(&status, &[CAP_SYS_ADMIN, CAP_PERFMON, CAP_BPF])
}

fn has_capabilities(status: &str, wanted: &[u32]) -> bool {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or(0);
    wanted.iter().all(|bit| effective & (1 << bit) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read_from_the_status_file() {
        let wanted = [CAP_SYS_ADMIN, CAP_PERFMON, CAP_BPF];
        assert!(has_capabilities("Name:\tx\nCapEff:\t000001ffffffffff\n", &wanted));
        assert!(!has_capabilities("CapEff:\t0000000000000000\n", &wanted));
        // All capabilities except CAP_BPF.
        assert!(!has_capabilities("CapEff:\t0000017fffffffff\n", &wanted));
        assert!(!has_capabilities("", &wanted));
    }
}
