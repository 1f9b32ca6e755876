//! `anyOf`, `oneOf`, `allOf` and `not`.

use serde_json::Value;

use super::failure::What;
use super::{Outcome, node};
use crate::Interrupt;
use crate::structural::props::Props;
use setpoint_api::go_format::quote;

pub(super) fn check(
    value: &Value,
    old: Option<&Value>,
    props: &Props,
    name: &str,
    interrupt: &Interrupt,
) -> Outcome {
    let by = |schema: &Props| node(value, old, schema, name, interrupt);
    let mut out = Outcome::default();
    any_of(props, name, &by, &mut out);
    one_of(props, name, &by, &mut out);
    all_of(props, name, &by, &mut out);
    if let Some(not) = &props.not
        && by(not).failures.is_empty()
    {
        out.fail(name, What::Plain(format!("{} must not validate the schema (not)", quote(name))));
    }
    out.matched += 1;
    out
}

/// The outcome of the branches of a junctor that only one needs to fit.
#[derive(Default)]
struct Branches {
    /// The first branch that fits.
    valid: Option<Outcome>,
    count: usize,
    /// The branch that comes closest, if none fits.
    best: Option<Outcome>,
}

impl Branches {
    fn add(&mut self, outcome: Outcome) {
        if outcome.failures.is_empty() {
            self.count += 1;
            self.valid.get_or_insert(outcome);
            self.best = None;
        } else if self.count == 0 && self.best.as_ref().is_none_or(|best| best.matched < outcome.matched) {
            self.best = Some(outcome);
        }
    }
}

fn any_of(props: &Props, name: &str, by: &dyn Fn(&Props) -> Outcome, out: &mut Outcome) {
    let mut branches = Branches::default();
    for schema in &props.any_of {
        branches.add(by(schema));
        if let Some(valid) = branches.valid {
            return out.merge(valid);
        }
    }
    let Some(best) = branches.best else { return };
    out.fail(name, What::Plain(format!("{} must validate at least one schema (anyOf)", quote(name))));
    out.merge(best);
}

fn one_of(props: &Props, name: &str, by: &dyn Fn(&Props) -> Outcome, out: &mut Outcome) {
    if props.one_of.is_empty() {
        return;
    }
    let mut branches = Branches::default();
    props.one_of.iter().for_each(|schema| branches.add(by(schema)));
    let Branches { valid, count, best } = branches;
    if let (1, Some(valid)) = (count, valid) {
        return out.merge(valid);
    }
    let found =
        if count == 0 { "Found none valid".into() } else { format!("Found {count} valid alternatives") };
    let message = format!("{} must validate one and only one schema (oneOf). {found}", quote(name));
    out.fail(name, What::Plain(message));
    if let Some(best) = best {
        out.merge(best);
    }
}

fn all_of(props: &Props, name: &str, by: &dyn Fn(&Props) -> Outcome, out: &mut Outcome) {
    let mut valid = 0;
    for schema in &props.all_of {
        let outcome = by(schema);
        valid += usize::from(outcome.failures.is_empty());
        out.merge(outcome);
    }
    if valid < props.all_of.len() {
        let none = if valid == 0 { ". None validated" } else { "" };
        out.fail(name, What::Plain(format!("{} must validate all the schemas (allOf){none}", quote(name))));
    }
}
