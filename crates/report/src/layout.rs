// SPDX-License-Identifier: GPL-2.0-only
//! Formats tables so that they fit where they are printed.
//!
//! In a file, a table is Markdown and has all columns. On a terminal, it has box characters, and no
//! line is wider than the terminal. If necessary, the least important columns are left out. A note
//! below the table names them. If not even three columns fit, each row becomes a block of lines.
//!
//! If colours are enabled, the best values are green and failures are red. The best values also
//! have a `*`.
//!
//! A surface is the terminal or file on which a table is printed.

use comfy_table::{Attribute, Cell, CellAlignment, Color, Table, presets};
use trace::escape;
use unicode_width::UnicodeWidthStr;

/// Minimum number of columns. If fewer columns fit, each row is printed as a block of lines.
const COLUMNS_MIN: usize = 3;

/// The terminal or file on which a table is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Surface {
    /// Whether the table has box characters. Otherwise it is Markdown.
    pub terminal: bool,
    /// Whether boxes are drawn with ASCII characters.
    pub ascii: bool,
    /// Maximum number of characters per line, or `None` if lines may have any length.
    pub width: Option<usize>,
    pub colour: bool,
}

impl Surface {
    /// Breaks a text after a `separator` wherever a line would be wider than the surface. The text
    /// ends with a newline.
    pub fn line(&self, text: &str, separator: &str) -> String {
        match self.width {
            Some(width) => wrap(text, separator, width),
            None => format!("{text}\n"),
        }
    }
}

/// Returns a terminal of unlimited width if the value is `true`, otherwise a file.
impl From<bool> for Surface {
    fn from(terminal: bool) -> Surface {
        Surface {
            terminal,
            ..Surface::default()
        }
    }
}

/// Meaning of a cell, which is shown by its colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mark {
    #[default]
    Plain,
    Best,
    Failed,
}

/// A cell of a table: its text, which may have several lines, and its mark.
#[derive(Clone, Debug, Default)]
pub struct Text {
    text: String,
    mark: Mark,
}

impl Text {
    /// Returns a cell with this text. Control characters other than newlines are escaped.
    pub fn new(text: &str, mark: Mark) -> Text {
        let lines: Vec<_> = text.split('\n').map(escape::line).collect();
        Text {
            text: lines.join("\n"),
            mark,
        }
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Text {
        Text::new(text, Mark::Plain)
    }
}

impl From<String> for Text {
    fn from(text: String) -> Text {
        Text::new(&text, Mark::Plain)
    }
}

/// A column of a table.
struct Column {
    head: String,
    right: bool,
    /// Order in which columns are left out: those with the highest rank first. Columns with rank 0
    /// are never left out.
    rank: usize,
}

/// A table. Its first column contains the names of the rows.
#[derive(Default)]
pub struct Grid {
    columns: Vec<Column>,
    rows: Vec<Vec<Text>>,
    /// Whether the table has no lines between columns, not even in Markdown.
    plain: bool,
}

impl Grid {
    pub fn new() -> Grid {
        Grid::default()
    }

    /// Returns a table without boxes and lines.
    pub fn plain() -> Grid {
        Grid {
            plain: true,
            ..Grid::default()
        }
    }

    /// Adds a left-aligned column, for names.
    pub fn left(&mut self, head: &str, rank: usize) {
        self.column(head, false, rank);
    }

    /// Adds a right-aligned column, for numbers.
    pub fn right(&mut self, head: &str, rank: usize) {
        self.column(head, true, rank);
    }

    fn column(&mut self, head: &str, right: bool, rank: usize) {
        self.columns.push(Column {
            head: Text::from(head).text,
            right,
            rank,
        });
    }

    /// Adds a row, with one cell for each column.
    pub fn row<T: Into<Text>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns whether all columns fit on the surface.
    pub fn fits(&self, surface: Surface) -> bool {
        let all: Vec<usize> = (0..self.columns.len()).collect();
        surface.width.is_none_or(|width| self.width(&all, surface) <= width)
    }

    /// Returns the text of the table, which ends with a newline.
    pub fn render(&self, surface: Surface) -> String {
        let mut shown: Vec<usize> = (0..self.columns.len()).collect();
        let Some(width) = surface.width else {
            return self.table(&shown, surface).0;
        };
        let mut hidden: Vec<usize> = Vec::new();
        while self.width(&shown, surface) > width {
            let ranked = shown.iter().filter(|&&index| self.columns[index].rank > 0);
            let Some(&last) = ranked.max_by_key(|&&index| self.columns[index].rank) else {
                return self.blocks(width, surface.colour);
            };
            if shown.len() <= COLUMNS_MIN {
                return self.blocks(width, surface.colour);
            }
            shown.retain(|&index| index != last);
            hidden.push(last);
        }
        let (mut text, _) = self.table(&shown, surface);
        if !hidden.is_empty() {
            hidden.sort_unstable();
            let names: Vec<String> = hidden.iter().map(|&index| self.name(index)).collect();
            let note = format!("not shown at this width: {}", names.join(", "));
            text += &wrap(&note, " ", width);
        }
        text
    }

    /// Returns the heading of a column without line breaks.
    fn name(&self, index: usize) -> String {
        self.columns[index].head.replace("-\n", "").replace('\n', " ")
    }

    fn width(&self, shown: &[usize], surface: Surface) -> usize {
        let colourless = Surface {
            colour: false,
            ..surface
        };
        self.table(shown, colourless).1
    }

    /// Draws the table with these columns. Returns the text and the width of its longest line.
    fn table(&self, shown: &[usize], surface: Surface) -> (String, usize) {
        let mut table = Table::new();
        table.force_no_tty();
        if surface.colour {
            table.enforce_styling();
        }
        table.load_style(match (self.plain, surface.terminal, surface.ascii) {
            (true, ..) => presets::NOTHING,
            (false, true, false) => presets::UTF8_FULL_CONDENSED,
            (false, true, true) => presets::ASCII_FULL_CONDENSED,
            (false, false, _) => presets::ASCII_MARKDOWN,
        });
        let cell = |index: usize, text: &Text| {
            let align = match self.columns[index].right {
                true => CellAlignment::Right,
                false => CellAlignment::Left,
            };
            let cell = Cell::new(&text.text).set_alignment(align);
            match text.mark {
                Mark::Plain => cell,
                Mark::Best => cell.fg(Color::Green).add_attribute(Attribute::Bold),
                Mark::Failed => cell.fg(Color::Red),
            }
        };
        let heads = shown.iter().map(|&index| {
            let text = self.columns[index].head.clone();
            cell(
                index,
                &Text {
                    text,
                    mark: Mark::Plain,
                },
            )
        });
        table.set_header(heads.collect::<Vec<_>>());
        for row in &self.rows {
            let cells = shown.iter().map(|&index| match row.get(index) {
                Some(text) => cell(index, text),
                None => Cell::new(""),
            });
            table.add_row(cells.collect::<Vec<_>>());
        }
        let (mut text, mut width) = (String::new(), 0);
        for line in table.lines() {
            let line = match self.plain {
                // Every cell has a space on both sides. The first space of a line is removed, so
                // that the text starts at the margin.
                true => line.strip_prefix(' ').unwrap_or(&line).trim_end(),
                false => line.trim_end(),
            };
            width = width.max(line.width());
            text.push_str(line);
            text.push('\n');
        }
        (text, width)
    }

    /// Prints each row as a block of lines. The first line is the row's name. Each other cell has a
    /// line `heading value`.
    fn blocks(&self, width: usize, colour: bool) -> String {
        let names: Vec<String> = (0..self.columns.len()).map(|index| self.name(index)).collect();
        let longest = names.iter().skip(1).map(|name| name.width()).max().unwrap_or(0);
        let mut out = String::new();
        for row in &self.rows {
            for (index, cell) in row.iter().enumerate() {
                let lines: Vec<&str> = cell
                    .text
                    .lines()
                    .map(str::trim)
                    .filter(|line| !line.is_empty())
                    .collect();
                if index == 0 {
                    for line in &lines {
                        out += &colourize(&break_at_width(line, width), cell.mark, colour);
                        out.push('\n');
                    }
                } else if !lines.is_empty() {
                    let value = lines.join(" ");
                    if 2 + longest + 2 + value.width() <= width {
                        let blanks = " ".repeat(longest - names[index].width() + 2);
                        out += &format!("  {}{blanks}{}\n", names[index], colourize(&value, cell.mark, colour));
                    } else {
                        out += &format!("  {}\n", break_at_width(&names[index], width.saturating_sub(2)));
                        let value = break_at_width(&value, width.saturating_sub(4));
                        out += &format!("    {}\n", colourize(&value, cell.mark, colour));
                    }
                }
            }
        }
        out
    }
}

/// Colours a text, which must not contain a newline.
fn colourize(text: &str, mark: Mark, colour: bool) -> String {
    match mark {
        Mark::Best if colour => format!("\x1b[1;32m{text}\x1b[0m"),
        Mark::Failed if colour => format!("\x1b[31m{text}\x1b[0m"),
        _ => text.to_owned(),
    }
}

/// Breaks a text into lines of exactly `width` characters, also inside words.
fn break_at_width(text: &str, width: usize) -> String {
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        let wide = unicode_width::UnicodeWidthChar::width(c).unwrap_or(0);
        if used > 0 && used + wide > width {
            out.push('\n');
            used = 0;
        }
        out.push(c);
        used += wide;
    }
    out
}

/// Breaks a text into lines of at most `width` characters, only after `separator`. A part between
/// two separators that is longer than `width` gets a line of its own. The text ends with a newline.
fn wrap(text: &str, separator: &str, width: usize) -> String {
    let mut out = String::new();
    let mut used = 0;
    for part in text.split_inclusive(separator) {
        let wide = part.trim_end().width();
        if used > 0 && used + wide > width {
            out.truncate(out.trim_end().len());
            out.push('\n');
            used = 0;
        }
        out.push_str(part);
        used += part.width();
    }
    out.push('\n');
    out
}

/// Prints one line for each row: a name and its description. On a terminal, a long description
/// continues on further lines, which are indented to where it begins.
pub fn list(rows: &[(String, String)], surface: Surface) -> String {
    let names = rows.iter().map(|(name, _)| escape::line(name).into_owned());
    let names: Vec<String> = names.collect();
    let column = names.iter().map(|name| name.width()).max().unwrap_or(0) + 2;
    let mut out = String::new();
    for (name, (_, about)) in names.iter().zip(rows) {
        let about = escape::line(about);
        let about = match surface.width {
            // The description has its own column only if at least ten characters remain for it.
            Some(width) if width >= column + 10 => wrap(&about, " ", width - column),
            _ => format!("{about}\n"),
        };
        let about = about.trim_end().replace('\n', &format!("\n{}", " ".repeat(column)));
        let line = format!("{name}{}{about}", " ".repeat(column - name.width()));
        out += line.trim_end();
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        let mut grid = Grid::new();
        grid.left("policy", 0);
        grid.right("score\nper s", 0);
        grid.right("wake-up\np99", 1);
        grid.right("switches", 3);
        grid.right("migra-\ntions", 2);
        let best = Text::new("12.3k*", Mark::Best);
        grid.row([
            Text::new("fifo", Mark::Plain),
            best,
            "3 us".into(),
            "1".into(),
            "2".into(),
        ]);
        grid.row([
            Text::new("bad\nfailed", Mark::Failed),
            "-".into(),
            "-".into(),
            "3".into(),
            "4".into(),
        ]);
        grid
    }

    fn on(width: usize) -> Surface {
        Surface {
            terminal: true,
            width: Some(width),
            ..Surface::default()
        }
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for width in 1..120 {
            let text = grid().render(on(width));
            let widest = text.lines().map(UnicodeWidthStr::width).max();
            assert!(widest <= Some(width.max(2)) || width < 8, "{width}:\n{text}");
            for part in ["fifo", "failed"] {
                assert!(width < 8 || text.contains(part), "{width}: no {part} in\n{text}");
            }
        }
    }

    #[test]
    fn the_least_important_columns_are_hidden_first_and_named() {
        let wide = grid().render(on(100));
        assert!(!wide.contains("not shown"), "{wide}");
        assert_eq!(wide, grid().render(true.into()));
        let narrow = grid().render(on(41));
        assert!(narrow.ends_with("not shown at this width: switches\n"), "{narrow}");
        let narrower = grid().render(on(35));
        assert!(
            narrower.ends_with("not shown at this width: switches,\nmigrations\n"),
            "{narrower}"
        );
    }

    #[test]
    fn rows_are_blocks_if_too_few_columns_fit() {
        let text = grid().render(on(22));
        assert!(
            text.starts_with("fifo\n  score per s  12.3k*\n  wake-up p99  3 us\n"),
            "{text}"
        );
    }

    #[test]
    fn colours_do_not_change_the_width() {
        let coloured = Surface { colour: true, ..on(41) };
        let text = grid().render(coloured);
        assert!(text.contains("\x1b[") && text.contains("12.3k*"), "{text:?}");
        let mut plain = String::new();
        let mut rest = text.as_str();
        while let Some((before, after)) = rest.split_once('\x1b') {
            plain += before;
            rest = after.split_once('m').map_or("", |(_, rest)| rest);
        }
        plain += rest;
        assert_eq!(plain, grid().render(on(41)));
        assert!(
            grid()
                .render(Surface {
                    width: Some(20),
                    ..coloured
                })
                .contains("\x1b[31mbad")
        );
    }

    #[test]
    fn a_file_has_every_column_and_no_colour() {
        let text = grid().render(false.into());
        assert!(
            text.starts_with("| policy |  score |") && !text.contains('\x1b'),
            "{text}"
        );
        assert!(text.contains("switches"));
    }

    #[test]
    fn names_cannot_harm_a_terminal() {
        let mut grid = Grid::new();
        grid.left("a\x1b[2J", 0);
        grid.row(["b\x1b]0;title\x07\u{9b}2J"]);
        for text in [grid.render(on(80)), grid.render(on(4)), grid.render(false.into())] {
            assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
        }
        let text = list(&[("x\x1b".into(), "y\n\x1bz".into())], on(40));
        assert_eq!(text, "x\\x1b  y\\n\\x1bz\n");
    }

    #[test]
    fn long_descriptions_continue_aligned() {
        let rows = [
            ("fifo".to_owned(), "first in, first out".to_owned()),
            ("o1".into(), "x".into()),
        ];
        assert_eq!(list(&rows, on(18)), "fifo  first in,\n      first out\no1    x\n");
        assert_eq!(list(&rows, false.into()), "fifo  first in, first out\no1    x\n");
    }
}
