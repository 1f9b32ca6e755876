//! Finds convergence bugs of an operator, without a cluster and in virtual time.
//!
//! [`prove`] takes an operator and a life: objects that are applied, patched and deleted. It runs the life undisturbed,
//! then runs its steps again with one fault each: a crash at each write, a lost answer, a refused write, a concurrent
//! writer, a late or interrupted watch. Each run must end as the undisturbed one did.
//!
//! `docs/prove.md` in the repository lists the faults and the oracles, and says what they do not cover.
#![deny(missing_docs)]

/// The parts of a proof, for programs that drive the runs themselves. `setpoint prove` does so for processes.
pub mod engine {
    pub use crate::campaign::{Campaign, single_faults};
    pub use crate::enumerate::{further_faults, second_crashes};
    pub use crate::judge::{Statements, advisories, of_reference, of_run};
    pub use crate::life::{Action, LifeError};
    pub use crate::page::page;
    pub use crate::reference::{Reference, base, resolve, undisturbed};
    pub use crate::resource::ObjectName;
    pub use crate::segment::{Goal, Outcome, Ran, RunError, Segment, run, simulate};
    pub use crate::trace::trace;
}

mod builder;
mod report;
mod html;
mod shrink;
mod campaign;
mod enumerate;
mod generate;
mod page;
mod trace;
mod judge;
mod undisturbed;
mod reference;
mod segment;
mod rest;
mod service;
mod feed;
mod wire;
mod bystander;
mod traffic;
mod message;
mod finding;
mod plan;
mod life;
mod state;
mod resource;
mod subject;
mod webhooks;
mod settings;

pub use builder::{Prove, prove};
pub use campaign::{ProveError, Visited};
pub use finding::{Finding, Oracle};
pub use life::Step;
pub use plan::{Anchor, Fault, Plan, PlanFile};
pub use report::Report;
pub use settings::{Pace, Settings};
pub use state::View;
pub use subject::{Activity, Election, Operator, Program, Running, Start, Subject, program};
