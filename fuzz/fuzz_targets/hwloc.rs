// SPDX-License-Identifier: GPL-2.0-only
//! Reads arbitrary text as hwloc's XML or as hwloc's synthetic string. The result must be a machine
//! or an error. Good seeds are the output of `lstopo --of xml` and the files in machines/.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let machine = match text.trim_start().starts_with('<') {
        true => machine::from_xml("fuzz.xml", text),
        false => machine::from_synthetic(text),
    };
    if let Ok(machine) = machine {
        let topology = &machine.spec.topology;
        assert!((1..=machine::MAX_CPUS).contains(&topology.nr_cpus()));
        for cpu in 0..topology.nr_cpus() {
            assert!(topology.siblings(cpu).contains(&cpu) && topology.llc_cpus(cpu).contains(&cpu));
        }
    }
});
