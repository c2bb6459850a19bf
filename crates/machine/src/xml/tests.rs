// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the parser with small files.

use super::*;

const SETS: &str = "nodeset=\"0x1\" complete_nodeset=\"0x1\"";

fn machine() -> String {
    let sets = format!("cpuset=\"0x3\" complete_cpuset=\"0x3\" {SETS}");
    format!(
        "<object type=\"Machine\" {sets} gp_index=\"1\">\
         <object type=\"NUMANode\" os_index=\"0\" {sets} gp_index=\"2\"/>"
    )
}

fn message(text: &str) -> String {
    let e = parse("m.xml", text).map(|_| ()).unwrap_err();
    format!("{}: {}", e.place, e.message)
}

/// Returns the error for a file that describes a machine with CPUs 0 and 1, which contains
/// `objects`. The objects are on the third line of the file.
fn inside(objects: &str) -> String {
    let text = format!(
        "<topology version=\"2.0\">\n{}\n{objects}</object></topology>",
        machine()
    );
    parse("m.xml", &text).map_or_else(|e| e.to_string().replace('\n', " "), |_| "fine".into())
}

#[test]
fn well_formed_files_are_read() {
    let text = format!(
        "<?xml version=\"1.0\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n\
         <topology version=\"2.0\"><!-- x -->{}</object>\
         <distances2 nbobjs=\"1\"><indexes>0</indexes><u64values length=\"3\">1 </u64values></distances2>\
         </topology>\n",
        machine()
    );
    assert_eq!(
        parse("m.xml", &text)
            .map(|parts| parts.cpus.len())
            .map_err(|e| e.to_string()),
        Ok(0)
    );
}

#[test]
fn malformed_files_are_errors() {
    assert_eq!(
        message(""),
        "m.xml:1: this is not valid XML: the document does not have a root node"
    );
    assert_eq!(message("hello"), "m.xml:1: this is not valid XML: unknown token");
    assert_eq!(
        message("<html/>"),
        "m.xml:1: the top-level element is <html>, expected <topology>"
    );
    assert_eq!(message("<topology/>"), "m.xml:1: the <topology> contains no object");
    for declaration in [
        "<!DOCTYPE topology>",
        "<!DOCTYPE topology SYSTEM \"hwloc2.dtd\" [<!ENTITY a \"b\">]>",
        "<!DOCTYPE topology SYSTEM \"hwloc/../x.dtd\">",
        "<!DOCTYPE html SYSTEM \"hwloc2.dtd\">",
    ] {
        let found = message(declaration);
        assert!(
            found.ends_with("<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">"),
            "{declaration}: {found}"
        );
    }
    let top = "<topology version=\"2.0\">\n";
    let with = |rest: &str| message(&format!("{top}{rest}"));
    assert_eq!(
        with("<a>\n</b>"),
        "m.xml:3: this is not valid XML: expected 'a' tag, not 'b'"
    );
    assert_eq!(
        with("<b a=b>"),
        "m.xml:2: this is not valid XML: expected a quote not 'b'"
    );
    assert_eq!(
        with("<b a=\"1\" a=\"1\">"),
        "m.xml:2: this is not valid XML: attribute 'a' is already defined"
    );
    assert_eq!(
        with("</topology>\n<a/>"),
        "m.xml:3: this is not valid XML: unknown token"
    );
    assert_eq!(with("</topology>"), "m.xml:1: the <topology> contains no object");
    let deep = "<object type=\"Group\" cpuset=\"0x3\" complete_cpuset=\"0x3\">".repeat(200);
    let ends = "</object>".repeat(201);
    assert!(with(&format!("{}{deep}{ends}</topology>", machine())).ends_with("too deeply"));
}

#[test]
fn cpu_sets_form_a_tree() {
    let pu = |index: u32, set: &str| {
        format!(
            "<object type=\"PU\" os_index=\"{index}\" cpuset=\"{set}\" complete_cpuset=\"{set}\" \
             {SETS} gp_index=\"{}\"/>",
            10 + index
        )
    };
    assert_eq!(inside(&(pu(0, "0x1") + &pu(1, "0x2"))), "fine");
    assert_eq!(inside(&(pu(1, "0x2") + &pu(0, "0x1"))), "fine");
    for (objects, expected) in [
        (
            pu(4_000_000_000, "0x1"),
            "m.xml:3: os_index 4000000000 is not a number below 16384",
        ),
        (pu(1, "0x1"), "m.xml:3: the cpuset of a PU does not match its os_index"),
        (pu(2, "0x4"), "m.xml:3: cpuset is not part of the parent's cpuset"),
        (
            pu(0, "0xz"),
            "m.xml:3: cpuset contains 'z', which is not part of a bitmap",
        ),
        (pu(0, "0xf...f"), "m.xml:3: cpuset is infinite"),
        (
            pu(0, "0x1") + &pu(0, "0x1").replace("10", "11"),
            "m.xml:3: cpuset contains CPUs of a previous object",
        ),
        ("<object cpuset=\"0x1\"/>".into(), "m.xml:3: an <object> has no type"),
        ("<object type=\"Core\"/>".into(), "m.xml:3: an object has no cpuset"),
    ] {
        let error = inside(&objects);
        assert!(error.starts_with(expected), "{objects}\n{error}");
    }
}
