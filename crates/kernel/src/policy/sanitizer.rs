// SPDX-License-Identifier: GPL-2.0-only
//! Connects the machine to the sanitizer (`bpf::sanitizer`, `--sanitize`), which enforces the rules
//! of the kernel's verifier at run time. Describes the kernel objects to the sanitizer, and adds
//! explanations to its findings.

use crate::layout::{
    Mask, WRITABLE, bpf_iter_scx_dsq, cgroup, cpuset, css_set, rq, scx_bpf_dsq_insert_vtime_args,
    scx_bpf_select_cpu_and_args, task_struct,
};
use crate::machine::Machine;
use crate::simulation::id::CpuId;
use bpf::link::Image;
use bpf::sanitizer::{KernelObject, Rules};
use std::mem::offset_of;

/// Structs that kfuncs access in the memory of a policy, with their sizes in bytes. The sizes of
/// the iterators are those in vmlinux.h.
const STRUCTS: [(&str, u64); 5] = [
    ("bpf_iter_css", 24),
    ("bpf_iter_task", 24),
    ("bpf_iter_scx_dsq", size_of::<bpf_iter_scx_dsq>() as u64),
    (
        "scx_bpf_dsq_insert_vtime_args",
        size_of::<scx_bpf_dsq_insert_vtime_args>() as u64,
    ),
    (
        "scx_bpf_select_cpu_and_args",
        size_of::<scx_bpf_select_cpu_and_args>() as u64,
    ),
];

/// Type of the first member of struct cgroup, and of the data of each controller for a cgroup.
const CSS: &str = "cgroup_subsys_state";

/// Returns the rules that the sanitizer applies to the object of a policy.
pub(crate) fn rules(m: &Machine, image: &Image) -> Rules {
    Rules {
        programs: image.programs.clone(),
        sections: image.sections.iter().map(Into::into).collect(),
        ..rules_of_machine(m)
    }
}

/// Returns the rules that are the same for all policies on this machine.
fn rules_of_machine(m: &Machine) -> Rules {
    let layout = &m.layout;
    let object = |name, at, size: usize, writable: &[(u64, u64)], parts: &[(usize, &'static str)]| KernelObject {
        name,
        at,
        size: size as u64,
        writable: writable.to_vec(),
        parts: parts.iter().map(|&(offset, name)| (offset as u64, name)).collect(),
    };
    let in_tasks = [(offset_of!(task_struct, cpus_mask), "cpumask")];
    let mask = |mask: Mask| object("cpumask", mask.addr(), layout.mask_bytes(), &[], &[]);
    let mut objects = vec![
        object(
            "task_struct",
            layout.first_task_addr(),
            size_of::<task_struct>(),
            &WRITABLE,
            &in_tasks,
        ),
        object(
            "task_struct",
            layout.idle_addr(CpuId::BOOT),
            size_of::<task_struct>(),
            &WRITABLE,
            &in_tasks,
        ),
        object("rq", layout.rq_addr(CpuId::BOOT), size_of::<rq>(), &[], &[]),
        object("css_set", layout.css_set_addr(0), size_of::<css_set>(), &[], &[]),
        object("cpuset", layout.cpuset_addr(0), size_of::<cpuset>(), &[], &[(0, CSS)]),
        mask(layout.possible),
        mask(layout.cpuset_masks(&m.region, 0)[0]),
        mask(m.idle.cpumask(None)),
    ];
    // The array of a cgroup's ancestors is stored directly after the cgroup.
    let ancestors = layout.cgroup_stride() as usize;
    objects.push(object(
        "cgroup",
        layout.cgroup_addr(0),
        ancestors.max(size_of::<cgroup>()),
        &[],
        &[(0, CSS)],
    ));
    Rules {
        objects,
        structs: STRUCTS.to_vec(),
        ..Rules::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::kfuncs;
    use crate::testbed::{Bed, spec};

    #[test]
    fn every_function_has_a_signature_for_the_sanitizer() {
        let m = Bed::default().machine(spec(1, 1, 1, 1));
        let rules = rules_of_machine(&m);
        let unknown: Vec<String> = kfuncs::table(&m.spec.costs)
            .iter()
            .filter_map(|func| func.check_signature(&rules).err())
            .collect();
        assert!(unknown.is_empty(), "{unknown:#?}");
    }
}
