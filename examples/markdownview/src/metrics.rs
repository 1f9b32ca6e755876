//! One gauge a view and state, which goes when the view goes.

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use setpoint::{Manager, Request};

use crate::types::State;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    namespace: String,
    name: String,
    state: State,
}

impl EncodeLabelValue for State {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        std::fmt::Write::write_str(encoder, &format!("{self:?}"))
    }
}

/// `markdownview_state{namespace,name,state}`: 1 for the state that the view is in, 0 for the others.
#[derive(Clone, Debug, Default)]
pub struct Metrics(Family<Labels, Gauge>);

const STATES: [State; 3] = [State::NotReady, State::Available, State::Healthy];

impl Metrics {
    /// Makes it part of what the manager serves.
    pub fn register(&self, manager: &Manager) {
        let help = "Which state each MarkdownView is in";
        manager.metrics().register("markdownview_state", help, self.0.clone());
    }

    pub fn set(&self, request: &Request, state: State) {
        for other in STATES {
            self.0.get_or_create(&labels(request, other)).set(i64::from(other == state));
        }
    }

    pub fn remove(&self, request: &Request) {
        for state in STATES {
            self.0.remove(&labels(request, state));
        }
    }
}

fn labels(request: &Request, state: State) -> Labels {
    Labels { namespace: request.namespace().unwrap_or_default().into(), name: request.name().into(), state }
}
