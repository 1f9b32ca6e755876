//! When containers restart: after they end, and when their resources change.

use serde_json::Value;

use crate::access::{at, items, text};
use crate::validate::check::Causes;
use setpoint_api::cause::{Cause, Path};

const MOST_RULES: usize = 20;
const MOST_EXIT_CODES: usize = 255;

/// The restart policy of a container, and the rules that refine it.
pub(super) fn policy(causes: &mut Causes, container: &Value, path: &Path) {
    let (policy, rules) = (at(container, "restartPolicy"), items(container, "restartPolicyRules"));
    let at_policy = path.child("restartPolicy");
    match policy.as_str() {
        None if rules.is_empty() => return,
        None => causes.required(&at_policy, "must specify restartPolicy when restart rules are used"),
        Some(policy) => causes.one_of(&at_policy, policy, &["Always", "Never", "OnFailure"]),
    }
    let path = path.child("restartPolicyRules");
    if rules.len() > MOST_RULES {
        causes.push(Cause::too_many(&path, rules.len(), MOST_RULES));
    }
    for (index, rule) in rules.iter().enumerate() {
        let path = path.index(index);
        causes.one_of(&path.child("action"), text(rule, "action"), &["Restart", "RestartAllContainers"]);
        let (path, codes) = (path.child("exitCodes"), at(rule, "exitCodes"));
        if codes.is_null() {
            causes.required(&path, "must be specified");
            continue;
        }
        causes.one_of(&path.child("operator"), text(codes, "operator"), &["In", "NotIn"]);
        let values = items(codes, "values").len();
        if values > MOST_EXIT_CODES {
            causes.push(Cause::too_many(&path.child("values"), values, MOST_EXIT_CODES));
        }
    }
}

/// Like [`policy`], for an init container. Without a policy its rules are not read.
pub(super) fn init_policy(causes: &mut Causes, container: &Value, path: &Path) {
    let no_policy = at(container, "restartPolicy").is_null();
    if no_policy && !items(container, "restartPolicyRules").is_empty() {
        let detail = "must specify restartPolicy when restart rules are used";
        causes.required(&path.child("restartPolicy"), detail);
    } else if !no_policy {
        policy(causes, container, path);
    }
}

/// Whether a container restarts when its resources change.
pub(super) fn on_resize(causes: &mut Causes, container: &Value, pod_policy: &str, path: &Path) {
    let path = path.child("resizePolicy");
    let mut seen: Vec<&str> = Vec::new();
    for (index, one) in items(container, "resizePolicy").iter().enumerate() {
        let (resource, policy) = (text(one, "resourceName"), text(one, "restartPolicy"));
        if seen.contains(&resource) {
            causes.push(Cause::duplicate(&path.index(index), resource));
        }
        seen.push(resource);
        causes.required_one_of(&path, resource, &["cpu", "memory"]);
        causes.required_one_of(&path, policy, &["NotRequired", "RestartContainer"]);
        if pod_policy == "Never" && policy != "NotRequired" {
            let detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            causes.invalid(&path, policy, detail);
        }
    }
}
