// SPDX-License-Identifier: GPL-2.0-only
//! The words of a line of a script.

use input::{Error, Position, index, suggest};

/// Longest time of a script. Tasks compute for longer than this.
pub(crate) const MAX_NS: u64 = 86_400_000_000_000;

/// A word and its column, counted from 1.
#[derive(Clone, Copy)]
pub(crate) struct Word<'a> {
    pub text: &'a str,
    pub column: usize,
}

/// The words of a line, and its place for messages.
pub(crate) struct Words<'a> {
    place: &'a str,
    line: usize,
    pub(crate) words: Vec<Word<'a>>,
    /// Column after the last word.
    end: usize,
    pub(crate) used: Vec<bool>,
}

impl<'a> Words<'a> {
    pub(crate) fn new(place: &'a str, line: usize, text: &'a str) -> Words<'a> {
        let text = text.split('#').next().unwrap_or_default();
        let mut words = Vec::new();
        let mut at = 0;
        for word in text.split([' ', '\t', '\r']) {
            if !word.is_empty() {
                words.push(Word {
                    text: word,
                    column: text[..at].chars().count() + 1,
                });
            }
            at += word.len() + 1;
        }
        Words {
            place,
            line,
            used: vec![false; words.len()],
            end: text.trim_end().chars().count() + 1,
            words,
        }
    }

    pub(crate) fn error(&self, column: usize, message: impl std::fmt::Display) -> Error {
        Error::at(self.place, message).position(Position {
            line: index(self.line),
            column: index(column),
        })
    }

    /// Returns the next positional word.
    pub(crate) fn next(&mut self, what: &str) -> Result<Word<'a>, Error> {
        let free = self
            .words
            .iter()
            .zip(&self.used)
            .position(|(word, used)| !used && !word.text.contains('='));
        let Some(at) = free else {
            return Err(self.error(self.end, format!("expected {what}")));
        };
        self.used[at] = true;
        Ok(self.words[at])
    }

    /// Returns the value of the argument `key=value`.
    pub(crate) fn value(&mut self, key: &str) -> Option<Word<'a>> {
        for (word, used) in self.words.iter().zip(&mut self.used) {
            let value = word.text.strip_prefix(key).and_then(|rest| rest.strip_prefix('='));
            if let Some(value) = value
                && !*used
            {
                *used = true;
                return Some(Word {
                    text: value,
                    column: word.column + key.len() + 1,
                });
            }
        }
        None
    }

    pub(crate) fn flag(&mut self, name: &str) -> bool {
        let at = self
            .words
            .iter()
            .zip(&self.used)
            .position(|(word, used)| !used && word.text == name);
        if let Some(at) = at {
            self.used[at] = true;
        }
        at.is_some()
    }

    /// Checks that all words have been used. `known` lists the arguments of the command.
    pub(crate) fn finish(&self, known: &[&str]) -> Result<(), Error> {
        let Some(at) = self.used.iter().position(|used| !used) else {
            return Ok(());
        };
        let word = self.words[at];
        let key = word.text.split('=').next().unwrap_or_default();
        let error = self.error(word.column, format!("unexpected argument `{}`", word.text));
        Err(if known.is_empty() {
            error.hint("remove it")
        } else {
            error.hint(suggest::hint(key, known))
        })
    }

    pub(crate) fn duration(&self, word: Word) -> Result<u64, Error> {
        let digits = word.text.chars().all(|c| c.is_ascii_digit());
        let parsed = match digits && !word.text.is_empty() {
            true => word
                .text
                .parse()
                .map_err(|_| Error::new(format!("{} is too long", word.text))),
            false => input::duration::parse(word.text),
        };
        let ns = parsed.map_err(|message| {
            self.error(word.column, message)
                .hint("write a number and ns, us, ms or s")
        })?;
        match ns <= MAX_NS {
            true => Ok(ns),
            false => Err(self
                .error(word.column, format!("{} is longer than a day", word.text))
                .hint("use a shorter time")),
        }
    }

    pub(crate) fn number<T: std::str::FromStr + PartialOrd + std::fmt::Display>(
        &self,
        word: Word,
        least: T,
        most: T,
    ) -> Result<T, Error> {
        match word.text.parse::<T>() {
            Ok(number) if number >= least && number <= most => Ok(number),
            _ => Err(self.error(
                word.column,
                format!("`{}` is not a number from {least} to {most}", word.text),
            )),
        }
    }

    pub(crate) fn cpus(&self, word: Word, nr_cpus: u32) -> Result<Vec<u32>, Error> {
        let cpus = input::cpu_list::parse(word.text, nr_cpus + 1)
            .map_err(|message| self.error(word.column, message).hint("write a list such as 1-3,5"))?;
        match cpus.contains(&0) {
            true => Err(self
                .error(word.column, "CPU 0 executes no task of a script")
                .hint(format!("use CPUs from 1 to {nr_cpus}"))),
            false => Ok(cpus),
        }
    }
}
