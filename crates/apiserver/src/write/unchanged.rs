//! An apply that changes nothing is not stored, and is warned all the same.

use serde_json::Value;

use super::change::Write;
use super::{strategy, validate};

/// The warnings about the stored object.
pub(crate) fn warnings(write: &Write<'_>, live: &Value) -> Vec<String> {
    let (ctx, resource) = (write.ctx(), write.resource());
    let strategy = strategy::of(resource);
    let mut warnings = Vec::new();
    if strategy.warns_of_unchanged(resource) {
        warnings = validate::update(ctx, &[], live, live).unwrap_or_default();
    }
    if ctx.info.subresource.is_empty() {
        warnings.extend(strategy.warnings(resource, "", live, Some(live)));
    }
    warnings
}
