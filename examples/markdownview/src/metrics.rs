//! One gauge a view and state, which goes when the view goes.

use setpoint::metrics::prometheus_client::metrics::{family::Family, gauge::Gauge};
use setpoint::{Key, Manager};

use crate::types::State;

const STATES: [State; 3] = [State::NotReady, State::Available, State::Healthy];

/// `markdownview_state{namespace,name,state}`: 1 for the state that the view is in, 0 for the others.
#[derive(Clone, Debug, Default)]
pub struct Metrics(Family<Vec<(&'static str, String)>, Gauge>);

impl Metrics {
    /// Makes it part of what the manager serves.
    pub fn register(&self, manager: &Manager) {
        manager.metrics().register("markdownview_state", "Which state each view is in", self.0.clone());
    }

    pub fn set(&self, key: &Key, state: State) {
        for other in STATES {
            self.0.get_or_create(&labels(key, other)).set(i64::from(other == state));
        }
    }

    pub fn remove(&self, key: &Key) {
        for state in STATES {
            self.0.remove(&labels(key, state));
        }
    }
}

fn labels(key: &Key, state: State) -> Vec<(&'static str, String)> {
    let namespace = key.namespace().unwrap_or_default().to_owned();
    vec![("namespace", namespace), ("name", key.name().to_owned()), ("state", format!("{state:?}"))]
}
