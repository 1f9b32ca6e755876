//! The cost of a call that has run: as Kubernetes' estimator, cel-go's libraries and cel-go itself count it.

use kube_cel::cel::Value;
use kube_cel::cel::common::ast::operators;
use kube_cel::cel::objects::OptionalValue;

use super::estimate_call::{CHECK, LIST, PATTERN, TEXT, is_accessor};
use super::functions::Cost;
use super::size::scaled;

/// An argument or a result; `None` for an error.
pub(super) type Seen<'v> = Option<&'v Value>;

/// The cost of a call. The overload is known if the checker found only one.
pub(super) fn cost(name: &str, overload: Option<Cost>, args: &[Seen<'_>], result: Seen<'_>) -> u64 {
    overload
        .and_then(|overload| library(overload, args, result))
        .or_else(|| kubernetes(name, overload, args, result))
        .unwrap_or_else(|| standard(overload.unwrap_or(Cost::Other), args))
}

/// The size of a value as Kubernetes and the libraries see it: one for what has none.
fn size(value: Seen<'_>) -> u64 {
    match value {
        Some(Value::String(text)) => text.chars().count() as u64,
        Some(Value::Bytes(bytes)) => bytes.len() as u64,
        Some(Value::List(items)) => items.len() as u64,
        Some(Value::Map(map)) => map.map.len() as u64,
        Some(Value::Opaque(opaque)) => match opaque.runtime_type_name() {
            "net.IP" => address_size(value),
            "net.CIDR" => prefix_size(value),
            _ => 1,
        },
        _ => 1,
    }
}

/// The size of a value as cel-go sees it: an optional has that of its value.
fn standard_size(value: Seen<'_>) -> u64 {
    match value.and_then(|value| <&OptionalValue>::try_from(value).ok()) {
        Some(optional) => optional.value().map_or(1, |value| standard_size(Some(value))),
        None => size(value),
    }
}

/// The text of an address or a network. Their types are not public.
fn written(value: Seen<'_>) -> String {
    value.map(|value| format!("{value:?}")).unwrap_or_default()
}

/// The bytes of an address.
fn address_size(value: Seen<'_>) -> u64 {
    if written(value).contains(':') { 16 } else { 4 }
}

/// The bytes of the prefix of a network.
fn prefix_size(value: Seen<'_>) -> u64 {
    let text = written(value);
    let bits = text.rsplit('/').next().unwrap_or_default();
    let bits: String = bits.chars().take_while(char::is_ascii_digit).collect();
    bits.parse::<u64>().unwrap_or(0).div_ceil(8)
}

/// The size of the pattern with which Kubernetes reckons in a named format.
fn format_size(value: Seen<'_>) -> u64 {
    let text = written(value);
    let sizes = [
        ("Dns1123Subdomain", 60),
        ("QualifiedName", 60),
        ("Dns1", 30),
        ("LabelValue", 40),
        ("Uri", URL_PATTERN),
        ("Uuid", 70),
        ("Byte", BASE64_PATTERN),
        ("Date", 71),
    ];
    sizes.iter().find(|(name, _)| text.contains(name)).map_or(0, |(_, size)| *size)
}

/// The lengths of the patterns of URLs and base64 in Kubernetes' format library.
const URL_PATTERN: u64 = 1103;
const BASE64_PATTERN: u64 = 84;

/// The cost of a function of the list and set libraries.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "cel-go computes with the same floats"
)]
fn library(overload: Cost, args: &[Seen<'_>], result: Seen<'_>) -> Option<u64> {
    let allocating = |factor: f64, size: u64| ((size as f64 * factor) as u64).saturating_add(1 + LIST);
    let compared = |list: Seen<'_>| {
        let first = match list {
            Some(Value::List(items)) => items.first(),
            _ => None,
        };
        let is_text = matches!(first, Some(Value::String(_) | Value::Bytes(_)));
        let size = size(list);
        allocating(if is_text { 2.0 + TEXT } else { 2.0 }, size.saturating_mul(size))
    };
    Some(match (overload, args) {
        (Cost::Sets(factor), [left, right]) => {
            let product = size(*left).wrapping_mul(size(*right));
            ((product as f64 * f64::from(factor)) as u64).saturating_add(1)
        }
        (Cost::Slice | Cost::Range | Cost::Reverse, _) => allocating(1.0, size(result)),
        (Cost::Flatten, [list, depth @ ..]) => {
            let depth = match depth.first() {
                Some(Some(Value::Int(depth))) => *depth as f64,
                _ => 1.0,
            };
            allocating(if depth < 0.0 { 1.0 } else { depth }, size(*list))
        }
        (Cost::Distinct, [list]) | (Cost::Sort | Cost::SortText, [list] | [_, list]) => compared(*list),
        _ => return None,
    })
}

fn kubernetes(name: &str, overload: Option<Cost>, args: &[Seen<'_>], result: Seen<'_>) -> Option<u64> {
    if is_accessor(name) {
        return Some(1);
    }
    let text = |at: usize| args.get(at).map_or(1, |value| size(*value));
    Some(match name {
        "check" => CHECK,
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" | "includes" => {
            args.first().map_or(0, |list| traversal(*list))
        }
        "url"
        | "lowerAscii"
        | "upperAscii"
        | "substring"
        | "trim"
        | "jsonpatch.escapeKey"
        | "cidr"
        | "isIP"
        | "isCIDR"
        | "quantity"
        | "isQuantity"
        | "semver"
        | "isSemver" => scaled(text(0), TEXT),
        "replace" | "split" | "ip.isCanonical" => scaled(text(0), 2.0 * TEXT),
        "join" => scaled(size(result), 2.0 * TEXT),
        "find" | "findAll" if args.len() >= 2 => pattern(text(0), text(1)),
        "ip" if overload == Some(Cost::Field) => 1,
        "ip" => scaled(text(0), TEXT),
        "containsIP" | "containsCIDR" if args.len() >= 2 => {
            let network = text(0);
            let own = scaled(network + network, TEXT);
            let masked = if name == "containsCIDR" { scaled(network, TEXT) + 1 } else { 0 };
            let parsed = if overload == Some(Cost::Parses) { scaled(text(1), TEXT) } else { 0 };
            own + masked + parsed
        }
        "validate" if args.len() >= 2 && args[0].is_some() => pattern(text(1), format_size(args[0])),
        operators::EQUALS => match args {
            [Some(Value::Opaque(left)), _]
                if !["optional_type", "type"].contains(&left.runtime_type_name()) =>
            {
                1
            }
            _ => return None,
        },
        _ => return None,
    })
}

/// The cost of matching a text with a pattern.
fn pattern(text: u64, pattern: u64) -> u64 {
    scaled(text.saturating_add(1), TEXT).saturating_mul(scaled(pattern, PATTERN))
}

/// The cost of going over all of a value.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "Kubernetes computes with the same floats"
)]
fn traversal(value: Seen<'_>) -> u64 {
    let bytes = |length: usize| (length as f64 * TEXT) as u64;
    match value {
        Some(Value::String(text)) => bytes(text.len()),
        Some(Value::Bytes(all)) => bytes(all.len()),
        Some(Value::List(items)) => items.iter().map(|item| traversal(Some(item))).sum(),
        Some(Value::Map(map)) => {
            let entries = map.map.iter();
            entries.map(|(key, value)| traversal(Some(&Value::from(key))) + traversal(Some(value))).sum()
        }
        _ => 1,
    }
}

fn standard(overload: Cost, args: &[Seen<'_>]) -> u64 {
    let size = |at: usize| args.get(at).map_or(1, |value| standard_size(*value));
    match overload {
        Cost::Prefix => scaled(size(1), TEXT),
        Cost::StringToBytes | Cost::BytesToString | Cost::Quote | Cost::Format => scaled(size(0), TEXT),
        Cost::InList => size(1),
        Cost::CompareText | Cost::Equals => scaled(size(0).min(size(1)), TEXT),
        Cost::AddText => scaled(size(0).saturating_add(size(1)), TEXT),
        Cost::Matches => pattern(size(0), size(1)),
        Cost::Contains => scaled(size(0), TEXT).saturating_mul(scaled(size(1), TEXT)),
        _ => 1,
    }
}
