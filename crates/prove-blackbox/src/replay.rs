//! The file that replays a finding: the operator, its manifests, and the plan.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use setpoint_prove::{Plan, PlanFile};

use crate::program::Program;

/// Everything that a replay needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Replay {
    /// The operator.
    pub program: Program,
    /// The files and folders of its manifests.
    pub manifests: Vec<PathBuf>,
    /// Folders below them that are not read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<PathBuf>,
    /// Resources of which objects may outlive the life.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keeps: Vec<String>,
    /// The patience in milliseconds.
    pub patience: u64,
    /// Whether the server streams first states.
    #[serde(default = "streams", skip_serializing_if = "is_on")]
    pub watch_list: bool,
    /// The life and the plan.
    pub plan: PlanFile,
}

/// The reason why a file does not replay.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The text is no such file.
    #[error("this is no plan file: {0}")]
    Syntax(String),
    /// The plan does not fit its life.
    #[error("the plan needs step {needed} of a life of {steps} steps")]
    Short {
        /// The last step that the plan needs.
        needed: usize,
        /// The length of the life.
        steps: usize,
    },
}

/// The default: a server of today.
fn streams() -> bool {
    true
}

/// Returns whether a value is the default, and need not be written.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_on(value: &bool) -> bool {
    *value
}

impl Replay {
    /// Writes the file as YAML.
    pub fn to_yaml(&self) -> String {
        serde_saphyr::to_string(self).expect("texts, numbers, lists and objects have a YAML form")
    }

    /// Reads a file that [`Replay::to_yaml`] wrote.
    ///
    /// # Errors
    /// If the text is no such file, or its life is too short for its plan.
    pub fn from_yaml(text: &str) -> Result<Replay, ReplayError> {
        let read: Replay =
            serde_saphyr::from_str(text).map_err(|error| ReplayError::Syntax(error.to_string()))?;
        let steps = read.plan.life.len();
        let last = |plan: &Plan| plan.step.max(1) + usize::from(plan.at.spans_two_steps());
        let needed = read.plan.plan.as_ref().map_or(1, last);
        if needed > steps || read.plan.plan.as_ref().is_some_and(|plan| plan.step == 0) {
            return Err(ReplayError::Short { needed, steps });
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use setpoint_prove::{Anchor, Fault, Step};

    use super::*;

    #[test]
    fn a_file_reads_back_and_must_fit_its_life() {
        let write =
            Anchor { verb: "PUT".into(), resource: "statefulsets.apps".into(), name: "a".into(), nth: 1 };
        let mut replay = Replay {
            program: Program {
                name: "manager".into(),
                path: "bin/manager".into(),
                arguments: vec!["--health=:{port}".into()],
                variables: vec![("LEVEL".into(), "2".into())],
            },
            manifests: vec!["config".into()],
            without: Vec::new(),
            keeps: vec!["persistentvolumeclaims".into()],
            patience: 15_000,
            watch_list: false,
            plan: PlanFile {
                subject: "manager".into(),
                seed: 1,
                life: vec![Step::Apply(json!({"kind": "Store", "metadata": {"name": "a"}}))],
                plan: Some(Plan { step: 1, at: Fault::CrashAfter { write } }),
            },
        };
        let text = replay.to_yaml();
        assert_eq!(Replay::from_yaml(&text).unwrap(), replay, "{text}");
        replay.plan.life.clear();
        let error = Replay::from_yaml(&replay.to_yaml()).unwrap_err();
        assert_eq!(error.to_string(), "the plan needs step 1 of a life of 0 steps");
        assert!(Replay::from_yaml("plan: 7").is_err());
    }
}
