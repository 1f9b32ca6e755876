//! ReplicaSets and ReplicationControllers. One controller manages both kinds, as in kube-controller-manager: it reads a
//! ReplicationController as a ReplicaSet.

use std::borrow::Cow;

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetSpec, ReplicaSetStatus};
use k8s_openapi::api::core::v1::{
    ReplicationController, ReplicationControllerCondition, ReplicationControllerSpec,
    ReplicationControllerStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference};
use setpoint::{Client, Error, Key, Kind};

use crate::children::claim::controller_reference;
use crate::children::write;
use crate::object::field::{Condition, Field, replica_set_spec};

/// A kind that keeps a number of pods of one template.
pub trait Replicated: Kind {
    /// The controller's name, which is also the source of its events.
    const CONTROLLER: &'static str;
    /// Whether the status counts the pods that are being deleted.
    const COUNTS_TERMINATING: bool;

    /// The object as a ReplicaSet.
    fn as_set(&self) -> Cow<'_, ReplicaSet>;

    /// The selector of the object's pods.
    fn selector(&self) -> Option<Cow<'_, LabelSelector>>;

    /// The reference by which the object controls its pods.
    fn reference(&self) -> OwnerReference;

    /// Writes the status.
    fn write_status(
        &self,
        client: &Client,
        key: &Key,
        status: &ReplicaSetStatus,
    ) -> impl Future<Output = Result<(), Error>> + Send;
}

impl Replicated for ReplicaSet {
    const CONTROLLER: &'static str = "replicaset-controller";
    const COUNTS_TERMINATING: bool = true;

    fn as_set(&self) -> Cow<'_, ReplicaSet> {
        Cow::Borrowed(self)
    }

    fn selector(&self) -> Option<Cow<'_, LabelSelector>> {
        Some(Cow::Borrowed(&replica_set_spec(self).selector))
    }

    fn reference(&self) -> OwnerReference {
        controller_reference("apps/v1", "ReplicaSet", &self.metadata)
    }

    async fn write_status(&self, client: &Client, key: &Key, status: &ReplicaSetStatus) -> Result<(), Error> {
        write::status(client, key, self, self.status.as_ref(), status).await
    }
}

impl Replicated for ReplicationController {
    const CONTROLLER: &'static str = "replication-controller";
    const COUNTS_TERMINATING: bool = false;

    fn as_set(&self) -> Cow<'_, ReplicaSet> {
        let spec = self.spec.clone().unwrap_or_default();
        Cow::Owned(ReplicaSet {
            metadata: self.metadata.clone(),
            spec: Field::with(set_spec(spec)),
            status: self.status.clone().map(set_status),
        })
    }

    fn selector(&self) -> Option<Cow<'_, LabelSelector>> {
        let labels = self.spec.as_ref()?.selector.clone();
        Some(Cow::Owned(LabelSelector { match_labels: labels, match_expressions: None }))
    }

    fn reference(&self) -> OwnerReference {
        controller_reference("v1", "ReplicationController", &self.metadata)
    }

    async fn write_status(&self, client: &Client, key: &Key, status: &ReplicaSetStatus) -> Result<(), Error> {
        let status = controller_status(status.clone());
        write::status(client, key, self, self.status.as_ref(), &status).await
    }
}

fn set_spec(spec: ReplicationControllerSpec) -> ReplicaSetSpec {
    ReplicaSetSpec {
        replicas: spec.replicas,
        min_ready_seconds: spec.min_ready_seconds,
        selector: LabelSelector { match_labels: spec.selector, match_expressions: None },
        template: spec.template,
    }
}

fn set_status(status: ReplicationControllerStatus) -> ReplicaSetStatus {
    let conditions = status.conditions.map(|conditions| {
        let convert = |condition: ReplicationControllerCondition| ReplicaSetCondition {
            type_: Field::with(Condition::kind(&condition).to_owned()),
            status: Field::with(Condition::value(&condition).to_owned()),
            reason: condition.reason,
            message: condition.message,
            last_transition_time: condition.last_transition_time,
        };
        conditions.into_iter().map(convert).collect()
    });
    ReplicaSetStatus {
        replicas: status.replicas,
        fully_labeled_replicas: status.fully_labeled_replicas,
        ready_replicas: status.ready_replicas,
        available_replicas: status.available_replicas,
        terminating_replicas: None,
        observed_generation: status.observed_generation,
        conditions,
    }
}

fn controller_status(status: ReplicaSetStatus) -> ReplicationControllerStatus {
    let conditions = status.conditions.map(|conditions| {
        let convert = |condition: ReplicaSetCondition| ReplicationControllerCondition {
            type_: Field::with(Condition::kind(&condition).to_owned()),
            status: Field::with(Condition::value(&condition).to_owned()),
            reason: condition.reason,
            message: condition.message,
            last_transition_time: condition.last_transition_time,
        };
        conditions.into_iter().map(convert).collect()
    });
    ReplicationControllerStatus {
        replicas: status.replicas,
        fully_labeled_replicas: status.fully_labeled_replicas,
        ready_replicas: status.ready_replicas,
        available_replicas: status.available_replicas,
        observed_generation: status.observed_generation,
        conditions,
    }
}
