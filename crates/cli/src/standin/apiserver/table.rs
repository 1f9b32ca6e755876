//! The table of kube-apiserver's flags, and the flags that [`Flags`](super::Flags) has no field for.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Arg, ArgAction, ArgMatches, Command};
use setpoint_apiserver::DurationError;

const TABLE: &str = include_str!("flags.txt");

/// Values that ask for what is so anyway, besides the default.
const HARMLESS: [(&str, &[&str]); 1] =
    [("tls-min-version", &["VersionTLS10", "VersionTLS11", "VersionTLS12"])];

/// The effect of a flag here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It acts as in kube-apiserver.
    Acts,
    /// It promises a protection that is not here, so any value but the default stops the start.
    Stops,
    /// It protects nothing: any value but the default prints a warning.
    Warns,
    /// It is about a part that Setpoint does not have.
    Same,
}

/// A flag of kube-apiserver.
#[derive(Debug)]
pub struct Row {
    pub name: &'static str,
    /// The type, as Go prints it.
    pub kind: &'static str,
    pub default: &'static str,
    pub state: State,
    /// The reason, or empty.
    pub note: &'static str,
}

/// Returns the rows in the order of `kube-apiserver --help`.
pub fn rows() -> impl Iterator<Item = Row> {
    TABLE.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let mut columns = line.split('|').map(str::trim);
        let mut next = || columns.next().unwrap_or("");
        let (name, kind, default) = (next(), next(), next());
        let state = match next() {
            "acts" => State::Acts,
            "stops" => State::Stops,
            "warns" => State::Warns,
            _ => State::Same,
        };
        Row { name, kind, default, state, note: next() }
    })
}

/// Adds the flags that the command lacks. As in kube-apiserver, a flag may come again.
pub fn complete(mut command: Command) -> Command {
    for row in rows() {
        if row.name == "help" || command.get_arguments().any(|own| own.get_long() == Some(row.name)) {
            continue;
        }
        let arg = Arg::new(row.name).long(row.name).action(ArgAction::Append).help_heading("Without effect");
        let arg = match row.kind {
            "bool" => arg.num_args(0..=1).require_equals(true).default_missing_value("true"),
            _ => arg.num_args(1).allow_hyphen_values(true),
        };
        command = command.arg(if row.name == "v" { arg.short('v') } else { arg });
    }
    command
}

/// Returns the given flags that `own` has no field for, with their values.
pub fn given(matches: &ArgMatches, own: &Command) -> Vec<(&'static str, String)> {
    let others = rows().filter(|row| {
        row.name != "help" && !own.get_arguments().any(|argument| argument.get_long() == Some(row.name))
    });
    others
        .flat_map(|row| {
            let values = matches.get_many::<String>(row.name).into_iter().flatten();
            values.map(move |value| (row.name, value.clone()))
        })
        .collect()
}

/// Checks the given flags.
///
/// # Errors
/// A value that kube-apiserver refuses too, in its words, and a flag that promises what is not here.
///
/// Returns warnings about the others without effect.
pub fn check(given: &[(&'static str, String)]) -> Result<Vec<String>> {
    let mut warnings: Vec<String> = Vec::new();
    for (name, value) in given {
        let Some(row) = rows().find(|row| row.name == *name) else { continue };
        if let Err(error) = parse(row.kind, value) {
            bail!("invalid argument {value:?} for \"--{name}\" flag: {error}");
        }
        let harmless = HARMLESS.iter().any(|(own, values)| own == name && values.contains(&value.as_str()));
        if harmless || is_default(&row, value) {
            continue;
        }
        match row.state {
            State::Acts => bail!("--{name} is not implemented in Setpoint"),
            State::Stops => bail!("--{name}: {}", row.note),
            State::Same => {}
            State::Warns if row.note.is_empty() => {
                warnings.push(format!("--{name} has no effect in Setpoint"));
            }
            State::Warns => warnings.push(format!("--{name} has no effect in Setpoint: {}", row.note)),
        }
    }
    warnings.dedup();
    Ok(warnings)
}

/// Whether a value is the default. Go writes one value in several ways.
fn is_default(row: &Row, value: &str) -> bool {
    match row.kind {
        "bool" => go_bool(value).ok() == go_bool(row.default).ok(),
        "duration" => go_duration(value).ok() == go_duration(row.default).ok(),
        _ => value == row.default,
    }
}

/// A value that a flag does not take, in Go's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// The text is not of the flag's type.
    #[error("strconv.Parse{kind}: parsing {text:?}: invalid syntax")]
    Syntax {
        /// Go's name of the type.
        kind: &'static str,
        /// The text.
        text: String,
    },
    /// The text is no duration.
    #[error(transparent)]
    Duration(#[from] DurationError),
}

impl ValueError {
    fn syntax(kind: &'static str, text: &str) -> Self {
        ValueError::Syntax { kind, text: text.to_owned() }
    }
}

fn parse(kind: &str, value: &str) -> Result<(), ValueError> {
    match kind {
        "bool" => go_bool(value).map(drop),
        "duration" => Ok(go_duration(value).map(drop)?),
        "int" => value.parse::<i64>().map(drop).map_err(|_| ValueError::syntax("Int", value)),
        "float" | "float32" => value.parse::<f64>().map(drop).map_err(|_| ValueError::syntax("Float", value)),
        _ => Ok(()),
    }
}

/// Parses a truth value as Go's `strconv.ParseBool` does.
pub fn go_bool(text: &str) -> Result<bool, ValueError> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(ValueError::syntax("Bool", text)),
    }
}

/// Parses a duration that is not negative, as Go's `time.ParseDuration` does.
///
/// # Errors
/// The text is no such duration.
pub fn go_duration(text: &str) -> Result<Duration, DurationError> {
    setpoint_apiserver::go_duration(text)?.ok_or_else(|| DurationError::Invalid(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fmt::Write;

    use clap::CommandFactory;

    use super::super::flags::{Flags, parsed};
    use super::*;

    /// The output of `kube-apiserver --help` of Kubernetes 1.37.
    const HELP: &str = include_str!("help.txt");
    const PAGE: &str = "../../docs/kube-apiserver-flags.md";

    struct Recorded {
        section: String,
        kind: String,
        default: String,
        usage: String,
    }

    /// The flags of the recorded help, in its order.
    fn recorded() -> Vec<(String, Recorded)> {
        let mut found: Vec<(String, Recorded)> = Vec::new();
        let mut section = String::new();
        for line in HELP.lines() {
            if let Some(title) = line.strip_suffix(" flags:").filter(|line| !line.starts_with(' ')) {
                title.clone_into(&mut section);
                continue;
            }
            let flag = line.trim_start().trim_start_matches("-v, ").trim_start_matches("-h, ");
            match flag.strip_prefix("--") {
                Some(flag) if line.starts_with("  ") && !line.starts_with("         ") => {
                    let (head, usage) = flag.split_once("  ").unwrap();
                    let (name, kind) = head.split_once(' ').unwrap_or((head, "bool"));
                    let kind = kind.split('[').next().unwrap_or(kind).to_owned();
                    let usage = usage.trim().to_owned();
                    let row = Recorded { section: section.clone(), kind, default: String::new(), usage };
                    found.push((name.to_owned(), row));
                }
                _ if line.starts_with("         ") => {
                    let (_, last) = found.last_mut().unwrap();
                    last.usage += " ";
                    last.usage += line.trim();
                }
                _ => {}
            }
        }
        for (_, row) in &mut found {
            row.default = default(row);
        }
        found
    }

    fn default(row: &Recorded) -> String {
        let said = row.usage.strip_suffix(')').and_then(|usage| usage.rsplit_once("(default "));
        match (said, row.kind.as_str()) {
            (Some((_, default)), _) => {
                default.trim_matches('"').trim_start_matches('[').trim_end_matches(']').to_owned()
            }
            (None, "bool" | "version") => "false".to_owned(),
            (None, "duration") => "0s".to_owned(),
            (None, "int" | "float" | "float32" | "quantity" | "Level") => "0".to_owned(),
            _ => String::new(),
        }
    }

    #[test]
    fn every_flag_of_the_recorded_help_has_a_state() {
        let recorded = recorded();
        assert_eq!(recorded.len(), 172);
        let of_help: Vec<_> = recorded
            .iter()
            .map(|(name, row)| (name.as_str(), row.kind.as_str(), row.default.as_str()))
            .collect();
        let of_table: Vec<_> = rows().map(|row| (row.name, row.kind, row.default)).collect();
        assert_eq!(of_table, of_help);
        let states = TABLE.lines().filter(|line| !line.starts_with('#'));
        for line in states {
            let state = line.split('|').nth(3).unwrap().trim();
            assert!(["acts", "stops", "warns", "same"].contains(&state), "{line}");
        }
    }

    #[test]
    fn a_flag_has_a_field_if_it_acts_and_none_if_it_does_nothing() {
        let command = Flags::command();
        for row in rows().filter(|row| row.name != "help") {
            let has_field = command.get_arguments().any(|own| own.get_long() == Some(row.name));
            match row.state {
                State::Acts => assert!(has_field, "{}", row.name),
                State::Stops | State::Warns => assert!(!has_field, "{}", row.name),
                State::Same => {}
            }
            assert!(row.state != State::Stops || !row.note.is_empty(), "{}", row.name);
        }
    }

    #[test]
    fn every_flag_is_taken_at_its_default() {
        for row in rows().filter(|row| row.kind != "version") {
            if row.state == State::Acts || row.name == "etcd-servers" {
                continue;
            }
            let flags = parsed(&[&format!("--{}={}", row.name, row.default)]);
            assert_eq!(check(&flags.others).unwrap(), Vec::<String>::new(), "{}", row.name);
        }
    }

    #[test]
    fn a_flag_that_tunes_is_taken_with_a_warning_and_one_that_guards_stops_the_start() {
        for row in rows() {
            let other = match row.kind {
                "bool" => {
                    if row.default == "true" {
                        "false"
                    } else {
                        "true"
                    }
                }
                "duration" => "17s",
                "int" | "float" | "float32" => "17",
                _ => "x",
            };
            let given = [(row.name, other.to_owned())];
            let said = check(&given).map_err(|error| error.to_string());
            let (name, note) = (row.name, row.note);
            match row.state {
                State::Acts => {}
                State::Stops => assert_eq!(said, Err(format!("--{name}: {note}"))),
                State::Same => assert_eq!(said, Ok(Vec::new())),
                State::Warns => {
                    let warnings = said.unwrap();
                    let begin = format!("--{name} has no effect in Setpoint");
                    assert!(warnings[0].starts_with(&begin) && warnings[0].ends_with(note), "{warnings:?}");
                }
            }
        }
        assert!(check(&[("tls-min-version", "VersionTLS12".to_owned())]).unwrap().is_empty());
        assert!(check(&[("tls-min-version", "VersionTLS13".to_owned())]).is_err());
    }

    /// The words are those of kube-apiserver 1.37.
    #[test]
    fn a_value_of_another_type_stops_the_start() {
        for (flag, said) in [
            (
                "--goaway-chance=often",
                "invalid argument \"often\" for \"--goaway-chance\" flag: strconv.ParseFloat: parsing \"often\": invalid syntax",
            ),
            (
                "--min-request-timeout=1m",
                "invalid argument \"1m\" for \"--min-request-timeout\" flag: strconv.ParseInt: parsing \"1m\": invalid syntax",
            ),
            (
                "--enable-priority-and-fairness=no",
                "invalid argument \"no\" for \"--enable-priority-and-fairness\" flag: strconv.ParseBool: parsing \"no\": invalid syntax",
            ),
            (
                "--kubelet-timeout=5",
                "invalid argument \"5\" for \"--kubelet-timeout\" flag: time: missing unit in duration \"5\"",
            ),
        ] {
            assert_eq!(check(&parsed(&[flag]).others).unwrap_err().to_string(), said);
        }
    }

    #[test]
    fn durations_are_gos() {
        assert_eq!(go_duration("1h0m0s"), Ok(Duration::from_secs(3600)));
        assert_eq!(go_duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(go_duration("0"), Ok(Duration::ZERO));
        for wrong in ["", "s", "-1s", "9999999h"] {
            assert_eq!(go_duration(wrong), Err(DurationError::Invalid(wrong.to_owned())));
        }
        assert_eq!(go_duration("1"), Err(DurationError::NoUnit("1".to_owned())));
        let (unit, text) = ("x".to_owned(), "1x".to_owned());
        assert_eq!(go_duration("1x"), Err(DurationError::UnknownUnit { unit, text }));
    }

    /// Names, types and texts of kube-apiserver with what becomes of each flag here.
    fn page() -> String {
        let mut page = "# Flags of kube-apiserver\n\n\
            The `kube-apiserver` of `setpoint assets` takes every flag of kube-apiserver 1.37. This page is generated \
            from the recorded `--help` and from `crates/cli/src/standin/apiserver/flags.txt`. Run `UPDATE_FLAGS_PAGE=1 \
            cargo test -p setpoint-cli flags_page` after a change.\n\n\
            - **acts**: the flag acts as in kube-apiserver.\n\
            - **stops**: the flag promises a protection that is not here. Any value but the default stops the start.\n\
            - **warns**: the flag protects nothing. Any value but the default prints a warning.\n\
            - **same**: the flag is about a part that Setpoint does not have.\n"
            .to_owned();
        let rows: BTreeMap<&str, Row> = rows().map(|row| (row.name, row)).collect();
        let mut section = "";
        let recorded = recorded();
        for (name, recorded) in &recorded {
            if recorded.section != section {
                section = &recorded.section;
                let title = section[..1].to_uppercase() + &section[1..];
                write!(
                    page,
                    "\n## {title}\n\n| Flag | Default | State | Note |\n| --- | --- | --- | --- |\n"
                )
                .unwrap();
            }
            let row = &rows[name.as_str()];
            let state = format!("{:?}", row.state).to_lowercase();
            let default = if row.default.is_empty() { String::new() } else { format!("`{}`", row.default) };
            writeln!(page, "| `--{name}` | {default} | {state} | {} |", row.note).unwrap();
        }
        page
    }

    #[test]
    #[allow(clippy::disallowed_methods)]
    fn the_flags_page_is_up_to_date() {
        let page = page();
        if std::env::var_os("UPDATE_FLAGS_PAGE").is_some() {
            std::fs::write(PAGE, &page).unwrap();
        }
        let stored = std::fs::read_to_string(PAGE).unwrap();
        assert!(stored == page, "run UPDATE_FLAGS_PAGE=1 cargo test -p setpoint-cli flags_page");
    }
}
