//! The metrics of informers.

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use setpoint::Target;
use setpoint::informer::{InformerCollector, InformerFactory, SubscribeOptions};

use crate::informers::factory;
use crate::world::World;

fn text(factory: &InformerFactory) -> String {
    let mut registry = prometheus_client::registry::Registry::default();
    registry.register_collector(Box::new(InformerCollector::new(factory.clone())));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    text
}

/// The number that is published under this name for the only informer.
pub fn published(factory: &InformerFactory, name: &str) -> u64 {
    let text = text(factory);
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with(&format!("{name}{{"))).collect();
    let [line] = lines[..] else { panic!("not one {name} in\n{text}") };
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn numbers_are_published_for_each_informer() {
    let world = World::new();
    world.put("a", "x", &json!({}));
    let factory = factory(&world);
    let informer = factory.informer(Target::of::<ConfigMap>());
    let _other = factory.informer(Target::of::<ConfigMap>().in_namespace("b").labels("app=web"));
    informer.start();
    informer.wait_synced().await;
    let text = text(&factory);
    let kind = r#"group="",version="v1",resource="configmaps""#;
    for line in [
        format!(r#"setpoint_cache_objects{{name="",{kind}}} 1"#),
        format!(r#"informer_store_resource_version{{name="",{kind}}} 11"#),
        format!(r#"setpoint_informer_watches_total{{name="",{kind}}} 1"#),
        format!(r#"setpoint_informer_synced{{name="b; app=web",{kind}}} 0"#),
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_lag_is_what_waits_for_the_slowest_handler_and_what_was_merged() {
    let world = World::new();
    let factory = factory(&world);
    let informer = factory.informer(Target::of::<ConfigMap>());
    informer.start();
    informer.wait_synced().await;
    let mut prompt = informer.subscribe(&SubscribeOptions::default());
    let mut slow = informer.subscribe(&SubscribeOptions::with(|options| options.capacity = 3));
    let lag = || {
        ["setpoint_informer_handler_lag", "setpoint_informer_handler_merged_total"]
            .map(|name| published(&factory, name))
    };
    assert_eq!(lag(), [0, 0]);
    // Three fit; from then on the updates of one object become one.
    for number in 0..7 {
        let revision = world.put("a", "x", &json!({"value": number.to_string()}));
        informer.store().wait_until(Some("a"), revision).await;
        assert!(prompt.recv().await.is_some());
        let waiting = u64::min(number + 1, 3);
        assert_eq!(lag(), [waiting, number + 1 - waiting]);
    }
    assert_eq!((slow.lag().waiting, slow.lag().merged), (3, 4));
    assert_eq!((prompt.lag().waiting, prompt.lag().merged), (0, 0));
    for left in (0..3).rev() {
        assert!(slow.try_recv().is_some());
        assert_eq!(lag(), [left, 4]);
    }
    drop(slow);
    assert_eq!(lag(), [0, 4], "what was counted stays counted when the handler goes");
}
