//! The limits of estimated costs. One unit is about 50 ns in kube-apiserver.

use setpoint_machinery::structural::Props;

/// One rule may cost this much.
pub(super) const RULE_LIMIT: u64 = 10_000_000;
/// All rules of a schema together may cost this much.
pub(super) const SCHEMA_LIMIT: u64 = 100_000_000;

/// By how much a limit is passed, as kube-apiserver words it.
pub(super) fn exceeds(what: &str, cost: u64, limit: u64) -> String {
    #[allow(clippy::cast_precision_loss, reason = "shown with a digit or two")]
    let factor = cost as f64 / limit as f64;
    let factor = match factor {
        factor if factor > 100.0 => "more than 100x".to_owned(),
        factor if factor < 1.5 => format!("{factor:.6}x"),
        factor => format!("{factor:.1}x"),
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

/// How many values a list or map may hold, where the schema says so.
pub(super) fn bound(props: &Props) -> Option<u64> {
    let most = if props.items.is_some() { props.max_items } else { props.max_properties };
    most.map(|most| u64::try_from(most).unwrap_or(0))
}
