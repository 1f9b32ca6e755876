//! Labels, exemptions and versions. The words of the checks are in `testdata/wire/pod-security.json`.

use serde_json::json;

use super::super::pod_security_standards::{PodSecurity, PolicyVersion};
use super::super::request::Configuration;
use super::super::testing::{Objects, with_request};
use super::*;

fn namespace(labels: &[(&str, &str)]) -> Value {
    let labels: Value = labels
        .iter()
        .map(|(key, value)| (format!("pod-security.kubernetes.io/{key}"), json!(value)))
        .collect();
    json!({ "metadata": { "name": "ns", "labels": labels } })
}

fn bare() -> Value {
    json!({ "metadata": { "name": "x" }, "spec": { "hostPID": true, "containers": [{ "name": "c" }] } })
}

/// The warnings or the refusal of a pod by alice in a namespace with these labels.
fn judged(labels: &[(&str, &str)], exemptions: Exemptions, pod: &Value) -> Result<Vec<String>, String> {
    let cluster = Objects::new("namespaces", vec![namespace(labels)]);
    let pod_security = PodSecurity { exemptions, ..PodSecurity::default() };
    let configuration = Configuration { pod_security, ..Configuration::default() };
    let judged = with_request("", "pods", None, |request| {
        validate(&Request { configuration: &configuration, ..*request }, &cluster, pod)
    });
    judged.map_err(|status| status.message)
}

#[test]
fn labels_name_the_level_of_each_mode() {
    let none = Exemptions::default();
    assert_eq!(judged(&[], none.clone(), &bare()), Ok(Vec::new()));
    let refused = judged(&[("enforce", "baseline")], none.clone(), &bare());
    let why =
        "pods \"x\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces (hostPID=true)";
    assert_eq!(refused, Err(why.to_owned()));
    let warned = judged(&[("warn", "baseline"), ("warn-version", "v1.20")], none.clone(), &bare());
    let warning = "would violate PodSecurity \"baseline:v1.20\": host namespaces (hostPID=true)";
    assert_eq!(warned, Ok(vec![warning.to_owned()]));
    assert_eq!(judged(&[("audit", "restricted")], none.clone(), &bare()), Ok(Vec::new()));
    assert!(judged(&[("enforce", "no-level")], none, &bare()).is_err(), "an unknown level is the strictest");
}

#[test]
fn users_namespaces_and_classes_may_be_exempt() {
    let enforced = [("enforce", "restricted")];
    let names = |name: &str| vec![name.to_owned()];
    let mut classed = bare();
    classed["spec"]["runtimeClassName"] = json!("kata");
    for (exemptions, pod, allowed) in [
        (Exemptions { usernames: names("alice"), ..Exemptions::default() }, bare(), true),
        (Exemptions { usernames: names("bob"), ..Exemptions::default() }, bare(), false),
        (Exemptions { namespaces: names("ns"), ..Exemptions::default() }, bare(), true),
        (Exemptions { namespaces: names("other"), ..Exemptions::default() }, bare(), false),
        (Exemptions { runtime_classes: names("kata"), ..Exemptions::default() }, classed, true),
        (Exemptions { runtime_classes: names("kata"), ..Exemptions::default() }, bare(), false),
    ] {
        assert_eq!(judged(&enforced, exemptions.clone(), &pod).is_ok(), allowed, "{exemptions:?}");
    }
}

#[test]
fn labels_of_an_exempt_namespace_are_said_to_do_nothing() {
    let exemptions = Exemptions { namespaces: vec!["ns".to_owned()], ..Exemptions::default() };
    let configuration = Configuration {
        pod_security: PodSecurity { exemptions, ..PodSecurity::default() },
        ..Configuration::default()
    };
    let judged = |labels: &[(&str, &str)], old: Option<&Value>| {
        let cluster = Objects::new("pods", vec![bare()]);
        with_request("", "namespaces", old, |request| {
            let request = Request { configuration: &configuration, ..*request };
            validate(&request, &cluster, &namespace(labels))
        })
    };
    let labels = [("enforce", "baseline"), ("audit-version", "v1.1")];
    let warning = "namespace \"ns\" is exempt from Pod Security, and the policy (enforce=baseline:latest) will be ignored";
    assert_eq!(judged(&labels, None), Ok(vec![warning.to_owned()]));
    assert_eq!(judged(&labels, Some(&namespace(&[]))), Ok(vec![warning.to_owned()]));
    assert_eq!(judged(&[("audit-version", "v1.1")], None), Ok(Vec::new()));
}

#[test]
fn versions_are_read_as_kubernetes_writes_them() {
    for (text, version) in [
        ("latest", Some(PolicyVersion::Latest)),
        ("v1.0", Some(PolicyVersion::Minor(0))),
        ("v1.25", Some(PolicyVersion::Minor(25))),
        ("v1.01", None),
        ("v1.", None),
        ("v2.1", None),
        ("1.25", None),
        ("v1.99999999999999999999", None),
    ] {
        assert_eq!(PolicyVersion::parse(text).ok(), version, "{text}");
    }
}

#[test]
fn a_new_level_reports_the_pods_that_are_there() {
    let pod = |name: &str, owner: &str| json!({ "metadata": { "name": name, "ownerReferences": [{ "uid": owner, "controller": true }] }, "spec": { "hostPID": true } });
    let pods = [pod("c", "1"), pod("b", "1"), pod("a", "2")];
    let names: Vec<&str> =
        prioritized(&Exemptions::default(), &pods).iter().map(|pod| text(pod, "metadata.name")).collect();
    assert_eq!(names, ["c", "a", "b"], "one pod of each controller comes first");
    let many: Vec<Value> = (0..=MOST_PODS).map(|at| pod(&format!("p{at}"), &at.to_string())).collect();
    let standard = Standard { level: Level::Baseline, version: PolicyVersion::Latest };
    let warnings = report("ns", standard, &Exemptions::default(), &many);
    assert_eq!(
        warnings[0],
        "new PodSecurity enforce level only checked against the first 3000 of 3001 existing pods"
    );
    assert_eq!(warnings[2], "p0 (and 2999 other pods): host namespaces");
}
