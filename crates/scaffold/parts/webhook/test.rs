//! The admission webhooks of a StaticSite, called by the API server.

use kube::Api;
use kube::api::PostParams;
use template_operator::static_site::{StaticSite, StaticSiteSpec};

use super::start;

#[tokio::test(start_paused = true)]
async fn the_webhook_trims_and_refuses() {
    let cluster = start().await;
    let objects: Api<StaticSite> = Api::default_namespaced(cluster.client());
    let object = |message: &str| StaticSite::new("home", StaticSiteSpec { message: message.into() });
    let created = objects.create(&PostParams::default(), &object(" Hello ")).await.unwrap();
    assert_eq!(created.spec.message, "Hello");
    let refused = objects.create(&PostParams::default(), &object(" home")).await.unwrap_err();
    assert!(refused.to_string().contains("more than the name"), "{refused}");
}
