//! Evaluates the failure policy for a pod, and the success policy.

use k8s_openapi::api::batch::v1::{
    Job, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyRule, SuccessPolicy,
};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use super::indexes::Indexes;
use super::spec;
use crate::object::field::Field;

/// The consequence of one failed pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The failure counts towards the limits.
    Count,
    /// The failure does not count.
    Ignore,
    /// The pod's index has failed.
    FailIndex,
    /// The Job has failed, and this is why.
    FailJob(String),
}

/// Judges a failed pod by the Job's failure policy: the first rule that matches decides.
pub fn judge_failure(job: &Job, pod: &Pod) -> Verdict {
    let rules = spec(job).pod_failure_policy.iter().flat_map(|policy| &policy.rules);
    for (at, rule) in rules.enumerate() {
        let Some(what) = matched(rule, pod) else { continue };
        match rule.action.as_str() {
            "Ignore" => return Verdict::Ignore,
            "Count" => return Verdict::Count,
            "FailIndex" => return Verdict::FailIndex,
            "FailJob" => return Verdict::FailJob(format!("{what} matching FailJob rule at index {at}")),
            _ => {}
        }
    }
    Verdict::Count
}

/// Returns the match of the rule, in the words of the Job's condition.
fn matched(rule: &PodFailurePolicyRule, pod: &Pod) -> Option<String> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let status = pod.status.as_ref()?;
    if let Some(codes) = &rule.on_exit_codes {
        let containers =
            status.container_statuses.iter().flatten().chain(status.init_container_statuses.iter().flatten());
        let (container, code) =
            containers.filter_map(exit_code).find(|(name, code)| asks(codes, name, *code))?;
        return Some(format!(
            "Container {container} for pod {namespace}/{name} failed with exit code {code}"
        ));
    }
    let patterns = rule.on_pod_conditions.as_ref()?;
    let found = status.conditions.iter().flatten().find(|condition| {
        patterns.iter().any(|pattern| {
            let wanted: Option<&String> = pattern.status.value();
            pattern.type_ == condition.type_ && wanted == Some(&condition.status)
        })
    })?;
    Some(format!("Pod {namespace}/{name} has condition {}", found.type_))
}

fn exit_code(container: &ContainerStatus) -> Option<(&str, i32)> {
    let ended = container.state.as_ref()?.terminated.as_ref()?;
    Some((container.name.as_str(), ended.exit_code)).filter(|(_, code)| *code != 0)
}

fn asks(codes: &PodFailurePolicyOnExitCodesRequirement, container: &str, code: i32) -> bool {
    codes.container_name.as_deref().is_none_or(|name| name == container)
        && match codes.operator.as_str() {
            "In" => codes.values.contains(&code),
            "NotIn" => !codes.values.contains(&code),
            _ => false,
        }
}

/// The rule by which these indexes are success enough, in the words of the Job's condition.
pub fn met(policy: Option<&SuccessPolicy>, completions: i32, succeeded: &Indexes) -> Option<String> {
    if succeeded.is_empty() {
        return None;
    }
    let rules = policy.iter().flat_map(|policy| &policy.rules);
    let at = rules.enumerate().find_map(|(at, rule)| {
        let enough = |count: i32| rule.succeeded_count.is_some_and(|wanted| count >= wanted);
        let is_met = match &rule.succeeded_indexes {
            None => enough(succeeded.total()),
            Some(text) => {
                let wanted = Indexes::parse(text, completions);
                let common = wanted.common(succeeded);
                !wanted.is_empty() && (common == wanted.total() || enough(common))
            }
        };
        is_met.then_some(at)
    })?;
    Some(format!("Matched rules at index {at}"))
}
