//! Moving from kubectl's client-side apply to server-side apply: what the annotation says kubectl applied, and the
//! live object still has, is no conflict; and the annotation is kept up to date.

use serde_json::{Map, Value};

use super::compare::compare;
use super::to_set::to_set;
use super::types::Type;
use super::updater::Conflict;
use super::{WriteContext, typed};
use crate::fieldset::FieldSet;
use setpoint_api::go_format::escape_json;

/// The only manager this is done for.
pub(super) const KUBECTL: &str = "kubectl";

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// All annotations together may be this big.
const MAX_ANNOTATIONS_BYTES: usize = 256 * 1024;

fn annotation(object: &Value) -> Option<&str> {
    let text = object.get("metadata")?.get("annotations")?.get(ANNOTATION)?.as_str()?;
    (!text.is_empty()).then_some(text)
}

/// The conflicts that the annotation does not waive. If one stays, those that it waives are left out.
pub(super) fn remaining_conflicts(
    live: &Value,
    conflicts: Vec<Conflict>,
    context: &WriteContext<'_>,
) -> Vec<Conflict> {
    let Some(waived) = waived(live, context) else { return conflicts };
    conflicts.into_iter().filter(|conflict| !waived.has(&conflict.path)).collect()
}

fn waived(live: &Value, context: &WriteContext<'_>) -> Option<FieldSet> {
    let last: Value = serde_json::from_str(annotation(live)?).ok()?;
    if last.get("apiVersion")?.as_str()? != context.kind.api_version() {
        return None;
    }
    let ty = Type::root(context.schema);
    typed::check(live, ty, false).ok()?;
    typed::check(&last, ty, false).ok()?;
    let changed = compare(&last, live, ty);
    let set = to_set(&last, ty);
    Some(set.difference(&changed.modified).difference(&changed.added).difference(&changed.removed))
}

/// Writes the configuration into the annotation where the object has one; says whether that changed it.
pub(super) fn renew(object: &mut Value, config: &Value) -> bool {
    if annotation(object).is_none() {
        return false;
    }
    let mut config = config.clone();
    if let Some(Value::Object(annotations)) =
        config.get_mut("metadata").and_then(|it| it.get_mut("annotations"))
    {
        annotations.remove(ANNOTATION);
    }
    let text = escape_json(&config.to_string()).into_owned() + "\n";
    let Some(Value::Object(annotations)) =
        object.get_mut("metadata").and_then(|it| it.get_mut("annotations"))
    else {
        return false;
    };
    let before = annotations.insert(ANNOTATION.into(), Value::String(text.clone()));
    if annotations_bytes(annotations) > MAX_ANNOTATIONS_BYTES {
        annotations.remove(ANNOTATION);
        return true;
    }
    before.as_ref().and_then(Value::as_str) != Some(&text)
}

fn annotations_bytes(annotations: &Map<String, Value>) -> usize {
    annotations.iter().map(|(name, value)| name.len() + value.as_str().map_or(0, str::len)).sum()
}
