//! The expected number of pods: the sum of the replicas of their controllers.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Api;
use kube::core::{DynamicObject, GroupVersionKind};
use setpoint::{Client, Error, Key};

use crate::children::claim::controller_of;
use crate::object::field::{deployment_spec, replica_set_spec};

/// The replicas that the controllers of pods ask for.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Scale {
    pub replicas: i32,
    /// Pods that nothing controls, which are not counted.
    pub unmanaged: Vec<String>,
}

/// A controller by uid, and its replicas.
type Found = (String, i32);

/// Requests the scale of each of the pods' controllers.
pub async fn of_pods(client: &Client, namespace: &str, pods: &[&Pod]) -> Result<Scale, Error> {
    let mut scale = Scale::default();
    // By the uid that pods name: a Deployment is found through any of its ReplicaSets.
    let mut asked = BTreeMap::new();
    for pod in pods {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let Some(owner) = controller_of(&pod.metadata) else {
            scale.unmanaged.push(name.to_owned());
            continue;
        };
        if asked.contains_key(&owner.uid) {
            continue;
        }
        let Some(found) = find(client, namespace, owner).await? else {
            return Err(Error::msg(format!("found no controllers for pod {name:?}")));
        };
        asked.insert(owner.uid.clone(), found);
    }
    let controllers: BTreeMap<String, i32> = asked.into_values().collect();
    scale.replicas = controllers.values().fold(0, |sum: i32, replicas| sum.saturating_add(*replicas));
    Ok(scale)
}

async fn find(client: &Client, namespace: &str, owner: &OwnerReference) -> Result<Option<Found>, Error> {
    if is_apps(owner, "ReplicaSet")
        && let Some(found) = cached(client, namespace, owner).await?
    {
        return Ok(Some(found));
    }
    live(client, namespace, owner).await
}

fn is_apps(owner: &OwnerReference, kind: &str) -> bool {
    owner.kind == kind && owner.api_version.starts_with("apps/")
}

/// A ReplicaSet, or the Deployment behind it, as the cache has them.
async fn cached(client: &Client, namespace: &str, owner: &OwnerReference) -> Result<Option<Found>, Error> {
    let set = client.get::<ReplicaSet>(Key::new(Some(namespace), &owner.name)).await?;
    let Some(set) = set.filter(|set| set.metadata.uid.as_ref() == Some(&owner.uid)) else { return Ok(None) };
    let Some(above) = controller_of(&set.metadata).filter(|above| above.kind == "Deployment") else {
        return Ok(Some((owner.uid.clone(), replica_set_spec(&set).replicas.unwrap_or(1))));
    };
    if !is_apps(above, "Deployment") {
        return Ok(None);
    }
    let deployment = client.get::<Deployment>(Key::new(Some(namespace), &above.name)).await?;
    let same = deployment.filter(|deployment| deployment.metadata.uid.as_ref() == Some(&above.uid));
    Ok(same.map(|deployment| (above.uid.clone(), deployment_spec(&deployment).replicas.unwrap_or(1))))
}

/// Any kind that has a scale, as the server knows it. StatefulSets are asked this way too: a cache of them would cost
/// every cluster, and is worth it to few.
async fn live(client: &Client, namespace: &str, owner: &OwnerReference) -> Result<Option<Found>, Error> {
    let (group, version) = owner.api_version.split_once('/').unwrap_or(("", &owner.api_version));
    let kind = GroupVersionKind::gvk(group, version, &owner.kind);
    let (resource, can) = kube::discovery::pinned_kind(client.kube(), &kind).await?;
    if !can.subresources.iter().any(|(subresource, _)| subresource.plural == "scale") {
        let dot = if group.is_empty() { "" } else { "." };
        let name = format!("{}{dot}{group}", resource.plural);
        return Err(Error::msg(format!("{name} does not implement the scale subresource")));
    }
    let api: Api<DynamicObject> = Api::namespaced_with(client.kube().clone(), namespace, &resource);
    let scale = match api.get_scale(&owner.name).await {
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
        scale => scale?,
    };
    let same = scale.metadata.uid.as_ref() == Some(&owner.uid);
    let replicas = scale.spec.and_then(|spec| spec.replicas).unwrap_or(0);
    Ok(same.then(|| (owner.uid.clone(), replicas)))
}
