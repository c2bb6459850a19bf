// SPDX-License-Identifier: GPL-2.0-only
//! Parallel builds: `make -j jobs` on many source files, then a link.
//!
//! Each build's make keeps `jobs` compiles in flight: it forks one, and waits for any of them to exit when that many
//! are under way. A compile is forked as a shell, executes the compiler, reads its sources, computes for a
//! heavy-tailed time (a bounded Pareto distribution with shape 1.5), writes its object and exits. Reads and computing
//! take turns, so about builds x jobs tasks want a CPU. Left out: the page cache, and files that wait for others.

use super::arguments::{Arguments, Parameter, Unit};
use super::{Generator, empty, task};
use crate::builder::Builder;
use crate::error::Error;
use crate::program::{Dist, Op, Program, Score, Workload};

pub const GENERATOR: Generator = Generator {
    name: "mkbench",
    about: "parallel builds: make -j with forked compiles and a serial link",
    parameters: &[
        Parameter {
            name: "builds",
            unit: Unit::Count,
            default: "2",
            range: ("1", "10000"),
            meaning: "builds side by side",
        },
        Parameter {
            name: "jobs",
            unit: Unit::Count,
            default: "4",
            range: ("1", "10000"),
            meaning: "compiles that each build keeps in flight",
        },
        Parameter {
            name: "files",
            unit: Unit::Count,
            default: "50",
            range: ("1", "1000000"),
            meaning: "compiles of a build",
        },
        Parameter {
            name: "compute",
            unit: Unit::Time,
            default: "50ms",
            range: ("1us", "3600s"),
            meaning: "work of a compile, mean before the longest are cut to 20 times it",
        },
        Parameter {
            name: "reads",
            unit: Unit::Count,
            default: "4",
            range: ("0", "1000"),
            meaning: "waits for input of a compile",
        },
        Parameter {
            name: "link",
            unit: Unit::Time,
            default: "200ms",
            range: ("0", "3600s"),
            meaning: "work of the link, after all compiles",
        },
        Parameter {
            name: "footprint",
            unit: Unit::Bytes,
            default: "0",
            range: ("0", "1g"),
            meaning: "working set of a compile",
        },
    ],
    build,
};

/// Looking at the makefile for what to do next.
const MAKE_NS: u64 = 100_000;
/// A shell that starts, up to the exec.
const SHELL_NS: u64 = 300_000;
/// Sources with their headers, read in one go; an object.
const READ_BYTES: u64 = 65_536;
const WRITE_BYTES: u64 = 131_072;

const COMPILE: u32 = 0;
const LINK: u32 = 1;

fn build(a: &Arguments) -> Result<Workload, Error> {
    let (jobs, files) = (a.get("jobs"), a.get("files"));
    let mut workload = empty("compiles", None);
    workload.score = Score::CompletionTime;
    workload.programs = vec![compile(a.get("compute"), a.get("reads")), link(a.get("link"), files), {
        let mut make = Builder::default();
        make.repeat(Some(files), |b| {
            b.op(Op::WaitChild { left: jobs as u32 - 1 })
                .op(Op::Run(Dist::Fixed(MAKE_NS)))
                .op(Op::Fork {
                    task: COMPILE,
                    thread: false,
                });
        });
        make.op(Op::WaitChildren)
            .op(Op::Fork {
                task: LINK,
                thread: false,
            })
            .op(Op::WaitChildren);
        make.finish()
    }];
    for program in [COMPILE, LINK] {
        let mut child = task("sh", program, 0);
        child.spawn = false;
        child.footprint_bytes = a.get("footprint");
        workload.tasks.push(child);
    }
    let makes = (0..a.get("builds") as u32).map(|process| task("make", 2, process));
    workload.tasks.extend(makes);
    Ok(workload)
}

/// Computing in as many pieces as there are reads, each with its share of the mean.
fn compile(mean: u64, reads: u64) -> Program {
    // The mean of Pareto with shape 1.5 is three times its least value.
    let pieces = reads.max(1);
    let piece = Dist::Pareto {
        lo: (mean / 3 / pieces).max(1),
        hi: (mean * 20 / pieces).max(1),
        alpha_milli: 1500,
    };
    let mut program = Builder::default();
    program
        .op(Op::Begin { arrival: true })
        .op(Op::Run(Dist::Fixed(SHELL_NS)))
        .op(Op::Exec { comm: "cc1".into() })
        .repeat(Some(pieces), |b| {
            if reads > 0 {
                b.op(Op::Io { bytes: READ_BYTES });
            }
            b.op(Op::Run(piece));
        })
        .op(Op::Io { bytes: WRITE_BYTES })
        .op(Op::Done { count: 1 });
    program.finish()
}

/// Reads all objects and writes as much.
fn link(work: u64, files: u64) -> Program {
    let mut program = Builder::default();
    program
        .op(Op::Run(Dist::Fixed(SHELL_NS)))
        .op(Op::Exec { comm: "ld".into() })
        .op(Op::Io {
            bytes: files * WRITE_BYTES,
        })
        .op(Op::Run(Dist::Fixed(work)))
        .op(Op::Io {
            bytes: files * WRITE_BYTES,
        });
    program.finish()
}
