//! `spec.conversion` of a definition.

use serde_json::{Value, json};

use crate::webhook::Webhook;

/// The webhook that converts between versions.
#[derive(Debug)]
pub(crate) struct Conversion {
    pub(crate) webhook: Webhook,
    pub(crate) review_versions: Vec<String>,
}

impl Conversion {
    /// None where versions differ in name only.
    pub(crate) fn read(spec: &Value) -> Option<Conversion> {
        let conversion =
            spec.get("conversion").filter(|conversion| conversion["strategy"] == json!("Webhook"))?;
        let versions = conversion["webhook"]["conversionReviewVersions"].as_array();
        let versions = versions.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
        Some(Conversion {
            webhook: Webhook::read(&conversion["webhook"]["clientConfig"]),
            review_versions: versions.collect(),
        })
    }
}
