//! The controller of a StaticSite: it keeps a ConfigMap with the message of each one.

mod types;
// setpoint new: modules

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::crd::merge_crds;
use kube::{CustomResourceExt, ResourceExt};
use serde_json::Value;
use setpoint::client::{controller_reference, is_controlled_by};
use setpoint::conditions::{Conditions, is_true};
use setpoint::finalizer::Lifecycle;
use setpoint::manifests::Rule;
use setpoint::{Action, ClientError, Context, Controller, Error, Key, Manager, NotFoundExt, SetupError};

pub use types::{StaticSite, StaticSiteSpec, StaticSiteStatus};

/// Keeps a deleted StaticSite until `clean_up` is done.
pub const FINALIZER: &str = "group.example/static-site";

/// The condition that says whether the ConfigMap is as the spec wants it.
pub const READY: &str = "Ready";

/// The version that the API server stores.
const STORED: &str = "v1";

/// Registers the controller.
///
/// # Errors
/// If the manager has stopped, or has this controller already.
pub fn register(manager: &Manager) -> Result<(), SetupError> {
    Controller::for_kind::<StaticSite>(manager)
        .owns::<ConfigMap>()
        .field_owner(crate::NAME)
        .register(reconcile)?;
    Ok(())
}

/// Runs after each change of a StaticSite or of its ConfigMap. It always compares the whole state.
async fn reconcile(ctx: Context, key: Key) -> Result<Action, Error> {
    let lifecycle =
        ctx.client().lifecycle::<StaticSite>(&key, FINALIZER, async |object| clean_up(&ctx, &object).await);
    let Lifecycle::Alive(object) = lifecycle.await? else { return Ok(Action::done()) };
    let published = publish(&ctx, &object).await;
    // The status says so if the ConfigMap could not be written.
    update_status(&ctx, &object, published.as_ref().err()).await?;
    published?;
    Ok(Action::done())
}

/// Creates the ConfigMap or corrects it. Nothing is sent if the cache shows that nothing would change.
async fn publish(ctx: &Context, object: &StaticSite) -> Result<(), ClientError> {
    ctx.client().apply(&config_map(object)?).await?;
    Ok(())
}

fn config_map(object: &StaticSite) -> Result<ConfigMap, ClientError> {
    Ok(ConfigMap {
        metadata: ObjectMeta {
            name: Some(config_map_name(object)),
            namespace: object.namespace(),
            owner_references: Some(vec![controller_reference(object)?]),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("message".to_owned(), object.spec.message.clone())])),
        ..ConfigMap::default()
    })
}

/// The name of the ConfigMap of a StaticSite.
pub fn config_map_name(object: &StaticSite) -> String {
    format!("{}-static-site", object.name_any())
}

async fn update_status(
    ctx: &Context,
    object: &StaticSite,
    failure: Option<&ClientError>,
) -> Result<(), ClientError> {
    let status = status(object, failure.map(ToString::to_string), ctx.now());
    if object.status.as_ref() == Some(&status) {
        return Ok(());
    }
    ctx.client().apply_status(object, &status).await?;
    let was_ready = object.status.as_ref().is_some_and(|status| is_true(&status.conditions, READY));
    if !was_ready && failure.is_none() {
        ctx.recorder().normal(object, "Published", "the ConfigMap has the message");
    }
    Ok(())
}

/// The status as a function of what happened. The time of a condition changes only with its status.
fn status(object: &StaticSite, failure: Option<String>, now: Timestamp) -> StaticSiteStatus {
    let present = object.status.as_ref().map(|status| &*status.conditions);
    let mut conditions = Conditions::of(present, object.metadata.generation, now);
    match failure {
        None => conditions.set_true(READY, "Published", ""),
        Some(failure) => conditions.set_false(READY, "NotPublished", &failure),
    };
    StaticSiteStatus { observed_generation: object.metadata.generation, conditions: conditions.into_list() }
}

/// Runs before a deleted StaticSite disappears, perhaps more than once. What the operator made outside the cluster is
/// removed here. Owner references would remove the ConfigMap too, but only after the StaticSite is gone: a new one of
/// the same name could meet it.
async fn clean_up(ctx: &Context, object: &StaticSite) -> Result<(), Error> {
    let client = ctx.client();
    let key = Key::new(object.metadata.namespace.as_deref(), &config_map_name(object));
    let found = client.get::<ConfigMap>(&key).await?;
    if let Some(config_map) = found.filter(|found| is_controlled_by(&**found, object)) {
        client.delete_object(&*config_map).await.ignore_not_found()?;
    }
    Ok(())
}

/// The custom resource definition.
pub fn definition() -> Value {
    let versions = vec![
        StaticSite::crd(),
        // setpoint new: versions
    ];
    let definition = merge_crds(versions, STORED).expect("all versions have one group, kind and scope");
    serde_json::to_value(definition).expect("a definition has a JSON form")
}

/// The rights that the controller uses.
pub fn rules() -> Vec<Rule> {
    let group = "group.example";
    vec![
        Rule::new(group, &["staticsites"], &["list", "watch", "patch"]),
        Rule::new(group, &["staticsites/status"], &["patch"]),
        Rule::new(group, &["staticsites/finalizers"], &["update"]),
        Rule::new("", &["configmaps"], &["list", "watch", "create", "patch", "delete"]),
    ]
}
