//! FlowSchemas and PriorityLevelConfigurations.

use serde_json::Value;

use super::check::Causes;
use crate::access::{at, int, items, text, truth};
use crate::go_struct;
use setpoint_api::cause::{BadValue, Cause, Path};
use setpoint_api::name;

const VERBS: [&str; 9] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];
const LAST_PRECEDENCE: i64 = 10_000;
const MOST_QUEUES: i64 = 10_000_000;
/// Number of bits of the hash from which a flow's hand of queues is dealt.
const HASH_BITS: i64 = 60;
const ZERO_SHARES: &str = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares";

pub(super) fn flow_schema(causes: &mut Causes, object: &Value) {
    let (path, spec) = (Path::new("spec"), at(object, "spec"));
    let own_name = text(object, "metadata.name");
    let precedence = int(spec, "matchingPrecedence").unwrap_or_default();
    let at_precedence = path.child("matchingPrecedence");
    if precedence <= 0 {
        causes.invalid(&at_precedence, precedence, "must be a positive value");
    }
    if precedence > LAST_PRECEDENCE {
        let detail = format!("must not be greater than {LAST_PRECEDENCE}");
        causes.invalid(&at_precedence, precedence, &detail);
    }
    if precedence == 1 && own_name != "exempt" {
        let detail = "only the schema named 'exempt' may have matchingPrecedence 1";
        causes.invalid(&at_precedence, precedence, detail);
    }
    let method = at(spec, "distinguisherMethod");
    if !method.is_null() && !["ByNamespace", "ByUser"].contains(&text(method, "type")) {
        let shown = BadValue::raw(go_struct::line("flowcontrol.FlowDistinguisherMethod", method));
        let path = path.child("distinguisherMethod.type");
        causes.push(Cause::not_supported(&path, shown, &["ByNamespace", "ByUser"]));
    }
    let level = text(spec, "priorityLevelConfiguration.name");
    let at_level = path.child("priorityLevelConfiguration.name");
    if level.is_empty() {
        causes.required(&at_level, "must reference a priority level");
    } else {
        causes.wrong(&at_level, level, &name::dns1123_subdomain(level));
    }
    for (index, rule) in items(spec, "rules").iter().enumerate() {
        self::rule(causes, rule, &path.child("rules").index(index));
    }
    if let Some(fixed) = mandatory_schema(own_name)
        && *spec != fixed
    {
        let shown = BadValue::raw(go_struct::line("flowcontrol.FlowSchemaSpec", spec));
        causes.invalid(&path, shown, &format!("spec of '{own_name}' must equal the fixed value"));
    }
    conditions(causes, object);
}

/// The spec that the server gives the two schemas without which it does not run.
fn mandatory_schema(name: &str) -> Option<Value> {
    let subject = |group: &str| serde_json::json!({ "kind": "Group", "group": { "name": group } });
    let (precedence, subjects, method) = match name {
        "exempt" => (1, vec![subject("system:masters")], None),
        "catch-all" => (
            LAST_PRECEDENCE,
            vec![subject("system:unauthenticated"), subject("system:authenticated")],
            Some("ByUser"),
        ),
        _ => return None,
    };
    let mut spec = serde_json::json!({
        "priorityLevelConfiguration": { "name": name },
        "matchingPrecedence": precedence,
        "rules": [{
            "subjects": subjects,
            "resourceRules": [{ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true,
                "namespaces": ["*"] }],
            "nonResourceRules": [{ "verbs": ["*"], "nonResourceURLs": ["*"] }],
        }],
    });
    if let Some(method) = method {
        spec["distinguisherMethod"] = serde_json::json!({ "type": method });
    }
    Some(spec)
}

fn rule(causes: &mut Causes, rule: &Value, path: &Path) {
    if items(rule, "subjects").is_empty() {
        causes.required(&path.child("subjects"), "subjects must contain at least one value");
    }
    for (index, subject) in items(rule, "subjects").iter().enumerate() {
        self::subject(causes, subject, &path.child("subjects").index(index));
    }
    let (resources, others) = (items(rule, "resourceRules"), items(rule, "nonResourceRules"));
    if resources.is_empty() && others.is_empty() {
        let detail = "at least one of resourceRules and nonResourceRules has to be non-empty";
        causes.required(path, detail);
    }
    for (index, rule) in resources.iter().enumerate() {
        resource_rule(causes, rule, &path.child("resourceRules").index(index));
    }
    for (index, rule) in others.iter().enumerate() {
        non_resource_rule(causes, rule, &path.child("nonResourceRules").index(index));
    }
}

fn subject(causes: &mut Causes, subject: &Value, path: &Path) {
    let kinds = [("ServiceAccount", "serviceAccount"), ("User", "user"), ("Group", "group")];
    let Some((kind, field)) = kinds.iter().find(|(kind, _)| *kind == text(subject, "kind")) else {
        return causes.one_of(
            &path.child("kind"),
            text(subject, "kind"),
            &["Group", "ServiceAccount", "User"],
        );
    };
    let (own, at_own) = (at(subject, field), path.child(field));
    if own.is_null() {
        causes.required(&at_own, &format!("{field} is required when subject kind is '{kind}'"));
    } else if *kind == "ServiceAccount" {
        service_account(causes, own, &at_own);
    } else if text(own, "name").is_empty() {
        causes.required(&at_own.child("name"), "");
    }
    // The real server's order of the two others.
    let others = [("serviceAccount", "ServiceAccount"), ("user", "User"), ("group", "Group")];
    for (other, kind) in others.iter().filter(|(other, _)| other != field) {
        if !at(subject, other).is_null() {
            let detail = format!("{other} is forbidden when subject kind is not '{kind}'");
            causes.forbidden(&path.child(other), &detail);
        }
    }
}

fn service_account(causes: &mut Causes, account: &Value, path: &Path) {
    let (name, namespace) = (text(account, "name"), text(account, "namespace"));
    if name.is_empty() {
        causes.required(&path.child("name"), "");
    } else if name != "*" {
        causes.wrong(&path.child("name"), name, &name::dns1123_subdomain(name));
    }
    if namespace.is_empty() {
        causes.required(&path.child("namespace"), "must specify namespace for service account");
    } else {
        causes.wrong(&path.child("namespace"), namespace, &name::dns1123_label(namespace));
    }
}

/// A list that is either `*` alone or without it. Returns whether it has the star.
fn star_alone(causes: &mut Causes, list: &[Value], path: &Path, others: &str) -> bool {
    let has = list.iter().any(|one| one == "*");
    if has && list.len() > 1 {
        let shown = BadValue::raw(Value::from(list).to_string());
        causes.invalid(path, shown, &format!("if '*' is present, must not specify other {others}"));
    }
    has
}

fn verbs(causes: &mut Causes, rule: &Value, path: &Path) {
    let (path, verbs) = (path.child("verbs"), items(rule, "verbs"));
    if verbs.is_empty() {
        return causes.required(&path, "verbs must contain at least one value");
    }
    let known = |verb: &Value| verb.as_str().is_some_and(|verb| VERBS.contains(&verb));
    if !star_alone(causes, verbs, &path, "verbs") && !verbs.iter().all(known) {
        let shown = BadValue::raw(Value::from(verbs).to_string());
        causes.push(Cause::not_supported(&path, shown, &VERBS));
    }
}

fn resource_rule(causes: &mut Causes, rule: &Value, path: &Path) {
    verbs(causes, rule, path);
    for (field, one, others) in
        [("apiGroups", "api group", "api groups"), ("resources", "resource", "resources")]
    {
        let (path, list) = (path.child(field), items(rule, field));
        if list.is_empty() {
            causes.required(&path, &format!("resource rules must supply at least one {one}"));
        }
        star_alone(causes, list, &path, others);
    }
    let (path, namespaces) = (path.child("namespaces"), items(rule, "namespaces"));
    if namespaces.is_empty() && !truth(rule, "clusterScope") {
        let detail = "resource rules that are not cluster scoped must supply at least one namespace";
        return causes.required(&path, detail);
    }
    if star_alone(causes, namespaces, &path, "namespaces") {
        return;
    }
    for (index, namespace) in namespaces.iter().filter_map(Value::as_str).enumerate() {
        for wrong in name::dns1123_label(namespace) {
            let detail = format!("each member of this list must be '*' or a DNS-1123 label; {wrong}");
            causes.invalid(&path.index(index), namespace, &detail);
        }
    }
}

fn non_resource_rule(causes: &mut Causes, rule: &Value, path: &Path) {
    verbs(causes, rule, path);
    let (path, urls) = (path.child("nonResourceURLs"), items(rule, "nonResourceURLs"));
    if urls.is_empty() {
        return causes.required(&path, "nonResourceURLs must contain at least one value");
    }
    if star_alone(causes, urls, &path, "non-resource URLs") {
        return;
    }
    for (index, url) in urls.iter().filter_map(Value::as_str).enumerate() {
        if let Some(wrong) = wrong_url(url) {
            causes.invalid(&path.index(index), url, wrong);
        }
    }
}

fn wrong_url(url: &str) -> Option<&'static str> {
    let stars = url.matches('*').count();
    match url {
        "" => Some("must not be empty"),
        "/" => None,
        url if !url.starts_with('/') => Some("must start with slash"),
        url if url.contains(' ') => Some("must not contain white-space"),
        url if url.contains("//") => Some("must not contain double slash"),
        url if stars > 1 || (stars == 1 && !url.ends_with("/*")) => {
            Some("wildcard can only do suffix matching")
        }
        _ => None,
    }
}

/// The conditions in the status of either kind.
pub(super) fn conditions(causes: &mut Causes, object: &Value) {
    let all = items(object, "status.conditions");
    for (index, condition) in all.iter().enumerate() {
        let path = Path::new("status.conditions").index(index).child("type");
        let kind = text(condition, "type");
        if all[..index].iter().any(|earlier| text(earlier, "type") == kind) {
            causes.push(Cause::duplicate(&path, kind));
        }
        if kind.is_empty() {
            causes.required(&path, "");
        }
    }
}

pub(super) fn priority_level(causes: &mut Causes, object: &Value) {
    let (path, spec) = (Path::new("spec"), at(object, "spec"));
    if at(object, "metadata.annotations").get(ZERO_SHARES).is_some() {
        let detail = format!("annotation '{ZERO_SHARES}' is forbidden");
        causes.forbidden(&Path::new("metadata.annotations"), &detail);
    }
    let (own_name, kind) = (text(object, "metadata.name"), text(spec, "type"));
    let at_kind = path.child("type");
    if (own_name == "exempt") != (kind == "Exempt") {
        let detail = "must be 'Exempt' if and only if `name` is 'exempt'";
        causes.invalid(&at_kind, kind, detail);
    }
    let (exempt, limited) = (at(spec, "exempt"), at(spec, "limited"));
    match kind {
        "Exempt" if !exempt.is_null() => shares(causes, exempt, &path.child("exempt")),
        "Limited" if !limited.is_null() => self::limited(causes, limited, &path.child("limited")),
        "Exempt" | "Limited" | "" => {}
        other => causes.one_of(&at_kind, other, &["Exempt", "Limited"]),
    }
    mandatory_level(causes, own_name, spec, &path);
    conditions(causes, object);
    declared(causes, spec, &path);
}

/// The two levels without which the server does not run have a fixed spec.
fn mandatory_level(causes: &mut Causes, own_name: &str, spec: &Value, path: &Path) {
    let (wrong, detail) = match own_name {
        "exempt" => (
            text(spec, "type") != "Exempt" || !at(spec, "limited").is_null(),
            "spec of 'exempt' except the 'spec.exempt' field must equal the fixed value",
        ),
        "catch-all" => {
            let fixed = serde_json::json!({ "type": "Limited", "limited": { "nominalConcurrencyShares": 5,
                "lendablePercent": 0, "limitResponse": { "type": "Reject" } } });
            (*spec != fixed, "spec of 'catch-all' must equal the fixed value")
        }
        _ => return,
    };
    if wrong {
        let shown = BadValue::raw(go_struct::line("flowcontrol.PriorityLevelConfigurationSpec", spec));
        causes.invalid(path, shown, detail);
    }
}

/// The unions, which declarative validation checks after everything else.
fn declared(causes: &mut Causes, spec: &Value, path: &Path) {
    if text(spec, "type").is_empty() {
        causes.required(&path.child("type"), "");
    }
    let member =
        |causes: &mut Causes, holder: &Value, field: &str, wanted: bool, required: bool, path: &Path| {
            match at(holder, field).is_null() {
                false if !wanted => causes.forbidden(&path.child(field), ""),
                true if wanted && required => causes.required(&path.child(field), ""),
                _ => {}
            }
        };
    let kind = text(spec, "type");
    if kind.is_empty() {
        return;
    }
    member(causes, spec, "exempt", kind == "Exempt", false, path);
    member(causes, spec, "limited", kind == "Limited", true, path);
    let response = at(spec, "limited.limitResponse");
    if at(spec, "limited").is_null() {
        return;
    }
    let path = path.child("limited.limitResponse");
    match text(response, "type") {
        "" => causes.required(&path.child("type"), ""),
        kind => member(causes, response, "queuing", kind == "Queue", true, &path),
    }
}

fn shares(causes: &mut Causes, level: &Value, path: &Path) {
    if let Some(shares) = int(level, "nominalConcurrencyShares").filter(|shares| *shares < 0) {
        let path = path.child("nominalConcurrencyShares");
        causes.invalid(&path, shares, "must be a non-negative integer");
    }
    lendable(causes, level, path);
}

fn lendable(causes: &mut Causes, level: &Value, path: &Path) {
    if let Some(percent) = int(level, "lendablePercent").filter(|percent| !(0..=100).contains(percent)) {
        let detail = "must be between 0 and 100, inclusive";
        causes.invalid(&path.child("lendablePercent"), percent, detail);
    }
}

fn limited(causes: &mut Causes, level: &Value, path: &Path) {
    if let Some(shares) = int(level, "nominalConcurrencyShares").filter(|shares| *shares < 0) {
        let path = path.child("nominalConcurrencyShares");
        causes.invalid(&path, shares, "must be a non-negative integer");
    }
    let (at_response, response) = (path.child("limitResponse"), at(level, "limitResponse"));
    match text(response, "type") {
        "Queue" if !at(response, "queuing").is_null() => {
            queuing(causes, at(response, "queuing"), &at_response.child("queuing"));
        }
        "Queue" | "Reject" | "" => {}
        other => causes.one_of(&at_response.child("type"), other, &["Queue", "Reject"]),
    }
    lendable(causes, level, path);
    if let Some(percent) = int(level, "borrowingLimitPercent").filter(|percent| *percent < 0) {
        let detail = "if specified, must be a non-negative integer";
        causes.invalid(&path.child("borrowingLimitPercent"), percent, detail);
    }
}

fn queuing(causes: &mut Causes, queuing: &Value, path: &Path) {
    let number = |field: &str| int(queuing, field).unwrap_or_default();
    let (length, queues, hand) = (number("queueLengthLimit"), number("queues"), number("handSize"));
    if length <= 0 {
        causes.invalid(&path.child("queueLengthLimit"), length, "must be positive");
    }
    if queues <= 0 {
        causes.invalid(&path.child("queues"), queues, "must be positive");
    } else if queues > MOST_QUEUES {
        let detail = format!("must not be greater than {MOST_QUEUES}");
        causes.invalid(&path.child("queues"), queues, &detail);
    }
    let at_hand = path.child("handSize");
    if hand <= 0 {
        causes.invalid(&at_hand, hand, "must be positive");
    } else if hand > queues {
        causes.invalid(&at_hand, hand, &format!("should not be greater than queues ({queues})"));
    } else if ((queues as f64).log2() * hand as f64).ceil() as i64 > HASH_BITS {
        let detail = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {HASH_BITS}"
        );
        causes.invalid(&at_hand, hand, &detail);
    }
}
