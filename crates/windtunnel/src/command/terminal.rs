// SPDX-License-Identifier: GPL-2.0-only
//! The terminal of commands that use the whole screen.

use crossterm::style::{Attribute, Color, Print, SetAttribute, SetForegroundColor};
use crossterm::terminal::{self, Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen};
use crossterm::{cursor, execute, queue};
use std::io::{self, Write};
use trace::escape;

/// Colour or weight of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    Plain,
    Bold,
    Green,
    Red,
}

/// A row of a screen: coloured texts from left to right.
#[derive(Clone, Debug, Default)]
pub struct Line(Vec<(Ink, String)>);

impl Line {
    pub fn new(ink: Ink, text: impl Into<String>) -> Line {
        Line(vec![(ink, text.into())])
    }

    /// Appends a text.
    pub fn push(&mut self, ink: Ink, text: impl Into<String>) {
        self.0.push((ink, text.into()));
    }

    /// Appends a text that starts at `column`.
    pub fn at(&mut self, column: usize, ink: Ink, text: impl Into<String>) {
        let blanks = column.saturating_sub(self.width());
        self.0.push((Ink::Plain, " ".repeat(blanks)));
        self.0.push((ink, text.into()));
    }

    pub fn width(&self) -> usize {
        self.0.iter().map(|(_, text)| text.chars().count()).sum()
    }

    /// Returns the text without colours.
    #[cfg(test)]
    pub fn text(&self) -> String {
        self.0.iter().map(|(_, text)| text.as_str()).collect()
    }
}

/// The terminal in raw mode, showing its alternate screen. Dropping this value restores the
/// terminal.
pub struct Screen;

impl Screen {
    /// Prepares the terminal.
    ///
    /// # Errors
    /// The terminal cannot be controlled.
    pub fn enter() -> io::Result<Screen> {
        terminal::enable_raw_mode()?;
        let screen = Screen;
        execute!(io::stdout(), EnterAlternateScreen, cursor::Hide)?;
        Ok(screen)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // If restoring the terminal fails, nothing can be done about it here.
        let _ = execute!(io::stdout(), cursor::Show, LeaveAlternateScreen);
        let _ = terminal::disable_raw_mode();
    }
}

/// Prints the rows on a terminal that is `width` columns wide.
///
/// # Errors
/// Writing to the terminal fails.
pub fn put(out: &mut impl Write, lines: &[Line], width: usize) -> io::Result<()> {
    for (row, line) in lines.iter().enumerate() {
        queue!(out, cursor::MoveTo(0, u16::try_from(row).unwrap_or(u16::MAX)))?;
        let mut left = width;
        for (ink, text) in &line.0 {
            let text: String = escape::line(text).chars().take(left).collect();
            left -= text.chars().count();
            match ink {
                Ink::Plain => {}
                Ink::Bold => queue!(out, SetAttribute(Attribute::Bold))?,
                Ink::Green => queue!(out, SetForegroundColor(Color::Green))?,
                Ink::Red => queue!(out, SetForegroundColor(Color::Red))?,
            }
            queue!(out, Print(text), SetAttribute(Attribute::Reset))?;
        }
        queue!(out, Clear(ClearType::UntilNewLine))?;
    }
    queue!(out, Clear(ClearType::FromCursorDown))?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_rows_are_cut_at_the_edge() {
        let mut out = Vec::new();
        put(&mut out, &[Line::new(Ink::Green, "0123456789")], 4).expect("writing to memory cannot fail");
        let text = String::from_utf8(out).expect("the text is UTF-8");
        assert!(text.contains("0123") && !text.contains("01234"), "{text:?}");
    }
}
