//! An apply that changes nothing is not stored, and is warned all the same.

use serde_json::Value;

use super::change::Write;
use super::validate;

/// The warnings about the stored object.
pub(crate) fn warnings(write: &Write<'_>, live: &Value) -> Vec<String> {
    let (ctx, resource) = (write.ctx(), write.resource());
    let mut warnings = Vec::new();
    if resource.custom.as_ref().is_some_and(|custom| custom.has_rules(&resource.version)) {
        warnings = validate::update(ctx, &[], live, live).unwrap_or_default();
    }
    if ctx.info.subresource.is_empty() {
        warnings.extend(setpoint_kinds::warnings::of(
            &resource.group_kind(),
            resource.custom.is_some(),
            live,
            Some(live),
        ));
    }
    warnings
}
