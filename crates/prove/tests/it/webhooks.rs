//! An operator with a webhook that its own writes must pass.

use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use http::{Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, ObjectMeta, PostParams, WatchEvent, WatchParams};
use serde_json::{Value, json};
use setpoint_cluster::{Controllers, Options};
use setpoint_prove::{Oracle, Report, program, prove};

/// Copies a ConfigMap. With the mistake it tries once.
async fn copy(client: Client, once: bool) -> kube::Result<()> {
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let mut tried = false;
    loop {
        let parameters = WatchParams::default().fields("metadata.name=source");
        let mut events = maps.watch(&parameters, "0").await?.boxed();
        while let Ok(Some(event)) = events.try_next().await {
            if !matches!(event, WatchEvent::Added(_)) {
                continue;
            }
            let metadata = ObjectMeta { name: Some("copy".into()), ..ObjectMeta::default() };
            let copy = ConfigMap { metadata, ..ConfigMap::default() };
            while maps.get_opt("copy").await?.is_none() && !(once && tried) {
                tried = true;
                if maps.create(&PostParams::default(), &copy).await.is_ok() {
                    break;
                }
                tokio::time::sleep(Duration::from_secs(5)).await;
            }
        }
    }
}

/// Allows everything.
fn allow(request: Request<Bytes>) -> Response<Bytes> {
    let review: Value = serde_json::from_slice(request.body()).unwrap();
    let answer = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": {"uid": review["request"]["uid"], "allowed": true},
    });
    Response::new(answer.to_string().into())
}

fn explore(once: bool) -> Report {
    let service = json!({"namespace": "default", "name": "copier", "path": "/validate"});
    let rule = json!({
        "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"],
    });
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "copier"},
        "webhooks": [{
            "name": "copier.example.org", "clientConfig": {"service": service}, "rules": [rule],
            "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Fail",
        }],
    });
    let bare = |options: &mut Options| {
        options.controllers = Controllers::None;
        options.nodes.count = 0;
    };
    let proof = prove(program("copier", Vec::new(), move |client| copy(client, once))).cluster(bare);
    let proof = proof
        .webhooks("default", "copier", vec![configuration], |request| async move { allow(request) })
        .apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "source"}}));
    proof.only("webhook outage").run().unwrap()
}

#[test]
fn an_operator_that_tries_once_does_not_survive_an_outage_of_its_webhook() {
    let report = explore(true);
    let [finding] = report.findings.as_slice() else { panic!("{report}") };
    assert_eq!((finding.oracle, finding.place.as_str()), (Oracle::Convergence, "configmaps/copy"));
    assert!(finding.trace.contains("webhook outage"), "{report}");
    assert!(finding.trace.contains("-> 500"), "{report}");
}

#[test]
fn an_operator_that_tries_again_survives_an_outage_of_its_webhook() {
    let report = explore(false);
    assert!(report.findings.is_empty(), "{report}");
    assert_eq!(report.visited["webhook outage"].missed, 0, "{report}");
}
