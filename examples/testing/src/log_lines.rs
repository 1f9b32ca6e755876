//! The lines that an operator logs on the thread of a test.

use std::cell::RefCell;
use std::io::{self, Write};
use std::sync::Once;

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

/// Keeps the lines of level `info` and above that the crate `target` logs on this thread from now on. All tests of a
/// program must name the same crate.
pub fn listen(target: &str) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let filter = format!("{target}=info");
        tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(|| ToThread).init();
        // A line that was reached before this call would stay silent.
        tracing::callsite::rebuild_interest_cache();
    });
}

/// Returns the lines about an object since the last call: message and fields, without time and span.
pub fn lines(object: &str) -> Vec<String> {
    let text = String::from_utf8(LOGGED.take()).unwrap();
    let messages = text.lines().filter_map(|line| line.rsplit_once(": ")).map(|(_, message)| message);
    let field = format!(" object={object}");
    let mut lines: Vec<_> =
        messages.filter(|line| line.contains(&field)).map(|line| line.replacen(&field, "", 1)).collect();
    lines.dedup();
    lines
}
