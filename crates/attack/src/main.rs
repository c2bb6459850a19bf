// SPDX-License-Identifier: GPL-2.0-only
//! The command that runs attacks.
//!
//! ```text
//! attack run SECONDS SEED [KIND...]     runs attacks for this time; exits with 1 after a failure
//! attack count N SEED [KIND...]         runs N inputs of each kind
//! attack repeat KIND FILE               runs one input again
//! attack list                           lists the hand-written attacks and how they must end
//! attack show NUMBER                    runs one hand-written attack in all modes
//! attack child KIND SEED FROM TO        (started by the other commands)
//! ```

use attack::campaign::{self, Failure, Tally};
use attack::execute::MODES;
use attack::kind::{self, InputKind, RANDOM};
use attack::{child, corpus};
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match command(&args) {
        Ok(code) => code,
        Err(message) => {
            eprintln!("attack: {message}");
            ExitCode::from(2)
        }
    }
}

fn command(args: &[String]) -> Result<ExitCode, String> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let attack = std::env::current_exe().map_err(|error| error.to_string())?;
    match words[..] {
        ["child", kind, seed, from, to] => {
            child::run(parse_kind(kind)?, number(seed)?, number(from)?..number(to)?);
            Ok(ExitCode::SUCCESS)
        }
        ["repeat", kind, file] => {
            let input = std::fs::read(file).map_err(|error| format!("{file}: {error}"))?;
            println!("{}", child::repeat(parse_kind(kind)?, &input));
            Ok(ExitCode::SUCCESS)
        }
        ["run", seconds, seed, ref kinds @ ..] => {
            let started = Instant::now();
            let kinds = parse_kinds(kinds)?;
            let tallies = campaign::for_seconds(&attack, &kinds, number(seed)?, number(seconds)?, &mut report)?;
            Ok(summary(&tallies, started))
        }
        ["count", count, seed, ref kinds @ ..] => {
            let started = Instant::now();
            let mut tallies = Vec::new();
            for kind in parse_kinds(kinds)? {
                let tally = campaign::run(&attack, kind, number(seed)?, 0..number(count)?, None, &mut |_, _| {})?;
                tally.failures.iter().for_each(report);
                tallies.push((kind, tally));
            }
            Ok(summary(&tallies, started))
        }
        ["list"] => {
            for (number, attack) in corpus::attacks()?.iter().enumerate() {
                println!(
                    "{number:4} {:32} {:?}, checked {:?}",
                    attack.name, attack.plain, attack.checked
                );
            }
            Ok(ExitCode::SUCCESS)
        }
        ["show", attack_number] => {
            let first = number(attack_number)? * MODES.len() as u64;
            let range = first..first + MODES.len() as u64;
            let mut print = |index, end: &str| println!("{:?}: {end}", kind::corpus_case(index).1);
            let tally = campaign::run(&attack, InputKind::Corpus, 0, range, None, &mut print)?;
            tally.failures.iter().for_each(report);
            Ok(ExitCode::from(u8::from(!tally.failures.is_empty())))
        }
        _ => Err(
            "expected run SECONDS SEED [KIND...], count N SEED [KIND...], repeat KIND FILE, list or show NUMBER"
                .to_owned(),
        ),
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("'{text}': expected a number"))
}

fn parse_kind(name: &str) -> Result<InputKind, String> {
    InputKind::by_name(name).ok_or_else(|| {
        let names: Vec<&str> = RANDOM.iter().map(|kind| kind.name()).collect();
        format!("'{name}': expected one of {}", names.join(", "))
    })
}

fn parse_kinds(names: &[&str]) -> Result<Vec<InputKind>, String> {
    match names {
        [] => Ok(RANDOM.to_vec()),
        names => names.iter().map(|name| parse_kind(name)).collect(),
    }
}

/// Prints a failure and writes its input to a file.
fn report(failure: &Failure) {
    let Failure { kind, index, cause, .. } = failure;
    println!("FAILED {} {index}: {cause}", kind.name());
    match campaign::keep(failure) {
        Ok(command) => println!("  repeat: {command}"),
        Err(message) => println!("  the input could not be written: {message}"),
    }
}

fn summary(tallies: &[(InputKind, Tally)], started: Instant) -> ExitCode {
    println!("{:10} {:>9} {:>9}", "kind", "inputs", "failures");
    let mut failures = 0;
    for (kind, tally) in tallies {
        println!("{:10} {:9} {:9}", kind.name(), tally.inputs, tally.failures.len());
        failures += tally.failures.len();
    }
    println!("{failures} failures in {} s", started.elapsed().as_secs());
    ExitCode::from(u8::from(failures > 0))
}
