//! Validation of the values that the scale subresource of a custom kind reads.

use serde_json::{Value, json};
use setpoint_api::cause::{Cause, Path};
use setpoint_api::go_format;

/// The paths of the scale subresource's values inside an object.
#[derive(Clone, Debug)]
pub(crate) struct ScalePaths {
    pub(crate) spec_replicas: String,
    pub(crate) status_replicas: String,
    pub(crate) label_selector: String,
}

/// The errors in the replicas and the selector. A write to `status` is checked only for those of the status.
pub(super) fn check(paths: &ScalePaths, object: &Value, status: bool) -> Vec<Cause> {
    let mut causes = Vec::new();
    if !status {
        replicas(object, &paths.spec_replicas, &mut causes);
    }
    replicas(object, &paths.status_replicas, &mut causes);
    if !paths.label_selector.is_empty()
        && let Err(error) = nested(object, &paths.label_selector, "string", Value::is_string)
    {
        causes.push(Cause::invalid(&Path::new(&*paths.label_selector), "", &error.to_string()));
    }
    causes
}

fn replicas(object: &Value, path: &str, causes: &mut Vec<Cause>) {
    let at = Path::new(path);
    let found = nested(object, path, "int64", |value| value.as_i64().is_some());
    let number = match found {
        Err(error) => return causes.push(Cause::invalid(&at, &json!(0), &error.to_string())),
        Ok(found) => found.and_then(Value::as_i64).unwrap_or(0),
    };
    if number < 0 {
        causes.push(Cause::invalid(&at, number, "should be a non-negative integer"));
    } else if number > i64::from(i32::MAX) {
        let detail = format!("should be less than or equal to {}", i32::MAX);
        causes.push(Cause::invalid(&at, number, &detail));
    }
}

/// A part of a path has the wrong type, in Go's words.
#[derive(Debug, thiserror::Error)]
#[error(".{path} accessor error: {value} is of the type {found}, expected {wanted}")]
struct AccessorError {
    path: String,
    value: String,
    found: &'static str,
    wanted: String,
}

/// The value at the path.
fn nested<'v>(
    object: &'v Value,
    path: &str,
    wanted: &str,
    fits: impl Fn(&Value) -> bool,
) -> Result<Option<&'v Value>, AccessorError> {
    let steps: Vec<&str> = path.trim_start_matches('.').split('.').collect();
    let mut here = object;
    let wrong = |depth: usize, value: &Value, wanted: &str| AccessorError {
        path: steps[..depth].join("."),
        value: go_format::plain(value),
        found: go_format::type_name(value),
        wanted: wanted.to_owned(),
    };
    for (at, step) in steps.iter().enumerate() {
        if here.is_null() {
            return Ok(None);
        }
        let Value::Object(fields) = here else {
            return Err(wrong(at + 1, here, "map[string]interface{}"));
        };
        match fields.get(*step) {
            Some(below) => here = below,
            None => return Ok(None),
        }
    }
    if fits(here) {
        return Ok(Some(here));
    }
    Err(wrong(steps.len(), here, wanted))
}
