//! The MarkdownView operator: markdown files in a custom resource become a ConfigMap, a Deployment of viewers and a
//! Service before them.

mod children;
mod metrics;
mod status;
mod webhooks;
pub mod types;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::{CustomResourceExt, ResourceExt};
use serde_json::Value;
use setpoint::conditions::is_true;
use setpoint::manifests::{Installation, Rule};
use setpoint::webhook::ServingOptions;
use setpoint::{Action, Context, Controller, Error, Key, Manager, Reconciler, SetupError};

pub use metrics::Metrics;
pub use types::{MarkdownView, MarkdownViewSpec, MarkdownViewStatus, State};
pub use webhooks::webhooks;

/// The name under which it owns fields.
pub const NAME: &str = "markdown-view-controller";

/// Registers the controller, its metrics, and the webhooks, which are served if the manager has an address for them.
pub fn register(manager: &Manager) -> Result<(), SetupError> {
    register_with(manager, ServingOptions::default())
}

/// The same with webhooks that are served in another way.
pub fn register_with(manager: &Manager, serving: ServingOptions) -> Result<(), SetupError> {
    webhooks().serving(serving).register(manager)?;
    let metrics = Metrics::default();
    metrics.register(manager);
    Controller::for_kind::<MarkdownView>(manager)
        .owns::<ConfigMap>()
        .owns::<Deployment>()
        .owns::<Service>()
        .field_owner(NAME)
        .register(Views(metrics))?;
    Ok(())
}

struct Views(Metrics);

impl Reconciler for Views {
    async fn reconcile(&self, ctx: &Context, key: Key) -> Result<Action, Error> {
        let Some(view) = ctx.client().get::<MarkdownView>(&key).await? else {
            tracing::info!(object = %key, "the view is not found; removing its metrics");
            self.0.remove(&key);
            return Ok(Action::done());
        };
        if view.metadata.deletion_timestamp.is_some() {
            // The garbage collector deletes its children by their owner references.
            tracing::info!(object = %key, "the view is being deleted");
            return Ok(Action::done());
        }
        let children = children::reconcile(ctx, &key, &view).await;
        // A child that could not be written is no reason to leave the status as it was.
        self.update_status(ctx, &key, &view).await?;
        children.map(|()| Action::done())
    }
}

impl Views {
    async fn update_status(&self, ctx: &Context, key: &Key, view: &MarkdownView) -> Result<(), Error> {
        let client = ctx.client();
        let namespace = view.namespace().unwrap_or_default();
        let (viewer, files) = (children::viewer_name(view), children::config_map_name(view));
        let deployment = client.get::<Deployment>((&*namespace, &*viewer)).await?;
        let observed = status::Observed {
            config_map: client.get::<ConfigMap>((&*namespace, &*files)).await?.is_some(),
            service: client.get::<Service>((&*namespace, &*viewer)).await?.is_some(),
            deployment: deployment.as_deref(),
        };
        let before = view.status.clone().unwrap_or_default();
        let after = status::status(view, &observed, ctx.now());
        if let Some(state) = after.state {
            self.0.set(key, state);
        }
        if after == before {
            return Ok(());
        }
        tracing::info!(object = %key, state = after.state.map(tracing::field::debug), "updating status");
        client.apply_status(view, &after).await?;
        let name = format!("MarkdownView({namespace}:{})", view.name_any());
        let became = |kind| !is_true(&before.conditions, kind) && is_true(&after.conditions, kind);
        if became("Degraded") {
            ctx.recorder().warning(view, "Degraded", format!("{name} degraded"));
        }
        if became("Available") {
            ctx.recorder().normal(view, "Available", format!("{name} available"));
        }
        Ok(())
    }
}

/// The custom resource definition.
pub fn definition() -> Value {
    serde_json::to_value(MarkdownView::crd()).expect("a definition has a JSON form")
}

/// The same with the webhooks.
pub fn manifests_with_webhooks(image: &str) -> Vec<Value> {
    webhooks().install(manifests(image))
}

/// Everything that it needs to run in a cluster, with the rights that it uses and no other.
pub fn manifests(image: &str) -> Vec<Value> {
    let installation = Installation {
        name: NAME.into(),
        namespace: "markdown-view-system".into(),
        image: image.into(),
        command: vec!["markdownview-operator".into()],
        args: vec!["--leader-elect".into(), "--health-probe-bind-address=0.0.0.0:8081".into()],
        rules: Rule::parse(include_str!("../rights.yaml")).expect("the trial of rights reads the file"),
    };
    std::iter::once(definition()).chain(installation.manifests()).collect()
}
