//! A compiled expression. Code that recurses over it, dropping included, runs on a stack that is large enough.

use kube_cel::cel::Value;

use super::budget::Budget;
use super::check::check;
use super::declaration::Declaration;
use super::depth::{self, Depth};
use super::lower::lower;
use super::plan;
use super::run::{Names, run};
use super::source::{MOST_ERRORS, Source, told};
use super::tree::Node;
use super::ty::Ty;
use super::{estimate, evaluate};

/// The stack that the grammar's parser needs for the deepest expression that it is given.
const PARSER_STACK: usize = 128 * 1024 * 1024;

/// An expression and how deep it nests.
#[derive(Debug)]
pub(super) struct Program {
    node: Option<Box<Node>>,
    depth: Depth,
}

/// The result of compiling an expression.
pub(super) struct Compiled {
    pub(super) program: Program,
    pub(super) ty: Ty,
    pub(super) uses_old_self: bool,
}

impl Program {
    /// Parses and checks an expression in which the variables have these types. The variables' own expressions nest
    /// `below` levels deep: they run within this expression, and so may their values.
    ///
    /// # Errors
    /// The error, formatted as cel-go formats it.
    pub(super) fn compile(text: &str, variables: &[(&str, Ty)], below: usize) -> Result<Compiled, String> {
        let depth = depth::measure(text).and_then(|depth| depth.above(below));
        let depth = depth.map_err(|limit| format!("ERROR: <input>:-1:0: {limit}"))?;
        let parsed = stacker::grow(PARSER_STACK, || evaluate::parse(&depth::without_double_negation(text)));
        let expr = parsed.map_err(|errors| {
            let source = Source::new(text);
            let lines: Vec<String> = errors
                .iter()
                .take(MOST_ERRORS)
                .map(|((line, column), message)| source.describe_at(*line, *column, message))
                .collect();
            // cel-go stops at the first error that it does not report.
            told(lines, errors.len().min(MOST_ERRORS + 1))
        })?;
        depth.on_stack(|| {
            let expr = expr;
            let checked = check(&expr, text, variables)?;
            let node = Some(Box::new(lower(&expr, &checked)));
            let (ty, uses_old_self) = (checked.ty, checked.uses_old_self);
            Ok(Compiled { program: Program { node, depth }, ty, uses_old_self })
        })
    }

    pub(super) fn depth(&self) -> Depth {
        self.depth
    }

    /// The most that it may cost, on values of this declaration. That is known before [`Program::plan`] only.
    pub(super) fn estimate(&self, root: &Declaration) -> u64 {
        let estimate = |node: &Node| self.depth.on_stack(|| estimate::estimate(node, root));
        self.node.as_deref().map_or(0, estimate)
    }

    /// Computes the constants in it.
    ///
    /// # Errors
    /// A conversion of a constant fails.
    pub(super) fn plan(&mut self) -> Result<(), String> {
        let depth = self.depth;
        let plan = |node: &mut Node| depth.on_stack(|| plan::fold(node));
        self.node.as_deref_mut().map_or(Ok(()), plan)
    }

    /// Runs it where names have these values.
    ///
    /// # Errors
    /// The error as cel-go words it.
    pub(super) fn run(&self, names: &dyn Names, budget: &Budget) -> Result<Value, String> {
        let Some(node) = self.node.as_deref() else { return Ok(Value::Null) };
        self.depth.on_stack(|| run(node, names, budget))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let node = self.node.take();
        self.depth.on_stack(|| drop(node));
    }
}
