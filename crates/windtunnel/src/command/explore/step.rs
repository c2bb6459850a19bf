// SPDX-License-Identifier: GPL-2.0-only
//! `windtunnel explore --step`: walks through the accesses of a run with the keyboard.

use super::super::terminal::{Ink, Line, Screen, put};
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::terminal;
use input::error::Error;
use lab::explore::step::{Move, Stepper};
use runner::interrupt;
use std::io;
use std::time::Duration;

/// Number of columns that a CPU needs at least.
const COLUMN: usize = 36;
/// Number of columns in front of the CPUs: a mark and the number of the step.
const NUMBER: usize = 9;
/// Longest time between two looks at signals.
const POLL: Duration = Duration::from_millis(200);
const KEYS: &str = "q quit  n p step  N P ten steps  s S other CPU  f F finding  g G first, last";

/// Shows the steps until the user quits.
///
/// # Errors
/// The terminal cannot be controlled.
pub fn walk(title: &str, stepper: &mut Stepper) -> Result<(), Error> {
    let failed = |error: io::Error| Error::new(format!("terminal: {error}"));
    let screen = Screen::enter().map_err(failed)?;
    while interrupt::signal().is_none() {
        let (width, height) = terminal::size().map_err(failed)?;
        let (width, height) = (usize::from(width), usize::from(height));
        put(&mut io::stdout().lock(), &lines(title, stepper, width, height), width).map_err(failed)?;
        if !event::poll(POLL).map_err(failed)? {
            continue;
        }
        let Event::Key(key) = event::read().map_err(failed)? else {
            continue;
        };
        if key.kind == KeyEventKind::Release {
            continue;
        }
        if is_quit(key) {
            break;
        }
        if let Some(to) = movement(key.code) {
            stepper.go(to);
        }
    }
    drop(screen);
    Ok(())
}

fn is_quit(key: KeyEvent) -> bool {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) || (control && key.code == KeyCode::Char('c'))
}

fn movement(key: KeyCode) -> Option<Move> {
    Some(match key {
        KeyCode::Char('n' | 'j' | ' ') | KeyCode::Down | KeyCode::Right => Move::By(1),
        KeyCode::Char('p' | 'k') | KeyCode::Up | KeyCode::Left => Move::By(-1),
        KeyCode::Char('N') | KeyCode::PageDown => Move::By(10),
        KeyCode::Char('P') | KeyCode::PageUp => Move::By(-10),
        KeyCode::Char('s') | KeyCode::Tab => Move::NextSwitch,
        KeyCode::Char('S') | KeyCode::BackTab => Move::PreviousSwitch,
        KeyCode::Char('f') => Move::NextMark,
        KeyCode::Char('F') => Move::PreviousMark,
        KeyCode::Char('g') | KeyCode::Home => Move::First,
        KeyCode::Char('G') | KeyCode::End => Move::Last,
        _ => return None,
    })
}

/// Returns the rows of the whole screen: the finding, the steps with a column for each CPU, the
/// details of the current step, and the keys.
fn lines(title: &str, stepper: &Stepper, width: usize, height: usize) -> Vec<Line> {
    let cpus = stepper.cpus((width.saturating_sub(NUMBER) / COLUMN).max(1));
    let column = width.saturating_sub(NUMBER) / cpus.len().max(1);
    let mut head = Line::new(Ink::Bold, format!("{:>8}", "step"));
    for (index, cpu) in cpus.iter().enumerate() {
        head.at(NUMBER + index * column, Ink::Bold, format!("CPU {cpu}"));
    }
    let mut lines = vec![Line::new(Ink::Bold, title), head];
    let details = stepper.details();
    let room = height.saturating_sub(lines.len() + details.len() + 2);
    let first = stepper.at().saturating_sub(room / 2);
    let first = first.min(stepper.nr().saturating_sub(room));
    for row in stepper.rows(first, room) {
        let is_current = row.step == stepper.at();
        let ink = match (is_current, row.is_marked) {
            (true, _) => Ink::Bold,
            (_, true) => Ink::Red,
            _ => Ink::Plain,
        };
        let mark = if is_current { '>' } else { ' ' };
        let mut line = Line::new(ink, format!("{mark}{:>7}", row.step + 1));
        let place = cpus.iter().position(|cpu| *cpu == row.cpu);
        let (at, text) = match place {
            Some(place) => (NUMBER + place * column, row.text),
            // The screen is too narrow for this CPU.
            None => (NUMBER, format!("(CPU {}) {}", row.cpu, row.text)),
        };
        let text: String = text.chars().take(column.saturating_sub(1)).collect();
        line.at(at, ink, text);
        lines.push(line);
    }
    lines.push(Line::default());
    let inks = [Ink::Bold, Ink::Plain, Ink::Green];
    for (index, text) in details.into_iter().enumerate() {
        lines.push(Line::new(inks.get(index).copied().unwrap_or(Ink::Plain), text));
    }
    lines.truncate(height.saturating_sub(1));
    lines.push(Line::new(Ink::Bold, KEYS));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_move_forward_and_backward() {
        assert_eq!(movement(KeyCode::Char('n')), Some(Move::By(1)));
        assert_eq!(movement(KeyCode::Left), Some(Move::By(-1)));
        assert_eq!(movement(KeyCode::Char('F')), Some(Move::PreviousMark));
        assert_eq!(movement(KeyCode::Char('x')), None);
    }

    #[test]
    fn escape_and_control_c_quit() {
        let key = |code, modifiers| KeyEvent::new(code, modifiers);
        assert!(is_quit(key(KeyCode::Esc, KeyModifiers::NONE)));
        assert!(is_quit(key(KeyCode::Char('c'), KeyModifiers::CONTROL)));
        assert!(!is_quit(key(KeyCode::Char('c'), KeyModifiers::NONE)));
    }
}
