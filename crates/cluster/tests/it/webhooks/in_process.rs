//! The API server calls the handlers as functions, under paused time.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::json;
use setpoint::webhook::{Allowed, Denied, FailurePolicy, HookOptions, Review, Validate, Webhooks};
use setpoint_cluster::{Cluster, Controllers, Options};
use tokio::time::Instant;

use super::{Cafe, NAMESPACE, SERVICE, apply, cafe, install, v1beta1, webhooks};

async fn cluster(webhooks: &Webhooks) -> Cluster {
    let options = Options { controllers: Controllers::None, seed: Some(1), ..Options::default() };
    let handlers = webhooks.clone();
    options.webhooks.answer(NAMESPACE, SERVICE, move |request| {
        let handlers = handlers.clone();
        async move { handlers.call(request).await }
    });
    Cluster::start(options).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_object_is_defaulted_validated_and_converted() {
    let webhooks = webhooks();
    let cluster = cluster(&webhooks).await;
    let client = cluster.client_as("jane", &["system:masters"]);
    install(&client, &webhooks).await;
    let (new, old): (Api<Cafe>, Api<v1beta1::Cafe>) =
        (Api::namespaced(client.clone(), NAMESPACE), Api::namespaced(client.clone(), NAMESPACE));
    let made = new.create(&PostParams::default(), &cafe("one", 3)).await.unwrap();
    assert_eq!((made.spec.tables, made.spec.owner.as_deref()), (3, Some("jane")));
    // Stored as v1beta1, and written in it too: the webhooks are asked in their own version.
    let spec = v1beta1::CafeSpec { table_count: 4, owner: Some("joe".into()) };
    let made = old.create(&PostParams::default(), &v1beta1::Cafe::new("two", spec)).await.unwrap();
    assert_eq!((made.spec.table_count, made.spec.owner.as_deref()), (4, Some("joe")));
    let listed = new.list(&ListParams::default()).await.unwrap();
    let tables: Vec<u32> = listed.items.iter().map(|cafe| cafe.spec.tables).collect();
    assert_eq!(tables, [3, 4]);
    let spec = v1beta1::CafeSpec { table_count: 0, owner: None };
    let refused = old.create(&PostParams::default(), &v1beta1::Cafe::new("bad", spec)).await.unwrap_err();
    let kube::Error::Api(status) = refused else { panic!("{refused}") };
    let message = "admission webhook \"vcafe.v1.example.org\" denied the request: Cafe.example.org \"bad\" is \
                   invalid: spec.tables: Invalid value: 0: guests stand";
    assert_eq!((status.code, &*status.reason, &*status.message), (422, "Invalid", message));
    assert_eq!(status.details.unwrap().causes[0].field, "spec.tables");
    // A fork asks the same handlers.
    let fork = cluster.fork().await.unwrap();
    let forked: Api<Cafe> = Api::namespaced(fork.client(), NAMESPACE);
    assert!(forked.create(&PostParams::default(), &cafe("bad", 0)).await.is_err());
    assert_eq!(forked.list(&ListParams::default()).await.unwrap().items.len(), 2);
}

struct Sleeps;

impl Validate<ConfigMap> for Sleeps {
    async fn validate(&self, _: &Review<ConfigMap>) -> Result<Allowed, Denied> {
        tokio::time::sleep(Duration::from_secs(3600)).await;
        Ok(Allowed::yes())
    }
}

#[tokio::test(start_paused = true)]
async fn the_failure_policy_decides_when_a_handler_hangs_or_panics() {
    for policy in [FailurePolicy::Fail, FailurePolicy::Ignore] {
        let options = |name: &str, path: &str| {
            HookOptions::with(|options| {
                (options.name, options.path) = (Some(name.into()), Some(path.into()));
                options.failure_policy = policy;
                options.timeout = Duration::from_secs(7);
                options.match_conditions =
                    vec![("named".into(), format!("object.metadata.name == '{}'", &path[1..]))];
            })
        };
        let webhooks = Webhooks::new(NAMESPACE, SERVICE)
            .validate_with::<ConfigMap, _>(Sleeps, options("sleeps.example.org", "/sleeps"))
            .validate_with::<ConfigMap, _>(
                |_: &Review<ConfigMap>| -> Result<Allowed, Denied> { panic!("oh") },
                options("panics.example.org", "/panics"),
            );
        let cluster = cluster(&webhooks).await;
        for object in webhooks.configurations() {
            apply(&cluster.client(), &object).await;
        }
        let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), NAMESPACE);
        for (name, seconds, told) in [
            ("sleeps", 7, "failed calling webhook \"sleeps.example.org\": failed to call webhook: "),
            ("panics", 0, "failed to call webhook: Internal error occurred: the webhook /panics panicked"),
        ] {
            let map = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
            let began = Instant::now();
            let created = maps.create(&PostParams::default(), &map).await;
            assert_eq!(began.elapsed().as_secs(), seconds, "{name}");
            match policy {
                FailurePolicy::Ignore => assert!(created.is_ok(), "{created:?}"),
                FailurePolicy::Fail => {
                    let error = created.unwrap_err().to_string();
                    assert!(error.contains(told), "{error}");
                }
            }
        }
    }
}
