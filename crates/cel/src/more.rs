//! Functions that Kubernetes' rules may call and the library does not have.

use std::cmp::Ordering;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};
use kube_cel::cel::Value;

/// Parts of a time, which may be asked for in a zone.
pub(super) const PARTS: [&str; 10] = [
    "getFullYear",
    "getMonth",
    "getDayOfYear",
    "getDayOfMonth",
    "getDate",
    "getDayOfWeek",
    "getHours",
    "getMinutes",
    "getSeconds",
    "getMilliseconds",
];

/// The items in the order of their keys; equal keys keep the order of their items.
///
/// # Errors
/// The keys have no order.
pub(super) fn sorted(items: &Value, keys: &Value) -> Result<Value, String> {
    let (Value::List(items), Value::List(keys)) = (items, keys) else {
        return Err("no such overload".into());
    };
    let mut pairs: Vec<(&Value, &Value)> = keys.iter().zip(items.iter()).collect();
    let mut comparable = true;
    pairs.sort_by(|(a, _), (b, _)| {
        a.partial_cmp(b).unwrap_or_else(|| {
            comparable = false;
            Ordering::Equal
        })
    });
    if !comparable {
        return Err("list elements must be comparable".into());
    }
    Ok(Value::List(Arc::new(pairs.into_iter().map(|(_, item)| item.clone()).collect())))
}

/// Whether the text is nothing but the suffix of a quantity. Kubernetes reads that as zero.
pub(super) fn is_suffix(text: &str) -> bool {
    matches!(
        text,
        "n" | "u" | "m" | "k" | "M" | "G" | "T" | "P" | "E" | "Ki" | "Mi" | "Gi" | "Ti" | "Pi" | "Ei"
    )
}

/// A time or a duration as text.
///
/// # Errors
/// It is neither.
pub(super) fn written(value: &Value) -> Result<Value, String> {
    let text = match value {
        Value::Timestamp(time) => {
            let instant = Timestamp::new(time.timestamp(), time.timestamp_subsec_nanos().cast_signed());
            instant.map_err(|error| error.to_string())?.to_string()
        }
        Value::Duration(length) => {
            let (seconds, nanoseconds) = (length.num_seconds(), length.subsec_nanos());
            #[allow(clippy::cast_precision_loss, reason = "Go divides the same way")]
            let seconds = seconds as f64 + f64::from(nanoseconds) / 1e9;
            format!("{seconds}s")
        }
        _ => return Err("no such overload".into()),
    };
    Ok(Value::String(Arc::new(text)))
}

/// The letters of a text, and what is left in the last one if there may only be some.
pub(super) fn letters(text: &str, most: Option<&Value>) -> Value {
    let most = match most {
        Some(Value::Int(most)) => usize::try_from(*most).unwrap_or(usize::MAX),
        _ => usize::MAX,
    };
    let value = |text: &str| Value::String(Arc::new(text.to_owned()));
    let mut made = Vec::new();
    for (at, letter) in text.char_indices() {
        if made.len() + 1 >= most {
            made.extend((most > 0).then(|| value(&text[at..])));
            break;
        }
        made.push(value(&text[at..at + letter.len_utf8()]));
    }
    Value::List(Arc::new(made))
}

/// A part of a time in a zone.
///
/// # Errors
/// Nobody knows the zone.
pub(super) fn time_in(time: &Value, zone: &Value, part: &str) -> Result<Value, String> {
    let (Value::Timestamp(time), Value::String(zone)) = (time, zone) else {
        return Err("no such overload".into());
    };
    let unknown = || format!("unknown time zone {zone}");
    let instant = Timestamp::new(time.timestamp(), time.timestamp_subsec_nanos().cast_signed());
    let local = instant.map_err(|_| unknown())?.to_zoned(zone_of(zone).ok_or_else(unknown)?);
    Ok(Value::Int(match part {
        "getFullYear" => i64::from(local.year()),
        "getMonth" => i64::from(local.month()) - 1,
        "getDayOfYear" => i64::from(local.day_of_year()) - 1,
        "getDayOfMonth" => i64::from(local.day()) - 1,
        "getDate" => i64::from(local.day()),
        "getDayOfWeek" => i64::from(local.weekday().to_sunday_zero_offset()),
        "getHours" => i64::from(local.hour()),
        "getMinutes" => i64::from(local.minute()),
        "getSeconds" => i64::from(local.second()),
        _ => i64::from(local.subsec_nanosecond() / 1_000_000),
    }))
}

/// The directory of the system's zone database.
const ZONES: &str = "/usr/share/zoneinfo";

/// `UTC`, `-08:00`, or a name of the zone database.
fn zone_of(text: &str) -> Option<TimeZone> {
    let Some((hours, minutes)) = text.split_once(':') else {
        return if text.is_empty() || text == "UTC" { Some(TimeZone::UTC) } else { named_zone(text) };
    };
    let (hours_value, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
    let sign = if hours.starts_with('-') { -1 } else { 1 };
    Offset::from_seconds(hours_value * 3600 + sign * minutes * 60).ok().map(TimeZone::fixed)
}

/// A zone that the system knows. Rules come from users, so a name must not lead out of the database.
fn named_zone(name: &str) -> Option<TimeZone> {
    let inside = name.split('/').all(|part| !matches!(part, "" | "." | "..")) && !name.contains('\\');
    let data = inside.then(|| std::fs::read(std::path::Path::new(ZONES).join(name)).ok()).flatten()?;
    TimeZone::tzif(name, &data).ok()
}
