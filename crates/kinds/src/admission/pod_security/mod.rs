//! PodSecurity: pods stay within the level of their namespace.
//!
//! Labels of a namespace name a level for each of three modes: `enforce` refuses pods, `warn` warns of pods and of
//! templates of pods, and `audit` notes both in the audit log.

mod evaluate;
mod checks;
mod containers;

use std::collections::BTreeMap;

use serde_json::Value;
use setpoint_api::kind::GroupKind;
use setpoint_api::status::Status;

use super::pod_security_standards::{Exemptions, Level, Policy, Standard, read};
use super::request::{Cluster, Request};
use crate::access::{at, items, text};
use evaluate::Verdict;

/// The most pods that are checked when the level of a namespace changes.
const MOST_PODS: usize = 3000;

/// The subresources of pods that cannot change what PodSecurity judges.
const IGNORED: [&str; 8] = ["exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"];

/// Returns the path at which a kind has its template of a pod; `None` for kinds without one.
fn template(group: &str, resource: &str) -> Option<&'static str> {
    Some(match (group, resource) {
        ("", "podtemplates") => "template",
        ("", "replicationcontrollers")
        | ("apps", "replicasets" | "deployments" | "statefulsets" | "daemonsets")
        | ("batch", "jobs") => "spec.template",
        ("batch", "cronjobs") => "spec.jobTemplate.spec.template",
        _ => return None,
    })
}

/// Refuses a pod that its namespace does not allow, and warns of pods, templates and namespaces.
pub(super) fn validate(
    request: &Request<'_>,
    cluster: &dyn Cluster,
    object: &Value,
) -> Result<Vec<String>, Status> {
    match (request.group, request.resource) {
        ("", "namespaces") if request.subresource.is_empty() => validate_namespace(request, cluster, object),
        ("", "pods") if !IGNORED.contains(&request.subresource) => validate_pod(request, cluster, object),
        (group, resource) if request.subresource.is_empty() => match template(group, resource) {
            Some(path) => Ok(validate_template(request, cluster, at(object, path))),
            None => Ok(Vec::new()),
        },
        _ => Ok(Vec::new()),
    }
}

/// The labels of a namespace must be valid, and pods that are there already are reported.
fn validate_namespace(
    request: &Request<'_>,
    cluster: &dyn Cluster,
    namespace: &Value,
) -> Result<Vec<String>, Status> {
    let (name, configured) = (text(namespace, "metadata.name"), &request.configuration.pod_security);
    let (new, errors) = read(at(namespace, "metadata.labels"), configured.defaults);
    let old = request.old.map(|old| read(at(old, "metadata.labels"), configured.defaults));
    if !errors.is_empty() && old.as_ref().is_none_or(|(_, old_errors)| *old_errors != errors) {
        let kind = GroupKind::new("", request.kind);
        return Err(Status::invalid(&kind, request.name, errors));
    }
    let is_exempt = configured.exemptions.namespaces.iter().any(|exempt| exempt == name);
    let exempt = || configured.ignored(name, &new, at(namespace, "metadata.labels")).into_iter().collect();
    let Some((old, _)) = old else { return Ok(if is_exempt { exempt() } else { Vec::new() }) };
    let (before, after) = (old.enforce, new.enforce);
    let relaxed = after.version == before.version && after.level <= before.level;
    if before == after || after.level == Level::Privileged || relaxed {
        return Ok(Vec::new());
    }
    if is_exempt {
        return Ok(exempt());
    }
    let pods = cluster.list("", "pods", name);
    Ok(report(name, after, &configured.exemptions, &pods))
}

fn validate_pod(request: &Request<'_>, cluster: &dyn Cluster, pod: &Value) -> Result<Vec<String>, Status> {
    let configured = &request.configuration.pod_security;
    if configured.exemptions.covers(request.namespace, request.user, pod) {
        return Ok(Vec::new());
    }
    let Some(policy) = policy_of(request, cluster) else {
        let why = format!("failed to lookup namespace {:?}", request.namespace);
        return Err(Status::internal(&why));
    };
    if policy.is_privileged() || request.old.is_some_and(|old| !is_significant(pod, old)) {
        return Ok(Vec::new());
    }
    let verdict = evaluate::pod(policy.enforce, pod);
    if !verdict.is_empty() {
        let why = format!("violates PodSecurity \"{}\": {}", policy.enforce, evaluate::details(&verdict));
        return Err(Status::forbidden(&request.group_resource(), request.name, &why));
    }
    Ok(warning(policy.warn, pod).into_iter().collect())
}

fn validate_template(request: &Request<'_>, cluster: &dyn Cluster, template: &Value) -> Vec<String> {
    if template.is_null()
        || request.configuration.pod_security.exemptions.covers(request.namespace, request.user, template)
    {
        return Vec::new();
    }
    let policy = policy_of(request, cluster);
    policy.and_then(|policy| warning(policy.warn, template)).into_iter().collect()
}

/// The policy of the namespace of the request; `None` if there is no such namespace.
fn policy_of(request: &Request<'_>, cluster: &dyn Cluster) -> Option<Policy> {
    let namespace = cluster.get("", "namespaces", "", request.namespace)?;
    Some(read(at(&namespace, "metadata.labels"), request.configuration.pod_security.defaults).0)
}

fn warning(standard: Standard, pod: &Value) -> Option<String> {
    let verdict = evaluate::pod(standard, pod);
    (!verdict.is_empty())
        .then(|| format!("would violate PodSecurity \"{standard}\": {}", evaluate::details(&verdict)))
}

/// Whether a change of a pod concerns what PodSecurity judges: of the fields that may change, the images and the
/// ephemeral containers.
fn is_significant(pod: &Value, old: &Value) -> bool {
    for list in ["spec.containers", "spec.initContainers"] {
        let (new, old) = (items(pod, list), items(old, list));
        let differ = new.iter().zip(old).any(|(new, old)| text(new, "image") != text(old, "image"));
        if new.len() != old.len() || differ {
            return true;
        }
    }
    let before = items(old, "spec.ephemeralContainers");
    items(pod, "spec.ephemeralContainers").iter().any(|new| {
        let old = before.iter().find(|old| text(old, "name") == text(new, "name"));
        old.is_none_or(|old| text(old, "image") != text(new, "image"))
    })
}

/// The warnings about the pods of a namespace that its new level would refuse.
fn report(namespace: &str, standard: Standard, exemptions: &Exemptions, pods: &[Value]) -> Vec<String> {
    let pods = prioritized(exemptions, pods);
    let checked = pods.len().min(MOST_PODS);
    // The first name, and the number of pods, for each reason.
    let mut reasons: BTreeMap<String, (&str, usize)> = BTreeMap::new();
    for pod in &pods[..checked] {
        let verdict: Verdict = evaluate::pod(standard, pod);
        if !verdict.is_empty() {
            let name = text(pod, "metadata.name");
            let (first, count) = reasons.entry(evaluate::reasons(&verdict)).or_insert((name, 0));
            *first = name.min(first);
            *count += 1;
        }
    }
    let mut warnings = Vec::new();
    if checked < pods.len() {
        warnings.push(format!(
            "new PodSecurity enforce level only checked against the first {checked} of {} existing pods",
            pods.len()
        ));
    }
    if !reasons.is_empty() {
        warnings.push(format!(
            "existing pods in namespace \"{namespace}\" violate the new PodSecurity enforce level \"{standard}\""
        ));
    }
    let mut lines: Vec<String> = reasons
        .into_iter()
        .map(|(reason, (first, count))| match count {
            1 => format!("{first}: {reason}"),
            2 => format!("{first} (and 1 other pod): {reason}"),
            _ => format!("{first} (and {} other pods): {reason}", count - 1),
        })
        .collect();
    lines.sort_unstable();
    warnings.extend(lines);
    warnings
}

/// The pods in the order of their checks: further pods of one controller come last.
fn prioritized<'p>(exemptions: &Exemptions, pods: &'p [Value]) -> Vec<&'p Value> {
    let controller = |pod: &'p Value| {
        let owners = items(pod, "metadata.ownerReferences").iter();
        owners.clone().find(|owner| at(owner, "controller") == true).map(|owner| text(owner, "uid"))
    };
    let mut seen = std::collections::BTreeSet::new();
    let pods = pods.iter().filter(|pod| !exemptions.covers_class(pod));
    let (mut first, mut further) = (Vec::new(), Vec::new());
    for pod in pods {
        match controller(pod) {
            Some(uid) if !seen.insert(uid) => further.push(pod),
            _ => first.push(pod),
        }
    }
    first.extend(further);
    first
}

#[cfg(test)]
mod tests;
