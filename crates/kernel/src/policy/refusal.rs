// SPDX-License-Identifier: GPL-2.0-only
//! The reasons for which the kernel or libbpf rejects an object before any of its code runs.

use crate::layout::callbacks::Callback;
use crate::layout::enums::{
    SCX_OPS_NAME_LEN, SCX_RESCUE_DISABLE, SCX_RESCUE_MAX_BW_PPT, SCX_RESCUE_MAX_QUANTUM_US, SCX_RESCUE_MIN_QUANTUM_US,
};
use crate::layout::release::absent::why_absent;
use crate::layout::release::{Release, describe};
use crate::policy::kfuncs;
use crate::sched::ext::state::core::MAX_TIMEOUT_NS;
use crate::sched::ext::state::ops_table::OpsTable;
use bpf::errno::{E2BIG, EINVAL};
use bpf::link::{Image, StructOps};
use bpf::rows::{Releases, V6_12};
use thiserror::Error;

/// Why the kernel or libbpf rejects an object. The messages are those of the kernel and libbpf,
/// followed by what was found.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(crate) enum Refusal {
    #[error("struct ops programs must have a GPL compatible license (-22): {}; expected for example \"GPL\"", found(.0))]
    License(String),
    #[error("extern (func ksym) '{name}': not found in kernel BTF of Linux {release}; it exists {}", describe(*.releases))]
    OtherRelease {
        name: String,
        release: Release,
        releases: Releases,
    },
    #[error(
        "extern (func ksym) '{0}': not found in kernel or module BTFs; declare it __weak if the policy can do without it"
    )]
    UnknownKfunc(String),
    #[error("struct_ops init_kern {map}: Cannot find member {member} in kernel BTF of Linux {release}")]
    UnknownMember {
        map: String,
        member: String,
        release: Release,
    },
    #[error("struct_ops init_kern {map}: struct {name} is not found in kernel BTF of Linux {release}")]
    UnknownStruct {
        map: String,
        name: String,
        release: Release,
    },
    #[error("Linux {release} has no ops.{name}")]
    UnknownCallback { name: String, release: Release },
    #[error(
        "calling kernel function {0} is not allowed: a policy with struct sched_ext_ops_cid cannot use CPU numbers"
    )]
    CpuNumbers(String),
    #[error("calling kernel function {0} is not allowed: the object has no struct sched_ext_ops")]
    NoScheduler(String),
    #[error(
        "ops.sub_cgroup_id {0}: not supported in an object or a program; --sub CGROUP=POLICY attaches a sub-scheduler"
    )]
    SubScheduler(u64),
    #[error("ops.flags has bits 0x{bits:x} that Linux {release} does not know ({})", -EINVAL)]
    Flags { bits: u64, release: Release },
    #[error("ops.name is empty ({})", -EINVAL)]
    NameEmpty,
    #[error("ops.name is longer than {} bytes ({})", SCX_OPS_NAME_LEN - 1, -EINVAL)]
    NameLong,
    #[error("ops.name {name:?} has characters other than letters, digits, '_' and '.' ({})", -EINVAL)]
    NameCharacters { name: String },
    #[error("ops.timeout_ms {ms} is more than 30000 ({})", -E2BIG)]
    Timeout { ms: u32 },
    #[error("ops.dispatch_max_batch {batch} is too large ({})", -E2BIG)]
    Batch { batch: u32 },
    #[error("ops.rescue_bandwidth_ppt {ppt} is more than {} ({})", SCX_RESCUE_MAX_BW_PPT, -E2BIG)]
    RescueBandwidth { ppt: u32 },
    #[error("ops.rescue_quantum_us {us} is more than {} ({})", SCX_RESCUE_MAX_QUANTUM_US, -E2BIG)]
    RescueQuantumLong { us: u32 },
    #[error("ops.rescue_quantum_us {us} is less than {} ({})", SCX_RESCUE_MIN_QUANTUM_US, -EINVAL)]
    RescueQuantumShort { us: u32 },
}

/// Licenses that are compatible with the GPL (license_is_gpl_compatible()). Only programs with such
/// a license may use symbols that are exported for GPL code.
const GPL_COMPATIBLE: [&str; 6] = [
    "GPL",
    "GPL v2",
    "GPL and additional rights",
    "Dual BSD/GPL",
    "Dual MIT/GPL",
    "Dual MPL/GPL",
];

fn found(license: &str) -> String {
    match license {
        "" => "the object has no section \"license\"".into(),
        license => format!("its license is \"{license}\""),
    }
}

/// Checks the license like the verifier does for struct_ops programs (check_struct_ops_btf_id()).
pub(crate) fn check_license(image: &Image) -> Result<(), Refusal> {
    match GPL_COMPATIBLE.contains(&image.license.as_str()) {
        true => Ok(()),
        false => Err(Refusal::License(image.license.clone())),
    }
}

/// Rejects objects that libbpf would reject: if a symbol is missing that is not weak (-ESRCH), or
/// if a member of struct_ops is set that the kernel does not have (-ENOTSUP).
///
/// Two cases cause only a warning:
///
/// - Loaders that use SCX_OPS_OPEN clear some members that the kernel does not have. These members
///   have already been removed here.
/// - A kfunc exists in Linux but is not modelled. A call of this kfunc ends the policy.
pub(crate) fn check_absent(image: &Image, table: &StructOps, release: Release) -> Result<(), Refusal> {
    let kfuncs = kfuncs::all();
    for symbol in image.missing.iter().filter(|symbol| symbol.function) {
        let name = symbol.name.clone();
        // A kfunc whose prototype has changed has several rows.
        let rows = || kfuncs.iter().filter(|kfunc| kfunc.name == name.as_str());
        match rows().next_back() {
            Some(kfunc) if !rows().any(|kfunc| release.is_among(kfunc.releases)) => {
                return Err(Refusal::OtherRelease {
                    releases: kfunc.releases,
                    name,
                    release,
                });
            }
            None if why_absent(&name).is_none() => return Err(Refusal::UnknownKfunc(name)),
            _ => {}
        }
    }
    match table.unknown.iter().find(|member| !is_cleared(member)) {
        Some(member) => Err(Refusal::UnknownMember {
            map: table.map_name.clone(),
            member: member.clone(),
            release,
        }),
        None => Ok(()),
    }
}

/// Returns whether SCX_OPS_OPEN clears this member if the kernel does not have it. These are the
/// members that do not exist in Linux 6.12.
fn is_cleared(member: &str) -> bool {
    let fields = ["sub_cgroup_id", "rescue_bandwidth_ppt", "rescue_quantum_us"];
    fields.contains(&member) || Callback::by_name(member).is_some_and(|op| op.since() > V6_12)
}

/// Checks the fields of struct sched_ext_ops before any program of the policy runs
/// (bpf_scx_init_member).
///
/// # Errors
/// The reason why the kernel would reject the policy.
pub(crate) fn check_members(ops: &OpsTable, release: Release) -> Result<(), Refusal> {
    let unknown = ops.flags & !release.ops_flags();
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    Err(if ops.sub_cgroup_id != 0 {
        Refusal::SubScheduler(ops.sub_cgroup_id)
    } else if unknown != 0 {
        Refusal::Flags { bits: unknown, release }
    } else if ops.name().is_empty() {
        Refusal::NameEmpty
    } else if ops.name().len() >= SCX_OPS_NAME_LEN as usize {
        Refusal::NameLong
    } else if !ops.name().chars().all(allowed) {
        Refusal::NameCharacters {
            name: ops.name().to_string(),
        }
    } else if u64::from(ops.timeout_ms) * 1_000_000 > MAX_TIMEOUT_NS {
        Refusal::Timeout { ms: ops.timeout_ms }
    } else if ops.dispatch_max_batch > i32::MAX as u32 {
        Refusal::Batch {
            batch: ops.dispatch_max_batch,
        }
    } else if (SCX_RESCUE_MAX_BW_PPT + 1..SCX_RESCUE_DISABLE).contains(&ops.rescue_bandwidth_ppt.into()) {
        Refusal::RescueBandwidth {
            ppt: ops.rescue_bandwidth_ppt,
        }
    } else if u64::from(ops.rescue_quantum_us) > SCX_RESCUE_MAX_QUANTUM_US {
        Refusal::RescueQuantumLong {
            us: ops.rescue_quantum_us,
        }
    } else if (1..SCX_RESCUE_MIN_QUANTUM_US).contains(&ops.rescue_quantum_us.into()) {
        Refusal::RescueQuantumShort {
            us: ops.rescue_quantum_us,
        }
    } else {
        return Ok(());
    })
}
