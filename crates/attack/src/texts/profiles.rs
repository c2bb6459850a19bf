// SPDX-License-Identifier: GPL-2.0-only
//! Hostile profiles: files of settings that replace the user-space part of a policy.

use super::{Add, DEEP, nested};

pub(super) fn add_all(add: &mut Add) {
    add(
        "deeply nested parentheses",
        format!("set = {{ 'words[0]' = '{}' }}", nested("(", "1", ")")),
        "refused",
    );
    add(
        "very many minus signs",
        format!("set = {{ 'words[0]' = '{}1' }}", "-".repeat(DEEP)),
        "refused",
    );
    add(
        "very many complement operators",
        format!("set = {{ 'words[0]' = '{}1' }}", "~".repeat(DEEP)),
        "refused",
    );
    add(
        "deeply nested conditional expressions",
        format!("set = {{ 'words[0]' = '{}1' }}", "1 ? 2 : ".repeat(DEEP)),
        "refused",
    );
    add(
        "a long sum",
        format!("set = {{ 'words[0]' = '1{}' }}", " + 1".repeat(DEEP)),
        "refused",
    );
    add("division by 0", "set = { 'words[0]' = '1 / 0' }".to_owned(), "refused");
    add(
        "remainder of a division by 0",
        "set = { 'words[0]' = '1 % 0' }".to_owned(),
        "refused",
    );
    add(
        "the smallest number divided by -1",
        "set = { 'words[0]' = '(0 - 9223372036854775807 - 1) / (0 - 1)' }".to_owned(),
        "applied",
    );
    add(
        "a product that overflows",
        "set = { 'words[0]' = '9223372036854775807 * 9223372036854775807' }".to_owned(),
        "applied",
    );
    add(
        "shifts by too many bits",
        "set = { 'words[1]' = '1 << 1000', 'words[0]' = '1 >> (0 - 1)' }".to_owned(),
        "applied",
    );
    add(
        "a huge number",
        "set = { 'words[0]' = '99999999999999999999999999' }".to_owned(),
        "refused",
    );
    add(
        "names in a circle",
        "names = { a = 'b', b = 'a' }\nset = { 'words[0]' = 'a' }".to_owned(),
        "refused",
    );
    add(
        "a profile that includes itself",
        "include = ['damaged']".to_owned(),
        "refused",
    );
    add(
        "a profile that includes a path",
        "include = ['../../../../etc/passwd']".to_owned(),
        "refused",
    );
    add(
        "an array of the largest size",
        "resize = { words = '9223372036854775807' }".to_owned(),
        "refused",
    );
    add(
        "an array of four billion elements",
        "resize = { words = '4294967295' }".to_owned(),
        "",
    );
    add(
        "a map of the largest size",
        "max_entries = { hash = '18446744073709551615' }".to_owned(),
        "refused",
    );
    add(
        "indices beyond the array",
        "set = { 'words[4000000000]' = 1, 'words[0 - 1]' = 1 }".to_owned(),
        "refused",
    );
    add(
        "a range of the largest size",
        "set = { 'words[0..9223372036854775807]' = 1 }".to_owned(),
        "refused",
    );
    add(
        "an argument many times",
        "[[run]]\nprogram = 'p'\nargs = [{ value = 1, times = 4294967295 }]".to_owned(),
        "",
    );
    add(
        "very many nested programs",
        format!(
            "[[run]]\nprogram = 'p'\n{}",
            "[[run.then]]\nprogram = 'p'\n".repeat(1000)
        ),
        "",
    );
    add("deep TOML", format!("set = {}", nested("{a=", "1", "}")), "refused");
    add(
        "an uptime that is too long",
        "uptime = '99999999999999999s'".to_owned(),
        "refused",
    );
    add(
        "control characters",
        "set = { \"a\\u001b[31m\" = 1 }".to_owned(),
        "refused",
    );
    add(
        "a path with brackets",
        format!("set = {{ 'words{}' = 1 }}", "[0]".repeat(DEEP)),
        "refused",
    );
    add(
        "a path of brackets",
        format!("set = {{ 'words{}' = 1 }}", "[".repeat(DEEP)),
        "refused",
    );
    add(
        "a path of members",
        format!("set = {{ 'words{}' = 1 }}", ".a".repeat(DEEP)),
        "refused",
    );
}
