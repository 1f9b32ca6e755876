//! The script of commands: `steps.txt`, read.

use anyhow::{Context, Result, bail};

/// One command, and how its outcome is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The line as it stands in the script.
    pub line: String,
    pub action: Action,
    /// Standard input, or the content of the file.
    pub input: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Write a file into the working folder.
    File(String),
    /// Wait until the schemas of the created definitions are published.
    Settle,
    Kubectl {
        words: Vec<String>,
        look: Look,
        editor: Option<Vec<String>>,
    },
}

/// The parts of a result that must be equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    All,
    Sorted,
    FirstLine,
    /// Names and types of an explanation that lists what single values of an enumeration mean, which ours does not.
    Fields,
    Status,
    Nothing,
}

/// Reads the whole script.
pub fn read(script: &str) -> Result<Vec<Step>> {
    let mut lines = script.lines();
    let mut steps = Vec::new();
    while let Some(line) = lines.next() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let (line, input) = match line.strip_suffix(" <<X") {
            Some(line) => {
                let text: Vec<&str> = lines.by_ref().take_while(|line| *line != "X").collect();
                (line, Some(text.join("\n") + "\n"))
            }
            None => (line, None),
        };
        let action = action(line).with_context(|| format!("in the step `{line}`"))?;
        steps.push(Step { line: line.to_owned(), action, input });
    }
    Ok(steps)
}

fn action(line: &str) -> Result<Action> {
    if let Some(name) = line.strip_prefix("file ") {
        return Ok(Action::File(name.to_owned()));
    }
    if line == "settle" {
        return Ok(Action::Settle);
    }
    let (command, directive) = line.rsplit_once(" | ").unwrap_or((line, ""));
    let words = words(command)?;
    let (look, editor) = match directive {
        "" => (Look::All, None),
        "sorted" => (Look::Sorted, None),
        "first" => (Look::FirstLine, None),
        "fields" => (Look::Fields, None),
        "status" => (Look::Status, None),
        "any" => (Look::Nothing, None),
        other => match other.strip_prefix("editor ") {
            Some(editor) => (Look::All, Some(self::words(editor)?)),
            None => bail!("no such way to look at it: `{other}`"),
        },
    };
    Ok(Action::Kubectl { words, look, editor })
}

/// Splits as a shell does: at spaces outside of quotes.
fn words(line: &str) -> Result<Vec<String>> {
    let mut words: Vec<String> = Vec::new();
    let mut current: Option<String> = None;
    let mut quote: Option<char> = None;
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                current.get_or_insert_default();
            }
            (None, ' ') => words.extend(current.take()),
            (_, letter) => current.get_or_insert_default().push(letter),
        }
    }
    if quote.is_some() {
        bail!("a quote is not closed");
    }
    words.extend(current);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_read() {
        let steps = read("# c\nfile f <<X\na\nb\nX\n\nget x -p '{\"a b\":1}' | sorted\n").unwrap();
        assert_eq!(steps[0].action, Action::File("f".into()));
        assert_eq!(steps[0].input.as_deref(), Some("a\nb\n"));
        let words = ["get", "x", "-p", "{\"a b\":1}"].map(str::to_owned).to_vec();
        assert_eq!(steps[1].action, Action::Kubectl { words, look: Look::Sorted, editor: None });
        let refused = |text: &str| format!("{:#}", read(text).unwrap_err());
        assert_eq!(refused("get 'x"), "in the step `get 'x`: a quote is not closed");
        let unknown = "in the step `get x | sideways`: no such way to look at it: `sideways`";
        assert_eq!(refused("get x | sideways"), unknown);
    }
}
