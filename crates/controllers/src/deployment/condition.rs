//! A Deployment's conditions.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus, ReplicaSetCondition};

use crate::object::field::{Condition, Field, deployment_spec};
use crate::object::time::whole_seconds;

pub const PROGRESSING: &str = "Progressing";
pub const AVAILABLE: &str = "Available";
pub const REPLICA_FAILURE: &str = "ReplicaFailure";

pub const REPLICA_SET_UPDATED: &str = "ReplicaSetUpdated";
pub const REPLICA_SET_CREATE_ERROR: &str = "ReplicaSetCreateError";
pub const NEW_REPLICA_SET_CREATED: &str = "NewReplicaSetCreated";
pub const FOUND_NEW_REPLICA_SET: &str = "FoundNewReplicaSet";
pub const NEW_REPLICA_SET_AVAILABLE: &str = "NewReplicaSetAvailable";
pub const PROGRESS_DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";
pub const PAUSED: &str = "DeploymentPaused";
pub const RESUMED: &str = "DeploymentResumed";

/// A condition that begins now.
pub fn new(type_: &str, status: &str, reason: &str, message: String, now: Timestamp) -> DeploymentCondition {
    let now = whole_seconds(now);
    DeploymentCondition {
        type_: Field::with(type_.to_owned()),
        status: Field::with(status.to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_update_time: Some(now.clone()),
        last_transition_time: Some(now),
    }
}

/// The condition of this type.
pub fn get<'a>(status: &'a DeploymentStatus, type_: &str) -> Option<&'a DeploymentCondition> {
    status.conditions.as_ref()?.iter().find(|condition| condition.kind() == type_)
}

/// The reason of the condition of this type, empty if there is none.
pub fn reason<'a>(status: &'a DeploymentStatus, type_: &str) -> &'a str {
    get(status, type_).and_then(|condition| condition.reason.as_deref()).unwrap_or_default()
}

/// Sets a condition. The same status and reason change nothing; the same status keeps the time of transition.
pub fn set(status: &mut DeploymentStatus, mut condition: DeploymentCondition) {
    let type_ = condition.kind().to_owned();
    if let Some(current) = get(status, &type_)
        && current.status == condition.status
    {
        if current.reason == condition.reason {
            return;
        }
        condition.last_transition_time = current.last_transition_time.clone();
    }
    remove(status, &type_);
    status.conditions.get_or_insert_default().push(condition);
}

/// Removes a condition.
pub fn remove(status: &mut DeploymentStatus, type_: &str) {
    if let Some(conditions) = &mut status.conditions {
        conditions.retain(|condition| condition.kind() != type_);
    }
}

/// Copies a condition of a ReplicaSet to its Deployment.
pub fn from_replica_set(condition: &ReplicaSetCondition) -> DeploymentCondition {
    DeploymentCondition {
        type_: condition.type_.clone(),
        status: condition.status.clone(),
        reason: condition.reason.clone(),
        message: condition.message.clone(),
        last_update_time: condition.last_transition_time.clone(),
        last_transition_time: condition.last_transition_time.clone(),
    }
}

/// Returns the progress deadline, or `None` if there is none.
pub fn progress_deadline(deployment: &Deployment) -> Option<i32> {
    let seconds = deployment_spec(deployment).progress_deadline_seconds?;
    (seconds != i32::MAX).then_some(seconds)
}
