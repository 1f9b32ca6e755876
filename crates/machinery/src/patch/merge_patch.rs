//! RFC 7386.

use serde_json::{Map, Value};

use super::PatchError;
use crate::strategic::without_nulls;

/// Merges `patch` into `target`: null removes, objects merge, everything else replaces.
///
/// # Errors
/// The patch is `null`.
pub fn apply_merge_patch(target: &mut Value, patch: Value) -> Result<(), PatchError> {
    match patch {
        Value::Null => Err(PatchError::BadMergePatch),
        Value::Object(patch) => {
            match target {
                Value::Object(target) => merge_objects(target, patch),
                other => *other = without_nulls(Value::Object(patch)),
            }
            Ok(())
        }
        other => {
            *target = without_nulls(other);
            Ok(())
        }
    }
}

fn merge_objects(target: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (name, change) in patch {
        if change.is_null() {
            target.remove(&name);
            continue;
        }
        match (target.get_mut(&name), change) {
            (Some(Value::Object(current)), Value::Object(change)) => merge_objects(current, change),
            // A list that replaces an object keeps its nulls; whatever replaces a leaf loses them.
            (Some(current @ Value::Object(_)), change) => *current = change,
            (Some(current), change) => *current = without_nulls(change),
            (None, change) => drop(target.insert(name, without_nulls(change))),
        }
    }
}
