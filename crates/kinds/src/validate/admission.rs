//! Webhook configurations.

use serde_json::Value;

use super::check::Causes;
use super::meta;
use crate::access::{at, int, items, text};
use setpoint_api::cause::{BadValue, Cause, Path};
use setpoint_api::name;

pub(super) fn webhooks(causes: &mut Causes, object: &Value) {
    let mut names: Vec<&str> = Vec::new();
    for (index, hook) in items(object, "webhooks").iter().enumerate() {
        let path = Path::new("webhooks").index(index);
        webhook(causes, hook, &path);
        review_versions(causes, hook, &path.child("admissionReviewVersions"));
        let name = text(hook, "name");
        if !name.is_empty() && names.contains(&name) {
            causes.push(Cause::duplicate(&path.child("name"), name));
        }
        names.push(name);
    }
}

fn webhook(causes: &mut Causes, hook: &Value, path: &Path) {
    fully_qualified(causes, text(hook, "name"), &path.child("name"));
    for (index, one) in items(hook, "rules").iter().enumerate() {
        rule(causes, one, &path.child("rules").index(index));
    }
    for (field, known) in
        [("failurePolicy", &["Fail", "Ignore"][..]), ("matchPolicy", &["Equivalent", "Exact"])]
    {
        if let Some(value) = at(hook, field).as_str() {
            causes.one_of(&path.child(field), value, known);
        }
    }
    let effects = path.child("sideEffects");
    match at(hook, "sideEffects").as_str() {
        None => causes.required(&effects, "must specify one of None, NoneOnDryRun"),
        Some(value) => causes.one_of(&effects, value, &["None", "NoneOnDryRun"]),
    }
    if let Some(seconds) = int(hook, "timeoutSeconds").filter(|seconds| !(1..=30).contains(seconds)) {
        let detail = "the timeout value must be between 1 and 30 seconds";
        causes.invalid(&path.child("timeoutSeconds"), seconds, detail);
    }
    for field in ["namespaceSelector", "objectSelector"] {
        causes.extend(meta::label_selector(at(hook, field), &path.child(field)));
    }
    if let Some(policy) = at(hook, "reinvocationPolicy").as_str() {
        causes.one_of(&path.child("reinvocationPolicy"), policy, &["IfNeeded", "Never"]);
    }
    client_config(causes, at(hook, "clientConfig"), &path.child("clientConfig"));
}

fn fully_qualified(causes: &mut Causes, name: &str, path: &Path) {
    if name.is_empty() {
        return causes.required(path, "");
    }
    let wrong = name::dns1123_subdomain(name);
    if !wrong.is_empty() {
        causes.invalid(path, name, &wrong.join(","));
    } else if name.split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        causes.invalid(path, name, detail);
    }
}

/// How a webhook is reached, wherever it stands.
pub(super) fn client_config(causes: &mut Causes, config: &Value, path: &Path) {
    let (url, service) = (at(config, "url"), at(config, "service"));
    match (url.as_str(), service.is_null()) {
        (Some(_), false) | (None, true) => {
            causes.required(path, "exactly one of url or service is required");
        }
        (Some(url), true) => webhook_url(causes, url, &path.child("url")),
        (None, false) => {
            let path = path.child("service");
            // The real server mixes the two up: each is reported under the other's name.
            if text(service, "namespace").is_empty() {
                causes.required(&path.child("name"), "");
            }
            if text(service, "name").is_empty() {
                causes.required(&path.child("namespace"), "");
            }
            if let Some(port) = int(service, "port").filter(|port| !name::port_number(*port).is_empty()) {
                let detail = "port is not valid: must be between 1 and 65535, inclusive";
                causes.invalid(&path.child("port"), port, detail);
            }
        }
    }
}

fn webhook_url(causes: &mut Causes, url: &str, path: &Path) {
    const FORM: &str = "; desired format: https://host[/path]";
    let Some((scheme, rest)) = url.split_once("://") else {
        let detail = format!("'https' is the only allowed URL scheme{FORM}");
        return causes.invalid(path, "", &detail);
    };
    if scheme != "https" {
        causes.invalid(path, scheme, &format!("'https' is the only allowed URL scheme{FORM}"));
    }
    let (host, tail) = rest.find(['/', '?', '#']).map_or((rest, ""), |at| rest.split_at(at));
    if host.is_empty() {
        causes.invalid(path, host, &format!("host must be specified{FORM}"));
    }
    if host.contains('@') {
        let user = host.split('@').next().unwrap_or_default();
        causes.invalid(path, user, "user information is not permitted in the URL");
    }
    if let Some((_, fragment)) = tail.split_once('#') {
        causes.invalid(path, fragment, "fragments are not permitted in the URL");
    }
    if let Some((_, query)) = tail.split('#').next().unwrap_or_default().split_once('?') {
        causes.invalid(path, query, "query parameters are not permitted in the URL");
    }
}

/// Checks a rule of a webhook or a policy.
pub(super) fn rule(causes: &mut Causes, rule: &Value, path: &Path) {
    let operations = items(rule, "operations");
    let star = |list: &[Value]| list.len() > 1 && list.iter().any(|one| one == "*");
    let shown = |field: &str| BadValue::raw(at(rule, field).to_string());
    if operations.is_empty() {
        causes.required(&path.child("operations"), "");
    }
    if star(operations) {
        let detail = "if '*' is present, must not specify other operations";
        causes.invalid(&path.child("operations"), shown("operations"), detail);
    }
    for (index, operation) in operations.iter().filter_map(Value::as_str).enumerate() {
        let known = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
        causes.one_of(&path.child("operations").index(index), operation, &known);
    }
    for (field, words) in [("apiGroups", "API groups"), ("apiVersions", "API versions")] {
        let list = items(rule, field);
        if list.is_empty() {
            causes.required(&path.child(field), "");
        }
        if star(list) {
            let detail = format!("if '*' is present, must not specify other {words}");
            causes.invalid(&path.child(field), shown(field), &detail);
        }
        for (index, _) in list.iter().enumerate().filter(|(_, one)| field == "apiVersions" && *one == "") {
            causes.required(&path.child(field).index(index), "");
        }
    }
    resources(causes, rule, &path.child("resources"));
    if let Some(scope) = at(rule, "scope").as_str() {
        causes.one_of(&path.child("scope"), scope, &["*", "Cluster", "Namespaced"]);
    }
}

fn resources(causes: &mut Causes, rule: &Value, path: &Path) {
    let all: Vec<&str> = items(rule, "resources").iter().filter_map(Value::as_str).collect();
    let shown = || BadValue::raw(at(rule, "resources").to_string());
    if all.is_empty() {
        causes.required(path, "");
    }
    for (index, one) in all.iter().enumerate() {
        if one.is_empty() {
            causes.required(&path.index(index), "");
        }
    }
    if all.len() > 1 && all.contains(&"*/*") {
        causes.invalid(path, shown(), "if '*/*' is present, must not specify other resources");
    }
    if all.contains(&"*") && all.iter().any(|one| *one != "*" && !one.contains('/')) {
        let detail = "if '*' is present, must not specify other resources without subresources";
        causes.invalid(path, shown(), detail);
    }
}

fn review_versions(causes: &mut Causes, hook: &Value, path: &Path) {
    let versions: Vec<&str> =
        items(hook, "admissionReviewVersions").iter().filter_map(Value::as_str).collect();
    if versions.is_empty() {
        return causes.required(path, "must specify one of v1, v1beta1");
    }
    for (index, version) in versions.iter().enumerate() {
        if versions[..index].contains(version) {
            causes.invalid(&path.index(index), *version, "duplicate version");
        } else {
            causes.wrong(&path.index(index), version, &name::dns1035_label(version));
        }
    }
    if !versions.iter().any(|version| matches!(*version, "v1" | "v1beta1")) {
        let shown = BadValue::raw(at(hook, "admissionReviewVersions").to_string());
        causes.invalid(path, shown, "must include at least one of v1, v1beta1");
    }
}
