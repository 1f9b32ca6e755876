//! Bounds, multiples and ranges of numbers.

use serde_json::Number;

use super::Outcome;
use super::failure::What;
use crate::structural::props::Props;
use setpoint_api::go_format;

/// Whether a float is a whole number that JSON can carry.
pub(super) fn is_whole(value: f64) -> bool {
    const MOST: f64 = 9_007_199_254_740_991.0;
    if !(-MOST..=MOST).contains(&value) {
        return false;
    }
    let rounded = value.trunc();
    let gap = (value - rounded).abs();
    gap == 0.0 || gap < 1e-9 * value.abs() || (1.0 - gap) < 1e-9 * value.abs()
}

pub(super) fn check(number: &Number, props: &Props, format: &str, name: &str, out: &mut Outcome) {
    range(number, props, format, name, out);
    let shown = || serde_json::Value::Number(number.clone());
    if let Some(factor) = props.multiple_of {
        multiple(number, factor, name, out);
    }
    if let Some(minimum) = props.minimum
        && exceeds(number, minimum, props.exclusive_minimum, |left, right| left < right)
    {
        let word = if props.exclusive_minimum { "greater than" } else { "greater than or equal to" };
        let message = format!("{name} in body should be {word} {}", bound(number, minimum));
        out.fail(name, What::Invalid { value: shown(), message });
    }
    if let Some(maximum) = props.maximum
        && exceeds(number, maximum, props.exclusive_maximum, |left, right| left > right)
    {
        let word = if props.exclusive_maximum { "less than" } else { "less than or equal to" };
        let message = format!("{name} in body should be {word} {}", bound(number, maximum));
        out.fail(name, What::Invalid { value: shown(), message });
    }
}

fn range(number: &Number, props: &Props, format: &str, name: &str, out: &mut Outcome) {
    if props.int_or_string {
        return;
    }
    let value = number.as_f64().unwrap_or(0.0);
    let fits = match (props.kind.as_str(), format) {
        ("integer", "int32") => number.as_i64().map_or_else(
            || is_whole(value) && value.abs() <= f64::from(i32::MAX),
            |number| i32::try_from(number).is_ok(),
        ),
        ("integer", _) => number.as_i64().is_some() || is_whole(value),
        ("number", "float") => value.abs() <= f64::from(f32::MAX),
        _ => true,
    };
    if !fits {
        let kind =
            if format.is_empty() { " (default format)".to_owned() } else { format!(" with format {format}") };
        out.fail(name, What::Plain(format!("Checked value must be of type {}{kind} in {name}", props.kind)));
    }
}

/// Whole numbers are compared with the bound's whole part.
#[allow(clippy::cast_possible_truncation, reason = "Go converts the bound the same way")]
fn exceeds(number: &Number, bound: f64, exclusive: bool, beyond: fn(f64, f64) -> bool) -> bool {
    let (value, bound) = match number.as_i64() {
        Some(value) if value.abs() < (1 << 53) => (value as f64, (bound as i64) as f64),
        Some(value) => (value as f64, bound),
        None => (number.as_f64().unwrap_or(0.0), bound),
    };
    beyond(value, bound) || (exclusive && value == bound)
}

#[allow(clippy::cast_possible_truncation, reason = "Go prints the bound of a whole number so")]
fn bound(number: &Number, bound: f64) -> String {
    if number.as_i64().is_none() { go_format::float(bound) } else { (bound as i64).to_string() }
}

#[allow(clippy::cast_possible_truncation, reason = "Go converts the factor the same way")]
fn multiple(number: &Number, factor: f64, name: &str, out: &mut Outcome) {
    let whole = number.as_i64().map(|value| (value, factor as i64));
    let positive = whole.map_or(factor > 0.0, |(_, factor)| factor > 0);
    let shown_factor = whole.map_or_else(|| go_format::float(factor), |(_, factor)| factor.to_string());
    if !positive {
        let message = format!("factor MultipleOf declared for {name} must be positive: {shown_factor}");
        let value = whole.map_or_else(|| factor.into(), |(_, factor)| factor.into());
        return out.fail(name, What::Invalid { value, message });
    }
    let fits = match whole {
        Some((value, factor)) => value % factor == 0,
        None => {
            let value = number.as_f64().unwrap_or(0.0);
            is_whole(if factor < 1.0 { 1.0 / factor * value } else { value / factor })
        }
    };
    if !fits {
        let message = format!("{name} in body should be a multiple of {shown_factor}");
        out.fail(name, What::Invalid { value: serde_json::Value::Number(number.clone()), message });
    }
}
