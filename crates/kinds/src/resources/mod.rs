//! Amounts of resources, and what pods ask for of them.

mod pod;

use std::collections::BTreeMap;

use serde_json::Value;

pub use pod::{Side, has_own_resources, of_pod, of_spec};

use setpoint_api::quantity::Quantity;

/// Amounts by the name of their resource.
pub type Amounts = BTreeMap<String, Quantity>;

/// Reads a map of quantities; what is no quantity is left out, as no stored object has one.
pub fn amounts(map: &Value) -> Amounts {
    let entries = map.as_object().into_iter().flatten();
    entries.filter_map(|(name, amount)| Some((name.clone(), Quantity::from_json(amount).ok()?))).collect()
}

/// The amounts as JSON.
pub fn to_json(amounts: &Amounts) -> Value {
    amounts.iter().map(|(name, amount)| (name.clone(), Value::from(amount.to_string()))).collect()
}

/// Adds to each amount what there is more of it.
pub fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        total.entry(name.clone()).and_modify(|sum| *sum = *sum + *amount).or_insert(*amount);
    }
}

/// Raises each amount to the other, where that is more.
pub fn at_least(total: &mut Amounts, least: &Amounts) {
    for (name, amount) in least {
        total
            .entry(name.clone())
            .and_modify(|most| {
                if *amount > *most {
                    *most = *amount;
                }
            })
            .or_insert(*amount);
    }
}

/// Whether a resource belongs to Kubernetes: no prefix, or one of its own.
pub(crate) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.split('/').next().is_some_and(|prefix| prefix.ends_with("kubernetes.io"))
}

/// Whether a resource is one that somebody else than Kubernetes counts.
pub(crate) fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.")
}

/// Whether a resource is memory in pages of one size.
pub(crate) fn is_huge_pages(name: &str) -> bool {
    name.starts_with("hugepages-")
}
