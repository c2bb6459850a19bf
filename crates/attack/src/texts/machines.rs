// SPDX-License-Identifier: GPL-2.0-only
//! Hostile machines: synthetic strings, hwloc files, and machine files.

use super::{Add, DEEP, many, nested};

/// Returns a machine file with this topology.
fn machine(topology: &str) -> String {
    format!("description = 'x'\nhz = 250\ntopology = {topology}\n")
}

/// The only CPU of the files of [`hwloc`].
const PU: &str =
    "<object type='PU' os_index='0' cpuset='0x1' complete_cpuset='0x1' nodeset='0x1' complete_nodeset='0x1'/>";

/// Returns an hwloc file with a memory node and these objects in the machine, and these elements
/// after it.
fn hwloc(doctype: &str, version: &str, objects: &str, after: &str) -> String {
    format!(
        "<?xml version='1.0'?>\n{doctype}<topology version='{version}'>\
         <object type='Machine' os_index='0' cpuset='0x1' complete_cpuset='0x1' nodeset='0x1' complete_nodeset='0x1'>\
         <object type='NUMANode' os_index='0' cpuset='0x1' complete_cpuset='0x1' nodeset='0x1' complete_nodeset='0x1'/>\
         {objects}</object>{after}</topology>"
    )
}

pub(super) fn add_all(add: &mut Add) {
    add("a million CPUs", "core:1000000".to_owned(), "refused");
    add(
        "levels whose product overflows",
        "pack:65536 die:65536 core:65536 pu:65536".to_owned(),
        "refused",
    );
    add("no CPU", "core:0".to_owned(), "refused");
    add(
        "a number that is too large",
        "core:99999999999999999999999".to_owned(),
        "refused",
    );
    add("a negative number of CPUs", "core:-4".to_owned(), "refused");
    add("100,000 levels", "group:1 ".repeat(DEEP), "refused");
    add(
        "40 levels whose product overflows",
        format!("{} pu:1", "group:2 ".repeat(40)),
        "refused",
    );
    add(
        "indexes that repeat",
        "core:4 pu:1(indexes=0,0,0,0)".to_owned(),
        "refused",
    );
    add(
        "very many indexes",
        format!("core:4 pu:1(indexes={})", "0,".repeat(DEEP)),
        "refused",
    );
    add(
        "indexes that are huge",
        "core:4 pu:1(indexes=4294967295,4294967294,1,2)".to_owned(),
        "",
    );
    add(
        "memory that overflows",
        "node:2(memory=99999999999999TiB) core:2".to_owned(),
        "",
    );
    add("an empty text", String::new(), "refused");
    add("control characters", "core:\x1b[31m4".to_owned(), "refused");
    add("deep XML", nested("<object type='Group'>", "", "</object>"), "refused");
    add(
        "entities that expand",
        format!(
            "<!DOCTYPE a [<!ENTITY b0 'x'>{}]>\n<topology>&b9;</topology>",
            (1..10)
                .map(|n| format!(
                    "<!ENTITY b{n} '&b{0};&b{0};&b{0};&b{0};&b{0};&b{0};&b{0};&b{0};&b{0};&b{0};'>",
                    n - 1
                ))
                .collect::<String>()
        ),
        "refused",
    );
    add(
        "an external entity",
        "<!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]>\n<topology><object type='Machine'>&b;</object></topology>".to_owned(),
        "refused",
    );
    add(
        "a cpuset that is huge",
        "<?xml version='1.0'?>\n<topology version='2.0'><object type='Machine' os_index='0' cpuset='0xffffffff'>\
         <object type='PU' os_index='4294967295' cpuset='0x1'/></object></topology>"
            .to_owned(),
        "refused",
    );
    add("XML that includes itself", machine("'./self.toml'"), "refused");
    add("deep TOML", format!("a = {}", nested("[", "", "]")), "refused");
    add(
        "a path out of the directory",
        machine("'../../../../etc/passwd'"),
        "refused",
    );
    add("no ticks", machine("'core:2 pu:1'").replace("250", "0"), "refused");
    add(
        "too many ticks",
        machine("'core:2 pu:1'").replace("250", "4294967295"),
        "refused",
    );
    add(
        "negative costs",
        format!("{}[costs]\ncontext_switch = -1\n", machine("'core:2 pu:1'")),
        "refused",
    );
    add(
        "huge costs",
        format!(
            "{}[costs]\ncontext_switch = 18446744073709551615\n",
            machine("'core:2 pu:1'")
        ),
        "refused",
    );

    add(
        "an hwloc file with its own entities",
        hwloc(
            "<!DOCTYPE topology SYSTEM 'hwloc2.dtd' [<!ENTITY e '<object type=\"PU\" os_index=\"0\"/>'>]>",
            "2.0",
            "&e;",
            "",
        ),
        "refused",
    );
    add(
        "an hwloc file of an unknown version",
        hwloc("", "4294967296.0", PU, ""),
        "refused",
    );
    add(
        "deep hwloc objects without CPUs",
        hwloc("", "2.0", &nested("<object type='Misc'>", PU, "</object>"), ""),
        "refused",
    );
    add(
        "many memory nodes without CPUs",
        hwloc(
            "",
            "3.0",
            &format!(
                "{PU}{}",
                many(1000, |n| {
                    let set = format!("0x{:x}{}", 1_u64 << (n % 32), ",0x0".repeat(n / 32 + 1));
                    format!(
                        "<object type='NUMANode' os_index='{}' cpuset='0x0' complete_cpuset='0x0' nodeset='{set}' \
                         complete_nodeset='{set}' local_memory='18446744073709551615'/>",
                        n + 32
                    )
                })
                .replace(">,<", "><")
            ),
            "",
        ),
        "AllExited",
    );
    add(
        "distances of version 1 that are no numbers",
        hwloc("", "1.0", "", "")
            .replace(
                "<object type='NUMANode'",
                "<distances nbobjs='1' relative_depth='1' latency_base='2.5'><latency value='inf'/></distances>\
             <object type='NUMANode'",
            )
            .replace(
                "complete_nodeset='0x1'/>",
                &format!("complete_nodeset='0x1'>{PU}</object>"),
            ),
        "refused",
    );
    add(
        "distances of more objects than exist",
        hwloc(
            "",
            "2.0",
            PU,
            "<distances2 type='NUMANode' nbobjs='4294967295' kind='5' indexing='os'>\
             <indexes length='4'>0 1</indexes><u64values length='4'>10 20</u64values></distances2>",
        ),
        "refused",
    );
    add(
        "kinds of CPUs with huge numbers",
        hwloc(
            "",
            "2.0",
            PU,
            &many(1000, |n| {
                format!(
                    "<cpukind cpuset='0x1' forced_efficiency='{n}'><info name='FrequencyMaxMHz' value='18446744073709551615'/>\
                     <info name='LinuxCapacity' value='{n}000000000000000000000'/><info name='CoreType' value='IntelAtom'/></cpukind>"
                )
            })
            .replace(">,<", "><"),
        ),
        "AllExited",
    );
    add(
        "a kind of CPUs with a huge set",
        hwloc(
            "",
            "2.0",
            PU,
            &format!("<cpukind cpuset='{}0x1'/>", "0xffffffff,".repeat(DEEP)),
        ),
        "refused",
    );
}
