// SPDX-License-Identifier: GPL-2.0-only
//! Connects the machine to the sanitizer (`bpf::sanitizer`, `--sanitize`), which enforces the rules
//! of the kernel's verifier at run time. The types of kernel objects are in `layout::object`.

use crate::layout::{bpf_iter_scx_dsq, scx_bpf_dsq_insert_vtime_args, scx_bpf_select_cpu_and_args};
use crate::machine::Machine;
use bpf::link::Image;
use bpf::sanitizer::Rules;

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
    Rules {
        objects: m.region.object_types(),
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
        let unknown: Vec<bpf::error::Error> = kfuncs::table(&m.spec.costs)
            .iter()
            .filter_map(|func| func.check_signature(&rules).err())
            .collect();
        assert!(unknown.is_empty(), "{unknown:#?}");
    }
}
