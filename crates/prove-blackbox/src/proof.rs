//! A proof, its stages, and its result.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use setpoint_prove::engine::RunError;
use setpoint_prove::{Finding, Report, Step};

use crate::front::TlsError;
use crate::program::Program;
use crate::replay::Replay;
use crate::runs::{Bounds, Failure, Patience};

/// The reason why a proof could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ProofError {
    /// The life is empty.
    #[error("the life has no steps")]
    NoLife,
    /// The program cannot be run.
    #[error("cannot run the program {path}: {cause}")]
    Program {
        /// The file.
        path: PathBuf,
        /// The cause.
        cause: String,
    },
    /// The operator asks for nothing.
    #[error(
        "the operator sent no request to its API server within {} s: does it read its kubeconfig from $KUBECONFIG?\n    {output}",
        .after.as_secs()
    )]
    Silent {
        /// The time that it had.
        after: Duration,
        /// The end of its output.
        output: String,
    },
    /// The operator writes nothing in the whole life.
    #[error(
        "the operator wrote nothing in the whole undisturbed life, so there is nothing to disturb: do the samples concern it, and does it watch their namespace?\n    {0}"
    )]
    Idle(String),
    /// The operator ends before the first fault.
    #[error("the operator does not stay up: {0}")]
    Ends(String),
    /// No certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A manifest or a step is refused, or no cluster starts.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The undisturbed life used the budget up.
    #[error("the undisturbed life took {} s, and no time was left for faults: raise the budget", .0.as_secs())]
    Budget(Duration),
    /// Somebody stopped the proof before the undisturbed life was over.
    #[error("stopped before the undisturbed life was over: nothing was found out")]
    Stopped,
}

impl From<Failure> for ProofError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Run(error) => ProofError::Run(error),
            Failure::Stopped => ProofError::Stopped,
        }
    }
}

/// A proof of one operator.
#[derive(Clone)]
pub struct Proof {
    /// The program.
    pub program: Program,
    /// The objects that it needs.
    pub manifests: Vec<Value>,
    /// The files of these, for replays.
    pub files: Vec<PathBuf>,
    /// Folders among these that were not read.
    pub without: Vec<PathBuf>,
    /// Namespace and name of the service account.
    pub account: Option<(String, String)>,
    /// The life.
    pub life: Vec<Step>,
    /// Resources of which objects may outlive the life.
    pub keeps: Vec<String>,
    /// Whether the server streams first states (WatchList), as servers do from 1.32 on. Stale restarts are possible
    /// only without.
    pub watch_list: bool,
    /// The bounds.
    pub bounds: Bounds,
    /// The options of the clusters.
    pub cluster: setpoint_cluster::Options,
}

/// A stage of a running proof, for people who wait.
#[derive(Clone, Copy, Debug)]
pub enum Stage<'a> {
    /// The undisturbed life runs.
    Undisturbed,
    /// The undisturbed life is over, and tells how patient runs must be.
    Lived(Patience),
    /// Plans run.
    Plans {
        /// Plans that have run.
        done: usize,
        /// All plans.
        all: usize,
        /// Findings so far.
        found: usize,
    },
    /// A finding is confirmed.
    Found(&'a Finding),
    /// The lives of findings are shortened.
    Shrinking,
}

/// A finding with what replays it.
pub struct Found {
    /// The finding.
    pub finding: Finding,
    /// The file that replays it.
    pub replay: Replay,
    /// The output of the process.
    pub log: String,
}

/// The result of a proof.
pub struct Proved {
    /// The visited plans and the findings.
    pub report: Report,
    /// The findings with their files.
    pub found: Vec<Found>,
    /// Whether somebody stopped the proof.
    pub stopped: bool,
    /// The time of the runs with faults, and their number.
    pub pace: (Duration, usize),
    /// The rest after which runs were judged.
    pub patience: Patience,
}
