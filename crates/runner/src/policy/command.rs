// SPDX-License-Identifier: GPL-2.0-only
//! Parameters in the command line of a scheduler's program: `{NAME=DEFAULT}` is a parameter that a
//! run can set.

use input::error::Error;

/// A parameter of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandParameter {
    pub name: String,
    /// Value without a setting.
    pub default: String,
}

/// A part of a word: text, or a parameter.
enum Part<'w> {
    Text(&'w str),
    Parameter(&'w str, &'w str),
}

/// Divides a word. Braces that do not contain `NAME=` are text.
fn parts(word: &str) -> Vec<Part<'_>> {
    let (mut found, mut text, mut from) = (Vec::new(), 0, 0);
    while let Some(open) = word[from..].find('{').map(|at| from + at) {
        from = open + 1;
        let Some((inside, rest)) = word[from..].split_once('}') else {
            break;
        };
        let is_name = |name: &str| {
            name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
                && name.starts_with(|c: char| !c.is_ascii_digit())
        };
        if let Some((name, default)) = inside.split_once('=').filter(|(name, _)| is_name(name)) {
            found.push(Part::Text(&word[text..open]));
            found.push(Part::Parameter(name, default));
            text = word.len() - rest.len();
            from = text;
        }
    }
    found.push(Part::Text(&word[text..]));
    found
}

/// Returns the parameters of a command line in their order.
pub fn command_parameters(command: &[String]) -> Vec<CommandParameter> {
    let mut parameters: Vec<CommandParameter> = Vec::new();
    for part in command.iter().flat_map(|word| parts(word)) {
        if let Part::Parameter(name, default) = part
            && parameters.iter().all(|known| known.name != name)
        {
            parameters.push(CommandParameter {
                name: name.to_owned(),
                default: default.to_owned(),
            });
        }
    }
    parameters
}

/// Returns the command line with the values of its parameters.
///
/// # Errors
/// A setting is not a parameter of the command line.
pub fn command_with(command: &[String], settings: &[(String, String)]) -> Result<Vec<String>, Error> {
    let known = command_parameters(command);
    if let Some((name, value)) = settings
        .iter()
        .find(|(name, _)| known.iter().all(|known| known.name != *name))
    {
        return Err(Error::new(format!(
            "--set {name}={value}: the command line has no parameter {name}"
        ))
        .hint(format!(
            "write {{{name}=DEFAULT}} where its value belongs, as in 'exec: ./scx_rusty -i {{{name}=2}}'"
        )));
    }
    let value = |name: &str, default: &str| {
        let set = settings.iter().rev().find(|(known, _)| known == name);
        set.map_or(default, |(_, value)| value).to_owned()
    };
    let word = |word: &String| -> String {
        let text = |part: Part| match part {
            Part::Text(text) => text.to_owned(),
            Part::Parameter(name, default) => value(name, default),
        };
        parts(word).into_iter().map(text).collect()
    };
    Ok(command.iter().map(word).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    #[test]
    fn settings_replace_the_defaults_of_parameters() {
        let command = words(&["./scx_x", "-s{slice=20}us", "{json}", "--{a=b}={slice=1}", "{1=2}{"]);
        let names: Vec<String> = command_parameters(&command).into_iter().map(|one| one.name).collect();
        assert_eq!(names, ["slice", "a"]);
        let with = |settings: &[(&str, &str)]| {
            let settings: Vec<_> = settings.iter().map(|&(a, b)| (a.to_owned(), b.to_owned())).collect();
            command_with(&command, &settings).map_err(|error| error.to_string())
        };
        assert_eq!(
            with(&[]),
            Ok(words(&["./scx_x", "-s20us", "{json}", "--b=1", "{1=2}{"]))
        );
        assert_eq!(
            with(&[("slice", "5")]),
            Ok(words(&["./scx_x", "-s5us", "{json}", "--b=5", "{1=2}{"]))
        );
        let error = with(&[("slices", "5")]).expect_err("the parameter does not exist");
        assert!(error.contains("the command line has no parameter slices"), "{error}");
    }
}
