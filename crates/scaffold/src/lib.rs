//! Writes the crate of a new operator, and adds kinds, webhooks and versions to one. Behind `setpoint new`.
//!
//! The texts are a working operator, `template/`, and `parts/`, which are added to it. [`Words`] replaces the names in
//! them. A change is planned as a whole ([`Changes`]) before the first file is written, so that a refusal leaves no
//! trace. No existing file is overwritten: lines are added to files above marker comments.

mod operator;
mod kind;
mod version;
mod webhook;
mod project;
mod changes;
mod words;
mod names;
mod error;

pub use changes::Changes;
pub use error::ScaffoldError;
pub use kind::kind;
pub use names::{ApiGroup, ApiVersion, KindName, OperatorName, Plural};
pub use operator::{Source, operator};
pub use project::Project;
pub use version::version;
pub use webhook::webhook;
pub use words::{CustomResource, Words};
