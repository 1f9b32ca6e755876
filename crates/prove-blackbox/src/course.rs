//! The course of a proof: the undisturbed life, then the plans.

use std::os::unix::fs::PermissionsExt;

use setpoint_prove::Plan;
use setpoint_prove::engine::base;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::explore::{Choice, Exploration};
use crate::front::Tls;
use crate::proof::{Proof, ProofError, Proved, Stage};
use crate::reference::{ReferenceError, reference};
use crate::runs::Runs;

impl From<ReferenceError> for ProofError {
    fn from(error: ReferenceError) -> Self {
        match error {
            ReferenceError::Ends(how) => ProofError::Ends(how),
            ReferenceError::Silent { after, output } => ProofError::Silent { after, output },
            ReferenceError::Idle(output) => ProofError::Idle(output),
            ReferenceError::Failure(failure) => failure.into(),
        }
    }
}

impl Proof {
    /// Explores all single faults of the life, within the bounds.
    ///
    /// # Errors
    /// If the program does not run, or the server refuses a manifest or a step.
    pub fn run(
        &self,
        stop: &CancellationToken,
        tell: &(dyn Fn(Stage<'_>) + Sync),
    ) -> Result<Proved, ProofError> {
        self.go(None, stop, tell)
    }

    /// Runs one plan of the life, or only the undisturbed life.
    ///
    /// # Errors
    /// As [`Proof::run`].
    pub fn replay(
        &self,
        plan: Option<&Plan>,
        stop: &CancellationToken,
        tell: &(dyn Fn(Stage<'_>) + Sync),
    ) -> Result<Proved, ProofError> {
        self.go(Some(plan), stop, tell)
    }

    fn go(
        &self,
        only: Option<Option<&Plan>>,
        stop: &CancellationToken,
        tell: &(dyn Fn(Stage<'_>) + Sync),
    ) -> Result<Proved, ProofError> {
        if self.life.is_empty() {
            return Err(ProofError::NoLife);
        }
        self.check_program()?;
        let mut runs = Runs::new(&self.program, &self.manifests, self.account.clone(), Tls::new()?, stop);
        runs.cluster = self.cluster.clone();
        runs.bounds = self.bounds.clone();
        runs.suspicion = self.bounds.suspicion.min(self.bounds.patience);
        runs.statements.keeps = self.keeps.iter().cloned().collect();
        runs.watch_list = self.watch_list;
        let begin = Instant::now();
        // A replay is one plan, and takes as long as it takes.
        let deadline = only.is_none().then(|| begin + self.bounds.budget);
        tell(Stage::Undisturbed);
        let base = base(&runs.subject, &runs.settings(runs.suspicion), &runs.cluster)?;
        let lived = reference(&runs, &base, &self.life)?;
        if lived.findings.is_empty() && deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(ProofError::Budget(begin.elapsed()));
        }
        runs.suspicion = lived.patience.suspicion;
        runs.bounds.patience = lived.patience.confirmation;
        tell(Stage::Lived(lived.patience));
        let choice = match only {
            _ if !lived.findings.is_empty() => Choice::Undisturbed(lived.findings),
            Some(plan) => Choice::One(plan),
            None => Choice::All,
        };
        Exploration::new(self, &runs, &base, lived.reference, deadline, tell).run(choice, lived.patience)
    }

    /// Looks whether the file of the program can be executed. A bare name is looked up by the system.
    fn check_program(&self) -> Result<(), ProofError> {
        let path = &self.program.path;
        let failed = |cause: &str| ProofError::Program { path: path.clone(), cause: cause.to_owned() };
        if path.components().count() < 2 && !path.has_root() {
            return Ok(());
        }
        let metadata = std::fs::metadata(path).map_err(|error| failed(&error.to_string()))?;
        if !metadata.is_file() {
            return Err(failed("it is no file"));
        }
        if metadata.permissions().mode() & 0o111 == 0 {
            return Err(failed("it is not executable"));
        }
        Ok(())
    }
}
