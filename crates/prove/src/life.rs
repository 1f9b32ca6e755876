//! The life of objects: what people do to them, step by step.

use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The field manager of the people who write the steps.
pub const AUTHOR: &str = "you";
const NAMESPACE: &str = "default";

/// One step of a life. The next one follows when the step is at rest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Step {
    /// Applies an object, as `kubectl apply --server-side --force-conflicts` does.
    Apply(Value),
    /// Merges a change into an object of an earlier step, with this name.
    Patch {
        /// The name of the object.
        name: String,
        /// The JSON merge patch.
        patch: Value,
    },
    /// Deletes an object of an earlier step, with this name.
    Delete {
        /// The name of the object.
        name: String,
    },
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Step::Apply(object) => {
                let (kind, name) = (&object["kind"], &object["metadata"]["name"]);
                write!(f, "apply {} {}", text(kind), text(name))
            }
            Step::Patch { name, patch } => write!(f, "patch {name} {patch}"),
            Step::Delete { name } => write!(f, "delete {name}"),
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Why a life cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum LifeError {
    /// A step names no object of an earlier step.
    #[error("step {step}: no earlier step applies an object {name:?}")]
    Unknown {
        /// The number of the step, from 1.
        step: usize,
        /// The name.
        name: String,
    },
    /// The object has no kind.
    #[error("step {step}: {message}")]
    Incomplete {
        /// The number of the step, from 1.
        step: usize,
        /// The cause.
        message: String,
    },
    /// The server refused the step.
    #[error("step {step}: {source}")]
    Refused {
        /// The number of the step, from 1.
        step: usize,
        /// The server's answer.
        source: Box<kube::Error>,
    },
}

/// A step with everything that a run needs, so that runs discover no kinds.
#[derive(Clone, Debug)]
pub struct Action {
    step: Step,
    number: usize,
    resource: ApiResource,
    namespace: Option<String>,
}

impl Action {
    /// Returns the resource with its group.
    pub fn resource(&self) -> String {
        crate::resource::resource(&self.resource.group, &self.resource.plural)
    }

    /// Returns the name of the object.
    pub fn name(&self) -> &str {
        match &self.step {
            Step::Apply(object) => text(&object["metadata"]["name"]),
            Step::Patch { name, .. } | Step::Delete { name } => name,
        }
    }

    /// Returns the namespace of the object. `None` for cluster-wide objects.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Returns whether the step applies its object.
    pub fn applies(&self) -> bool {
        matches!(self.step, Step::Apply(_))
    }

    /// Returns the same step for an object in another namespace.
    pub fn in_namespace(&self, namespace: &str) -> Action {
        let mut other = self.clone();
        other.namespace = Some(namespace.to_owned());
        if let Step::Apply(object) = &mut other.step {
            object["metadata"]["namespace"] = namespace.into();
        }
        other
    }

    /// Returns whether the step deletes its object.
    pub fn deletes(&self) -> bool {
        matches!(self.step, Step::Delete { .. })
    }

    /// Returns whether both steps are about the same object.
    pub fn is_about_same(&self, other: &Action) -> bool {
        let target =
            |action: &Action| (action.resource(), action.namespace.clone(), action.name().to_owned());
        target(self) == target(other)
    }

    /// Returns whether both steps apply the same.
    pub fn applies_same(&self, other: &Action) -> bool {
        matches!(self.step, Step::Apply(_)) && self.step == other.step
    }

    /// Does the step.
    pub async fn perform(&self, client: kube::Client) -> Result<(), LifeError> {
        let api: Api<DynamicObject> = match &self.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &self.resource),
            None => Api::all_with(client, &self.resource),
        };
        let done = match &self.step {
            Step::Apply(object) => {
                let parameters = PatchParams::apply(AUTHOR).force();
                api.patch(self.name(), &parameters, &Patch::Apply(object)).await.map(drop)
            }
            Step::Patch { name, patch } => {
                let parameters = PatchParams { field_manager: Some(AUTHOR.into()), ..PatchParams::default() };
                api.patch(name, &parameters, &Patch::Merge(patch)).await.map(drop)
            }
            Step::Delete { name } => api.delete(name, &DeleteParams::default()).await.map(drop),
        };
        done.map_err(|source| LifeError::Refused { step: self.number, source: Box::new(source) })
    }
}

/// Returns the objects that the server would accept.
pub async fn accepted(objects: Vec<Value>, client: &kube::Client) -> Vec<Value> {
    let mut accepted = Vec::new();
    for object in objects {
        let step = [Step::Apply(object.clone())];
        let Ok(actions) = resolve(&step, client).await else { continue };
        let (action, mut parameters) = (&actions[0], PatchParams::apply(AUTHOR).force());
        parameters.dry_run = true;
        let api: Api<DynamicObject> = match &action.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &action.resource),
            None => Api::all_with(client.clone(), &action.resource),
        };
        if api.patch(action.name(), &parameters, &Patch::Apply(&object)).await.is_ok() {
            accepted.push(object);
        }
    }
    accepted
}

/// Resolves the kinds of all steps.
pub async fn resolve(steps: &[Step], client: &kube::Client) -> Result<Vec<Action>, LifeError> {
    let mut actions: Vec<Action> = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        let number = index + 1;
        let action = match step {
            Step::Apply(object) => {
                let (resource, namespace) = discover(object, number, client).await?;
                Action { step: step.clone(), number, resource, namespace }
            }
            Step::Patch { name, .. } | Step::Delete { name } => {
                let earlier = actions.iter().rev().find(|action| action.name() == name);
                let unknown = || LifeError::Unknown { step: number, name: name.clone() };
                let Action { resource, namespace, .. } = earlier.ok_or_else(unknown)?.clone();
                Action { step: step.clone(), number, resource, namespace }
            }
        };
        actions.push(action);
    }
    Ok(actions)
}

async fn discover(
    object: &Value,
    step: usize,
    client: &kube::Client,
) -> Result<(ApiResource, Option<String>), LifeError> {
    let incomplete = |message: String| LifeError::Incomplete { step, message };
    let read: DynamicObject =
        serde_json::from_value(object.clone()).map_err(|error| incomplete(error.to_string()))?;
    let types = read.types.as_ref().ok_or_else(|| incomplete("apiVersion or kind is missing".into()))?;
    let kind = GroupVersionKind::try_from(types).map_err(|error| incomplete(error.to_string()))?;
    let found = pinned_kind(client, &kind).await;
    let (resource, capabilities) = found.map_err(|source| match source {
        kube::Error::Discovery(_) => incomplete(format!(
            "the server knows no kind {} of {}: is its definition among the manifests?",
            types.kind, types.api_version,
        )),
        source => LifeError::Refused { step, source: Box::new(source) },
    })?;
    let namespace = read.metadata.namespace.unwrap_or_else(|| NAMESPACE.to_owned());
    Ok((resource, (capabilities.scope == Scope::Namespaced).then_some(namespace)))
}
