//! Handlers behind reviews, without a server.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::{Value, json};

use super::*;

fn review(operation: &str, old: Value, new: Value) -> Value {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u-1", "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "resource": {"group": "", "version": "v1", "resource": "configmaps"},
        "name": "one", "namespace": "default", "operation": operation, "dryRun": true,
        "userInfo": {"username": "jane", "groups": ["devs"], "extra": {"scope": ["a"]}},
        "object": new, "oldObject": old, "options": {"kind": "CreateOptions"},
    }})
}

fn map(data: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "namespace": "default"},
        "data": data, "fieldOfALaterVersion": {"kept": true},
    })
}

async fn post(webhooks: &Webhooks, path: &str, review: &Value) -> (u16, Value) {
    let request = Request::post(path).header("content-type", "application/json");
    let request = request.body(Bytes::from(review.to_string())).unwrap();
    let response = webhooks.call(request).await;
    (response.status().as_u16(), serde_json::from_slice(response.body()).unwrap())
}

const VALIDATE: &str = "/validate--v1-configmap";
const MUTATE: &str = "/mutate--v1-configmap";

fn hooks() -> Webhooks {
    Webhooks::new("ns", "svc")
}

fn metric(webhooks: &Webhooks, line: &str) -> bool {
    let metrics = crate::metrics::Metrics::new();
    webhooks.metrics.register(&metrics);
    metrics.encode().lines().any(|found| found == line)
}

#[tokio::test]
async fn a_validator_is_told_everything_and_its_causes_reach_the_client() {
    let seen: Arc<Mutex<Vec<Review<ConfigMap>>>> = Arc::default();
    let kept = Arc::clone(&seen);
    let webhooks = hooks().validate::<ConfigMap, _>(move |review: &Review<ConfigMap>| {
        kept.lock().unwrap().push(review.clone());
        let mut errors = FieldErrors::default();
        if review.new.as_ref().is_some_and(|new| new.data.is_none()) {
            errors.required("data", "say something");
        }
        review.verdict(errors).map(|allowed| allowed.warn("soon to go"))
    });
    let (code, answer) =
        post(&webhooks, VALIDATE, &review("UPDATE", map(json!({"a": "1"})), map(json!(null)))).await;
    let status = &answer["response"]["status"];
    assert_eq!(
        (code, &answer["response"]["uid"], &answer["response"]["allowed"]),
        (200, &json!("u-1"), &json!(false))
    );
    assert_eq!(status["message"], "ConfigMap \"one\" is invalid: data: Required value: say something");
    assert_eq!((&status["code"], &status["reason"]), (&json!(422), &json!("Invalid")));
    let cause =
        json!({"reason": "FieldValueRequired", "message": "Required value: say something", "field": "data"});
    assert_eq!(status["details"]["causes"], json!([cause]));
    let (_, answer) = post(&webhooks, VALIDATE, &review("CREATE", json!(null), map(json!({})))).await;
    let response = json!({"uid": "u-1", "allowed": true, "warnings": ["soon to go"]});
    assert_eq!(
        answer,
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
    );
    post(&webhooks, VALIDATE, &review("DELETE", map(json!({})), json!(null))).await;
    let seen = seen.lock().unwrap();
    let told = |review: &Review<ConfigMap>| (review.operation, review.old.is_some(), review.new.is_some());
    let all: Vec<_> = seen.iter().map(told).collect();
    let wanted =
        [(Operation::Update, true, true), (Operation::Create, false, true), (Operation::Delete, true, false)];
    assert_eq!(all, wanted);
    assert_eq!((&*seen[0].user.username, seen[0].user.groups.len(), seen[0].dry_run), ("jane", 1, true));
    assert_eq!(seen[0].key.as_str(), "default/one");
}

#[tokio::test]
async fn the_patch_of_a_mutator_touches_only_what_it_changed() {
    let webhooks = hooks().mutate::<ConfigMap, _>(|_: &Review<ConfigMap>, object: &mut ConfigMap| {
        object.data.get_or_insert_default().insert("b/c".into(), "2".into());
        Ok(Allowed::yes())
    });
    let (_, answer) = post(&webhooks, MUTATE, &review("CREATE", json!(null), map(json!({"a": "1"})))).await;
    assert_eq!(answer["response"]["patchType"], "JSONPatch");
    let patch = STANDARD.decode(answer["response"]["patch"].as_str().unwrap()).unwrap();
    let patch: Value = serde_json::from_slice(&patch).unwrap();
    assert_eq!(patch, json!([{"op": "add", "path": "/data/b~1c", "value": "2"}]));
    // An existing entry is no change, and a deletion has nothing to change.
    let (_, same) =
        post(&webhooks, MUTATE, &review("UPDATE", map(json!({})), map(json!({"b/c": "2"})))).await;
    assert_eq!(same["response"], json!({"uid": "u-1", "allowed": true}));
    let (_, deleted) = post(&webhooks, MUTATE, &review("DELETE", map(json!({})), json!(null))).await;
    assert_eq!(deleted["response"], json!({"uid": "u-1", "allowed": true}));
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_the_handler_is_left_to_the_failure_policy() {
    struct Sleeps;
    impl Validate<ConfigMap> for Sleeps {
        async fn validate(&self, _: &Review<ConfigMap>) -> Result<Allowed, Denied> {
            tokio::time::sleep(Duration::from_secs(60)).await;
            Ok(Allowed::yes())
        }
    }
    let create = review("CREATE", json!(null), map(json!({})));
    let panics = hooks().validate::<ConfigMap, _>(|_: &Review<ConfigMap>| panic!("the value is secret"));
    let (code, status) = post(&panics, VALIDATE, &create).await;
    assert_eq!((code, &status["kind"], &status["reason"]), (500, &json!("Status"), &json!("InternalError")));
    assert!(!status.to_string().contains("secret"), "{status}");
    assert!(metric(&panics, "controller_runtime_webhook_panics_total 1"));
    let counted =
        format!("controller_runtime_webhook_requests_total{{webhook=\"{VALIDATE}\",code=\"500\"}} 1");
    assert!(metric(&panics, &counted));

    let slow = hooks().validate::<ConfigMap, _>(Sleeps);
    let began = tokio::time::Instant::now();
    let (code, status) = post(&slow, &format!("{VALIDATE}?timeout=3s"), &create).await;
    assert_eq!((code, began.elapsed()), (504, Duration::from_secs(3)));
    assert_eq!(status["message"], format!("the webhook {VALIDATE} did not answer within 3s"));
    assert!(metric(&slow, &format!("setpoint_webhook_timeouts_total{{webhook=\"{VALIDATE}\"}} 1")));
    post(&slow, VALIDATE, &create).await;
    assert_eq!(began.elapsed(), Duration::from_secs(13), "its own limit");
    let idle = format!("controller_runtime_webhook_requests_in_flight{{webhook=\"{VALIDATE}\"}} 0");
    assert!(metric(&slow, &idle));

    let fails =
        hooks().validate::<ConfigMap, _>(|_: &Review<ConfigMap>| Err(Denied::failed("no quota service")));
    let (code, status) = post(&fails, VALIDATE, &create).await;
    assert_eq!((code, &status["message"]), (500, &json!("Internal error occurred: no quota service")));
}

#[tokio::test]
async fn input_that_no_handler_can_take_is_told_in_a_status() {
    let webhooks = hooks()
        .validate::<ConfigMap, _>(|_: &Review<ConfigMap>| Ok(Allowed::yes()))
        .validate::<Secret, _>(|_: &Review<Secret>| Ok(Allowed::yes()));
    let create = review("CREATE", json!(null), map(json!({})));
    let mut old = create.clone();
    old["apiVersion"] = json!("admission.k8s.io/v1beta1");
    let mut wrong = create.clone();
    wrong["request"]["operation"] = json!("MERGE");
    for (path, review, code, told) in [
        ("/nothing", &create, 404, "could not find the requested resource"),
        (VALIDATE, &json!({}), 400, "expected AdmissionReview of admission.k8s.io/v1, got \"\" of \"\""),
        (VALIDATE, &json!([1]), 400, "the body is no AdmissionReview"),
        (VALIDATE, &old, 400, "got \"AdmissionReview\" of \"admission.k8s.io/v1beta1\""),
        (VALIDATE, &wrong, 400, "the request of the AdmissionReview is malformed"),
        ("/validate--v1-secret", &create, 400, "handles Secret of /v1, and was asked about ConfigMap of /v1"),
    ] {
        let (found, status) = post(&webhooks, path, review).await;
        let message = status["message"].as_str().unwrap();
        assert!(found == code && message.contains(told), "{path} {found} {message}");
    }
    let get = Request::get(VALIDATE).body(Bytes::new()).unwrap();
    assert_eq!(webhooks.call(get).await.status().as_u16(), 405);
    let yaml = Request::post(VALIDATE).header("content-type", "application/yaml").body(Bytes::new()).unwrap();
    assert_eq!(webhooks.call(yaml).await.status().as_u16(), 415);
    // An object that does not decode is refused: `failurePolicy: Ignore` must not let it in.
    let (code, answer) =
        post(&webhooks, VALIDATE, &review("CREATE", json!(null), map(json!({"a": 1})))).await;
    assert_eq!((code, &answer["response"]["allowed"]), (200, &json!(false)));
    let message = answer["response"]["status"]["message"].as_str().unwrap();
    assert!(message.starts_with("the object does not decode as ConfigMap: "), "{message}");
}

#[tokio::test]
async fn a_path_of_ones_own_is_served_and_guarded() {
    let webhooks = hooks()
        .path("/token", |request: Request<Bytes>| async move { Response::new(request.into_body()) })
        .path("/bad", |_| async { panic!("no") });
    let ask = |path: &str| Request::get(path).body(Bytes::from_static(b"hello")).unwrap();
    assert_eq!(webhooks.call(ask("/token")).await.into_body(), "hello");
    assert_eq!(webhooks.call(ask("/bad")).await.status().as_u16(), 500);
}

#[test]
fn mistakes_of_the_author_are_noted() {
    let yes = |_: &Review<ConfigMap>| Ok(Allowed::yes());
    let slow = HookOptions::with(|options| options.timeout = Duration::from_secs(31));
    let named = HookOptions::with(|options| options.name = Some("short".into()));
    let twice = hooks().validate::<ConfigMap, _>(yes).validate::<ConfigMap, _>(yes);
    assert_eq!(twice.mistakes.len(), 2, "{:?}", twice.mistakes);
    for options in [slow, named] {
        let wrong = hooks().validate_with::<ConfigMap, _>(yes, options);
        assert_eq!(wrong.mistakes.len(), 1, "{:?}", wrong.mistakes);
    }
}
