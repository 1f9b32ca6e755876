//! Containers, their probes, ports and environment.

use serde_json::{Map, Value};

use super::Lit::{Int, Text};
use super::{Lit, Rule, text};

pub(super) const RESOURCES: &[Rule] = &[Rule::Resources("limits"), Rule::Resources("requests")];

const HTTP_GET: &[Rule] = &[Rule::Zero("path", Text("/")), Rule::Zero("scheme", Text("HTTP"))];

const GRPC: &[Rule] = &[Rule::Absent("service", Text(""))];

const PROBE: &[Rule] = &[
    Rule::Zero("timeoutSeconds", Int(1)),
    Rule::Zero("periodSeconds", Int(10)),
    Rule::Zero("successThreshold", Int(1)),
    Rule::Zero("failureThreshold", Int(3)),
    Rule::Pointer("httpGet", HTTP_GET),
    Rule::Pointer("grpc", GRPC),
];

const HANDLER: &[Rule] = &[Rule::Pointer("httpGet", HTTP_GET)];

const LIFECYCLE: &[Rule] = &[Rule::Pointer("postStart", HANDLER), Rule::Pointer("preStop", HANDLER)];

const PORT: &[Rule] = &[Rule::Zero("protocol", Text("TCP"))];

pub(super) const FIELD_REF: &[Rule] = &[Rule::Zero("apiVersion", Text("v1"))];

pub(super) const RESOURCE_FIELD_REF: &[Rule] = &[Rule::Absent("divisor", Text("0")), Rule::Amount("divisor")];

const VALUE_FROM: &[Rule] = &[
    Rule::Pointer("fieldRef", FIELD_REF),
    Rule::Pointer("resourceFieldRef", RESOURCE_FIELD_REF),
    Rule::Pointer("fileKeyRef", &[Rule::Absent("optional", Lit::Bool(false))]),
];

const ENV: &[Rule] = &[Rule::Pointer("valueFrom", VALUE_FROM)];

pub(super) const CONTAINER: &[Rule] = &[
    Rule::Call(image_pull_policy),
    Rule::Zero("terminationMessagePath", Text("/dev/termination-log")),
    Rule::Zero("terminationMessagePolicy", Text("File")),
    Rule::List("ports", PORT),
    Rule::List("env", ENV),
    Rule::Struct("resources", RESOURCES),
    Rule::Pointer("livenessProbe", PROBE),
    Rule::Pointer("readinessProbe", PROBE),
    Rule::Pointer("startupProbe", PROBE),
    Rule::Pointer("lifecycle", LIFECYCLE),
];

fn image_pull_policy(container: &mut Map<String, Value>) {
    if text(container, "imagePullPolicy").is_empty() {
        let policy = pull_policy(text(container, "image"));
        container.insert("imagePullPolicy".to_owned(), policy.into());
    }
}

/// Returns the default pull policy: a moving tag each time, anything else once.
pub(super) fn pull_policy(image: &str) -> &'static str {
    if tag(image) == "latest" { "Always" } else { "IfNotPresent" }
}

/// The tag of an image reference; `latest` where there is neither tag nor digest.
fn tag(image: &str) -> &str {
    if !is_reference(image) {
        return "";
    }
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    let last = name.rsplit('/').next().unwrap_or(name);
    match (last.split_once(':'), digest) {
        (Some((_, tag)), _) => tag,
        (None, Some(_)) => "",
        (None, None) => "latest",
    }
}

/// Whether the text is an image reference at all: an unreadable one has no tag.
fn is_reference(image: &str) -> bool {
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    if digest.is_some_and(|digest| !is_digest(digest)) {
        return false;
    }
    let (path, tag) = match name.rsplit_once(':') {
        Some((path, tag)) if !tag.contains('/') => (path, Some(tag)),
        _ => (name, None),
    };
    let tag_char = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    if tag.is_some_and(|tag| {
        tag.is_empty() || tag.len() > 128 || tag.starts_with(['.', '-']) || !tag.bytes().all(tag_char)
    }) {
        return false;
    }
    let mut parts = path.split('/').peekable();
    let first = parts.peek().copied().unwrap_or_default();
    let domain = path.contains('/')
        && (first.contains(['.', ':'])
            || first == "localhost"
            || first.bytes().any(|b| b.is_ascii_uppercase()));
    if domain {
        let edge = |c: char| c.is_ascii_alphanumeric();
        let host = first.split(':').next().unwrap_or_default();
        if !host.split('.').all(|label| label.starts_with(edge) && label.ends_with(edge)) {
            return false;
        }
        parts.next();
    }
    parts.all(is_path_component)
}

fn is_path_component(part: &str) -> bool {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    part.starts_with(edge)
        && part.ends_with(edge)
        && part.chars().all(|c| edge(c) || matches!(c, '.' | '_' | '-'))
        && !part.contains("..")
        && !part.contains("___")
}

fn is_digest(digest: &str) -> bool {
    digest.split_once(':').is_some_and(|(algorithm, hex)| {
        !algorithm.is_empty() && hex.len() >= 32 && hex.bytes().all(|b| b.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_moving_tag_is_pulled_each_time() {
        for (image, policy) in [
            ("nginx", "Always"),
            ("nginx:latest", "Always"),
            ("nginx:1.27", "IfNotPresent"),
            ("localhost:5000/nginx", "Always"),
            ("localhost:5000/nginx:1", "IfNotPresent"),
            (
                "a.io/b@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
                "IfNotPresent",
            ),
            ("", "IfNotPresent"),
            ("UPPER", "IfNotPresent"),
        ] {
            assert_eq!(pull_policy(image), policy, "{image}");
        }
    }
}
