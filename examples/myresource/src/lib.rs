//! The operator of the book's chapter on reconcile loops: a MyResource becomes a Deployment of its image, and its
//! state follows that Deployment.

pub mod v1beta1;
pub mod types;

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::{CustomResourceExt, ResourceExt};
use serde_json::Value;
use setpoint::client::controller_reference;
use setpoint::manifests::{Installation, Rule};
use setpoint::webhook::ServingOptions;
use setpoint::{Action, Context, Controller, Error, Key, Manager, Query, SetupError};
use tracing::info;

pub use types::{MyResource, MyResourceSpec, MyResourceStatus, State};

/// The name under which it owns fields and holds its lease.
pub const NAME: &str = "myresource-operator";

/// Registers the controller, and the conversion webhook, which is served if the manager has an address for it.
pub fn register(manager: &Manager) -> Result<(), SetupError> {
    register_with(manager, ServingOptions::default())
}

/// The same with webhooks that are served in another way.
pub fn register_with(manager: &Manager, serving: ServingOptions) -> Result<(), SetupError> {
    v1beta1::webhooks().serving(serving).register(manager)?;
    Controller::for_kind::<MyResource>(manager).owns::<Deployment>().field_owner(NAME).register(reconcile)?;
    Ok(())
}

async fn reconcile(ctx: Context, key: Key) -> Result<Action, Error> {
    info!(object = %key, "getting myresource instance");
    let Some(resource) = ctx.client().get::<MyResource>(&key).await? else {
        // Deleted: what it owned goes by owner reference.
        info!(object = %key, "resource is not found");
        return Ok(Action::done());
    };
    if resource.metadata.deletion_timestamp.is_some() {
        info!(object = %key, "resource is being deleted");
        return Ok(Action::done());
    }
    ctx.client().apply(&deployment(&resource)?).await?;
    let status = observe(&ctx, &key, &resource).await?;
    if resource.status.as_ref() != Some(&status) {
        info!(object = %key, state = ?status.state, "updating status");
        ctx.client().apply_status(&*resource, &status).await?;
    }
    Ok(Action::done())
}

/// The one Deployment that the resource asks for and owns.
fn deployment(resource: &MyResource) -> Result<Deployment, Error> {
    let labels = BTreeMap::from([("myresource".to_owned(), resource.name_any())]);
    let requests = BTreeMap::from([("memory".to_owned(), resource.spec.memory.clone())]);
    let container = Container {
        name: "main".into(),
        image: Some(resource.spec.image.clone()),
        resources: Some(ResourceRequirements { requests: Some(requests), ..Default::default() }),
        ..Default::default()
    };
    Ok(Deployment {
        metadata: ObjectMeta {
            name: Some(format!("{}-deployment", resource.name_any())),
            namespace: resource.namespace(),
            labels: Some(labels.clone()),
            owner_references: Some(vec![controller_reference(resource)?]),
            ..Default::default()
        },
        spec: DeploymentSpec {
            selector: LabelSelector { match_labels: Some(labels.clone()), ..Default::default() },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta { labels: Some(labels), ..Default::default() }),
                spec: Some(PodSpec { containers: vec![container], ..Default::default() }),
            },
            ..Default::default()
        },
        status: None,
    })
}

/// The state, from the Deployment found by its label.
async fn observe(ctx: &Context, key: &Key, resource: &MyResource) -> Result<MyResourceStatus, Error> {
    let selector = format!("myresource={}", resource.name_any());
    let namespace = resource.namespace().unwrap_or_default();
    let found = ctx.client().list::<Deployment>(Query::namespace(namespace).labels(&selector)?).await?;
    let state = match found.as_slice() {
        [] => {
            info!(object = %key, "no deployment found");
            State::Building
        }
        [one] => {
            let ready_replicas = one.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0);
            info!(object = %key, ready_replicas, "got deployment status");
            if ready_replicas == 1 { State::Ready } else { State::Building }
        }
        many => {
            info!(object = %key, count = many.len(), "too many deployments found");
            return Err(Error::msg(format!("{} deployments found, expected 1", many.len())));
        }
    };
    Ok(MyResourceStatus { state })
}

/// The custom resource definition.
pub fn definition() -> Value {
    serde_json::to_value(MyResource::crd()).expect("a definition has a JSON form")
}

/// The same with both versions and the webhook that converts them.
pub fn manifests_with_webhooks(image: &str) -> Vec<Value> {
    let mut manifests = manifests(image);
    manifests[0] = serde_json::to_value(v1beta1::definition()).expect("a definition has a JSON form");
    v1beta1::webhooks().install(manifests)
}

/// Everything that it needs to run in a cluster, with the rights that it uses and no other.
pub fn manifests(image: &str) -> Vec<Value> {
    let installation = Installation {
        name: NAME.into(),
        namespace: "myresource-system".into(),
        image: image.into(),
        command: vec![NAME.into()],
        args: vec!["--leader-elect".into(), "--health-probe-bind-address=0.0.0.0:8081".into()],
        rules: Rule::parse(include_str!("../rights.yaml")).expect("the trial of rights reads the file"),
    };
    std::iter::once(definition()).chain(installation.manifests()).collect()
}
