//! The status of a MarkdownView, as a function of what is there.

use k8s_openapi::api::apps::v1::Deployment;
use setpoint::conditions::Conditions;

use crate::types::{MarkdownView, MarkdownViewStatus, State};

/// The children that were found.
pub struct Observed<'a> {
    pub config_map: bool,
    pub service: bool,
    pub deployment: Option<&'a Deployment>,
}

/// The status that these children make; times of unchanged conditions stay.
pub fn status(view: &MarkdownView, observed: &Observed<'_>, now: jiff::Timestamp) -> MarkdownViewStatus {
    let children = [
        (observed.config_map, "ConfigMap"),
        (observed.service, "Service"),
        (observed.deployment.is_some(), "Deployment"),
    ];
    let missing = children.iter().find(|(there, _)| !there).map(|(_, kind)| format!("{kind} not found"));
    let available =
        observed.deployment.and_then(|found| found.status.as_ref()?.available_replicas).unwrap_or(0);
    let before = view.status.as_ref().map(|status| &*status.conditions);
    let mut conditions = Conditions::of(before, view.metadata.generation, now);
    let state = match missing {
        Some(message) => {
            conditions.set_false("Available", "Reconciling", &message);
            conditions.set_true("Degraded", "Reconciling", &message);
            State::NotReady
        }
        None if available == 0 => {
            let message = "AvailableReplicas is 0";
            conditions.set_false("Available", "Unavailable", message).set_false("Degraded", "OK", "");
            State::NotReady
        }
        None => {
            conditions.set_true("Available", "OK", "").set_false("Degraded", "OK", "");
            if available >= view.spec.replicas { State::Healthy } else { State::Available }
        }
    };
    MarkdownViewStatus { state: Some(state), conditions: conditions.into_list() }
}
