// SPDX-License-Identifier: GPL-2.0-only
//! `windtunnel top` shows the state of a simulation while it runs, like top(1).

mod screen;

use super::complete;
use super::terminal::{Screen, put};
use crate::top::{HEADING, Top};
use clap::Args as ClapArgs;
use crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use crossterm::terminal;
use input::duration;
use input::error::Error;
use runner::exit::ExitStatus;
use runner::interrupt;
use runner::running::Running;
use runner::scenario::Scenario;
use runner::spec::RunSpec;
use runner::{errln, outln};
use screen::Status;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

/// Interval between two updates of the screen.
const UPDATE: Duration = Duration::from_millis(100);

#[derive(ClapArgs)]
pub struct Args {
    /// An object file, the name of a built policy (`policy list`), or `eevdf`
    #[arg(add = complete::policies())]
    policy: String,
    #[command(flatten)]
    spec: RunSpec,
    /// On a terminal: simulated seconds per second. The keys + and - change this speed
    #[arg(long, default_value_t = 1.0)]
    speed: f64,
    /// If the output is not a terminal: interval of simulated time between two printed rows
    #[arg(long, value_parser = duration::parse, default_value = "100ms", value_name = "TIME")]
    every: u64,
    /// Print a line of JSON for each interval, with all CPUs, queues, tasks and counters
    #[arg(long)]
    json: bool,
}

impl Args {
    pub fn run(self) -> Result<ExitStatus, Error> {
        if !(self.speed > 0.0 && self.speed.is_finite()) {
            return Err(Error::new("--speed: expected a number above 0, for example 0.5"));
        }
        if self.every == 0 {
            return Err(Error::new("--every: expected a time above 0, for example 100ms"));
        }
        let scenarios = self.spec.scenarios(std::slice::from_ref(&self.policy), &[])?;
        let Some(scenario) = scenarios.first() else {
            unreachable!("scenarios() returns one scenario for each policy");
        };
        interrupt::listen();
        let mut running = scenario.start()?;
        if let (Some(_), Some(failure)) = (running.refused(), running.failure()) {
            errln!("{} {failure}", scenario.policy.name());
            return Ok(ExitStatus::from(1));
        }
        if !self.json && io::stdout().is_terminal() && io::stdin().is_terminal() {
            self.watch(scenario, &mut running)?;
        } else {
            self.print(&mut running)?;
        }
        running.end(&mut trace::Tee::new());
        let result = running.outcome()?.result;
        if let Some(failure) = result.failure() {
            errln!("{} {failure}", result.policy);
        }
        Ok(ExitStatus::from(u8::from(result.failed())))
    }

    fn print(&self, running: &mut Running) -> Result<(), Error> {
        if !self.json {
            outln!("{HEADING}");
        }
        let mut top = Top::default();
        while !running.ended() && interrupt::signal().is_none() {
            let to = running.at().saturating_add(self.every);
            let view = top.advance(running, to)?;
            match self.json {
                true => outln!("{}", view.json()),
                false => outln!("{}", view.line()),
            }
        }
        if interrupt::signal().is_some() {
            errln!("windtunnel: interrupted at {}", duration::format(running.at()));
        }
        Ok(())
    }

    fn watch(&self, scenario: &Scenario, running: &mut Running) -> Result<(), Error> {
        let profile = scenario.profile_word().map(|word| format!(", profile {word}"));
        let title = format!(
            "{} on machine {}, workload {}, seed {}{}",
            scenario.policy.name(),
            scenario.machine.name,
            scenario.workload.name,
            scenario.spec.seed,
            profile.unwrap_or_default()
        );
        let screen = Screen::enter().map_err(|error| Error::new(format!("terminal: {error}")))?;
        let watched = watch(&title, self.speed, running);
        drop(screen);
        watched
    }
}

/// Updates the screen until the user quits. After the end of the run, the screen shows its final
/// state.
fn watch(title: &str, speed: f64, running: &mut Running) -> Result<(), Error> {
    let failed = |error: io::Error| Error::new(format!("terminal: {error}"));
    let (mut top, mut speed, mut paused) = (Top::default(), speed, false);
    let mut view = top.advance(running, 1)?;
    while interrupt::signal().is_none() {
        let started = Instant::now();
        if !paused && !running.ended() {
            let step = report::rounded((UPDATE.as_nanos() as f64 * speed).floor());
            view = top.advance(running, running.at().saturating_add(step.max(1)))?;
        }
        let status = Status {
            title,
            speed,
            paused,
            behind: started.elapsed() > UPDATE,
        };
        let (width, height) = terminal::size().map_err(failed)?;
        let (width, height) = (usize::from(width), usize::from(height));
        let lines = screen::lines(&view, &status, width, height);
        put(&mut io::stdout().lock(), &lines, width).map_err(failed)?;
        loop {
            let left = UPDATE.saturating_sub(started.elapsed());
            if !event::poll(left).map_err(failed)? {
                break;
            }
            let Event::Key(key) = event::read().map_err(failed)? else {
                continue;
            };
            if key.kind == KeyEventKind::Release {
                continue;
            }
            let control = key.modifiers.contains(KeyModifiers::CONTROL);
            match key.code {
                KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
                KeyCode::Char('c') if control => return Ok(()),
                KeyCode::Char(' ') => paused = !paused,
                KeyCode::Char('+') => speed *= 2.0,
                KeyCode::Char('-') => speed /= 2.0,
                _ => {}
            }
        }
    }
    Ok(())
}
