//! Functions that Kubernetes' rules may call and the evaluator does not know. They are plain functions under names
//! that no rule can write. [`rename`] turns the calls into them before a rule runs.

use std::cmp::Ordering;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};
use kube_cel::cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue};
use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::{Context, ExecutionError, ResolveResult, Value};

use super::macros::{MAP_OF_MAPS, MAP_OF_PAIRS, SORTED};

const TIME_IN: &str = "@time";

/// Parts of a time, which may be asked for in a zone.
const PARTS: [&str; 10] = [
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

/// Turns a method call that only Kubernetes knows into a call of a function of ours.
pub(super) fn rename(call: &mut CallExpr) {
    let name = match (call.func_name.as_str(), call.args.len()) {
        (part, 1) if PARTS.contains(&part) => TIME_IN,
        _ => return,
    };
    let Some(target) = call.target.take() else { return };
    if name == TIME_IN {
        let part = LiteralValue::String(call.func_name.clone().into());
        call.args.push(IdedExpr { id: 0, expr: Expr::Literal(part) });
    }
    call.args.insert(0, *target);
    name.clone_into(&mut call.func_name);
}

pub(super) fn register(context: &mut Context<'_>) {
    context.add_function(SORTED, |items: Value, keys: Value| -> ResolveResult { sorted(&items, &keys) });
    context.add_function(MAP_OF_PAIRS, |pairs: Value| -> ResolveResult { map_of_pairs(&pairs) });
    context.add_function(MAP_OF_MAPS, |maps: Value| -> ResolveResult { map_of_maps(&maps) });
    context.add_function(TIME_IN, |time: Value, zone: Value, part: Value| -> ResolveResult {
        time_in(&time, &zone, &part)
    });
}

fn wrong(function: &str) -> ExecutionError {
    ExecutionError::function_error(function, "no such overload")
}

/// The items in the order of their keys; equal keys keep the order of their items.
fn sorted(items: &Value, keys: &Value) -> ResolveResult {
    let (Value::List(items), Value::List(keys)) = (items, keys) else { return Err(wrong("sortBy")) };
    let mut pairs: Vec<(&Value, &Value)> = keys.iter().zip(items.iter()).collect();
    let mut comparable = true;
    pairs.sort_by(|(a, _), (b, _)| {
        a.partial_cmp(b).unwrap_or_else(|| {
            comparable = false;
            Ordering::Equal
        })
    });
    if !comparable {
        return Err(ExecutionError::function_error("sortBy", "list elements must be comparable"));
    }
    Ok(Value::List(Arc::new(pairs.into_iter().map(|(_, item)| item.clone()).collect())))
}

#[allow(clippy::disallowed_types, reason = "the evaluator's own maps; it never shows their order")]
fn map(entries: impl Iterator<Item = Result<(Key, Value), ExecutionError>>) -> ResolveResult {
    let mut out = std::collections::HashMap::new();
    for entry in entries {
        let (key, value) = entry?;
        let shown = format!("insert failed: key {} already exists", shown(&key));
        if out.insert(key, value).is_some() {
            return Err(ExecutionError::function_error("mapInsert", &shown));
        }
    }
    Ok(Value::Map(Map { map: Arc::new(out) }))
}

fn shown(key: &Key) -> String {
    match key {
        Key::Int(number) => number.to_string(),
        Key::Uint(number) => number.to_string(),
        Key::Bool(flag) => flag.to_string(),
        Key::String(text) => text.to_string(),
    }
}

fn key_of(value: &Value) -> Option<Key> {
    Some(match value {
        Value::Int(number) => Key::Int(*number),
        Value::UInt(number) => Key::Uint(*number),
        Value::Bool(flag) => Key::Bool(*flag),
        Value::String(text) => Key::String(text.clone()),
        _ => return None,
    })
}

fn map_of_pairs(pairs: &Value) -> ResolveResult {
    let Value::List(pairs) = pairs else { return Err(wrong("transformMap")) };
    map(pairs.iter().map(|pair| match pair {
        Value::List(pair) => match pair.as_slice() {
            [key, value] => Ok((key_of(key).ok_or_else(|| wrong("transformMap"))?, value.clone())),
            _ => Err(wrong("transformMap")),
        },
        _ => Err(wrong("transformMap")),
    }))
}

fn map_of_maps(maps: &Value) -> ResolveResult {
    let Value::List(maps) = maps else { return Err(wrong("transformMapEntry")) };
    let mut all = Vec::new();
    for made in maps.iter() {
        let Value::Map(made) = made else { return Err(wrong("transformMapEntry")) };
        all.extend(made.map.iter().map(|(key, value)| Ok((key.clone(), value.clone()))));
    }
    map(all.into_iter())
}

fn time_in(time: &Value, zone: &Value, part: &Value) -> ResolveResult {
    let (Value::Timestamp(time), Value::String(zone), Value::String(part)) = (time, zone, part) else {
        return Err(wrong("getHours"));
    };
    let unknown = || ExecutionError::function_error("timestamp", format!("unknown time zone {zone}"));
    let instant = Timestamp::new(time.timestamp(), time.timestamp_subsec_nanos().cast_signed());
    let local = instant.map_err(|_| unknown())?.to_zoned(zone_of(zone).ok_or_else(unknown)?);
    Ok(Value::Int(match part.as_str() {
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
