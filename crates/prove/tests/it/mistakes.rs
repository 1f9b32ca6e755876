//! Programs on a bare `kube::Client` with mistakes: each is found, told and replayed.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ObjectMeta, PostParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt};
use serde_json::json;
use setpoint_cluster::{Controllers, Options};
use setpoint_prove::{Oracle, Prove, Subject, program, prove};

const SOURCE: &str = "source";

/// Copies a ConfigMap twice. With the mistake the absence of the first copy guards both.
async fn copy(client: Client, mistake: bool) -> kube::Result<()> {
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    loop {
        let events = maps.watch(&WatchParams::default().fields("metadata.name=source"), "0").await;
        let Ok(events) = events else {
            tokio::time::sleep(Duration::from_secs(1)).await;
            continue;
        };
        let mut events = events.boxed();
        while let Ok(Some(event)) = events.try_next().await {
            let (WatchEvent::Added(source) | WatchEvent::Modified(source)) = event else { continue };
            while make(&maps, &source, mistake).await.is_err() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

async fn make(maps: &Api<ConfigMap>, source: &ConfigMap, mistake: bool) -> kube::Result<()> {
    let first_missing = maps.get_opt("copy-1").await?.is_none();
    for name in ["copy-1", "copy-2"] {
        let missing = if mistake { first_missing } else { maps.get_opt(name).await?.is_none() };
        if missing {
            let metadata = ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() };
            let copy = ConfigMap { metadata, data: source.data.clone(), ..ConfigMap::default() };
            maps.create(&PostParams::default(), &copy).await?;
        }
    }
    Ok(())
}

fn copier(mistake: bool) -> Subject {
    program("copier", Vec::new(), move |client| copy(client, mistake))
}

fn life(mistake: bool) -> Prove {
    prove(copier(mistake)).cluster(bare).apply(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": SOURCE}, "data": {"a": "b"},
    }))
}

fn bare(options: &mut Options) {
    options.controllers = Controllers::None;
    options.nodes.count = 0;
}

fn copies(view: &setpoint_prove::View<'_>) -> usize {
    view.list::<ConfigMap>().iter().filter(|map| map.name_any().starts_with("copy-")).count()
}

#[test]
fn any_program_on_a_client_can_be_the_subject() {
    let report = life(false)
        .never("three copies", |view| copies(view) > 2)
        .always("a source before a copy", |view| {
            copies(view) == 0 || copies(view) < view.list::<ConfigMap>().len()
        })
        .eventually("two copies", |view| copies(view) == 2)
        .check();
    assert_eq!(report.nondeterminism, None);
    assert!(report.visited["crash after a write"].run >= 2, "{report}");
}

#[test]
fn a_crash_between_two_writes_is_found_told_and_replayed() {
    let report = life(true).run().unwrap();
    let [finding] = report.findings.as_slice() else { panic!("{report}") };
    assert_eq!((finding.oracle, finding.place.as_str()), (Oracle::Convergence, "configmaps/copy-2"));
    assert!(finding.trace.contains("POST configmaps/copy-1"), "{report}");
    assert!(finding.trace.contains("crash after a write"), "{report}");
    assert!(finding.trace.contains("Undisturbed the operator sends POST configmaps/copy-2."), "{report}");
    assert!(report.junit().contains("failures=\"1\""), "{}", report.junit());

    let again = prove(copier(true)).cluster(bare).replay(&finding.file).unwrap();
    assert_eq!(again.findings[0].trace, finding.trace, "one seed gives one trace");
    let mended = prove(copier(false)).cluster(bare).replay(&finding.file).unwrap();
    assert!(mended.findings.is_empty(), "{mended}");
}

#[test]
fn a_broken_property_is_a_finding() {
    let report = life(false).never("two copies", |view| copies(view) == 2).run().unwrap();
    assert_eq!(report.findings[0].oracle, Oracle::Property, "{report}");
}

#[test]
fn a_program_that_ends_is_a_finding() {
    let subject = program("quitter", Vec::new(), |_| async { Err::<(), _>("no more") });
    let life = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": SOURCE}});
    let report = prove(subject).cluster(bare).apply(life).run().unwrap();
    assert_eq!(report.findings[0].oracle, Oracle::Panic, "{report}");
    assert!(report.findings[0].headline.contains("no more"), "{report}");
}

#[test]
fn a_life_that_cannot_be_lived_says_why() {
    let error = prove(copier(false)).cluster(bare).delete("nobody").run().unwrap_err();
    assert_eq!(error.to_string(), "step 1: no earlier step applies an object \"nobody\"");
    let error = prove(copier(false)).replay("life: []").unwrap_err();
    assert!(error.to_string().starts_with("the plan file: "), "{error}");
}
