//! Built-in kinds whose writes need more than their facts and rules in `setpoint-kinds`.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::{Value, json};
use setpoint_api::cause::Cause;
use setpoint_store::{Event as StoreEvent, Snapshot};

use super::Strategy;
use crate::admission::{policy, service};
use crate::auth::authz::RBAC;
use crate::auth::escalation;
use crate::configured;
use crate::context::RequestContext;
use crate::crd;
use crate::error::Result;
use crate::object;
use crate::options::Options;
use crate::registry::{Candidate, Resource, definition};
use crate::server::Server;
use crate::versions::builtin_views;
use crate::writer::Writer;

/// The strategy of a built-in kind.
pub(super) fn of(resource: &Resource) -> &'static dyn Strategy {
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "configmaps") => &ConfigMap,
        ("", "secrets") => &Secret,
        ("", "namespaces") => &Namespace,
        ("", "services") => &Service,
        ("", "events") => &CoreEvent,
        ("events.k8s.io", "events") => &Event,
        (RBAC, "roles" | "clusterroles") => &Role,
        (RBAC, "rolebindings" | "clusterrolebindings") => &RoleBinding,
        (configured::GROUP, "validatingadmissionpolicies") => &AdmissionPolicy,
        (configured::GROUP, "mutatingadmissionpolicies") => &MutatingPolicy,
        (configured::GROUP, _) => &AdmissionConfiguration,
        (definition::GROUP, definition::PLURAL) => &Definition,
        _ => &Plain,
    }
}

struct Plain;

impl Strategy for Plain {}

struct ConfigMap;

impl Strategy for ConfigMap {
    fn empty_map(&self) -> Option<&'static str> {
        Some("binaryData")
    }
}

struct Secret;

impl Strategy for Secret {
    fn empty_map(&self) -> Option<&'static str> {
        Some("data")
    }
}

struct Namespace;

impl Strategy for Namespace {
    fn begin_deletion(&self, new: &mut Value, _: Timestamp) {
        new["status"]["phase"] = json!("Terminating");
        object::metadata_mut(new).remove("deletionGracePeriodSeconds");
    }

    /// The deletion of a namespace is of that namespace and no later one of its name.
    fn review_deletion(&self, live: &Value, options: &mut Value) {
        if options["preconditions"].get("uid").is_none() {
            options["preconditions"]["uid"] = json!(object::meta_text(live, "uid"));
        }
    }

    fn is_held(&self, object: &Value) -> bool {
        object.pointer("/spec/finalizers").and_then(Value::as_array).is_some_and(|list| !list.is_empty())
    }
}

struct Service;

impl Strategy for Service {
    fn allocate(
        &self,
        writer: &Writer<'_>,
        snapshot: &Snapshot,
        new: &mut Value,
        live: Option<&Value>,
    ) -> Result<()> {
        service::allocate((writer.ctx, &writer.options, &writer.random()), snapshot, new, live)
    }
}

struct CoreEvent;

impl Strategy for CoreEvent {
    fn expires_after(&self, options: &Options) -> Option<Duration> {
        Some(options.event_ttl)
    }
}

struct Event;

impl Strategy for Event {
    /// The newer group has rules of its own for its own form.
    fn as_validated<'a>(&self, resource: &Resource, object: &'a Value) -> Cow<'a, Value> {
        Cow::Owned(builtin_views::from_stored(resource, object.clone()))
    }

    fn expires_after(&self, options: &Options) -> Option<Duration> {
        CoreEvent.expires_after(options)
    }
}

struct Role;

impl Strategy for Role {
    fn authorize(
        &self,
        ctx: &RequestContext,
        snapshot: &Snapshot,
        new: &Value,
        live: Option<&Value>,
    ) -> Result<()> {
        escalation::check_role(ctx, snapshot, new, live)
    }
}

struct RoleBinding;

impl Strategy for RoleBinding {
    fn authorize(
        &self,
        ctx: &RequestContext,
        snapshot: &Snapshot,
        new: &Value,
        live: Option<&Value>,
    ) -> Result<()> {
        escalation::check_binding(ctx, snapshot, new, live)
    }
}

/// Webhook configurations, and bindings of policies.
struct AdmissionConfiguration;

impl Strategy for AdmissionConfiguration {
    fn validate(&self, _: &Resource, candidate: &Candidate<'_>, causes: &mut Vec<Cause>) -> Vec<Cause> {
        in_place(causes, configured::validate(candidate.new, candidate.old));
        causes.extend(reserved_name(candidate));
        Vec::new()
    }

    fn committed<'a>(&self, server: &'a Server, _: &'a [Arc<StoreEvent>]) -> BoxFuture<'a, ()> {
        async { server.webhooks_changed() }.boxed()
    }
}

/// Adds the causes about the conditions of webhooks where kube-apiserver has them: before those about review versions.
fn in_place(causes: &mut Vec<Cause>, compiled: Vec<Cause>) {
    for cause in compiled {
        let hook = cause.field.split_once(']').map_or("", |(hook, _)| hook);
        let after = format!("{hook}].admissionReviewVersions");
        let place = causes.iter().position(|one| one.field.starts_with(&after)).unwrap_or(causes.len());
        causes.insert(place, cause);
    }
}

/// Only a new object can have a name that is wrong.
fn reserved_name(candidate: &Candidate<'_>) -> Option<Cause> {
    match candidate.old {
        None => configured::reserved_name(object::name(candidate.new)),
        Some(_) => None,
    }
}

struct AdmissionPolicy;

impl Strategy for AdmissionPolicy {
    fn validate(&self, _: &Resource, candidate: &Candidate<'_>, causes: &mut Vec<Cause>) -> Vec<Cause> {
        if !candidate.is_status() {
            causes.extend(policy::validate(candidate.new, candidate.old));
        }
        causes.extend(reserved_name(candidate));
        Vec::new()
    }

    fn committed<'a>(&self, server: &'a Server, events: &'a [Arc<StoreEvent>]) -> BoxFuture<'a, ()> {
        AdmissionConfiguration.committed(server, events)
    }
}

struct MutatingPolicy;

impl Strategy for MutatingPolicy {
    fn validate(&self, _: &Resource, candidate: &Candidate<'_>, causes: &mut Vec<Cause>) -> Vec<Cause> {
        causes.extend(policy::validate_mutating(candidate.new, candidate.old));
        causes.extend(reserved_name(candidate));
        Vec::new()
    }

    fn committed<'a>(&self, server: &'a Server, events: &'a [Arc<StoreEvent>]) -> BoxFuture<'a, ()> {
        AdmissionConfiguration.committed(server, events)
    }
}

struct Definition;

impl Strategy for Definition {
    fn validate(&self, _: &Resource, candidate: &Candidate<'_>, causes: &mut Vec<Cause>) -> Vec<Cause> {
        if !candidate.is_status() {
            causes.extend(crd::validate(candidate.new, candidate.old, candidate.interrupt));
        }
        Vec::new()
    }

    fn complete(&self, subresource: &str, live: Option<&Value>, new: &mut Value) {
        match live {
            None => crd::begin(new),
            Some(_) if subresource.is_empty() => crd::note_stored_version(new),
            Some(_) => {}
        }
    }

    fn begin_deletion(&self, new: &mut Value, now: Timestamp) {
        crd::begin_deletion(new, now);
    }

    fn committed<'a>(&self, server: &'a Server, events: &'a [Arc<StoreEvent>]) -> BoxFuture<'a, ()> {
        crd::accept_names_after(server, events).boxed()
    }
}
