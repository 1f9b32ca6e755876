//! The open watches of a wire, and the process behind it: is there anything that the operator has not seen or done?

use std::sync::Arc;
use std::time::Duration;

use super::Wire;
use super::process::Process;
use crate::subject::Activity;
use crate::traffic::Call;

/// A watch that shows all objects of a resource, in a namespace or in all.
pub(super) struct Open {
    incarnation: u32,
    resource: String,
    /// Empty: all namespaces.
    namespace: String,
    /// The revision up to which the watch has shown everything.
    shown: u64,
}

impl Wire {
    /// Notes the activity of a process.
    pub fn runs_as(&self, incarnation: u32, activity: Option<Arc<dyn Activity>>) {
        if let Some(process) = self.state().processes.get_mut(&incarnation) {
            process.activity = activity;
        }
    }

    /// Returns whether the operator computes. `false` if it is no process of its own.
    pub fn is_busy(&self) -> bool {
        let all: Vec<_> =
            self.state().processes.values().filter_map(|process| process.activity.clone()).collect();
        all.iter().any(|activity| activity.is_busy())
    }

    /// Returns whether the operator has begun, and all its requests are answered, apart from held watches.
    pub fn is_answered(&self) -> bool {
        let state = self.state();
        state.processes.values().all(Process::is_quiet) && state.is_ready()
    }

    /// Notes that the operator wrote by itself after it had waited.
    pub fn waited(&self, pause: Duration) {
        let mut state = self.state();
        state.pause = state.pause.max(pause);
    }

    /// Returns the longest wait of this step.
    pub fn pause(&self) -> Duration {
        self.state().pause
    }

    /// Notes a watch that the server accepted. Returns its number, or `None` for a watch that shows a selection.
    pub fn watch_opens(&self, incarnation: u32, call: &Call, query: &str) -> Option<usize> {
        let selects = |pair: &str| pair.starts_with("labelSelector=") || pair.starts_with("fieldSelector=");
        if query.split('&').any(selects) || !call.object.name.is_empty() {
            return None;
        }
        let version = query.split('&').find_map(|pair| pair.strip_prefix("resourceVersion="));
        let version = version.and_then(|version| version.parse().ok()).filter(|version| *version > 0);
        // Without a version, a watch begins with the present state.
        let shown = version.unwrap_or_else(|| self.store.revision());
        let mut state = self.state();
        let number = state.open.keys().next_back().map_or(0, |last| last + 1);
        let (resource, namespace) = (call.object.resource.clone(), call.object.namespace.clone());
        state.open.insert(number, Open { incarnation, resource, namespace, shown });
        Some(number)
    }

    /// Notes that a watch has shown everything up to a revision.
    pub fn watch_shows(&self, number: Option<usize>, revision: u64) {
        let mut state = self.state();
        if let Some(open) = number.and_then(|number| state.open.get_mut(&number)) {
            open.shown = open.shown.max(revision);
        }
    }

    /// Forgets a watch.
    pub fn watch_ends(&self, number: Option<usize>) {
        if let Some(number) = number {
            self.state().open.remove(&number);
        }
    }

    /// Returns whether each watch has shown the last revision of its resource.
    pub fn shows_all(&self, newest: impl Fn(&str, &str) -> u64) -> bool {
        let state = self.state();
        let mut open = state.open.values().filter(|open| state.processes.contains_key(&open.incarnation));
        open.all(|open| open.shown >= newest(&open.resource, &open.namespace))
    }
}
