use serde_json::json;

use super::*;
use crate::access::at;
use crate::resources::amounts;

const NOW: &str = "2026-11-15T12:00:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn shown(amounts: &Amounts) -> String {
    let parts: Vec<String> = amounts.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
    parts.join(" ")
}

fn quota(hard: Value, used: Value) -> Value {
    json!({"metadata": {"name": "q"}, "spec": {"hard": hard}, "status": {"hard": hard, "used": used}})
}

fn pod(requests: Value) -> Value {
    json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]}})
}

fn written(
    tracked: &Tracked,
    object: &Value,
    old: Option<&Value>,
    quotas: &[Value],
) -> Result<String, String> {
    let write = Write { tracked, subresource: "", object, old, now: now() };
    let charged = charge(&write, quotas).map_err(|error| error.to_string())?;
    let parts: Vec<String> =
        charged.iter().map(|(place, used)| format!("{place}: {}", shown(used))).collect();
    Ok(parts.join("; "))
}

#[test]
fn names_stand_for_the_kinds_that_they_count() {
    for (name, group, plural) in [
        ("cpu", "", "pods"),
        ("limits.memory", "", "pods"),
        ("requests.nvidia.com/gpu", "", "pods"),
        ("hugepages-2Mi", "", "pods"),
        ("requests.hugepages-2Mi", "", "pods"),
        ("count/pods", "", "pods"),
        ("services.nodeports", "", "services"),
        ("requests.storage", "", "persistentvolumeclaims"),
        ("gold.storageclass.storage.k8s.io/requests.storage", "", "persistentvolumeclaims"),
        ("secrets", "", "secrets"),
        ("count/configmaps", "", "configmaps"),
        ("count/deployments.apps", "apps", "deployments"),
        ("count/things.example.com", "example.com", "things"),
    ] {
        let tracked = Tracked::named(name).unwrap();
        assert_eq!(tracked.group_resource(), GroupResource::new(group, plural), "{name}");
        assert!(tracked.counts(name), "{name}");
    }
    for name in ["nvidia.com/gpu", "example.com/x", "count/events"] {
        assert_eq!(Tracked::named(name), None, "{name}");
    }
}

#[test]
fn a_pod_uses_what_it_asks_for_until_it_ends() {
    let mut pod = pod(json!({"cpu": "100m", "memory": "64Mi", "nvidia.com/gpu": "1"}));
    pod["spec"]["containers"][0]["resources"]["limits"] = json!({"cpu": "1"});
    assert_eq!(
        shown(&Tracked::Pods.usage(&pod, now())),
        "count/pods=1 cpu=100m limits.cpu=1 memory=64Mi pods=1 requests.cpu=100m requests.memory=64Mi \
         requests.nvidia.com/gpu=1"
    );
    let mut ended = pod.clone();
    ended["status"] = json!({"phase": "Succeeded"});
    assert_eq!(shown(&Tracked::Pods.usage(&ended, now())), "count/pods=1");
    assert!(Tracked::Pods.frees(&pod, &ended, now()) && !Tracked::Pods.frees(&pod, &pod, now()));
    let mut going = pod.clone();
    going["metadata"]["deletionTimestamp"] = json!("2026-11-15T11:59:00Z");
    going["metadata"]["deletionGracePeriodSeconds"] = json!(30);
    assert_eq!(shown(&Tracked::Pods.usage(&going, now())), "count/pods=1");
    going["metadata"]["deletionGracePeriodSeconds"] = json!(90);
    assert!(Tracked::Pods.usage(&going, now()).contains_key("pods"));
}

#[test]
fn services_and_claims_use_ports_and_storage() {
    let service = |kind: &str, given: bool| {
        json!({"spec": {"type": kind, "allocateLoadBalancerNodePorts": given,
            "ports": [{"port": 1, "nodePort": 30000}, {"port": 2}]}})
    };
    for (kind, given, expected) in [
        ("ClusterIP", true, "count/services=1 services=1 services.loadbalancers=0 services.nodeports=0"),
        ("NodePort", true, "count/services=1 services=1 services.loadbalancers=0 services.nodeports=2"),
        ("LoadBalancer", true, "count/services=1 services=1 services.loadbalancers=1 services.nodeports=2"),
        ("LoadBalancer", false, "count/services=1 services=1 services.loadbalancers=1 services.nodeports=1"),
    ] {
        assert_eq!(shown(&Tracked::Services.usage(&service(kind, given), now())), expected);
    }
    let mut claim =
        json!({"spec": {"storageClassName": "gold", "resources": {"requests": {"storage": "1Gi"}}}});
    assert_eq!(
        shown(&Tracked::Claims.usage(&claim, now())),
        "count/persistentvolumeclaims=1 gold.storageclass.storage.k8s.io/persistentvolumeclaims=1 \
         gold.storageclass.storage.k8s.io/requests.storage=1Gi persistentvolumeclaims=1 requests.storage=1Gi"
    );
    claim["status"] = json!({"allocatedResources": {"storage": "2Gi"}});
    claim["spec"]["storageClassName"] = json!("");
    assert_eq!(
        shown(&Tracked::Claims.usage(&claim, now())),
        "count/persistentvolumeclaims=1 persistentvolumeclaims=1 requests.storage=2Gi"
    );
}

#[test]
fn a_write_is_charged_or_refused_in_the_words_of_the_real_server() {
    let hard = json!({"pods": "2", "requests.cpu": "1", "secrets": "3"});
    let quota = quota(hard, json!({"pods": "1", "requests.cpu": "500m", "secrets": "0"}));
    let quotas = [quota.clone()];
    assert_eq!(
        written(&Tracked::Pods, &pod(json!({"cpu": "500m"})), None, &quotas).unwrap(),
        "0: pods=2 requests.cpu=1 secrets=0"
    );
    assert_eq!(
        written(&Tracked::Pods, &pod(json!({"cpu": "600m"})), None, &quotas).unwrap_err(),
        "exceeded quota: q, requested: requests.cpu=600m, used: requests.cpu=500m, limited: requests.cpu=1"
    );
    assert_eq!(
        written(&Tracked::Pods, &pod(json!({})), None, &quotas).unwrap_err(),
        "failed quota: q: must specify requests.cpu for: c"
    );
    let secrets = Tracked::of("", "secrets").unwrap();
    assert_eq!(
        written(&secrets, &json!({}), None, &quotas).unwrap(),
        "0: pods=1 requests.cpu=500m secrets=1"
    );
    assert_eq!(written(&secrets, &json!({}), Some(&json!({})), &quotas).unwrap(), "");
    assert_eq!(written(&Tracked::of("", "configmaps").unwrap(), &json!({}), None, &quotas).unwrap(), "");
    let mut unknown = quota.clone();
    unknown["status"]["used"] = json!({});
    assert_eq!(
        written(&secrets, &json!({}), None, &[unknown]).unwrap_err(),
        "status unknown for quota: q, resources: secrets"
    );
    let mut fresh = quota;
    fresh["status"] = json!({});
    assert_eq!(written(&secrets, &json!({}), None, &[fresh]).unwrap(), "");
}

#[test]
fn a_change_costs_what_it_adds() {
    let claim = |storage: &str| json!({"spec": {"resources": {"requests": {"storage": storage}}}});
    let quotas = [quota(json!({"requests.storage": "3Gi"}), json!({"requests.storage": "1Gi"}))];
    let change = |from: &str, to: &str| written(&Tracked::Claims, &claim(to), Some(&claim(from)), &quotas);
    assert_eq!(change("1Gi", "3Gi").unwrap(), "0: requests.storage=3Gi");
    assert_eq!(change("1Gi", "1Gi").unwrap(), "");
    assert_eq!(
        change("1Gi", "4Gi").unwrap_err(),
        "exceeded quota: q, requested: requests.storage=3Gi, used: requests.storage=1Gi, limited: \
         requests.storage=3Gi"
    );
}

#[test]
fn a_quota_counts_what_is_in_all_its_scopes() {
    let scoped = |scopes: Value, selector: Value| {
        let mut quota = quota(json!({"pods": "9"}), json!({"pods": "0"}));
        quota["spec"]["scopes"] = scopes;
        quota["spec"]["scopeSelector"] = json!({"matchExpressions": selector});
        quota
    };
    let mut plain = pod(json!({}));
    plain["spec"]["priorityClassName"] = json!("high");
    let mut ending = pod(json!({"cpu": "1"}));
    ending["spec"]["activeDeadlineSeconds"] = json!(5);
    ending["spec"]["affinity"] = json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution":
        [{"podAffinityTerm": {"namespaceSelector": {}}}]}});
    let class = |operator: &str, values: Value| json!([{"scopeName": "PriorityClass", "operator": operator, "values": values}]);
    for (scopes, selector, has_plain, has_ending) in [
        (json!(["Terminating"]), json!([]), false, true),
        (json!(["NotTerminating"]), json!([]), true, false),
        (json!(["BestEffort"]), json!([]), true, false),
        (json!(["NotBestEffort", "Terminating"]), json!([]), false, true),
        (json!(["BestEffort", "Terminating"]), json!([]), false, false),
        (json!(["CrossNamespacePodAffinity"]), json!([]), false, true),
        (json!([]), class("In", json!(["high"])), true, false),
        (json!([]), class("NotIn", json!(["high"])), false, true),
        (json!([]), class("Exists", json!([])), true, false),
        (json!([]), class("DoesNotExist", json!([])), false, true),
    ] {
        let quota = scoped(scopes.clone(), selector.clone());
        let used = measure(&quota, &Tracked::Pods, [&plain, &ending].into_iter(), now());
        let expected = Quantity::whole(i64::from(has_plain) + i64::from(has_ending));
        assert_eq!(used["pods"], expected, "{scopes} {selector}");
        for (pod, counted) in [(&plain, has_plain), (&ending, has_ending)] {
            let charged = written(&Tracked::Pods, pod, None, std::slice::from_ref(&quota)).unwrap();
            assert_eq!(!charged.is_empty(), counted, "{scopes} {selector}");
        }
        // Nothing but pods and claims has scopes.
        assert_eq!(written(&Tracked::Services, &json!({}), None, &[quota]).unwrap(), "");
    }
}

#[test]
fn what_is_measured_is_what_was_charged() {
    let hard = json!({"pods": "9", "requests.memory": "1Gi", "count/pods": "9"});
    let mut quota = quota(hard, json!({"pods": "0", "requests.memory": "0", "count/pods": "0"}));
    let pods: Vec<Value> =
        ["64Mi", "100M", "1Ki"].iter().map(|memory| pod(json!({"memory": memory}))).collect();
    for pod in &pods {
        let write = Write { tracked: &Tracked::Pods, subresource: "", object: pod, old: None, now: now() };
        let charged = charge(&write, std::slice::from_ref(&quota)).unwrap();
        quota["status"]["used"] = crate::resources::to_json(&charged[0].1);
    }
    let measured = measure(&quota, &Tracked::Pods, pods.iter(), now());
    assert_eq!(measured, amounts(at(&quota, "status.used")));
}
