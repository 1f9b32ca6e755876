//! The cluster's tools for tests: identities, forks, history, time, waits.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Endpoints, Event, Namespace, Pod};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client};
use serde_json::{Value, json};
use setpoint_cluster::{Change, ChangeKind, Cluster, Controllers, NodeOptions, Options};

async fn bare() -> Cluster {
    let nodes = NodeOptions { count: 0, ..NodeOptions::default() };
    let options = Options { controllers: Controllers::None, nodes, ..Options::default() };
    Cluster::start(options).await.unwrap()
}

fn maps(client: Client) -> Api<ConfigMap> {
    Api::namespaced(client, "default")
}

async fn make<K>(api: &Api<K>, object: Value) -> K
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn history_tells_who_wrote_what_at_which_version() {
    let cluster = bare().await;
    let maps = maps(cluster.client());
    let written = make(&maps, json!({"metadata": {"name": "a"}, "data": {"k": "1"}})).await;
    let patch = Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "2"}}));
    cluster.advance(Duration::from_secs(1)).await;
    maps.patch("a", &PatchParams::apply("someone").force(), &patch).await.unwrap();
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    let history = cluster.history(&written);
    let kinds: Vec<ChangeKind> = history.iter().map(|change| change.kind).collect();
    assert_eq!(kinds, [ChangeKind::Created, ChangeKind::Updated, ChangeKind::Deleted]);
    assert_eq!(history[1].manager.as_deref(), Some("someone"));
    assert_eq!(history[1].fields, ["data.k"]);
    assert_eq!(Some(history[0].revision.to_string()), written.metadata.resource_version);
    assert!(history.windows(2).all(|pair| pair[0].revision < pair[1].revision));
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_fails_says_what_happened_instead() {
    let cluster = bare().await;
    let maps = maps(cluster.client());
    make(&maps, json!({"metadata": {"name": "a"}, "data": {"k": "1"}})).await;
    let patch = Patch::Merge(json!({"data": {"k": "2"}}));
    maps.patch("a", &PatchParams { field_manager: Some("someone".into()), ..PatchParams::default() }, &patch)
        .await
        .unwrap();
    let failed = cluster.eventually("the impossible", async || None::<()>).await.unwrap_err().to_string();
    let version = cluster.store().revision();
    assert!(failed.starts_with("the impossible did not come within 20s"), "{failed}");
    let line = format!("{version} updated /registry/core/configmaps/default/a by someone: data.k");
    assert!(failed.contains(&line), "{failed}");
}

#[tokio::test(start_paused = true)]
async fn a_test_moves_the_clock_past_deadlines() {
    let cluster = Cluster::start(Options::default()).await.unwrap();
    let deployments: Api<Deployment> = Api::namespaced(cluster.client(), "default");
    make(
        &deployments,
        json!({"metadata": {"name": "stuck"}, "spec": {
        "selector": {"matchLabels": {"app": "stuck"}}, "progressDeadlineSeconds": 60,
        "template": {"metadata": {"labels": {"app": "stuck"},
                "annotations": {"setpoint.dev/ready-delay": "1h"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}}}),
    )
    .await;
    let progressing = async || {
        let found = deployments.get("stuck").await.unwrap();
        let conditions = found.status.and_then(|status| status.conditions).unwrap_or_default();
        conditions.into_iter().find(|condition| condition.type_.as_deref() == Some("Progressing"))
    };
    cluster.eventually("progress", &progressing).await.unwrap();
    cluster.advance(Duration::from_secs(120)).await;
    let late = progressing().await.unwrap();
    assert_eq!(late.reason.as_deref(), Some("ProgressDeadlineExceeded"));
}

#[tokio::test(start_paused = true)]
async fn leases_are_renewed_and_events_expire_as_the_clock_moves() {
    let cluster = Cluster::start(Options::default()).await.unwrap();
    let leases: Api<Lease> = Api::namespaced(cluster.client(), "kube-node-lease");
    let renewed =
        async || leases.get_opt("setpoint-0").await.unwrap().and_then(|lease| lease.spec?.renew_time);
    let first = cluster.eventually("the node's lease", &renewed).await.unwrap();
    let events: Api<Event> = Api::namespaced(cluster.client(), "default");
    make(&events, json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}})).await;
    cluster.advance(Duration::from_secs(60)).await;
    let second = renewed().await.unwrap();
    assert!(second.0.duration_since(first.0).as_secs() >= 50, "{first:?} {second:?}");
    assert!(events.get_opt("e").await.unwrap().is_some());
    cluster.advance(Duration::from_secs(3600)).await;
    assert!(events.get_opt("e").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_fork_has_the_same_objects_and_goes_its_own_way() {
    let cluster = bare().await;
    let written = make(&maps(cluster.client()), json!({"metadata": {"name": "a"}})).await;
    let fork = cluster.fork().await.unwrap();
    let copied = maps(fork.client()).get("a").await.unwrap();
    assert_eq!(copied.metadata, written.metadata);
    assert_eq!(fork.store().revision(), cluster.store().revision());
    let authority = |cluster: &Cluster| cluster.server().options().ca_certificate.clone();
    assert_eq!(authority(&fork), authority(&cluster));
    maps(fork.client()).delete("a", &DeleteParams::default()).await.unwrap();
    assert!(maps(cluster.client()).get_opt("a").await.unwrap().is_some());
}

#[test]
fn a_checkpoint_starts_equal_clusters_on_other_runtimes() {
    let simulate = || tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let checkpoint = simulate().unwrap().block_on(async {
        let cluster = bare().await;
        make(&maps(cluster.client()), json!({"metadata": {"name": "a"}})).await;
        cluster.advance(Duration::from_secs(60)).await;
        cluster.checkpoint()
    });
    let go_on = || {
        simulate().unwrap().block_on(async {
            let cluster = checkpoint.start().await.unwrap();
            assert_eq!(cluster.clock().now(), checkpoint.time());
            assert!(maps(cluster.client()).get_opt("a").await.unwrap().is_some());
            make(&maps(cluster.client()), json!({"metadata": {"name": "b"}})).await.metadata
        })
    };
    assert_eq!(go_on(), go_on());
}

#[tokio::test(start_paused = true)]
async fn a_fork_goes_on_in_time_randomness_and_history() {
    let nodes = NodeOptions { count: 0, ..NodeOptions::default() };
    let options = Options { seed: Some(7), controllers: Controllers::None, nodes, ..Options::default() };
    let cluster = Cluster::start(options).await.unwrap();
    let made = make(&maps(cluster.client()), json!({"metadata": {"name": "a"}})).await;
    let mut uids = std::collections::BTreeSet::from([made.metadata.uid.clone()]);
    cluster.advance(Duration::from_secs(60)).await;
    let fork = cluster.fork().await.unwrap();
    assert_eq!(fork.clock().now(), cluster.clock().now());
    // The origins are in the memory of the first one's server.
    let past = |cluster: &Cluster| -> Vec<Change> {
        cluster.history(&made).into_iter().map(|change| Change { origin: None, ..change }).collect()
    };
    assert_eq!(past(&fork), past(&cluster));
    assert_eq!(fork.history(&made).len(), 1);
    for number in 0..100 {
        let made = make(&maps(fork.client()), json!({"metadata": {"name": format!("b-{number}")}})).await;
        assert!(uids.insert(made.metadata.uid), "a uid was given twice");
    }
}

#[tokio::test(start_paused = true)]
async fn anybody_can_be_asked_for_and_may_do_what_roles_say() {
    let cluster = bare().await;
    let alice = cluster.client_as("alice", &["dev"]);
    let refused = maps(alice).get("a").await.unwrap_err();
    assert!(refused.to_string().contains("User \"alice\" cannot get resource \"configmaps\""), "{refused}");
    let root = cluster.client_as("root", &["system:masters"]);
    assert!(maps(root).get_opt("a").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn many_live_in_one_process_and_know_nothing_of_each_other() {
    let mut clusters = Vec::new();
    for number in 0..100 {
        let cluster = bare().await;
        let namespaces: Api<Namespace> = Api::all(cluster.client());
        make(&namespaces, json!({"metadata": {"name": format!("n{number}")}})).await;
        clusters.push(cluster);
    }
    for (number, cluster) in clusters.iter().enumerate() {
        let namespaces: Api<Namespace> = Api::all(cluster.client());
        assert_eq!(namespaces.list(&Default::default()).await.unwrap().items.len(), 5);
        assert!(namespaces.get_opt(&format!("n{number}")).await.unwrap().is_some());
    }
}

#[tokio::test]
async fn the_service_kubernetes_leads_to_the_socket() {
    let cluster = bare().await;
    let address = cluster.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let endpoints: Api<Endpoints> = Api::namespaced(cluster.client(), "default");
    let found = cluster.eventually("the endpoints", async || endpoints.get_opt("kubernetes").await.unwrap());
    let subsets = found.await.unwrap().subsets.unwrap();
    assert_eq!(subsets[0].addresses.as_ref().unwrap()[0].ip, "127.0.0.1");
    assert_eq!(subsets[0].ports.as_ref().unwrap()[0].port, i32::from(address.port()));
    let slices: Api<EndpointSlice> = Api::namespaced(cluster.client(), "default");
    let slice = slices.get("kubernetes").await.unwrap();
    assert_eq!(slice.endpoints.unwrap()[0].addresses, ["127.0.0.1"]);
    assert_eq!(slice.ports.unwrap()[0].port, Some(i32::from(address.port())));
    endpoints.delete("kubernetes", &DeleteParams::default()).await.unwrap();
    let again =
        cluster.eventually("the endpoints are back", async || endpoints.get_opt("kubernetes").await.unwrap());
    again.await.unwrap();
}

#[tokio::test]
async fn api_servers_beside_this_one_learn_whom_it_trusts() {
    let cluster = bare().await;
    cluster.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), "kube-system");
    let name = "extension-apiserver-authentication";
    let published = async |what: &str| {
        cluster.eventually(what, async || maps.get_opt(name).await.unwrap()).await.unwrap()
    };
    let authority = cluster.server().options().ca_certificate.clone().unwrap();
    assert_eq!(published("the map").await.data.unwrap()["client-ca-file"], authority);
    maps.delete(name, &DeleteParams::default()).await.unwrap();
    published("the map is back").await;
}

#[tokio::test]
async fn a_certificate_of_another_authority_is_answered_with_401() {
    let (cluster, other) = (bare().await, bare().await);
    let address = cluster.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let read = |cluster: &Cluster| Kubeconfig::from_yaml(&cluster.kubeconfig(address).unwrap()).unwrap();
    let mut config = read(&cluster);
    config.auth_infos = read(&other).auth_infos;
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(config, &options).await.unwrap();
    let stranger = Client::try_from(config).unwrap();
    let refused = maps(stranger).get("a").await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 401), "{refused:?}");
    let config = kube::Config::from_custom_kubeconfig(read(&cluster), &options).await.unwrap();
    let known = Client::try_from(config).unwrap();
    assert!(maps(known).get_opt("a").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_stopped_cluster_answers_no_more_and_a_pod_runs_while_it_lives() {
    let cluster = Cluster::start(Options::default()).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(cluster.client(), "default");
    cluster
        .eventually("the default account", async || {
            let pod =
                json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
            pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.ok()
        })
        .await
        .unwrap();
    cluster
        .eventually("the pod runs", async || {
            let status = pods.get("p").await.unwrap().status?;
            (status.phase.as_deref() == Some("Running")).then_some(())
        })
        .await
        .unwrap();
    cluster.shutdown().await;
}
