//! Findings, the oracles that they contradict, and the statements of the author.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use crate::plan::Plan;
use crate::resource::ObjectName;
use crate::state::{Difference, View};

/// The statement that a finding contradicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Oracle {
    /// Once faults stop, the store becomes equal to that of the undisturbed run.
    Convergence,
    /// The operator comes to rest.
    Rest,
    /// A restarted operator that finds its work done changes nothing.
    Idempotence,
    /// No object is created or deleted more often than in the undisturbed run.
    Identity,
    /// The way back: applying the same object twice, with other steps between, leads to the same state.
    WayBack,
    /// Nothing that the operator made is left when the objects of the life are gone.
    Residue,
    /// `status.observedGeneration` is that of the object.
    Status,
    /// The operator neither panics nor ends.
    Panic,
    /// The operator is refused nothing for lack of a right.
    Rights,
    /// A disturbed operator sends at most ten times the writes of an undisturbed one, and fifty more.
    Work,
    /// A broken spec that is mended leads to the same state as one that never broke.
    Recovery,
    /// No write removes a concurrent change of somebody else.
    LostUpdate,
    /// Every object that the operator makes goes with its owner, which is in reach of the garbage collector.
    Ownership,
    /// No field goes back and forth.
    FlipFlop,
    /// Two objects in two namespaces become what each becomes alone.
    Isolation,
    /// No replica writes while another one holds the Lease.
    Leader,
    /// Advisory: a property of the spec has an effect.
    Effect,
    /// Advisory: an object is not ready while a child is not.
    Readiness,
    /// Advisory: the operator takes back what somebody edits by hand.
    Healing,
    /// A property of the author.
    Property,
}

impl Oracle {
    /// Returns whether a finding of the oracle fails no proof: it may be meant.
    pub fn is_advisory(self) -> bool {
        matches!(self, Oracle::Effect | Oracle::Readiness | Oracle::Healing)
    }

    /// Returns the name, as reports print it.
    pub fn name(self) -> &'static str {
        match self {
            Oracle::Convergence => "convergence",
            Oracle::Rest => "rest",
            Oracle::Idempotence => "idempotence",
            Oracle::Identity => "identity",
            Oracle::WayBack => "way back",
            Oracle::Residue => "residue",
            Oracle::Status => "status",
            Oracle::Panic => "panic",
            Oracle::Rights => "rights",
            Oracle::Work => "work",
            Oracle::Recovery => "recovery",
            Oracle::LostUpdate => "lost update",
            Oracle::Ownership => "ownership",
            Oracle::FlipFlop => "flip-flop",
            Oracle::Isolation => "isolation",
            Oracle::Leader => "leader",
            Oracle::Effect => "effect",
            Oracle::Readiness => "readiness",
            Oracle::Healing => "healing",
            Oracle::Property => "property",
        }
    }
}

/// A run that contradicts an oracle.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The oracle.
    pub oracle: Oracle,
    /// One sentence that says what is wrong.
    pub headline: String,
    /// The object and field, by which equal findings are recognised.
    pub place: String,
    /// The fault. `None`: the undisturbed life shows it.
    pub plan: Option<Plan>,
    /// The run and the undisturbed run, as text.
    pub trace: String,
    /// The same as a part of an HTML page.
    pub page: String,
    /// The file that replays the finding.
    pub file: String,
}

impl Finding {
    /// Returns whether two findings are the same defect.
    pub fn is_like(&self, other: &Finding) -> bool {
        self.oracle == other.oracle && self.place == other.place
    }

    /// Makes a finding without its trace.
    pub(crate) fn new(oracle: Oracle, place: impl Into<String>, headline: String) -> Finding {
        let place = place.into();
        let (trace, page, file) = (String::new(), String::new(), String::new());
        Finding { oracle, headline, place, plan: None, trace, page, file }
    }
}

/// When a property of the author must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// In no state after any commit.
    Never,
    /// In the state after every commit.
    Always,
    /// At rest after the last step.
    Eventually,
}

/// A property of the author.
#[derive(Clone)]
pub struct Property {
    /// The time.
    pub when: When,
    /// Its name.
    pub name: String,
    /// The test of one state.
    pub holds: Arc<dyn Fn(&View<'_>) -> bool + Send + Sync>,
}

/// The author's statements about an operator.
#[derive(Clone, Default)]
pub struct Statements {
    /// Properties.
    pub properties: Vec<Property>,
    /// Resources of which objects may outlive the life.
    pub keeps: BTreeSet<String>,
}

/// Makes a finding of a difference of the end state.
pub fn convergence(difference: &Difference) -> Finding {
    let object = &difference.place.object;
    let show = |value: &Option<Value>| value.as_ref().map_or("absent".to_owned(), short);
    let headline = match (difference.place.path.as_str(), &difference.found) {
        ("", None) => format!("the operator does not converge: {object} is missing"),
        ("", Some(_)) => format!("the operator does not converge: {object} should not be there"),
        (path, found) => format!(
            "the operator does not converge: {object} has {path} {}, undisturbed {}",
            show(found),
            show(&difference.expected)
        ),
    };
    Finding::new(Oracle::Convergence, place(object, &difference.place.path), headline)
}

/// Shortens a value for one line.
pub fn short(value: &Value) -> String {
    const MOST: usize = 60;
    let text = value.to_string();
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Returns the place of a field in words.
pub fn place(object: &ObjectName, path: &str) -> String {
    format!("{object} {path}").trim_end().to_owned()
}
