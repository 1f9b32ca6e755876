//! Admission policies.

use serde_json::{Value, json};

use super::hook::{Hook, mutating, validating};
use crate::cluster::{Cluster, MAPS, MERGE, map, start};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

/// A policy for all that is done to these resources.
fn policy(name: &str, resources: &[&str], spec: Value) -> Value {
    let rule =
        json!({"apiGroups": ["*"], "apiVersions": ["v1"], "operations": ["*"], "resources": resources});
    let mut policy =
        json!({"metadata": {"name": name}, "spec": {"matchConstraints": {"resourceRules": [rule]}}});
    for (field, value) in spec.as_object().unwrap() {
        policy["spec"][field] = value.clone();
    }
    policy
}

fn never(message: &str) -> Value {
    json!({"validations": [{"expression": "false", "messageExpression": message}]})
}

/// Writes a policy and a binding of the same name.
async fn bind(cluster: &Cluster, policy: &Value, spec: Value) {
    let name = &policy["metadata"]["name"];
    let mut binding =
        json!({"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}});
    for (field, value) in spec.as_object().unwrap() {
        binding["spec"][field] = value.clone();
    }
    for (plural, object) in
        [("validatingadmissionpolicies", policy), ("validatingadmissionpolicybindings", &binding)]
    {
        let answer = cluster.post(&format!("{GROUP}/{plural}"), object).await;
        assert_eq!(answer.warnings(), Vec::<&str>::new());
        answer.expect(201);
    }
}

/// The message of a refusal by the policy `p`.
fn said(refused: &Value) -> &str {
    let words = "ValidatingAdmissionPolicy 'p' with binding 'p' denied request: ";
    let message = refused["message"].as_str().unwrap();
    message.split_once(words).unwrap_or_else(|| panic!("{refused}")).1
}

#[tokio::test]
async fn a_policy_counts_while_it_is_bound() {
    let cluster = start().await;
    bind(&cluster, &policy("p", &["configmaps"], never("''")), json!({})).await;
    let refused = cluster.post(MAPS, &map("a", json!({}))).await.expect(422);
    let text = "ValidatingAdmissionPolicy 'p' with binding 'p' denied request: failed expression: false";
    assert_eq!(
        refused,
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 422,
            "reason": "Invalid", "message": format!("configmaps \"a\" is forbidden: {text}"),
            "details": {"name": "a", "kind": "configmaps", "causes": [{"message": text}]}})
    );
    let path = format!("{GROUP}/validatingadmissionpolicies/p");
    let fine = json!({"spec": {"validations": [{"expression": "object.metadata.name == 'a'"}]}});
    cluster.patch(&path, MERGE, &fine).await.expect(200);
    cluster.post(MAPS, &map("a", json!({}))).await.expect(201);
    cluster.post(MAPS, &map("b", json!({}))).await.expect(422);
    cluster.delete(&format!("{GROUP}/validatingadmissionpolicybindings/p")).await.expect(200);
    cluster.post(MAPS, &map("b", json!({}))).await.expect(201);
}

#[tokio::test]
async fn policies_judge_what_mutating_webhooks_made_before_the_others_are_asked() {
    let (cluster, hook) = (start().await, Hook::start().await);
    mutating(&cluster, "m", &[hook.at("/label")]).await;
    validating(&cluster, "v", &[hook.at("/v")]).await;
    bind(&cluster, &policy("p", &["configmaps"], never("string(object.metadata.labels.hooked)")), json!({}))
        .await;
    let refused = cluster.post(MAPS, &map("a", json!({}))).await.expect(422);
    assert_eq!(said(&refused), "yes");
    assert_eq!(hook.paths(), ["/label"]);
    // No policy sees an invalid object.
    let invalid = cluster.post(MAPS, &map("A B", json!({}))).await.expect(422);
    assert_eq!(invalid["details"]["causes"][0]["field"], "metadata.name");
}

#[tokio::test]
async fn who_only_warns_refuses_nothing() {
    let cluster = start().await;
    let warns = policy("p", &["configmaps"], never("'careful with ' + object.metadata.name"));
    bind(&cluster, &warns, json!({"validationActions": ["Warn", "Audit"]})).await;
    let answer = cluster.post(MAPS, &map("a", json!({}))).await;
    let text = "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p': careful with a";
    assert_eq!(answer.warnings(), [format!("299 - \"{text}\"")]);
    answer.expect(201);
    bind(&cluster, &policy("q", &["configmaps"], never("'no'")), json!({})).await;
    let answer = cluster.post(MAPS, &map("b", json!({}))).await;
    assert_eq!(answer.warnings().len(), 1);
    answer.expect(422);
}

#[tokio::test]
async fn deletions_subresources_and_connections_are_judged() {
    let cluster = start().await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "a"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}});
    cluster.post(pods, &pod).await.expect(201);
    cluster.post(MAPS, &map("a", json!({"k": "v"}))).await.expect(201);
    let words = "request.operation + ' ' + request.kind.kind + ' ' + string(object != null) + ' ' + string(oldObject != null)";
    bind(&cluster, &policy("p", &["*/*"], never(words)), json!({})).await;
    for (refused, expected) in [
        (cluster.delete(&format!("{MAPS}/a")).await, "DELETE ConfigMap false true"),
        (cluster.delete(MAPS).await, "DELETE ConfigMap false true"),
        (
            cluster.patch(&format!("{MAPS}/a"), MERGE, &json!({"data": {"k": "w"}})).await,
            "UPDATE ConfigMap true true",
        ),
        (
            cluster.patch(&format!("{pods}/a/status"), MERGE, &json!({"status": {"phase": "Failed"}})).await,
            "UPDATE Pod true true",
        ),
        (
            cluster.post(&format!("{pods}/a/eviction"), &json!({"metadata": {"name": "a"}})).await,
            "CREATE Eviction true false",
        ),
        (
            cluster.post(&format!("{pods}/a/exec?command=x&stdout=true"), &json!({})).await,
            "CONNECT PodExecOptions true false",
        ),
    ] {
        assert_eq!(said(&refused.expect(422)), expected);
    }
    assert_eq!(cluster.get(&format!("{MAPS}/a")).await.expect(200)["data"]["k"], "v");
    // Nobody is locked out: the policies themselves are not judged, nor is who asks what they may do.
    let refused = cluster
        .post(&format!("{GROUP}/validatingwebhookconfigurations"), &json!({"metadata": {"name": "w"}}))
        .await
        .expect(422);
    assert_eq!(said(&refused), "CREATE ValidatingWebhookConfiguration true false");
    let review = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    cluster.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &review).await.expect(201);
    cluster.delete(&format!("{GROUP}/validatingadmissionpolicies/p")).await.expect(200);
    cluster.delete(&format!("{MAPS}/a")).await.expect(200);
}

#[tokio::test]
async fn objects_are_shown_in_the_version_that_a_policy_names() {
    let cluster = start().await;
    let words = "object.apiVersion + ' for ' + request.requestKind.version";
    let mut equivalent = policy("p", &["horizontalpodautoscalers"], never(words));
    bind(&cluster, &equivalent, json!({})).await;
    let scaler = json!({"metadata": {"name": "a"},
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}});
    let path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let refused = cluster.post(path, &scaler).await.expect(422);
    assert_eq!(said(&refused), "autoscaling/v1 for v2");
    equivalent["spec"]["matchConstraints"]["matchPolicy"] = json!("Exact");
    let policies = format!("{GROUP}/validatingadmissionpolicies/p");
    cluster.patch(&policies, MERGE, &equivalent).await.expect(200);
    cluster.post(path, &scaler).await.expect(201);
}

#[tokio::test]
async fn params_may_be_custom_and_are_looked_up_each_time() {
    let cluster = start().await;
    let names = json!({"plural": "limits", "singular": "limit", "kind": "Limit", "listKind": "LimitList"});
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema});
    let definition = json!({"metadata": {"name": "limits.example.com"}, "spec": {"group": "example.com",
        "scope": "Namespaced", "names": names, "versions": [version]}});
    let spec = json!({"paramKind": {"apiVersion": "example.com/v1", "kind": "Limit"},
        "validations": [{"expression": "size(object.data) <= params.most"}]});
    let params = json!({"paramRef": {"selector": {}, "parameterNotFoundAction": "Allow"}});
    bind(&cluster, &policy("p", &["configmaps"], spec), params).await;
    let full = map("a", json!({"a": "1", "b": "2"}));
    let refused = cluster.post(MAPS, &full).await.expect(422);
    let text = "failed to configure policy: failed to find resource referenced by paramKind: 'example.com/v1, Kind=Limit'";
    assert!(refused["message"].as_str().unwrap().ends_with(text), "{refused}");
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    cluster.post(definitions, &definition).await.expect(201);
    cluster.post(&format!("{MAPS}?dryRun=All"), &full).await.expect(201);
    let limits = "/apis/example.com/v1/namespaces/default/limits";
    let limit =
        json!({"apiVersion": "example.com/v1", "kind": "Limit", "metadata": {"name": "l"}, "most": 1});
    cluster.post(limits, &limit).await.expect(201);
    let refused = cluster.post(&format!("{MAPS}?dryRun=All"), &full).await.expect(422);
    assert_eq!(said(&refused), "failed expression: size(object.data) <= params.most");
    cluster.patch(&format!("{limits}/l"), MERGE, &json!({"most": 2})).await.expect(200);
    cluster.post(MAPS, &full).await.expect(201);
}

#[tokio::test]
async fn the_authorizer_is_refused() {
    let cluster = start().await;
    let spec = json!({"validations": [{"expression": "authorizer.path('/x').check('get').allowed()"}]});
    let path = format!("{GROUP}/validatingadmissionpolicies");
    let refused = cluster.post(&path, &policy("p", &["configmaps"], spec)).await.expect(422);
    let cause = &refused["details"]["causes"][0];
    assert_eq!(cause["field"], "spec.validations[0].expression");
    assert!(cause["message"].as_str().unwrap().contains("undeclared reference to 'authorizer'"), "{cause}");
}
