//! A parsed expression. Code that recurses over it, dropping included, runs on a stack that is large enough.

use kube_cel::cel::Value;
use kube_cel::cel::common::ast::IdedExpr;
use kube_cel::cel::context::VariableResolver;
use setpoint_machinery::structural::Props;

use super::budget::{self, Budget};
use super::check::{Checked, check};
use super::depth::{self, Depth};
use super::source::{MOST_ERRORS, Source, told};
use super::ty::Ty;
use super::{cost, evaluate, variables};

/// The stack that the grammar's parser needs for the deepest expression that it is given.
const PARSER_STACK: usize = 128 * 1024 * 1024;

/// An expression and how deep it nests.
#[derive(Debug)]
pub(super) struct Program {
    expr: IdedExpr,
    depth: Depth,
}

impl Program {
    /// Parses and checks an expression in which the variables have these types. The variables' own expressions nest
    /// `below` levels deep: they run within this expression, and so may their values.
    ///
    /// # Errors
    /// The error, formatted as cel-go formats it.
    pub(super) fn compile(
        text: &str,
        variables: &[(&str, Ty)],
        below: usize,
    ) -> Result<(Program, Checked), String> {
        let depth = depth::measure(text).and_then(|depth| depth.above(below));
        let depth = depth.map_err(|limit| format!("ERROR: <input>:-1:0: {limit}"))?;
        let parsed = stacker::grow(PARSER_STACK, || evaluate::parse(text));
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
        let program = Program { expr, depth };
        let checked = depth.on_stack(|| check(&program.expr, text, variables))?;
        Ok((program, checked))
    }

    pub(super) fn depth(&self) -> Depth {
        self.depth
    }

    /// The most that it may cost, on values that the schema describes.
    pub(super) fn estimate(&self, props: &Props) -> u64 {
        self.depth.on_stack(|| cost::estimate(&self.expr, props))
    }

    /// The least that it costs, beside its loops.
    pub(super) fn least(&self) -> u64 {
        self.depth.on_stack(|| budget::least(&self.expr))
    }

    /// Brings it into the form that runs.
    pub(super) fn prepare(&mut self, checked: &Checked) {
        self.depth.on_stack(|| evaluate::prepare(&mut self.expr, checked));
    }

    /// Brings it into the form that runs among the variables of a policy.
    pub(super) fn compose(&mut self) {
        self.depth.on_stack(|| variables::rewrite(&mut self.expr));
    }

    /// Runs it where these variables have values, and the resolver knows the others.
    ///
    /// # Errors
    /// The error as cel-go words it.
    pub(super) fn run(
        &self,
        variables: &[(&str, Value)],
        budget: &Budget,
        resolver: &dyn VariableResolver,
    ) -> Result<Value, String> {
        self.depth.on_stack(|| evaluate::run(&self.expr, variables, budget, resolver))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let expr = std::mem::take(&mut self.expr);
        self.depth.on_stack(|| drop(expr));
    }
}
