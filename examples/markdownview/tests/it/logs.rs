//! The lines that each step logs.

use std::cell::RefCell;
use std::io::{self, Write};
use std::sync::Once;

use markdownview_operator::MarkdownView;
use operator_testing::{World, until};

use super::{OPERATOR, until_gone, until_state, view};

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
        let filter = "markdownview_operator=info";
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
async fn each_step_is_a_line() {
    listen();
    let world = World::start(OPERATOR).await;
    world.apply(&view("sample", 1)).await;
    until_state(&world, "sample", "Healthy").await;
    let first = lines("default/sample");
    let wanted = [
        "reconciled the config map operation=Created",
        "reconciled the deployment",
        "reconciled the service",
        "updating status state=NotReady",
    ];
    assert_eq!(first[..4], wanted);
    let wanted = [
        "reconciled the config map operation=Unchanged",
        "reconciled the deployment",
        "reconciled the service",
        "updating status state=Healthy",
    ];
    assert!(first.windows(4).any(|four| four == wanted), "{first:#?}");
    world.delete::<MarkdownView>("sample").await;
    until_gone(&world, "sample").await;
    let wanted = "the view is not found; removing its metrics";
    until(wanted, async || lines("default/sample").iter().any(|line| line == wanted).then_some(())).await;
}
