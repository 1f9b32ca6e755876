//! The lines that each step logs.

use std::cell::RefCell;
use std::io::{self, Write};
use std::sync::Once;

use k8s_openapi::api::apps::v1::Deployment;
use myresource_operator::MyResource;
use operator_testing::{World, until};
use serde_json::json;

use super::{OPERATOR, resource, until_gone, until_state};

thread_local! {
    /// Each test has a thread of its own.
    static LOGGED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

struct ToThread;

impl Write for ToThread {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOGGED.with_borrow_mut(|logged| logged.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Keeps the lines that the operator logs on this thread from now on.
fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let filter = "myresource_operator=info";
        tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(|| ToThread).init();
        // A line that was reached before anybody listened would stay silent.
        tracing::callsite::rebuild_interest_cache();
    });
}

/// The lines about an object since the last call: message and fields, without time and span.
fn lines(object: &str) -> Vec<String> {
    let text = String::from_utf8(LOGGED.take()).unwrap();
    let messages = text.lines().filter_map(|line| line.rsplit_once(": ")).map(|(_, message)| message);
    let field = format!(" object={object}");
    let mut lines: Vec<_> =
        messages.filter(|line| line.contains(&field)).map(|line| line.replacen(&field, "", 1)).collect();
    lines.dedup();
    lines
}

#[tokio::test(start_paused = true)]
async fn each_step_is_a_line_of_the_book() {
    listen();
    let world = World::start(OPERATOR).await;
    world.apply(&resource("one", "nginx")).await;
    until_state(&world, "one", "Ready").await;
    let first = lines("default/one");
    let wanted = [
        "getting myresource instance",
        "got deployment status ready_replicas=0",
        "updating status state=Building",
    ];
    assert_eq!(first[..3], wanted);
    let wanted = ["got deployment status ready_replicas=1", "updating status state=Ready"];
    assert!(first.windows(2).any(|two| two == wanted), "{first:#?}");
    let mut second = serde_json::to_value(world.get::<Deployment>("one-deployment").await.unwrap()).unwrap();
    second["metadata"] = json!({"name": "second", "labels": {"myresource": "one"}});
    second
        .as_object_mut()
        .unwrap()
        .extend([("apiVersion".to_owned(), json!("apps/v1")), ("kind".to_owned(), json!("Deployment"))]);
    second.as_object_mut().unwrap().remove("status");
    world.apply(&second).await;
    world.change::<MyResource>("one", json!({"metadata": {"labels": {"a": "b"}}})).await;
    let wanted = "too many deployments found count=2";
    until(wanted, async || lines("default/one").iter().any(|line| line == wanted).then_some(())).await;
    world.delete::<MyResource>("one").await;
    until_gone(&world, "one").await;
    let wanted = "resource is not found";
    until(wanted, async || lines("default/one").iter().any(|line| line == wanted).then_some(())).await;
}
