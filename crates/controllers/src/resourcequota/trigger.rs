//! Which changes make a quota look again.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ResourceQuota;
use serde_json::Value;
use setpoint::informer::Lister;
use setpoint::predicate::Change;
use setpoint::queue::Trigger;
use setpoint::{Key, Object};
use setpoint_kinds::quota::Tracked;

/// Whether a change of a quota asks for something else. The server writes the status with every object that it
/// counts, and those changes do not count.
pub(super) fn is_asked_anew(change: &Change<'_>) -> bool {
    let Some((old, new)) = change.update().filter(|_| change.trigger == Trigger::Updated) else {
        return true;
    };
    let hard = |quota: &Object| quota.decode::<ResourceQuota>().ok()?.spec?.hard;
    old.uid() != new.uid() || hard(old) != hard(new)
}

/// The quotas that count an object which went, or which may use less than before.
pub(super) fn of_object(
    tracked: &Tracked,
    change: &Change<'_>,
    quotas: &Lister<ResourceQuota>,
    now: Timestamp,
) -> Vec<Key> {
    let Some(namespace) = change.object().and_then(Object::namespace) else { return Vec::new() };
    let quotas = quotas.list_namespace(namespace).unwrap_or_default();
    let names = quotas
        .iter()
        .filter(|quota| counts(quota, tracked))
        .filter_map(|quota| quota.metadata.name.as_deref());
    let requests: Vec<Key> = names.map(|name| Key::namespaced(namespace, name)).collect();
    // Most namespaces have no quota: their objects are not decoded.
    if requests.is_empty() || !frees(tracked, change, now) {
        return Vec::new();
    }
    requests
}

fn counts(quota: &ResourceQuota, tracked: &Tracked) -> bool {
    let hard = quota.spec.as_ref().and_then(|spec| spec.hard.as_ref());
    hard.into_iter().flatten().any(|(name, _)| tracked.counts(name))
}

fn frees(tracked: &Tracked, change: &Change<'_>, now: Timestamp) -> bool {
    match (change.old, change.new) {
        (Some(_), None) => true,
        (Some(old), Some(new)) if old.uid() != new.uid() => true,
        (Some(_), Some(_)) if matches!(tracked, Tracked::Objects(_)) => false,
        (Some(old), Some(new)) => match (old.decode::<Value>(), new.decode::<Value>()) {
            (Ok(old), Ok(new)) => tracked.frees(&old, &new, now),
            _ => true,
        },
        (None, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use setpoint::informer::{Delta, Scope, Store};

    use super::*;

    fn object(kind: &str, name: &str, rest: Value) -> Object {
        let mut object = json!({ "apiVersion": "v1", "kind": kind,
            "metadata": { "name": name, "namespace": "ns", "uid": name, "resourceVersion": "1" } });
        object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        Object::from_json(object.to_string().as_bytes()).unwrap()
    }

    fn change<'a>(old: Option<&'a Object>, new: Option<&'a Object>) -> Change<'a> {
        Change { trigger: Trigger::Updated, old, new }
    }

    #[test]
    fn a_quota_looks_when_what_it_counts_goes_or_ends() {
        let store = Store::default();
        let quota =
            |name: &str, hard: Value| object("ResourceQuota", name, json!({ "spec": { "hard": hard } }));
        let objects =
            vec![quota("pods", json!({ "pods": "1" })), quota("maps", json!({ "count/configmaps": "1" }))];
        store.apply(&Scope::All, Delta::Replaced { revision: 9, objects });
        let quotas = Lister::new(store);
        let now = Timestamp::UNIX_EPOCH;
        let asked = |tracked: &Tracked, change: &Change<'_>| -> Vec<String> {
            of_object(tracked, change, &quotas, now).iter().map(|request| request.name().to_owned()).collect()
        };
        let running = object("Pod", "p", json!({ "status": { "phase": "Running" } }));
        let ended = object("Pod", "p", json!({ "status": { "phase": "Failed" } }));
        assert_eq!(asked(&Tracked::Pods, &change(None, Some(&running))), Vec::<String>::new());
        assert_eq!(asked(&Tracked::Pods, &change(Some(&running), Some(&running))), Vec::<String>::new());
        assert_eq!(asked(&Tracked::Pods, &change(Some(&running), Some(&ended))), ["pods"]);
        assert_eq!(asked(&Tracked::Pods, &change(Some(&ended), None)), ["pods"]);
        let (maps, map) = (Tracked::of("", "configmaps").unwrap(), object("ConfigMap", "m", json!({})));
        assert_eq!(asked(&maps, &change(Some(&map), Some(&map))), Vec::<String>::new());
        assert_eq!(asked(&maps, &change(Some(&map), None)), ["maps"]);
        assert_eq!(
            asked(&Tracked::of("", "secrets").unwrap(), &change(Some(&map), None)),
            Vec::<String>::new()
        );
    }

    #[test]
    fn what_was_charged_is_not_measured_at_once() {
        let quota = |hard: &str, used: &str| {
            let rest =
                json!({ "spec": { "hard": { "pods": hard } }, "status": { "used": { "pods": used } } });
            object("ResourceQuota", "q", rest)
        };
        let (old, charged, other) = (quota("1", "0"), quota("1", "1"), quota("2", "0"));
        assert!(!is_asked_anew(&change(Some(&old), Some(&charged))));
        assert!(is_asked_anew(&change(Some(&old), Some(&other))));
        assert!(is_asked_anew(&change(Some(&old), None)) && is_asked_anew(&change(None, Some(&old))));
    }
}
