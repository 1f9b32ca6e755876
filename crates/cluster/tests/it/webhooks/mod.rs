//! Webhooks of an operator before the API server of this process: as functions, and over TLS.

mod in_process;
mod rotation;
mod server;
mod tls;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::crd::merge_crds;
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, CustomResource};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use setpoint::manifests::{Installation, Rule};
use setpoint::webhook::{Allowed, Conversion, Denied, FieldErrors, Review, Webhooks};
use setpoint_cluster::Cluster;

pub const NAMESPACE: &str = "default";
pub const SERVICE: &str = "cafe-webhooks";
const ACCOUNT: &str = "cafe";

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.org", version = "v1", kind = "Cafe", namespaced)]
pub struct CafeSpec {
    pub tables: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

pub mod v1beta1 {
    use super::*;

    #[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
    #[kube(group = "example.org", version = "v1beta1", kind = "Cafe", namespaced)]
    pub struct CafeSpec {
        pub table_count: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub owner: Option<String>,
    }
}

fn up(old: v1beta1::Cafe) -> Result<Cafe, String> {
    let spec = CafeSpec { tables: old.spec.table_count, owner: old.spec.owner };
    Ok(Cafe { metadata: old.metadata, spec })
}

fn down(new: Cafe) -> Result<v1beta1::Cafe, String> {
    let spec = v1beta1::CafeSpec { table_count: new.spec.tables, owner: new.spec.owner };
    Ok(v1beta1::Cafe { metadata: new.metadata, spec })
}

fn default_owner(review: &Review<Cafe>, cafe: &mut Cafe) -> Result<Allowed, Denied> {
    cafe.spec.owner.get_or_insert_with(|| review.user.username.clone());
    Ok(Allowed::yes())
}

fn has_tables(review: &Review<Cafe>) -> Result<Allowed, Denied> {
    let mut errors = FieldErrors::default();
    let tables = review.new.as_ref().map_or(1, |cafe| cafe.spec.tables);
    if tables == 0 {
        errors.invalid("spec.tables", tables, "guests stand");
    }
    let allowed = review.verdict(errors)?;
    Ok(if tables > 99 { allowed.warn("that is a canteen") } else { allowed })
}

/// Every kind of webhook, for one definition.
pub fn webhooks() -> Webhooks {
    Webhooks::new(NAMESPACE, SERVICE)
        .mutate::<Cafe, _>(default_owner)
        .validate::<Cafe, _>(has_tables)
        .convert(Conversion::<Cafe>::of_hub().spoke(up, down))
}

/// The definition of both versions, the older one stored.
pub fn definition() -> CustomResourceDefinition {
    merge_crds(vec![Cafe::crd(), v1beta1::Cafe::crd()], "v1beta1").unwrap()
}

/// Applies an object of any kind.
pub async fn apply(client: &Client, object: &Value) {
    let object: DynamicObject = serde_json::from_value(object.clone()).unwrap();
    let kind = GroupVersionKind::try_from(object.types.as_ref().unwrap()).unwrap();
    let resource = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = match &object.metadata.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let name = object.metadata.name.clone().unwrap();
    api.patch(&name, &PatchParams::apply("test").force(), &Patch::Apply(&object)).await.unwrap();
}

/// Installs the definition and all that the operator's manifests have, with rights that are derived.
pub async fn install(client: &Client, webhooks: &Webhooks) {
    let mut definition = serde_json::to_value(definition()).unwrap();
    definition["apiVersion"] = "apiextensions.k8s.io/v1".into();
    definition["kind"] = "CustomResourceDefinition".into();
    let installation = Installation {
        name: ACCOUNT.into(),
        namespace: NAMESPACE.into(),
        image: "cafe".into(),
        command: vec!["cafe".into()],
        args: Vec::new(),
        rules: vec![Rule::new("example.org", &["cafes"], &["list", "watch"])],
    };
    let manifests = std::iter::once(definition).chain(installation.manifests()).collect();
    for object in webhooks.install(manifests).iter().filter(|object| object["kind"] != "Deployment") {
        apply(client, object).await;
    }
}

/// The operator's service account, which has the rights of the manifests and no other.
pub fn account(cluster: &Cluster) -> Client {
    let user = format!("system:serviceaccount:{NAMESPACE}:{ACCOUNT}");
    cluster.client_as(&user, &["system:serviceaccounts", "system:authenticated"])
}

pub fn cafe(name: &str, tables: u32) -> Cafe {
    Cafe::new(name, CafeSpec { tables, owner: None })
}
