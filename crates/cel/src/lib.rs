//! `x-kubernetes-validations`: rules in CEL, checked against the schema when a CRD is written and run when an object
//! is; and the expressions of admission, over requests.
//!
//! What a rule may cost is estimated from the bounds in the schema, and a rule that may cost too much is refused. The
//! estimate is approximate ([docs/cel.md](../../../docs/cel.md)). What an evaluation costs is
//! counted while it runs, and ends one that costs too much.

mod budget;
mod check;
mod collect;
mod composition;
mod conditions;
mod cost;
mod depth;
mod evaluate;
mod functions;
mod macros;
mod more;
mod program;
mod rules;
mod source;
#[cfg(test)]
mod tests;
mod tokens;
mod ty;
mod value;

pub use composition::{Compiler, Evaluation, Facts};
pub use conditions::{Condition, hold};
pub use rules::Rules;
