//! Custom kinds: the rules of their definition.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;
use setpoint_api::cause::{Cause, CauseType};
use setpoint_kinds::warnings;
use setpoint_store::Event;

use super::Strategy;
use crate::crd;
use crate::registry::{Candidate, Custom, Resource};
use crate::server::Server;

impl Strategy for Custom {
    fn refuses_creates(&self) -> Option<&'static str> {
        self.terminating.then_some("create not allowed while custom resource definition is terminating")
    }

    fn validate(
        &self,
        resource: &Resource,
        candidate: &Candidate<'_>,
        causes: &mut Vec<Cause>,
    ) -> Vec<Cause> {
        if candidate.old.is_some() {
            causes.extend(repeated(causes));
        }
        let (found, tolerated) = Custom::validate(self, &resource.version, candidate, causes);
        causes.extend(found);
        tolerated
    }

    fn warns_of_unchanged(&self, resource: &Resource) -> bool {
        self.has_rules(&resource.version)
    }

    fn warnings(&self, resource: &Resource, _: &str, new: &Value, old: Option<&Value>) -> Vec<String> {
        warnings::of(&resource.group_kind(), true, new, old)
    }

    fn encode(&self, resource: &Resource, subresource: &str, new: &mut Value) {
        self.to_storage(&resource.version, new);
        if subresource == "status" && new.get("status").is_some_and(Value::is_null) {
            new.as_object_mut().map(|fields| fields.remove("status"));
        }
    }

    /// The last object of a kind that is on its way out takes the definition with it.
    fn committed<'a>(&self, server: &'a Server, events: &'a [Arc<Event>]) -> BoxFuture<'a, ()> {
        crd::cleanup_after(server, events).boxed()
    }
}

/// kube-apiserver looks at the metadata of a changed custom object three times, and tells each time; at what may not
/// change, twice.
fn repeated(causes: &[Cause]) -> Vec<Cause> {
    let thrice = |cause: &Cause| {
        let fields = ["metadata.labels", "metadata.annotations", "metadata.ownerReferences"];
        fields.iter().any(|field| cause.field.starts_with(field))
    };
    let twice = |cause: &Cause| {
        cause.field == "metadata.uid"
            || cause.field == "metadata.finalizers" && cause.reason == CauseType::FieldValueForbidden
    };
    let second = causes.iter().filter(|cause| thrice(cause) || twice(cause));
    second.chain(causes.iter().filter(|cause| thrice(cause))).cloned().collect()
}
