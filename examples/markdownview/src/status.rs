//! The status of a MarkdownView, as a function of what is there.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::ResourceExt;
use setpoint::EventType;

use crate::types::{MarkdownView, MarkdownViewStatus, State};

/// What was found of the children.
pub struct Observed<'a> {
    pub config_map: bool,
    pub service: bool,
    pub deployment: Option<&'a Deployment>,
}

/// The status that these children make; times of unchanged conditions stay.
pub fn status(
    view: &MarkdownView,
    observed: &Observed<'_>,
    before: &[Condition],
    now: Timestamp,
) -> MarkdownViewStatus {
    let missing = [
        (observed.config_map, "ConfigMap"),
        (observed.service, "Service"),
        (observed.deployment.is_some(), "Deployment"),
    ];
    let missing = missing.iter().find(|(there, _)| !there).map(|(_, kind)| format!("{kind} not found"));
    let available_replicas = observed
        .deployment
        .and_then(|deployment| deployment.status.as_ref())
        .and_then(|status| status.available_replicas)
        .unwrap_or(0);
    let (degraded, available) = match &missing {
        Some(message) => (("True", "Reconciling", &**message), ("False", "Reconciling", &**message)),
        None if available_replicas == 0 => {
            (("False", "OK", ""), ("False", "Unavailable", "AvailableReplicas is 0"))
        }
        None => (("False", "OK", ""), ("True", "OK", "")),
    };
    let state = match (&missing, available_replicas) {
        (Some(_), _) | (None, 0) => State::NotReady,
        (None, replicas) if replicas >= view.spec.replicas => State::Healthy,
        _ => State::Available,
    };
    let conditions = vec![
        condition("Available", available, view.metadata.generation, before, now),
        condition("Degraded", degraded, view.metadata.generation, before, now),
    ];
    MarkdownViewStatus { state: Some(state), conditions }
}

fn condition(
    kind: &str,
    (status, reason, message): (&str, &str, &str),
    generation: Option<i64>,
    before: &[Condition],
    now: Timestamp,
) -> Condition {
    let same = before.iter().find(|old| old.type_ == kind && old.status == status);
    // Whole seconds, as they will be read back: else the next pass would see a difference.
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    Condition {
        type_: kind.into(),
        status: status.into(),
        reason: reason.into(),
        message: message.into(),
        observed_generation: generation,
        last_transition_time: same.map_or(Time(now), |old| old.last_transition_time.clone()),
    }
}

/// An event that a change of conditions is worth.
pub struct ViewEvent {
    pub kind: EventType,
    pub reason: &'static str,
    pub message: String,
}

/// Degraded becoming true is a warning; Available becoming true is good news.
pub fn events(view: &MarkdownView, before: &[Condition], after: &[Condition]) -> Vec<ViewEvent> {
    let is_true = |conditions: &[Condition], kind: &str| {
        conditions.iter().any(|condition| condition.type_ == kind && condition.status == "True")
    };
    let became = |kind: &str| !is_true(before, kind) && is_true(after, kind);
    let name = format!("MarkdownView({}:{})", view.namespace().unwrap_or_default(), view.name_any());
    let mut events = Vec::new();
    if became("Degraded") {
        events.push(ViewEvent {
            kind: EventType::Warning,
            reason: "Degraded",
            message: format!("{name} degraded"),
        });
    }
    if became("Available") {
        events.push(ViewEvent {
            kind: EventType::Normal,
            reason: "Available",
            message: format!("{name} available"),
        });
    }
    events
}
