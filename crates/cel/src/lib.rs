//! `x-kubernetes-validations`: rules in CEL, checked against the schema when a CRD is written and run when an object
//! is; and the expressions of admission, over requests.
//!
//! What a rule may cost is estimated from the bounds in the schema, and a rule that may cost too much is refused. The
//! estimate is approximate ([docs/cel.md](../../../docs/cel.md)). What an evaluation costs is
//! counted while it runs, and ends one that costs too much.

mod rules;
mod composition;
mod conditions;
mod program;
mod cost;
mod depth;
mod tokens;
mod value;
mod evaluate;
mod check;
mod functions;
mod more;
mod source;
mod ty;
mod budget;
mod collect;
mod macros;
#[cfg(test)]
mod tests;

pub use composition::{Compiler, Evaluation, Facts};
pub use conditions::{Condition, hold};
pub use rules::Rules;
