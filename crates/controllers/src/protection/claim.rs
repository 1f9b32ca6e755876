//! PersistentVolumeClaims: one that a pod on a node uses stays.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Volume};
use setpoint::informer::Store;
use setpoint::predicate::Change;
use setpoint::{
    Action, Client, ClientError, Context, Controller, Error, Key, Kind, Manager, Object, Query, Reconciler,
    SetupError, Watch,
};

use super::{Protected, Stage, stage, unsettled};
use crate::object::pod::{claim_name, node_name, volumes};

const FINALIZER: &str = "kubernetes.io/pvc-protection";

/// Registers the controllers: one for the finalizer, one for the condition that says whether the claim is used.
pub(crate) fn register(manager: &Manager) -> Result<(), SetupError> {
    let claims = Protected { resource: PersistentVolumeClaim::api_resource(), finalizer: FINALIZER };
    let known = manager.informer::<PersistentVolumeClaim>();
    Controller::for_kind::<PersistentVolumeClaim>(manager)
        .with_predicate(unsettled(FINALIZER))
        .watches(Watch::of::<Pod>().map_changes(move |change| of_pod(change, known.store())))
        .named("persistentvolumeclaim-protection-controller")
        .field_owner(crate::FIELD_OWNER)
        .register(Claims(claims))?;
    super::unused::register(manager)
}

struct Claims(Protected);

impl Reconciler for Claims {
    async fn reconcile(&self, ctx: &Context, key: Key) -> Result<Action, Error> {
        let client = ctx.client();
        self.0.reconcile(client, &key, |claim| is_used(client, claim)).await
    }
}

async fn is_used(client: &Client, claim: Object) -> Result<bool, ClientError> {
    let near = || Query::namespace(claim.namespace().unwrap_or_default());
    if client.list::<Pod>(near()).await?.iter().any(|pod| uses(pod, &claim)) {
        return Ok(true);
    }
    // The cache may not show yet that a pod was bound, and the removal of the finalizer cannot be undone.
    Ok(client.live().list::<Pod>(near()).await?.iter().any(|pod| uses(pod, &claim)))
}

/// Whether the pod keeps the claim. One without a node does not: no node starts a pod whose claim is being deleted. One
/// that has ended does, until it is gone.
fn uses(pod: &Pod, claim: &Object) -> bool {
    let named = |volume: &Volume| claim_name(pod, volume).is_some_and(|name| name == claim.name());
    // The claim of an ephemeral volume is the pod's own: a pod of which only its finalizers are left must not keep it,
    // as they may wait for the claim. Another claim of that name has nothing to do with the pod.
    let kept = |volume: &Volume| volume.ephemeral.is_none() || (!is_shut_down(pod) && owns(pod, claim));
    !node_name(pod).is_empty() && volumes(pod).any(|volume| named(volume) && kept(volume))
}

/// Whether the pod's node has stopped it, or is not to be waited for.
fn is_shut_down(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some() && pod.metadata.deletion_grace_period_seconds == Some(0)
}

fn owns(pod: &Pod, claim: &Object) -> bool {
    claim.controller_owner().is_some_and(|owner| pod.metadata.uid.as_ref() == Some(&owner.uid))
}

/// The claims that may have waited for a pod which goes, is gone or was replaced by another of its name.
fn of_pod(change: &Change<'_>, claims: &Store) -> Vec<Key> {
    let replaced = change.update().is_some_and(|(old, new)| old.uid() != new.uid());
    let gone = change.old.filter(|_| replaced || change.new.is_none());
    let going = change.new.filter(|new| new.is_terminating());
    gone.into_iter().chain(going).flat_map(|pod| leaving_with(pod, claims)).collect()
}

/// The claims of a pod that are being deleted.
fn leaving_with(pod: &Object, claims: &Store) -> Vec<Key> {
    // Most clusters have no claim: their pods are not decoded.
    if claims.is_empty() {
        return Vec::new();
    }
    // If any pod cannot be decoded, no claim can be released: the reconciles of terminating claims fail and are tried
    // again.
    let Ok(pod) = pod.decode::<Pod>() else { return Vec::new() };
    let names = volumes(&pod).filter_map(|volume| claim_name(&pod, volume));
    let keys = names.map(|name| Key::new(pod.metadata.namespace.as_deref(), &name));
    let is_leaving = |claim: &Object| stage(claim, FINALIZER) == Stage::Leaving;
    keys.filter(|key| claims.get(key.as_str()).is_some_and(|claim| is_leaving(&claim))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use setpoint::informer::{Delta, Scope};
    use setpoint::queue::Trigger;

    use super::*;

    fn object(value: &Value) -> Object {
        Object::from_json(value.to_string().as_bytes()).unwrap()
    }

    /// A claim that is being deleted, controlled by the pod with this uid.
    fn claim(name: &str, owner: Option<&str>) -> Object {
        let owners: Vec<Value> = owner
            .iter()
            .map(|uid| json!({ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": true }))
            .collect();
        object(&json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": name,
            "namespace": "ns", "uid": name, "resourceVersion": "1", "ownerReferences": owners,
            "finalizers": [FINALIZER], "deletionTimestamp": "2026-01-01T00:00:00Z" } }))
    }

    /// The pod `p` on a node, with a volume.
    fn pod(volume: Value) -> Value {
        json!({ "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "2" },
            "spec": { "containers": [], "nodeName": "n", "volumes": [volume] } })
    }

    fn named(claim: &str) -> Value {
        pod(json!({ "name": "data", "persistentVolumeClaim": { "claimName": claim } }))
    }

    fn ephemeral() -> Value {
        pod(json!({ "name": "data", "ephemeral": {} }))
    }

    fn with(mut pod: Value, pointer: &str, value: Value) -> Value {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        pod.pointer_mut(parent).unwrap()[name] = value;
        pod
    }

    fn going(pod: Value, grace: i64) -> Value {
        let pod = with(pod, "/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"));
        with(pod, "/metadata/deletionGracePeriodSeconds", json!(grace))
    }

    #[test]
    fn a_pod_on_a_node_keeps_its_claims_until_it_is_gone() {
        let (given, own, foreign) =
            (claim("c", None), claim("p-data", Some("u")), claim("p-data", Some("x")));
        for (what, pod, claim, expected) in [
            ("uses it", named("c"), &given, true),
            ("uses another", named("d"), &given, false),
            ("has no node", with(named("c"), "/spec/nodeName", json!("")), &given, false),
            ("has ended", with(named("c"), "/status", json!({ "phase": "Succeeded" })), &given, true),
            ("is going", going(named("c"), 30), &given, true),
            ("is shut down", going(named("c"), 0), &given, true),
            ("made it", ephemeral(), &own, true),
            ("did not make it", ephemeral(), &foreign, false),
            ("made it and is going", going(ephemeral(), 30), &own, true),
            ("made it and is shut down", going(ephemeral(), 0), &own, false),
            ("uses another's ephemeral claim by name", named("p-data"), &foreign, true),
            ("has no claim", pod(json!({ "name": "data", "emptyDir": {} })), &given, false),
        ] {
            let pod: Pod = serde_json::from_value(pod).unwrap();
            assert_eq!(uses(&pod, claim), expected, "a pod that {what}");
        }
    }

    #[test]
    fn a_pod_that_goes_queues_its_claims_that_are_being_deleted() {
        let store = Store::default();
        let live = object(&json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {
            "name": "live", "namespace": "ns", "uid": "live", "resourceVersion": "1", "finalizers": [FINALIZER] } }));
        let objects = vec![claim("c", None), claim("d", None), claim("p-data", Some("u")), live];
        store.apply(&Scope::All, Delta::Replaced { revision: 9, objects });
        let other = |pod| with(pod, "/metadata/uid", json!("another"));
        for (what, old, new, expected) in [
            ("added", None, Some(named("c")), vec![]),
            ("changed", Some(named("c")), Some(named("c")), vec![]),
            ("going", Some(named("c")), Some(going(named("c"), 30)), vec!["c"]),
            ("deleted", Some(named("c")), None, vec!["c"]),
            ("deleted, its claim lives", Some(named("live")), None, vec![]),
            ("deleted, ephemeral", Some(ephemeral()), None, vec!["p-data"]),
            ("replaced", Some(named("c")), Some(other(named("d"))), vec!["c"]),
        ] {
            let (old, new) = (old.as_ref().map(object), new.as_ref().map(object));
            let change = Change { trigger: Trigger::Updated, old: old.as_ref(), new: new.as_ref() };
            let requests = of_pod(&change, &store);
            let names: Vec<&str> = requests.iter().map(Key::name).collect();
            assert_eq!(names, expected, "{what}");
        }
    }
}
