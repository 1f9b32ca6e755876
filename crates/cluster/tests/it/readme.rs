//! The operator of the README and its test, as the README shows them.

#![allow(clippy::disallowed_methods, reason = "an author's test may spawn where it likes")]

// README: begin
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, CustomResource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use setpoint::client::controller_reference;
use setpoint::{Action, Context, Controller, Error, Key, Manager, ManagerOptions, SetupError};

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.org", version = "v1", kind = "Website", namespaced)]
struct WebsiteSpec {
    page: String,
}

fn register(manager: &Manager) -> Result<(), SetupError> {
    Controller::for_kind::<Website>(manager).owns::<ConfigMap>().register(publish)?;
    Ok(())
}

/// Keeps a ConfigMap with the page of each Website.
async fn publish(ctx: Context, key: Key) -> Result<Action, Error> {
    // Reads come from the cache. A Website that is gone needs nothing: its ConfigMap is garbage collected.
    let Some(site) = ctx.client().get::<Website>(&key).await? else { return Ok(Action::done()) };
    let page = ConfigMap {
        metadata: ObjectMeta {
            name: Some(site.name_any()),
            namespace: site.namespace(),
            owner_references: Some(vec![controller_reference(&*site)?]),
            ..ObjectMeta::default()
        },
        data: Some([("index.html".to_owned(), site.spec.page.clone())].into()),
        ..ConfigMap::default()
    };
    // Server-side apply. Nothing is sent if the cache shows that nothing would change.
    ctx.client().apply(&page).await?;
    Ok(Action::done())
}

#[tokio::test(start_paused = true)] // hours of back-off pass at once
async fn a_website_gets_its_page_back() {
    let cluster = setpoint_cluster::Cluster::start(Default::default()).await.unwrap(); // in this process, no socket
    cluster.install::<Website>().await.unwrap();
    let manager = Manager::new(cluster.client(), ManagerOptions::default());
    register(&manager).unwrap();
    tokio::spawn(async move { manager.run(std::future::pending()).await });

    let sites: Api<Website> = Api::default_namespaced(cluster.client());
    let site = Website::new("home", WebsiteSpec { page: "<h1>Hello</h1>".into() });
    sites.create(&Default::default(), &site).await.unwrap();
    let pages: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let page = || async { pages.get_opt("home").await.ok()??.data?.remove("index.html") };
    assert_eq!(cluster.eventually("the page", page).await.unwrap(), "<h1>Hello</h1>");

    pages.delete("home", &Default::default()).await.unwrap();
    assert_eq!(cluster.eventually("the page again", page).await.unwrap(), "<h1>Hello</h1>");
}
// README: end

#[test]
fn the_readme_shows_this_operator() {
    let shown = |text: &'static str| {
        text.split_once("// README: begin\n")?.1.split_once("// README: end").map(|(code, _)| code)
    };
    let code = shown(include_str!("readme.rs")).unwrap();
    let readme = include_str!("../../../../README.md");
    assert!(
        readme.contains(&format!("```rust\n{code}```")),
        "README.md does not show the operator of {}",
        file!()
    );
}
