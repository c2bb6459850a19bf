// SPDX-License-Identifier: GPL-2.0-only
//! The generator `mkbench`: parallel builds. Each is a `make -j jobs` over many source files,
//! followed by a link.
//!
//! The make process of a build forks compiles. If `jobs` compiles are running, it waits until one
//! of them exits. A compile is forked as a shell, executes the compiler, reads sources, computes,
//! writes its object and exits. Reading and computing alternate, so about builds x jobs tasks want
//! a CPU.
//!
//! The lengths of compiles have a heavy tail (a bounded Pareto distribution with shape 1.5). The
//! source tree is the same in every build and run, so the lengths of its compiles are the same,
//! except for random differences of up to 10 %. The page cache and dependencies between files are
//! not modelled.

use super::arguments::{Arguments, Parameter, Unit};
use super::{Generator, empty, task};
use crate::builder::Builder;
use crate::program::{Dist, Op, Program, Score, Workload};
use input::Error;

pub const GENERATOR: Generator = Generator {
    name: "mkbench",
    about: "parallel builds: make -j with forked compiles, then a link",
    example: "builds=2,jobs=3,files=5,compute=10ms,reads=2,link=0",
    parameters: &[
        Parameter {
            name: "builds",
            unit: Unit::Count,
            default: "2",
            range: ("1", "10000"),
            meaning: "number of builds at the same time",
        },
        Parameter {
            name: "jobs",
            unit: Unit::Count,
            default: "4",
            range: ("1", "10000"),
            meaning: "number of compiles that each build runs at the same time",
        },
        Parameter {
            name: "files",
            unit: Unit::Count,
            default: "50",
            range: ("1", "1000000"),
            meaning: "number of compiles in a build",
        },
        Parameter {
            name: "compute",
            unit: Unit::Time,
            default: "50ms",
            range: ("1us", "3600s"),
            meaning: "mean computing time of a compile; the longest are cut off at 20 times the mean",
        },
        Parameter {
            name: "reads",
            unit: Unit::Count,
            default: "4",
            range: ("0", "1000"),
            meaning: "number of times that a compile waits for input",
        },
        Parameter {
            name: "link",
            unit: Unit::Time,
            default: "200ms",
            range: ("0", "3600s"),
            meaning: "computing time of the link after all compiles",
        },
        Parameter {
            name: "footprint",
            unit: Unit::Bytes,
            default: "300k",
            range: ("0", "1g"),
            meaning: "working set of a compile",
        },
    ],
    build,
};

/// Time in ns that make needs to find the next target.
const MAKE_NS: u64 = 100_000;
/// Time in ns from the start of a shell to its exec.
const SHELL_NS: u64 = 300_000;
/// Bytes of a source with its headers, and of an object.
const READ_BYTES: u64 = 65_536;
const WRITE_BYTES: u64 = 131_072;

/// Maximum number of different lengths of compiles. Further compiles repeat these lengths.
const MAX_LENGTHS: u64 = 512;

const LINK: u32 = 0;
/// Index of the first compile among the programs and the tasks.
const COMPILES: u32 = 1;

fn build(a: &Arguments) -> Result<Workload, Error> {
    let files = a.get("files");
    let mut workload = empty("compiles", None);
    workload.score = Score::CompletionTime;
    let lengths = lengths(files.min(MAX_LENGTHS), a.get("compute"));
    workload.programs.push(link(a.get("link"), files));
    let compiles = lengths.iter().map(|&length| compile(length, a.get("reads")));
    workload.programs.extend(compiles);
    for program in LINK..COMPILES + input::index(lengths.len()) {
        let mut child = task("sh", program, 0);
        child.spawn = false;
        child.footprint_bytes = a.get("footprint");
        workload.tasks.push(child);
    }
    let program = input::index(workload.programs.len());
    workload
        .programs
        .push(make(a.small("jobs"), files, input::index(lengths.len())));
    let makes = (0..a.small("builds")).map(|process| task("make", program, process));
    workload.tasks.extend(makes);
    Ok(workload)
}

fn make(jobs: u32, files: u64, lengths: u32) -> Program {
    let fork = |task| Op::Fork { task, thread: false };
    let compile = |b: &mut Builder, file: u32| {
        b.op(Op::WaitChild { left: jobs - 1 })
            .op(Op::Run(Dist::Fixed(MAKE_NS)))
            .op(fork(COMPILES + file));
    };
    let mut program = Builder::default();
    let rounds = files / u64::from(lengths);
    if rounds > 0 {
        program.repeat(Some(rounds), |b| (0..lengths).for_each(|file| compile(b, file)));
    }
    let rest = files % u64::from(lengths);
    (0..lengths)
        .take_while(|&file| u64::from(file) < rest)
        .for_each(|file| compile(&mut program, file));
    program.op(Op::WaitChildren).op(fork(LINK)).op(Op::WaitChildren);
    program.finish()
}

/// Returns the lengths of `n` compiles: equally spaced quantiles of the distribution, ordered so
/// that long and short ones are mixed. The smallest length is a third of `mean`. Without the
/// cut-off at 20 times the mean, the mean of the lengths would be `mean`.
fn lengths(n: u64, mean: u64) -> Vec<u64> {
    let quantile = |step: u64| {
        // The quantile is (1 - u)^(-2/3) for u = (step + 1/2) / n, here in millionths.
        let ratio = 2_000_000 * u128::from(n) / u128::from(2 * (n - step) - 1);
        let length = u128::from(mean / 3) * cube_root(ratio * ratio * 1_000_000) / 1_000_000;
        u64::try_from(length).unwrap_or(u64::MAX).clamp(1, (mean * 20).max(1))
    };
    // Takes every stride-th quantile, with a stride near n / 1.618 (golden ratio), so that
    // neighbouring lengths are separated. The stride has no common divisor with n, so all quantiles
    // are taken.
    let mut stride = (n * 618 / 1000).max(1);
    while gcd(stride, n) != 1 {
        stride += 1;
    }
    (0..n).map(|file| quantile(file * stride % n)).collect()
}

/// Returns the cube root of `n`, rounded down.
fn cube_root(n: u128) -> u128 {
    let (mut low, mut high) = (0, 1 << 42);
    while low + 1 < high {
        let middle: u128 = (low + high) / 2;
        match middle * middle * middle <= n {
            true => low = middle,
            false => high = middle,
        }
    }
    low
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Returns the program of a compile. Its computing is divided equally among the reads.
fn compile(length: u64, reads: u64) -> Program {
    let pieces = reads.max(1);
    let piece = (length / pieces).max(1);
    let piece = Dist::Uniform {
        lo: piece - piece / 10,
        hi: piece + piece / 10,
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

/// Returns the program of the link, which reads all objects and writes the same number of bytes.
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

#[cfg(test)]
mod tests {
    use super::lengths;

    #[test]
    fn files_are_heavy_tailed_around_their_mean() {
        let mut sorted = lengths(500, 600_000);
        assert!(
            sorted.windows(2).any(|pair| pair[0] > 2 * pair[1]),
            "long and short ones are mixed"
        );
        sorted.sort_unstable();
        let mean = sorted.iter().sum::<u64>() / 500;
        assert!((500_000..600_000).contains(&mean), "{mean}");
        // u = 1/1000, 1/2 and 999/1000.
        assert_eq!((sorted[0], sorted[499]), (200_133, 12_000_000));
        assert!(sorted[250].abs_diff(317_500) < 1_000, "{}", sorted[250]);
        assert_eq!(lengths(1, 300), [158]);
    }
}
