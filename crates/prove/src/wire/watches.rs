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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use setpoint_store::{Options, Store};

    use super::*;
    use crate::resource::ObjectName;
    use crate::settings::Pace;

    struct Computes(bool);

    impl Activity for Computes {
        fn is_busy(&self) -> bool {
            self.0
        }
    }

    fn watch(namespace: &str) -> Call {
        let object =
            ObjectName { resource: "configmaps".into(), namespace: namespace.into(), name: String::new() };
        let (path, subresource) = ("/api/v1/configmaps".into(), String::new());
        Call { verb: "GET".into(), object, path, subresource, watch: true }
    }

    fn wire() -> Wire {
        Wire::new(Store::memory(Options::default()), None, Pace::real(), BTreeSet::new())
    }

    #[test]
    fn each_watch_must_show_the_last_revision_of_its_resource() {
        let wire = wire();
        let operator = wire.begin_process(None);
        let newest = |_: &str, namespace: &str| if namespace == "quiet" { 5 } else { 7 };
        let one = wire.watch_opens(operator, &watch(""), "watch=true&resourceVersion=5");
        wire.watch_opens(operator, &watch("quiet"), "watch=true&resourceVersion=5");
        assert!(!wire.shows_all(newest));
        wire.watch_shows(one, 7);
        assert!(wire.shows_all(newest));

        let two = wire.watch_opens(operator, &watch(""), "watch=true&resourceVersion=6");
        assert!(!wire.shows_all(newest));
        wire.watch_ends(two);
        assert!(wire.shows_all(newest), "a watch that has ended shows nothing");
        let selected = "watch=true&resourceVersion=6&labelSelector=a%3Db";
        assert_eq!(wire.watch_opens(operator, &watch(""), selected), None);

        wire.watch_opens(operator, &watch(""), "watch=true&resourceVersion=6");
        wire.end_process(operator);
        assert!(wire.shows_all(newest), "the watches of a dead process show nothing");
    }

    #[test]
    fn the_operator_is_busy_while_a_process_of_it_computes() {
        let wire = wire();
        let operator = wire.begin_process(None);
        assert!(!wire.is_busy(), "a program without a process of its own is never busy");
        for busy in [false, true] {
            wire.runs_as(operator, Some(Arc::new(Computes(busy))));
            assert_eq!(wire.is_busy(), busy);
        }
        wire.end_process(operator);
        assert!(!wire.is_busy());
    }
}
