//! The answer of an admission webhook.

use crate::error::Refusal;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// A valid answer.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Answer {
    pub(crate) allowed: bool,
    /// The reason of a refusal, as a Status.
    pub(crate) status: Value,
    /// Operations of a JSON patch.
    pub(crate) patch: Option<Value>,
    pub(crate) warnings: Vec<String>,
}

/// Reads the answer to the review with this uid in this version.
///
/// # Errors
/// The answer is invalid. The text is kube-apiserver's.
pub(crate) fn read(review: &Value, version: &str, uid: &str, mutating: bool) -> Result<Answer, String> {
    let text = |value: &Value, field: &str| value.get(field).and_then(Value::as_str).unwrap_or("").to_owned();
    let (kind, api_version) = (text(review, "kind"), text(review, "apiVersion"));
    let expected = format!("admission.k8s.io/{version}");
    if (!kind.is_empty() && kind != "AdmissionReview") || (!api_version.is_empty() && api_version != expected)
    {
        return Err(format!(
            "failed to call webhook: no kind \"{kind}\" is registered for version \"{api_version}\" in scheme \
             \"pkg/runtime/scheme.go:111\""
        ));
    }
    let invalid = |why: String| format!("received invalid webhook response: {why}");
    let Some(response) = review.get("response").filter(|response| response.is_object()) else {
        return Err(invalid("webhook response was absent".to_owned()));
    };
    if version == "v1" {
        let answered = text(response, "uid");
        if answered != uid {
            return Err(invalid(format!("expected response.uid=\"{uid}\", got \"{answered}\"")));
        }
        if kind.is_empty() || api_version.is_empty() {
            let shown = if api_version.is_empty() { "/".to_owned() } else { api_version };
            return Err(invalid(format!(
                "expected webhook response of {expected}, Kind=AdmissionReview, got {shown}, Kind={kind}"
            )));
        }
    }
    let patch = patch_bytes(response)?;
    if version == "v1" {
        check_patch(response, !patch.is_empty(), mutating).map_err(invalid)?;
    }
    let patch = if mutating && !patch.is_empty() { Some(decode(&patch, response)?) } else { None };
    let warnings = response.get("warnings").and_then(Value::as_array).into_iter().flatten();
    Ok(Answer {
        allowed: response.get("allowed").and_then(Value::as_bool).unwrap_or(false),
        status: response.get("status").cloned().unwrap_or_default(),
        patch,
        warnings: warnings.filter_map(Value::as_str).map(str::to_owned).collect(),
    })
}

/// Refuses a patch without a patch type, a type without a patch, and a patch of a validating webhook.
fn check_patch(response: &Value, has_patch: bool, mutating: bool) -> Result<(), String> {
    let patch_type = response.get("patchType").and_then(Value::as_str);
    let why = match (mutating, has_patch, patch_type) {
        (false, true, _) => "validating webhook may not return response.patch",
        (false, false, Some(_)) => "validating webhook may not return response.patchType",
        (true, true, None) => "webhook returned response.patch but not response.patchType",
        (true, false, Some(_)) => "webhook returned response.patchType but not response.patch",
        (true, true, Some("")) => "webhook returned invalid response.patchType of \"\"",
        _ => return Ok(()),
    };
    Err(why.to_owned())
}

/// The bytes of the patch. Go reads them from base64 and from an array of numbers, which is what Rust's serde writes.
fn patch_bytes(response: &Value) -> Result<Vec<u8>, String> {
    let wrong = |what: &str, kind: &str| {
        format!(
            "failed to call webhook: json: cannot unmarshal {what} into Go struct field \
             AdmissionResponse.response.patch of type {kind}"
        )
    };
    match response.get("patch") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::String(text)) => STANDARD
            .decode(text)
            .map_err(|_| "failed to call webhook: illegal base64 data in response.patch".to_owned()),
        Some(Value::Array(numbers)) => numbers
            .iter()
            .map(|number| match number.as_u64().map(u8::try_from) {
                Some(Ok(byte)) => Ok(byte),
                _ if number.is_number() => Err(wrong(&format!("number {number}"), "uint8")),
                _ => Err(wrong(go_name(number), "uint8")),
            })
            .collect(),
        Some(other) => Err(wrong(go_name(other), "[]uint8")),
    }
}

/// The kind of a value as Go's decoder names it.
fn go_name(value: &Value) -> &'static str {
    match value {
        Value::Array(_) => "array",
        Value::Object(_) => "object",
        Value::String(_) => "string",
        Value::Number(_) => "number",
        Value::Bool(_) => "bool",
        Value::Null => "null",
    }
}

fn decode(bytes: &[u8], response: &Value) -> Result<Value, String> {
    let undecodable = |error: String| format!("received undecodable patch in webhook response: {error}");
    let operations: Value = serde_json::from_slice(bytes).map_err(|error| undecodable(error.to_string()))?;
    if !matches!(operations, Value::Array(_) | Value::Null) {
        let kind = go_name(&operations);
        return Err(undecodable(format!(
            "json: cannot unmarshal {kind} into Go value of type jsonpatch.Patch"
        )));
    }
    match response.get("patchType").and_then(Value::as_str) {
        None | Some("JSONPatch") => Ok(operations),
        Some(other) => Err(format!("unsupported patch type \"{other}\"")),
    }
}

/// The Status of a refusal: the webhook's own Status, made a failure that names the webhook.
pub(crate) fn refusal(webhook: &str, status: &Value) -> Refusal {
    let text = |field: &str| status.get(field).and_then(Value::as_str).unwrap_or("").to_owned();
    let denied = format!("admission webhook \"{webhook}\" denied the request");
    let (said, reason) = (text("message"), text("reason"));
    let message = match (said.as_str(), reason.as_str()) {
        ("", "") => format!("{denied} without explanation"),
        ("", why) | (why, _) => format!("{denied}: {why}"),
    };
    let code = status.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
    let details = status.get("details").filter(|details| details.is_object());
    Refusal {
        code: code.filter(|code| (400..1000).contains(code)).unwrap_or(400),
        message,
        reason,
        details: details.cloned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn judged(response: Value, mutating: bool) -> Result<Answer, String> {
        let review =
            json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response});
        read(&review, "v1", "u", mutating)
    }

    /// As kube-apiserver 1.37 puts it.
    #[test]
    fn answers_that_break_the_rules_are_named() {
        let patch = |text: &str| STANDARD.encode(text);
        for (response, mutating, expected) in [
            (
                json!({"uid": "v"}),
                true,
                "received invalid webhook response: expected response.uid=\"u\", got \"v\"",
            ),
            (
                json!({"uid": "u", "patch": patch("[]")}),
                false,
                "received invalid webhook response: validating webhook may not return response.patch",
            ),
            (
                json!({"uid": "u", "patchType": "JSONPatch"}),
                false,
                "received invalid webhook response: validating webhook may not return response.patchType",
            ),
            (
                json!({"uid": "u", "patch": patch("[]")}),
                true,
                "received invalid webhook response: webhook returned response.patch but not response.patchType",
            ),
            (
                json!({"uid": "u", "patchType": "JSONPatch"}),
                true,
                "received invalid webhook response: webhook returned response.patchType but not response.patch",
            ),
            (
                json!({"uid": "u", "patch": patch("[]"), "patchType": "Merge"}),
                true,
                "unsupported patch type \"Merge\"",
            ),
            (
                json!({"uid": "u", "patch": patch("{}"), "patchType": "JSONPatch"}),
                true,
                "received undecodable patch in webhook response: json: cannot unmarshal object into Go value of type jsonpatch.Patch",
            ),
            (Value::Null, true, "received invalid webhook response: webhook response was absent"),
        ] {
            assert_eq!(judged(response.clone(), mutating), Err(expected.to_owned()), "{response}");
        }
        let pod = json!({"kind": "Pod", "apiVersion": "admission.k8s.io/v1", "response": {"uid": "u"}});
        let expected = "failed to call webhook: no kind \"Pod\" is registered for version \"admission.k8s.io/v1\" in scheme \"pkg/runtime/scheme.go:111\"";
        assert_eq!(read(&pod, "v1", "u", true), Err(expected.to_owned()));
        let bare = json!({"apiVersion": "admission.k8s.io/v1", "response": {"uid": "u"}});
        let expected = "received invalid webhook response: expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got admission.k8s.io/v1, Kind=";
        assert_eq!(read(&bare, "v1", "u", true), Err(expected.to_owned()));
    }

    /// kube-rs writes the bytes of the patch as numbers, and Go's decoder takes both forms.
    #[test]
    fn a_patch_may_be_an_array_of_numbers() {
        let numbers = |text: &str| json!(text.as_bytes());
        let answer = |patch: Value| json!({"uid": "u", "patch": patch, "patchType": "JSONPatch"});
        let read = judged(answer(numbers("[{}]")), true).unwrap();
        assert_eq!(read.patch, Some(json!([{}])));
        let refused = "received invalid webhook response: validating webhook may not return response.patch";
        assert_eq!(judged(answer(numbers("[{}]")), false), Err(refused.to_owned()));
        let empty =
            "received invalid webhook response: webhook returned response.patchType but not response.patch";
        assert_eq!(judged(answer(json!([])), true), Err(empty.to_owned()));
        for (patch, said) in [
            (
                json!([91, 300]),
                "number 300 into Go struct field AdmissionResponse.response.patch of type uint8",
            ),
            (json!(["["]), "string into Go struct field AdmissionResponse.response.patch of type uint8"),
            (json!({}), "object into Go struct field AdmissionResponse.response.patch of type []uint8"),
        ] {
            let expected = format!("failed to call webhook: json: cannot unmarshal {said}");
            assert_eq!(judged(answer(patch), true), Err(expected));
        }
    }

    #[test]
    fn the_older_version_is_not_held_to_uid_and_patch_type() {
        let review = json!({"response": {"allowed": true, "patch": STANDARD.encode("[{}]")}});
        let answer = read(&review, "v1beta1", "u", true).unwrap();
        assert_eq!((answer.allowed, answer.patch), (true, Some(json!([{}]))));
    }

    /// As kube-apiserver 1.37 puts it.
    #[test]
    fn a_refusal_is_a_failure_that_names_the_webhook() {
        let refused = |status: Value| refusal("w", &status);
        let plain = |code, message: &str, reason: &str| Refusal {
            code,
            message: format!("admission webhook \"w\" denied the request{message}"),
            reason: reason.to_owned(),
            details: None,
        };
        assert_eq!(refused(Value::Null), plain(400, " without explanation", ""));
        assert_eq!(refused(json!({"reason": "Because"})), plain(400, ": Because", "Because"));
        assert_eq!(
            refused(json!({"message": "no way", "code": 418, "reason": "Teapot"})),
            plain(418, ": no way", "Teapot")
        );
        assert_eq!(refused(json!({"message": "x", "code": 200, "status": "Success"})), plain(400, ": x", ""));
    }
}
