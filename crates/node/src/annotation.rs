//! The annotations that control a simulated container. Without them it starts at once, is ready at once, and stops at
//! once when it is deleted. A container of a pod that runs to completion ends by itself, any other one does not.

use std::collections::BTreeMap;
use std::time::Duration;

/// Annotation: the time for which the pod stays Pending before its containers start.
pub const START_DELAY: &str = "setpoint.dev/start-delay";
/// Annotation: the time that a running container takes to become ready.
pub const READY_DELAY: &str = "setpoint.dev/ready-delay";
/// Annotation: the time for which a container runs before it exits.
pub const RUN_FOR: &str = "setpoint.dev/run-for";
/// The value of [`RUN_FOR`] for a container of a Job that does not end by itself.
pub const FOREVER: &str = "forever";
/// Annotation: the exit code of a container that exits.
pub const EXIT_CODE: &str = "setpoint.dev/exit-code";
/// Annotation: the time that a container takes to stop, at most the grace period.
pub const STOP_DELAY: &str = "setpoint.dev/stop-delay";

/// The script of one simulated pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// From [`START_DELAY`].
    pub start_delay: Duration,
    /// From [`READY_DELAY`].
    pub ready_delay: Duration,
    /// From [`RUN_FOR`].
    pub run_for: Option<Duration>,
    /// [`RUN_FOR`] is [`FOREVER`].
    pub runs_forever: bool,
    /// From [`EXIT_CODE`].
    pub exit_code: i32,
    /// From [`STOP_DELAY`].
    pub stop_delay: Duration,
}

/// An annotation with an invalid value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("annotation {name}: {value:?} is not {wanted}")]
pub struct ScriptError {
    name: &'static str,
    value: String,
    wanted: &'static str,
}

impl Script {
    /// Reads the annotations. `default` supplies the values of absent ones.
    pub fn read(annotations: &BTreeMap<String, String>, default: Script) -> Result<Script, ScriptError> {
        let mut script = default;
        if let Some(delay) = duration(annotations, START_DELAY)? {
            script.start_delay = delay;
        }
        if let Some(delay) = duration(annotations, READY_DELAY)? {
            script.ready_delay = delay;
        }
        if annotations.get(RUN_FOR).is_some_and(|value| value == FOREVER) {
            (script.run_for, script.runs_forever) = (None, true);
        } else if let Some(time) = duration(annotations, RUN_FOR)? {
            script.run_for = Some(time);
        }
        if let Some(delay) = duration(annotations, STOP_DELAY)? {
            script.stop_delay = delay;
        }
        if let Some(code) = annotations.get(EXIT_CODE) {
            let wanted = "a whole number from 0 to 255";
            script.exit_code = match code.parse::<u8>() {
                Ok(code) => code.into(),
                Err(_) => return Err(ScriptError { name: EXIT_CODE, value: code.clone(), wanted }),
            };
        }
        Ok(script)
    }
}

fn duration(
    annotations: &BTreeMap<String, String>,
    name: &'static str,
) -> Result<Option<Duration>, ScriptError> {
    let Some(value) = annotations.get(name) else { return Ok(None) };
    let wanted = "a duration such as 500ms, 2s or 1m";
    parse_duration(value).map(Some).ok_or_else(|| ScriptError { name, value: value.clone(), wanted })
}

/// One number with one of Go's units from milliseconds to hours.
fn parse_duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().ok()?;
    let seconds = match unit {
        "ms" => number / 1e3,
        "s" => number,
        "m" => number * 60.0,
        "h" => number * 3600.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, value: &str) -> Result<Script, ScriptError> {
        Script::read(&BTreeMap::from([(name.to_owned(), value.to_owned())]), Script::default())
    }

    #[test]
    fn an_annotation_changes_what_it_names_and_nothing_else() {
        let script = read(READY_DELAY, "1.5s").unwrap();
        assert_eq!(script, Script { ready_delay: Duration::from_millis(1500), ..Script::default() });
        assert_eq!(read(EXIT_CODE, "3").unwrap().exit_code, 3);
        assert_eq!(read(RUN_FOR, "2m").unwrap().run_for, Some(Duration::from_secs(120)));
        assert_eq!(read(RUN_FOR, "forever").unwrap(), Script { runs_forever: true, ..Script::default() });
    }

    #[test]
    fn a_bad_value_is_named() {
        let error = read(START_DELAY, "soon").unwrap_err();
        assert_eq!(
            error.to_string(),
            "annotation setpoint.dev/start-delay: \"soon\" is not a duration such as 500ms, 2s or 1m"
        );
        let error = read(EXIT_CODE, "-1").unwrap_err();
        let wanted = "annotation setpoint.dev/exit-code: \"-1\" is not a whole number from 0 to 255";
        assert_eq!(error.to_string(), wanted);
    }
}
