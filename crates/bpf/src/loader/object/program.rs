// SPDX-License-Identifier: GPL-2.0-only
//! The programs of an object, which are the functions that the kernel calls. The name of a
//! program's section determines where it is attached.

/// Kind of a program. The comment of each variant lists the section names of this kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProgramKind {
    /// `struct_ops/NAME`: a callback of a struct_ops.
    StructOps,
    /// `tp_btf/TRACEPOINT`, with typed arguments.
    TpBtf,
    /// `raw_tp/TRACEPOINT`.
    RawTracepoint,
    /// `tracepoint/CATEGORY/NAME`, `tp/CATEGORY/NAME`.
    Tracepoint,
    /// `fentry/FUNCTION`.
    Fentry,
    /// `fexit/FUNCTION`.
    Fexit,
    /// `fmod_ret/FUNCTION`.
    FmodRet,
    /// `kprobe/FUNCTION` and `ksyscall/NAME`.
    Kprobe,
    /// `kretprobe/FUNCTION` and `kretsyscall/NAME`.
    Kretprobe,
    /// `syscall`, which user space runs.
    Syscall,
    /// `iter/KIND`.
    Iter,
    /// `perf_event`.
    PerfEvent,
    /// Any other section.
    Other,
}

/// A program of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Name of the program's function.
    pub name: String,
    /// Index of the program's function in [`Code::functions`](crate::image::Code::functions).
    pub function: usize,
    /// Kind of the program.
    pub kind: ProgramKind,
    /// Part of the section's name after the kind, which says where to attach the program. May be
    /// empty.
    pub attach_to: String,
    /// Whether the loader attaches the program even if the caller does not ask for it. A `?` at the
    /// start of the section's name turns this off.
    pub auto_attach: bool,
    /// Whether the program may sleep (`.s` after the kind in the section's name).
    pub sleepable: bool,
}

/// Parses the name of a section. Returns the kind of the section's programs, where they are
/// attached, whether they are attached automatically, and whether they may sleep.
pub(crate) fn parse_section(section: &str) -> (ProgramKind, &str, bool, bool) {
    let (name, auto_attach) = match section.strip_prefix('?') {
        Some(name) => (name, false),
        None => (section, true),
    };
    let (word, target) = name.split_once('/').unwrap_or((name, ""));
    let (word, sleepable) = match word.strip_suffix(".s") {
        Some(word) => (word, true),
        None => (word, false),
    };
    let kind = match word {
        "struct_ops" => ProgramKind::StructOps,
        "tp_btf" => ProgramKind::TpBtf,
        "raw_tp" | "raw_tracepoint" | "raw_tp.w" | "raw_tracepoint.w" => ProgramKind::RawTracepoint,
        "tp" | "tracepoint" => ProgramKind::Tracepoint,
        "fentry" => ProgramKind::Fentry,
        "fexit" => ProgramKind::Fexit,
        "fmod_ret" => ProgramKind::FmodRet,
        "kprobe" | "kprobe.multi" | "ksyscall" => ProgramKind::Kprobe,
        "kretprobe" | "kretprobe.multi" | "kretsyscall" => ProgramKind::Kretprobe,
        "syscall" => ProgramKind::Syscall,
        "iter" => ProgramKind::Iter,
        "perf_event" => ProgramKind::PerfEvent,
        _ => ProgramKind::Other,
    };
    // `syscall` programs may always sleep.
    (kind, target, auto_attach, sleepable || kind == ProgramKind::Syscall)
}

#[cfg(test)]
mod tests {
    use super::{ProgramKind::*, parse_section};

    #[test]
    fn section_names_determine_the_program() {
        assert_eq!(parse_section("struct_ops.s/init"), (StructOps, "init", true, true));
        assert_eq!(
            parse_section("?tp_btf/sched_switch"),
            (TpBtf, "sched_switch", false, false)
        );
        assert_eq!(
            parse_section("tp/sched/sched_switch"),
            (Tracepoint, "sched/sched_switch", true, false)
        );
        assert_eq!(parse_section("syscall"), (Syscall, "", true, true));
        assert_eq!(parse_section("classifier"), (Other, "", true, false));
    }
}
