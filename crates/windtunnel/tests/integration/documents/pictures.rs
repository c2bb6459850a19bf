// SPDX-License-Identifier: GPL-2.0-only
//! Tests that the pictures of the pages show what their commands produce now. `UPDATE_GOLDEN=1`
//! draws an outdated picture again (scripts/build/pictures.py).

use super::{directory, run, updating};
use crate::support::page::Page;
use crate::support::root;
use std::path::Path;

/// Checks a picture. If the picture is outdated and `UPDATE_GOLDEN=1` is set, draws it first.
fn check(name: &str, outdated: impl Fn() -> Option<String>) {
    if updating() && outdated().is_some() {
        let (status, output) = run(&format!("scripts/build/pictures.py {name}"), &root());
        assert_eq!(status, 0, "scripts/build/pictures.py {name}\n{output}");
    }
    if let Some(reason) = outdated() {
        panic!("{reason}\nto draw it again: UPDATE_GOLDEN=1 cargo test -p windtunnel documents::pictures");
    }
}

#[test]
fn the_terminal_shows_what_its_command_prints() {
    check("terminal", || {
        let svg = std::fs::read_to_string(root().join("docs/terminal.svg")).expect("the picture exists");
        let text = |line: &str| Some(line.strip_suffix("</text>")?.rsplit_once('>')?.1.to_owned());
        let texts: Vec<String> = svg.lines().filter_map(text).collect();
        let command = texts[0].strip_prefix("$ ").expect("the first line is the command");
        let (status, output) = run(command, &root());
        assert_eq!(status, 0, "{command}\n{output}");
        let without_spaces = |text: &str| text.split_whitespace().collect::<String>();
        let shown = without_spaces(&texts[1..].concat());
        (shown != without_spaces(&output))
            .then(|| format!("docs/terminal.svg does not show what this command prints: {command}"))
    });
}

#[test]
fn the_screenshot_shows_the_report_of_the_tutorial() {
    let page = Page::read(&root().join("docs/tutorial.md"));
    check("report", || {
        let png = std::fs::read(root().join("docs/report.png")).expect("the screenshot exists");
        let (Some(command), Some(recorded)) = (text(&png, "Command"), text(&png, "Report")) else {
            return Some("docs/report.png does not record its report".to_owned());
        };
        assert!(
            page.text.contains(&format!("$ {command} --html ")),
            "docs/tutorial.md shows docs/report.png, but not its command: {command}"
        );
        let folder = directory(&Page {
            name: "report.png".to_owned(),
            path: root().join("docs/report.png"),
            text: String::new(),
        });
        let (status, output) = run(&format!("{command} --html report.html"), &folder);
        assert_eq!(status, 0, "{command}\n{output}");
        let now = checksum(&folder.join("report.html"));
        (now != recorded).then(|| {
            format!("docs/report.png shows the report {recorded}, but this command writes the report {now}: {command}")
        })
    });
}

fn checksum(path: &Path) -> String {
    let mut check = flate2::Crc::new();
    check.update(&std::fs::read(path).expect("the report has been written"));
    format!("{:08x}", check.sum())
}

/// Returns the text that a PNG file stores under a key (its tEXt chunks).
fn text(png: &[u8], key: &str) -> Option<String> {
    // A file begins with 8 bytes of signature. A chunk is the length of its data, its type (4 bytes
    // each), the data, and a checksum.
    let mut rest = png.get(8..)?;
    loop {
        let length = u32::from_be_bytes(rest.get(..4)?.try_into().ok()?) as usize;
        let data = rest.get(8..8 + length)?;
        let prefix = [key.as_bytes(), b"\0"].concat();
        if &rest[4..8] == b"tEXt" && data.starts_with(&prefix) {
            return String::from_utf8(data[prefix.len()..].to_vec()).ok();
        }
        rest = rest.get(12 + length..)?;
    }
}

#[test]
fn a_text_of_a_picture_is_found_by_its_key() {
    let chunk = |kind: &str, data: &[u8]| {
        [
            &u32::try_from(data.len()).expect("the text is short").to_be_bytes(),
            kind.as_bytes(),
            data,
            &[0; 4],
        ]
        .concat()
    };
    let png = [
        b"\x89PNG\r\n\x1a\n".to_vec(),
        chunk("IHDR", b"Report\0no"),
        chunk("tEXt", b"Report\0yes"),
        chunk("IEND", b""),
    ]
    .concat();
    assert_eq!(text(&png, "Report").as_deref(), Some("yes"));
    assert_eq!(text(&png, "Command"), None);
    assert_eq!(text(&png[..30], "Report"), None);
}
