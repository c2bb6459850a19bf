// SPDX-License-Identifier: GPL-2.0-only
//! Names of the tasks and groups that a script has introduced so far.

use crate::words::{Word, Words};
use input::{Error, suggest};

/// Maximum number of tasks.
pub(crate) const MAX_TASKS: usize = 64;
/// Maximum number of groups.
const MAX_GROUPS: usize = 16;

/// Names that the lines so far have introduced.
pub(super) struct Names {
    pub(super) nr_cpus: u32,
    pub(super) has_policy: bool,
    pub(super) tasks: Vec<String>,
    pub(super) groups: Vec<String>,
}

impl Names {
    pub(super) fn task(&self, words: &mut Words) -> Result<String, Error> {
        let word = words.next("the name of a task")?;
        self.known_task(words, word)
    }

    pub(super) fn known_task(&self, words: &Words, word: Word) -> Result<String, Error> {
        if self.tasks.iter().any(|task| task == word.text) {
            return Ok(word.text.to_string());
        }
        let known: Vec<&str> = self.tasks.iter().map(String::as_str).collect();
        let error = words.error(word.column, format!("no task is called `{}`", word.text));
        Err(match known.is_empty() {
            true => error.hint(format!("create it first: create {}", word.text)),
            false => error.hint(suggest::hint(word.text, &known)),
        })
    }

    pub(super) fn new_task(&mut self, words: &mut Words) -> Result<String, Error> {
        let word = words.next("the name of the new task")?;
        let letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if word.text.len() > 15 || !word.text.chars().all(letter) {
            let message = format!("`{}` is not a name", word.text);
            return Err(words
                .error(word.column, message)
                .hint("use at most 15 letters, digits and underscores"));
        }
        if self.tasks.iter().any(|task| task == word.text) || ["idle", "none"].contains(&word.text) {
            return Err(words
                .error(word.column, format!("`{}` is already in use", word.text))
                .hint("choose another name"));
        }
        if self.tasks.len() == MAX_TASKS {
            return Err(words.error(word.column, format!("a script has at most {MAX_TASKS} tasks")));
        }
        self.tasks.push(word.text.to_string());
        Ok(word.text.to_string())
    }

    pub(super) fn known_group(&self, words: &Words, word: Word) -> Result<String, Error> {
        if word.text == "/" || self.groups.iter().any(|group| group == word.text) {
            return Ok(word.text.to_string());
        }
        let error = words.error(word.column, format!("there is no group `{}`", word.text));
        Err(error.hint(format!("create it first: group {}", word.text)))
    }

    pub(super) fn group(&self, words: &mut Words) -> Result<String, Error> {
        let word = words.next("the path of a group")?;
        self.known_group(words, word)
    }

    /// Returns a group other than the root.
    pub(super) fn subgroup(&self, words: &mut Words) -> Result<String, Error> {
        let word = words.next("the path of a group")?;
        if word.text == "/" {
            return Err(words.error(word.column, "the root group has the policy of the script"));
        }
        self.known_group(words, word)
    }

    pub(super) fn new_group(&mut self, words: &mut Words) -> Result<String, Error> {
        let word = words.next("the path of the new group")?;
        let named = word.text.strip_prefix('/').is_some_and(|rest| {
            let letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
            rest.split('/').all(|name| !name.is_empty() && name.chars().all(letter))
        });
        if !named || word.text.len() > 60 {
            let message = format!("`{}` is not the path of a group", word.text);
            return Err(words
                .error(word.column, message)
                .hint("write a path such as /a or /a/x"));
        }
        if self.groups.iter().any(|group| group == word.text) {
            return Err(words.error(word.column, format!("the group `{}` exists already", word.text)));
        }
        let parent = word.text.rsplit_once('/').map_or("", |(parent, _)| parent);
        if !parent.is_empty() && !self.groups.iter().any(|group| group == parent) {
            let error = words.error(word.column, format!("there is no group `{parent}`"));
            return Err(error.hint(format!("create it first: group {parent}")));
        }
        if self.groups.len() == MAX_GROUPS {
            return Err(words.error(word.column, format!("a script has at most {MAX_GROUPS} groups")));
        }
        self.groups.push(word.text.to_string());
        Ok(word.text.to_string())
    }

    pub(super) fn cpu(&self, words: &Words, word: Word) -> Result<u32, Error> {
        words.number(word, 1, self.nr_cpus)
    }
}
