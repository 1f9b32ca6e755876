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
    let mut out = Outcome::default();
    any_of(value, old, props, name, interrupt, &mut out);
    one_of(value, old, props, name, interrupt, &mut out);
    all_of(value, old, props, name, interrupt, &mut out);
    if let Some(not) = &props.not
        && node(value, old, not, name, interrupt).failures.is_empty()
    {
        out.fail(name, What::Plain(format!("{} must not validate the schema (not)", quote(name))));
    }
    out.matched += 1;
    out
}

fn closer(best: Option<Outcome>, other: Outcome) -> Option<Outcome> {
    match best {
        Some(best) if best.matched >= other.matched => Some(best),
        _ => Some(other),
    }
}

fn any_of(
    value: &Value,
    old: Option<&Value>,
    props: &Props,
    name: &str,
    interrupt: &Interrupt,
    out: &mut Outcome,
) {
    if props.any_of.is_empty() {
        return;
    }
    let mut best = None;
    for schema in &props.any_of {
        let outcome = node(value, old, schema, name, interrupt);
        if outcome.failures.is_empty() {
            return out.merge(outcome);
        }
        best = closer(best, outcome);
    }
    out.fail(name, What::Plain(format!("{} must validate at least one schema (anyOf)", quote(name))));
    if let Some(best) = best {
        out.merge(best);
    }
}

fn one_of(
    value: &Value,
    old: Option<&Value>,
    props: &Props,
    name: &str,
    interrupt: &Interrupt,
    out: &mut Outcome,
) {
    if props.one_of.is_empty() {
        return;
    }
    let (mut best, mut first, mut valid) = (None, None, 0);
    for schema in &props.one_of {
        let outcome = node(value, old, schema, name, interrupt);
        if outcome.failures.is_empty() {
            valid += 1;
            best = None;
            first = first.or(Some(outcome));
        } else if valid == 0 {
            best = closer(best, outcome);
        }
    }
    if let (1, Some(first)) = (valid, first) {
        return out.merge(first);
    }
    let found =
        if valid == 0 { "Found none valid".into() } else { format!("Found {valid} valid alternatives") };
    let message = format!("{} must validate one and only one schema (oneOf). {found}", quote(name));
    out.fail(name, What::Plain(message));
    if let Some(best) = best {
        out.merge(best);
    }
}

fn all_of(
    value: &Value,
    old: Option<&Value>,
    props: &Props,
    name: &str,
    interrupt: &Interrupt,
    out: &mut Outcome,
) {
    let mut valid = 0;
    for schema in &props.all_of {
        let outcome = node(value, old, schema, name, interrupt);
        valid += usize::from(outcome.failures.is_empty());
        out.merge(outcome);
    }
    if valid < props.all_of.len() {
        let none = if valid == 0 { ". None validated" } else { "" };
        out.fail(name, What::Plain(format!("{} must validate all the schemas (allOf){none}", quote(name))));
    }
}
