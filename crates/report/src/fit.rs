// SPDX-License-Identifier: GPL-2.0-only
//! Tables that fit what they are shown on.
//!
//! A file gets every column as Markdown. A terminal gets box characters and never a line that wraps: columns that matter least are
//! left out and named below the table, and where not even three columns fit, each row becomes a block of lines. A best value is
//! green and a failure red where there are colours; the `*` of a best value is there in any case.

use comfy_table::{Attribute, Cell, CellAlignment, Color, Table, presets};
use trace::escape;
use unicode_width::UnicodeWidthStr;

/// Columns that are left at least; with fewer, rows become blocks.
const COLUMNS_MIN: usize = 3;

/// The surface that a table is drawn on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Surface {
    /// Draw with box characters, else Markdown.
    pub terminal: bool,
    /// Characters of a line; `None`: as many as there are.
    pub width: Option<usize>,
    pub colour: bool,
}

impl Surface {
    /// Returns a text of one line, broken behind `separator` wherever it is wider than the surface. Ends with a newline.
    pub fn line(&self, text: &str, separator: &str) -> String {
        match self.width {
            Some(width) => fold(text, separator, width),
            None => format!("{text}\n"),
        }
    }
}

/// A terminal of any width, or a file.
impl From<bool> for Surface {
    fn from(terminal: bool) -> Surface {
        Surface {
            terminal,
            ..Surface::default()
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mark {
    #[default]
    Plain,
    Best,
    Failed,
}

/// A cell: text that may have several lines, and what it stands for.
#[derive(Clone, Debug, Default)]
pub struct Text {
    text: String,
    mark: Mark,
}

impl Text {
    /// Control characters but newlines are escaped.
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

struct Column {
    head: String,
    right: bool,
    /// Columns with the highest rank are left out first, those with 0 never.
    rank: usize,
}

/// A table. The first column names the rows.
#[derive(Default)]
pub struct Grid {
    columns: Vec<Column>,
    rows: Vec<Vec<Text>>,
    /// No lines between columns, in a file either.
    plain: bool,
}

impl Grid {
    pub fn new() -> Grid {
        Grid::default()
    }

    /// A table without lines and boxes.
    pub fn plain() -> Grid {
        Grid {
            plain: true,
            ..Grid::default()
        }
    }

    /// Adds a column of names.
    pub fn left(&mut self, head: &str, rank: usize) {
        self.column(head, false, rank);
    }

    /// Adds a column of numbers.
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

    /// Adds a row: a cell for each column.
    pub fn row<T: Into<Text>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether all columns fit.
    pub fn fits(&self, surface: Surface) -> bool {
        let all: Vec<usize> = (0..self.columns.len()).collect();
        surface.width.is_none_or(|width| self.width(&all, surface) <= width)
    }

    /// The text. Ends with a newline.
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
            text += &fold(&note, " ", width);
        }
        text
    }

    /// A head in one line.
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

    /// The text of these columns and the width of its longest line.
    fn table(&self, shown: &[usize], surface: Surface) -> (String, usize) {
        let mut table = Table::new();
        table.force_no_tty();
        if surface.colour {
            table.enforce_styling();
        }
        table.load_style(match (self.plain, surface.terminal) {
            (true, _) => presets::NOTHING,
            (false, true) => presets::UTF8_FULL_CONDENSED,
            (false, false) => presets::ASCII_MARKDOWN,
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
                // Cells are padded by a space on both sides; the text starts at the margin.
                true => line.strip_prefix(' ').unwrap_or(&line).trim_end(),
                false => line.trim_end(),
            };
            width = width.max(line.width());
            text.push_str(line);
            text.push('\n');
        }
        (text, width)
    }

    /// A block of lines for each row: its name, and `head  value` for each other cell.
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
                        out += &paint(&cut(line, width), cell.mark, colour);
                        out.push('\n');
                    }
                } else if !lines.is_empty() {
                    let value = lines.join(" ");
                    if 2 + longest + 2 + value.width() <= width {
                        let blanks = " ".repeat(longest - names[index].width() + 2);
                        out += &format!("  {}{blanks}{}\n", names[index], paint(&value, cell.mark, colour));
                    } else {
                        out += &format!("  {}\n", cut(&names[index], width.saturating_sub(2)));
                        let value = cut(&value, width.saturating_sub(4));
                        out += &format!("    {}\n", paint(&value, cell.mark, colour));
                    }
                }
            }
        }
        out
    }
}

/// Colours a text; a newline in it is not to be there.
fn paint(text: &str, mark: Mark, colour: bool) -> String {
    match mark {
        Mark::Best if colour => format!("\x1b[1;32m{text}\x1b[0m"),
        Mark::Failed if colour => format!("\x1b[31m{text}\x1b[0m"),
        _ => text.to_owned(),
    }
}

/// A text with a line break wherever it would be too wide.
fn cut(text: &str, width: usize) -> String {
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

/// Joins the parts of a line, which end with `separator`, into lines of at most `width` where the parts allow it. Ends with a newline.
fn fold(text: &str, separator: &str, width: usize) -> String {
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

/// A name and what it means a line; on a terminal, what does not fit goes on below where it began.
pub fn list(rows: &[(String, String)], surface: Surface) -> String {
    let names = rows.iter().map(|(name, _)| escape::line(name).into_owned());
    let names: Vec<String> = names.collect();
    let column = names.iter().map(|name| name.width()).max().unwrap_or(0) + 2;
    let mut out = String::new();
    for (name, (_, about)) in names.iter().zip(rows) {
        let about = escape::line(about);
        let about = match surface.width {
            // A column of ten characters or more is worth keeping.
            Some(width) if width >= column + 10 => fold(&about, " ", width - column),
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
            colour: false,
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
    fn the_least_important_columns_go_first_and_are_named() {
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
    fn where_nothing_fits_rows_are_blocks() {
        let text = grid().render(on(22));
        assert!(
            text.starts_with("fifo\n  score per s  12.3k*\n  wake-up p99  3 us\n"),
            "{text}"
        );
    }

    #[test]
    fn colours_change_no_width() {
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
    fn lists_go_on_below_where_they_began() {
        let rows = [
            ("fifo".to_owned(), "first in, first out".to_owned()),
            ("o1".into(), "x".into()),
        ];
        assert_eq!(list(&rows, on(18)), "fifo  first in,\n      first out\no1    x\n");
        assert_eq!(list(&rows, false.into()), "fifo  first in, first out\no1    x\n");
    }
}
