//! Requirements of a pod's claims on a node, and the bindings that must precede the pod's, in kube-scheduler's words.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod, TopologySelectorTerm};
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::{Value, json};
use setpoint::{Client, ClientError, Key, Query};

use crate::object::pod::{claim_name, volumes};
use crate::object::selector::Labels;
use crate::volume::{
    BIND_COMPLETED, Place, SELECTED_NODE, annotation, claim_ref, class_of_claim, delays_binding, find,
    find_class, reaches, request_of,
};

const OUT_OF_REACH: &str = "node(s) didn't match PersistentVolume's node affinity";
const NONE_TO_BIND: &str = "node(s) didn't find available persistent volumes to bind";
const GONE: &str = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";
/// The provisioner of classes whose volumes are made by people.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// A pod's claims, and what there is to bind them to.
#[derive(Debug, Default)]
pub struct PodVolumes {
    /// The volumes of bound claims. `None` for a volume that does not exist.
    pub bound: Vec<Option<Arc<PersistentVolume>>>,
    /// The claims that are bound once the pod has a node, the smallest first.
    pub unbound: Vec<Arc<PersistentVolumeClaim>>,
    /// Candidate volumes.
    pub volumes: Vec<Arc<PersistentVolume>>,
    pub classes: Vec<Arc<StorageClass>>,
}

/// A step for a claim before its pod is bound to a node.
#[derive(Debug, PartialEq)]
pub enum Step<'a> {
    /// This volume is bound to the claim.
    Bind(&'a PersistentVolume, &'a PersistentVolumeClaim),
    /// A volume is provisioned for the claim, for this node.
    Provision(&'a PersistentVolumeClaim),
}

impl Step<'_> {
    /// Returns the merge patch of the volume or claim, or `None` if it is written already.
    pub fn patch(&self, node: &str) -> Option<Value> {
        match self {
            Step::Bind(volume, claim) => claim_ref(volume, claim),
            Step::Provision(claim) if annotation(&claim.metadata, SELECTED_NODE) == Some(node) => None,
            Step::Provision(_) => Some(json!({ "metadata": { "annotations": { SELECTED_NODE: node } } })),
        }
    }
}

/// The names of the claims that a pod uses.
pub fn claims_of(pod: &Pod) -> BTreeSet<String> {
    volumes(pod).filter_map(|volume| claim_name(pod, volume)).collect()
}

/// Reads a pod's claims and their volumes. The inner error is the reason why no node can take the pod.
pub async fn read(client: &Client, pod: &Pod) -> Result<Result<PodVolumes, String>, ClientError> {
    let namespace = pod.metadata.namespace.as_deref();
    let mut found = Vec::new();
    for name in claims_of(pod) {
        let claim = client.get::<PersistentVolumeClaim>(&Key::new(namespace, &name)).await?;
        found.extend(claim);
    }
    if let Some(why) = objection(pod, &found) {
        return Ok(Err(why));
    }
    let mut of_pod = PodVolumes::default();
    let (bound, mut unbound): (Vec<_>, Vec<_>) = found.into_iter().partition(|claim| is_bound(claim));
    for claim in &bound {
        let name = volume_name(claim);
        of_pod.bound.push(client.get::<PersistentVolume>(&Key::new(None, name)).await?);
    }
    if unbound.is_empty() {
        return Ok(Ok(of_pod));
    }
    of_pod.classes = client.list::<StorageClass>(Query::all()).await?;
    if unbound.iter().any(|claim| !volume_name(claim).is_empty() || !delays_binding(claim, &of_pod.classes)) {
        return Ok(Err("pod has unbound immediate PersistentVolumeClaims".to_owned()));
    }
    unbound.sort_by_key(|claim| request_of(claim));
    of_pod.unbound = unbound;
    of_pod.volumes = client.list::<PersistentVolume>(Query::all()).await?;
    Ok(Ok(of_pod))
}

fn volume_name(claim: &PersistentVolumeClaim) -> &str {
    claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).unwrap_or_default()
}

fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    !volume_name(claim).is_empty() && annotation(&claim.metadata, BIND_COMPLETED).is_some()
}

/// Returns the reason why no node can take a pod with these claims, in the order of its volumes.
fn objection(pod: &Pod, claims: &[Arc<PersistentVolumeClaim>]) -> Option<String> {
    volumes(pod).find_map(|volume| {
        let name = claim_name(pod, volume)?;
        let is_own = volume.ephemeral.is_some();
        let claim = claims.iter().find(|claim| claim.metadata.name.as_ref() == Some(&name));
        let Some(claim) = claim else {
            let made = format!(
                "waiting for ephemeral volume controller to create the persistentvolumeclaim {name:?}"
            );
            return Some(if is_own { made } else { format!("persistentvolumeclaim {name:?} not found") });
        };
        let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
        if phase == Some("Lost") {
            let volume = volume_name(claim);
            return Some(format!(
                "persistentvolumeclaim {name:?} bound to non-existent persistentvolume {volume:?}"
            ));
        }
        if claim.metadata.deletion_timestamp.is_some() {
            return Some(format!("persistentvolumeclaim {name:?} is being deleted"));
        }
        (is_own && !setpoint::client::is_controlled_by(&**claim, pod)).then(|| {
            let key = |namespace: &Option<String>, name: &str| {
                format!("{}/{name}", namespace.as_deref().unwrap_or_default())
            };
            let (of, pod_name) = (&pod.metadata.namespace, pod.metadata.name.as_deref().unwrap_or_default());
            format!("PVC {} was not created for pod {} (pod is not owner)", key(of, &name), key(of, pod_name))
        })
    })
}

impl PodVolumes {
    /// Returns the reasons why the node cannot take the pod.
    pub fn refusals(&self, node: &str, labels: &Labels) -> Vec<&'static str> {
        let mut reasons = Vec::new();
        let out_of_reach = |volume: &Option<Arc<PersistentVolume>>| {
            volume.as_ref().is_none_or(|volume| !reaches(volume, labels))
        };
        // The first that does not suit names the reason.
        let first = self.bound.iter().find(|volume| out_of_reach(volume));
        if first.is_some_and(Option::is_some) {
            reasons.push(OUT_OF_REACH);
        }
        if self.steps(node, labels).is_none() {
            reasons.push(NONE_TO_BIND);
        }
        if first.is_some_and(Option::is_none) {
            reasons.push(GONE);
        }
        reasons
    }

    /// Returns the steps for the unbound claims if the pod goes to this node, or `None` if the node cannot take it.
    pub fn steps(&self, node: &str, labels: &Labels) -> Option<Vec<Step<'_>>> {
        let mut taken = BTreeSet::new();
        let mut steps = Vec::new();
        for claim in &self.unbound {
            let selected = annotation(&claim.metadata, SELECTED_NODE);
            if selected.is_some_and(|selected| selected != node) {
                return None;
            }
            let all = self.volumes.iter().map(|volume| &**volume);
            let volume = find(claim, all, Place::Node(labels), &taken).filter(|_| selected.is_none());
            match volume {
                Some(volume) => {
                    taken.extend(volume.metadata.name.clone());
                    steps.push(Step::Bind(volume, claim));
                }
                None if self.can_provision(claim, labels) => steps.push(Step::Provision(claim)),
                None => return None,
            }
        }
        Some(steps)
    }

    fn can_provision(&self, claim: &PersistentVolumeClaim, labels: &Labels) -> bool {
        find_class(&self.classes, class_of_claim(claim)).is_some_and(|class| {
            let topologies = class.allowed_topologies.as_deref().unwrap_or_default();
            !class.provisioner.is_empty()
                && class.provisioner != NO_PROVISIONER
                && (topologies.is_empty() || topologies.iter().any(|term| is_within(term, labels)))
        })
    }
}

/// A term without requirements allows nothing.
fn is_within(term: &TopologySelectorTerm, labels: &Labels) -> bool {
    let wanted = term.match_label_expressions.as_deref().unwrap_or_default();
    !wanted.is_empty()
        && wanted
            .iter()
            .all(|wanted| labels.get(&wanted.key).is_some_and(|value| wanted.values.contains(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(provisioner: &str) -> Arc<StorageClass> {
        let class = json!({ "metadata": { "name": "late" }, "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": [{ "matchLabelExpressions": [{ "key": "zone", "values": ["a", "b"] }] }] });
        Arc::new(serde_json::from_value(class).unwrap())
    }

    fn claim(name: &str, annotations: Value) -> Arc<PersistentVolumeClaim> {
        let claim = json!({ "metadata": { "name": name, "namespace": "ns", "uid": name, "annotations": annotations },
            "spec": { "accessModes": ["ReadWriteOnce"], "storageClassName": "late",
                "resources": { "requests": { "storage": "1Gi" } } } });
        Arc::new(serde_json::from_value(claim).unwrap())
    }

    /// An Available volume in a zone.
    fn volume(name: &str, zone: &str) -> Arc<PersistentVolume> {
        let zone = json!([{ "key": "zone", "operator": "In", "values": [zone] }]);
        let volume = json!({ "metadata": { "name": name }, "spec": { "capacity": { "storage": "1Gi" },
            "accessModes": ["ReadWriteOnce"], "storageClassName": "late",
            "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": zone }] } } },
            "status": { "phase": "Available" } });
        Arc::new(serde_json::from_value(volume).unwrap())
    }

    fn zone(zone: &str) -> Labels {
        Labels::from([("zone".into(), zone.into())])
    }

    #[test]
    fn bound_volumes_must_be_within_reach_of_the_node() {
        let of = |bound| PodVolumes { bound, ..PodVolumes::default() };
        for (what, volumes, expected) in [
            ("no claims", of(vec![]), vec![]),
            ("in the zone", of(vec![Some(volume("v", "a"))]), vec![]),
            ("in another", of(vec![Some(volume("v", "b"))]), vec![OUT_OF_REACH]),
            ("gone", of(vec![None]), vec![GONE]),
            ("the first names the reason", of(vec![None, Some(volume("v", "b"))]), vec![GONE]),
        ] {
            assert_eq!(volumes.refusals("n", &zone("a")), expected, "{what}");
        }
    }

    #[test]
    fn unbound_claims_take_what_is_there_and_else_have_it_made() {
        let (first, second) = (claim("c1", json!({})), claim("c2", json!({})));
        let of = |volumes: Vec<_>, provisioner: &str| PodVolumes {
            unbound: vec![first.clone(), second.clone()],
            volumes,
            classes: vec![class(provisioner)],
            ..PodVolumes::default()
        };
        let one = of(vec![volume("v1", "a"), volume("v2", "b")], "example.com/p");
        let steps = one.steps("n", &zone("a")).unwrap();
        assert_eq!(steps, [Step::Bind(&one.volumes[0], &first), Step::Provision(&second)]);
        assert_eq!(one.steps("n", &zone("c")), None, "the class is not for that zone");
        let none = of(vec![volume("v1", "a")], NO_PROVISIONER);
        assert_eq!(none.refusals("n", &zone("a")), [NONE_TO_BIND]);
        let two = of(vec![volume("v1", "a"), volume("v2", "a")], NO_PROVISIONER);
        assert_eq!(two.steps("n", &zone("a")).unwrap().len(), 2);
        assert!(two.refusals("n", &zone("a")).is_empty());
    }

    #[test]
    fn a_claim_stays_with_the_node_that_was_selected_for_it() {
        let selected = claim("c", json!({ SELECTED_NODE: "n" }));
        let volumes = PodVolumes {
            unbound: vec![selected.clone()],
            volumes: vec![volume("v", "a")],
            classes: vec![class("example.com/p")],
            ..PodVolumes::default()
        };
        let steps = volumes.steps("n", &zone("a")).unwrap();
        assert_eq!(steps, [Step::Provision(&selected)], "a volume is being made, whatever came meanwhile");
        assert_eq!(steps[0].patch("n"), None);
        assert_eq!(volumes.refusals("m", &zone("a")), [NONE_TO_BIND]);
        let fresh = claim("c", json!({}));
        let wanted = json!({ "metadata": { "annotations": { SELECTED_NODE: "n" } } });
        assert_eq!(Step::Provision(&fresh).patch("n"), Some(wanted));
    }

    #[test]
    fn a_claim_that_no_node_could_use_holds_the_pod_back() {
        let pod = |volume: Value| -> Pod {
            serde_json::from_value(json!({ "metadata": { "name": "p", "namespace": "ns", "uid": "p" },
                "spec": { "containers": [], "volumes": [volume] } }))
            .unwrap()
        };
        let (named, own) = (
            pod(json!({ "name": "d", "persistentVolumeClaim": { "claimName": "c" } })),
            pod(json!({ "name": "d", "ephemeral": {} })),
        );
        let with = |change: Value| {
            let mut value = json!(*claim("c", json!({})));
            value.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            vec![Arc::new(serde_json::from_value::<PersistentVolumeClaim>(value).unwrap())]
        };
        let lost = with(json!({ "spec": { "volumeName": "v" }, "status": { "phase": "Lost" } }));
        let leaving =
            with(json!({ "metadata": { "name": "c", "deletionTimestamp": "2026-01-01T00:00:00Z" } }));
        for (pod, claims, expected) in [
            (&named, vec![], Some("persistentvolumeclaim \"c\" not found")),
            (&named, lost, Some("persistentvolumeclaim \"c\" bound to non-existent persistentvolume \"v\"")),
            (&named, leaving, Some("persistentvolumeclaim \"c\" is being deleted")),
            (&named, vec![claim("c", json!({}))], None),
            (
                &own,
                vec![],
                Some("waiting for ephemeral volume controller to create the persistentvolumeclaim \"p-d\""),
            ),
            (
                &own,
                vec![claim("p-d", json!({}))],
                Some("PVC ns/p-d was not created for pod ns/p (pod is not owner)"),
            ),
        ] {
            assert_eq!(objection(pod, &claims).as_deref(), expected);
        }
    }
}
