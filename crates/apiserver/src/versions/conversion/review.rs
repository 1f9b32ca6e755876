//! `ConversionReview`: the request to a conversion webhook, and the check of its answer.

use serde_json::{Map, Value, json};
use setpoint_api::cause::{Path, aggregate};
use setpoint_api::go_format::quote;
use setpoint_api::go_format::type_name;
use setpoint_kinds::validate;
use setpoint_machinery::apply::ConversionError;

use crate::object;

/// One question to the webhook, with what is needed to read the answer.
pub(super) struct Question<'q> {
    /// The version of the review that both sides know.
    review: &'static str,
    uid: String,
    desired: &'q str,
    /// The version and kind of the objects, for error texts.
    from: String,
}

impl<'q> Question<'q> {
    /// A question in the first version of the list that the server knows.
    pub(super) fn new(
        versions: &[String],
        uid: String,
        desired: &'q str,
        first: &Value,
    ) -> Result<Self, ConversionError> {
        let review = versions.iter().find_map(|version| match version.as_str() {
            "v1" => Some("v1"),
            "v1beta1" => Some("v1beta1"),
            _ => None,
        });
        let review =
            review.ok_or_else(|| ConversionError("no supported conversion review versions".to_owned()))?;
        let text = |field: &str| first.get(field).and_then(Value::as_str).unwrap_or("").to_owned();
        let from = format!("{}, Kind={}", text("apiVersion"), text("kind"));
        Ok(Question { review, uid, desired, from })
    }

    /// The body of the request.
    pub(super) fn body(&self, objects: &[&Value]) -> Value {
        json!({
            "kind": "ConversionReview",
            "apiVersion": format!("apiextensions.k8s.io/{}", self.review),
            "request": {"uid": self.uid, "desiredAPIVersion": self.desired, "objects": objects},
            "response": {"uid": "", "convertedObjects": null, "result": {"metadata": {}}},
        })
    }

    /// The error text of a conversion that failed as a whole.
    pub(super) fn failed(&self, why: &str) -> ConversionError {
        ConversionError(format!("conversion webhook for {} failed: {why}", self.from))
    }

    /// The converted objects in the order of the originals. An invalid object is replaced by its error.
    pub(super) fn read(
        &self,
        answer: Value,
        originals: &[&Value],
    ) -> Result<Vec<Result<Value, ConversionError>>, ConversionError> {
        let converted = self.converted(answer).map_err(|why| self.failed(&why.0))?;
        if converted.len() != originals.len() {
            return Err(ConversionError(format!(
                "conversion webhook for {} returned {} objects, expected {}",
                self.from,
                converted.len(),
                originals.len()
            )));
        }
        let pairs = converted.into_iter().zip(originals);
        Ok(pairs.map(|(converted, original)| self.checked(converted, original)).collect())
    }

    fn converted(&self, mut answer: Value) -> Result<Vec<Value>, ConversionError> {
        let text =
            |value: &Value, field: &str| value.get(field).and_then(Value::as_str).unwrap_or("").to_owned();
        let (version, kind) = (text(&answer, "apiVersion"), text(&answer, "kind"));
        let strict = self.review == "v1";
        if strict && (version != "apiextensions.k8s.io/v1" || kind != "ConversionReview") {
            let version = if version.is_empty() { "/".to_owned() } else { version };
            return Err(ConversionError(format!(
                "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got {version}, \
                 Kind={kind}"
            )));
        }
        let response = answer.get_mut("response").map(Value::take).filter(Value::is_object);
        let mut response = response.ok_or_else(|| ConversionError("no response provided".to_owned()))?;
        let uid = text(&response, "uid");
        if strict && uid != self.uid {
            return Err(ConversionError(format!(
                "expected response.uid={}, got {}",
                quote(&self.uid),
                quote(&uid)
            )));
        }
        let result = response.get("result").cloned().unwrap_or_default();
        let status = text(&result, "status");
        if status != "Success" {
            return Err(ConversionError(match text(&result, "message") {
                message if !message.is_empty() => message,
                _ => format!("response.result.status was '{status}', not 'Success'"),
            }));
        }
        match response["convertedObjects"].take() {
            Value::Array(objects) => Ok(objects),
            _ => Ok(Vec::new()),
        }
    }

    fn checked(&self, mut converted: Value, original: &Value) -> Result<Value, ConversionError> {
        let text =
            |value: &Value, field: &str| value.get(field).and_then(Value::as_str).unwrap_or("").to_owned();
        let wrong = |what: String| {
            ConversionError(format!("conversion webhook for {} returned invalid {what}", self.from))
        };
        let version = text(&converted, "apiVersion");
        if version != self.desired {
            return Err(wrong(format!(
                "object at index 0: invalid groupVersion (expected {}, received {version})",
                self.desired
            )));
        }
        let (expected, kind) = (text(original, "kind"), text(&converted, "kind"));
        if kind != expected {
            return Err(wrong(format!(
                "object at index 0: invalid kind (expected {expected}, received {kind})"
            )));
        }
        for (field, shown) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
            let (expected, got) = (object::meta_text(original, field), object::meta_text(&converted, field));
            if expected != got {
                return Err(wrong(format!("object: must have the same {shown}: {expected} != {got}")));
            }
        }
        restore(&mut converted, original).map_err(|why| wrong(format!("metadata: {why}")))?;
        Ok(converted)
    }
}

/// Restores metadata from the original. A webhook may change only labels and annotations.
fn restore(converted: &mut Value, original: &Value) -> Result<(), ConversionError> {
    let answered = match converted.get("metadata") {
        None => return Err(ConversionError("missing metadata in converted object".to_owned())),
        Some(Value::Object(metadata)) => metadata.clone(),
        Some(other) => {
            return Err(ConversionError(format!(
                "invalid metadata of type {} in converted object",
                type_name(other)
            )));
        }
    };
    let mut metadata = original.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    for field in ["labels", "annotations"] {
        match answered.get(field) {
            None | Some(Value::Null) => drop(metadata.remove(field)),
            Some(Value::Object(texts)) => {
                check_texts(field, texts, metadata.get(field))?;
                metadata.insert(field.to_owned(), Value::Object(texts.clone()));
            }
            Some(other) => {
                let found = type_name(other);
                return Err(ConversionError(format!(
                    "invalid metadata.{field} of type {found} in converted object"
                )));
            }
        }
    }
    converted["metadata"] = Value::Object(metadata);
    Ok(())
}

/// Checks labels or annotations. Entries that did not change are skipped: they may have been stored before a rule
/// forbade them.
fn check_texts(
    field: &str,
    texts: &Map<String, Value>,
    original: Option<&Value>,
) -> Result<(), ConversionError> {
    if let Some((key, other)) = texts.iter().find(|(_, value)| !value.is_string()) {
        return Err(ConversionError(format!(
            "metadata.{field}[{key}] must be a string, but is {} in converted object",
            type_name(other)
        )));
    }
    if original.and_then(Value::as_object).is_some_and(|own| own == texts) {
        return Ok(());
    }
    let value = Value::Object(texts.clone());
    let causes = match field {
        "labels" => validate::labels(&value, &Path::new("metadata.labels")),
        _ => validate::annotations(&value, &Path::new("metadata.annotation")),
    };
    if causes.is_empty() { Ok(()) } else { Err(ConversionError(aggregate(&causes))) }
}
