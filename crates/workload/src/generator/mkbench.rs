// SPDX-License-Identifier: GPL-2.0-only
//! The generator `mkbench`: parallel builds. Each is a `make -j jobs` over many source files,
//! followed by a link.
//!
//! The make process of a build keeps up to `jobs` compiles running. A compile is forked as a shell,
//! executes the compiler, alternates between reading sources and computing, writes its object and
//! exits. About builds x jobs tasks therefore want a CPU.
//!
//! The lengths of compiles have a heavy tail (a bounded Pareto distribution with shape 1.5). They
//! are the same in every build and run, as for one source tree, except for random differences of up
//! to 10 %. Dependencies between files are not modelled.
//!
//! Some parameters make a build more like a real one:
//!
//! - `driver=yes`: the shell executes the compiler driver (gcc). The driver forks the compiler (cc1)
//!   and waits for its exit, then does the same with the assembler (as). This is gcc without -pipe.
//!   With -pipe, which is not modelled, both run at the same time.
//! - `flush=no`: all sources are in the page cache, and the kernel writes objects to the disk
//!   later. No step waits for the disk.
//! - `longest` limits the part of the longest compile in the computing time of all compiles.

use super::arguments::{Arguments, parameters};
use super::{Generator, empty, task};
use crate::builder::Builder;
use crate::program::{Dist, Op, Program, Score, Workload};
use input::Error;

pub const GENERATOR: Generator = Generator {
    name: "mkbench",
    about: "parallel builds: make -j with forked compiles, then a link",
    example: "builds=2,jobs=3,files=5,compute=10ms,reads=2,link=0",
    parameters: parameters! {
        "builds": Count, "2", ("1", "10000"), "number of builds at the same time";
        "jobs": Count, "4", ("1", "10000"),
            "number of compiles that each build runs at the same time";
        "files": Count, "50", ("1", "1000000"), "number of compiles in a build";
        "compute": Time, "50ms", ("1us", "3600s"),
            "mean computing time of a compile; the longest are cut off at 20 times the mean";
        "reads": Count, "4", ("0", "1000"), "number of times that a compile waits for input";
        "link": Time, "200ms", ("0", "3600s"), "computing time of the link after all compiles";
        "footprint": Bytes, "300k", ("0", "1g"), "working set of a compile";
        "driver": Choice(&["no", "yes"]), "no",
            "whether a compiler driver executes compiler and assembler one after the other";
        "flush": Choice(&["yes", "no"]), "yes",
            "whether the page cache is empty at the start, so that compiles and the link wait for the disk";
        "longest": Count, "100", ("1", "100"),
            "greatest part of one compile in the computing time of all compiles of a build, in percent";
    },
    build,
};

/// Time in ns that make needs to find the next target.
const MAKE_NS: u64 = 100_000;
/// Time in ns from the start of a shell to its exec.
const SHELL_NS: u64 = 300_000;
/// Time in ns from the start of the compiler driver to its first fork.
const DRIVER_NS: u64 = 300_000;
/// Part of a compile's computing time in which the assembler runs: 1/10. This is an estimate.
const ASSEMBLER_PART: u64 = 10;
/// Bytes of a source with its headers, and of an object.
const READ_BYTES: u64 = 65_536;
const WRITE_BYTES: u64 = 131_072;

/// Maximum number of different lengths of compiles. Further compiles repeat these lengths.
const MAX_LENGTHS: u64 = 512;

const LINK: u32 = 0;
/// Index of the first compile among the programs and the tasks.
const COMPILES: u32 = 1;

/// The kinds of tasks that a compile consists of, in the order of their templates. With
/// `driver=no`, there is only the first.
const PARTS: u32 = 3;

fn build(a: &Arguments) -> Result<Workload, Error> {
    let files = a.get("files");
    let mut workload = empty("compiles", None);
    workload.score = Score::CompletionTime;
    let mut lengths = lengths(files.min(MAX_LENGTHS), a.get("compute"));
    limit_longest(&mut lengths, files, a.get("longest"));
    let flush = a.choice("flush") == "yes";
    let parts = if a.choice("driver") == "yes" { PARTS } else { 1 };
    workload.programs.push(link(a.get("link"), files, flush));
    for (file, &length) in (0..).zip(&lengths) {
        if parts == 1 {
            workload.programs.push(compile(length, a.get("reads"), flush));
        } else {
            let first = COMPILES + file * PARTS;
            let assembling = length / ASSEMBLER_PART;
            let compiling = compiler(length - assembling, a.get("reads"), flush);
            workload
                .programs
                .extend([driver(first), compiling, assembler(assembling, flush)]);
        }
    }
    let nr_lengths = input::index(lengths.len());
    for program in LINK..COMPILES + nr_lengths * parts {
        let is_part = program > LINK && !(program - COMPILES).is_multiple_of(parts);
        let mut child = task(if is_part { "gcc" } else { "sh" }, program, 0);
        child.spawn = false;
        child.footprint_bytes = a.get("footprint");
        workload.tasks.push(child);
    }
    let program = input::index(workload.programs.len());
    workload.programs.push(make(a.small("jobs"), files, nr_lengths, parts));
    let makes = (0..a.small("builds")).map(|process| task("make", program, process));
    workload.tasks.extend(makes);
    Ok(workload)
}

/// Returns the program of make. Each compile has `parts` templates, of which make forks the first.
fn make(jobs: u32, files: u64, lengths: u32, parts: u32) -> Program {
    let fork = |task| Op::Fork { task, thread: false };
    let compile = |b: &mut Builder, file: u32| {
        b.op(Op::WaitChild { left: jobs - 1 })
            .op(Op::Run(Dist::Fixed(MAKE_NS)))
            .op(fork(COMPILES + file * parts));
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

/// Limits the lengths so that none is more than `percent` of the sum of the lengths of `files`
/// compiles. If there are too few files for this limit, all lengths become equal.
fn limit_longest(lengths: &mut [u64], files: u64, percent: u64) {
    let sum = |limit: u64| -> u128 {
        let used = |file: usize| u128::from((files - file as u64).div_ceil(lengths.len() as u64));
        let limited = lengths.iter().enumerate();
        limited
            .map(|(file, &length)| used(file) * u128::from(length.min(limit)))
            .sum()
    };
    let fits = |limit: u64| u128::from(limit) * 100 <= u128::from(percent) * sum(limit);
    let (least, most) = (lengths.iter().min(), lengths.iter().max());
    let (Some(&least), Some(&most)) = (least, most) else {
        return;
    };
    // The condition holds up to some limit and for no greater one, because the sum grows more and
    // more slowly with the limit.
    let (mut low, mut high) = (least, most + 1);
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        if fits(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    lengths.iter_mut().for_each(|length| *length = (*length).min(low));
}

/// Returns the length of a piece of computing, with random differences of up to 10 %.
fn varied(length: u64) -> Dist {
    Dist::Uniform {
        lo: length - length / 10,
        hi: length + length / 10,
    }
}

/// Appends computing that is divided equally among the reads. With `flush`, each read waits for the
/// disk.
fn read_and_compute(b: &mut Builder, length: u64, reads: u64, flush: bool) {
    let pieces = reads.max(1);
    let piece = varied((length / pieces).max(1));
    b.repeat(Some(pieces), |b| {
        b.ops((reads > 0 && flush).then_some(Op::Io { bytes: READ_BYTES }))
            .op(Op::Run(piece));
    });
}

/// Returns the program of a compile without a driver.
fn compile(length: u64, reads: u64, flush: bool) -> Program {
    let mut program = Builder::default();
    program
        .op(Op::Begin { arrival: true })
        .op(Op::Run(Dist::Fixed(SHELL_NS)))
        .op(Op::Exec { comm: "cc1".into() });
    read_and_compute(&mut program, length, reads, flush);
    program.ops(flush.then_some(Op::Io { bytes: WRITE_BYTES }));
    program.op(Op::Done { count: 1 });
    program.finish()
}

/// Returns the program of a shell that executes the compiler driver. The two templates after
/// `first` are the compiler and the assembler.
fn driver(first: u32) -> Program {
    let mut program = Builder::default();
    program
        .op(Op::Begin { arrival: true })
        .op(Op::Run(Dist::Fixed(SHELL_NS)))
        .op(Op::Exec { comm: "gcc".into() })
        .op(Op::Run(Dist::Fixed(DRIVER_NS)));
    for task in [first + 1, first + 2] {
        program.op(Op::Fork { task, thread: false }).op(Op::WaitChildren);
    }
    program.op(Op::Done { count: 1 });
    program.finish()
}

fn compiler(length: u64, reads: u64, flush: bool) -> Program {
    let mut program = Builder::default();
    program.op(Op::Exec { comm: "cc1".into() });
    read_and_compute(&mut program, length, reads, flush);
    program.finish()
}

/// Returns the program of the assembler. It reads the compiler's output, which is in the page
/// cache.
fn assembler(length: u64, flush: bool) -> Program {
    let mut program = Builder::default();
    program
        .op(Op::Exec { comm: "as".into() })
        .op(Op::Run(varied(length.max(1))))
        .ops(flush.then_some(Op::Io { bytes: WRITE_BYTES }));
    program.finish()
}

/// Returns the program of the link, which reads all objects and writes the same number of bytes.
fn link(work: u64, files: u64, flush: bool) -> Program {
    let transfer = flush.then_some(Op::Io {
        bytes: files * WRITE_BYTES,
    });
    let mut program = Builder::default();
    program
        .op(Op::Run(Dist::Fixed(SHELL_NS)))
        .op(Op::Exec { comm: "ld".into() })
        .ops(transfer.clone())
        .op(Op::Run(Dist::Fixed(work)))
        .ops(transfer);
    program.finish()
}

#[cfg(test)]
mod tests {
    use super::{lengths, limit_longest};

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

    #[test]
    fn no_file_is_longer_than_the_limit() {
        let all = lengths(48, 600_000);
        let longest = |files: u64, percent: u64| {
            let mut limited = all.clone();
            limit_longest(&mut limited, files, percent);
            let sum: u64 = (0..files).map(|file| limited[file as usize % 48]).sum();
            let longest = *limited.iter().max().unwrap();
            assert!(
                limited
                    .iter()
                    .zip(&all)
                    .all(|(&now, &before)| now == before || now == longest)
            );
            (longest * 1000 / sum, limited == all)
        };
        let (before, unchanged) = longest(48, 100);
        assert!(before > 150 && unchanged, "{before}");
        assert_eq!(longest(48, 10), (99, false));
        // The second round of the same files makes each file a smaller part.
        assert!(longest(96, 10).1);
        // Each of 48 equal files has 2.08 % of the computing time.
        assert_eq!(longest(48, 1).0, 20);
    }
}
