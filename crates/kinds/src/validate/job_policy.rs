//! The failures that end a Job, and the successes that do.

use serde_json::Value;

use super::check::Causes;
use crate::access::{at, int, items, text};
use crate::go_struct;
use setpoint_api::cause::{BadValue, Cause, Path};
use setpoint_api::name;

const MOST_RULES: usize = 20;
const MOST_EXIT_CODES: usize = 255;
const MOST_CONDITIONS: usize = 20;
const LONGEST_INDEXES: usize = 64 * 1024;

pub(super) fn failure(causes: &mut Causes, spec: &Value, path: &Path) {
    let rules = items(spec, "podFailurePolicy.rules");
    let path = path.child("rules");
    if rules.len() > MOST_RULES {
        causes.push(Cause::too_many(&path, rules.len(), MOST_RULES));
    }
    for (index, rule) in rules.iter().enumerate() {
        failure_rule(causes, spec, rule, &path.index(index));
    }
}

/// Like a text of several that must be there. The words for a missing one list the others as Go does.
fn listed(causes: &mut Causes, path: &Path, value: &str, known: &[&str]) {
    if value.is_empty() {
        let quoted: Vec<String> = known.iter().map(|one| format!("\"{one}\"")).collect();
        causes.required(path, &format!("valid values: [{}]", quoted.join(" ")));
    } else {
        causes.one_of(path, value, known);
    }
}

fn failure_rule(causes: &mut Causes, spec: &Value, rule: &Value, path: &Path) {
    let action = text(rule, "action");
    let at_action = path.child("action");
    if action == "FailIndex" && at(spec, "backoffLimitPerIndex").is_null() {
        causes.invalid(&at_action, action, "requires the backoffLimitPerIndex to be set");
    }
    listed(causes, &at_action, action, &["Count", "FailIndex", "FailJob", "Ignore"]);
    let (codes, conditions) = (at(rule, "onExitCodes"), items(rule, "onPodConditions"));
    if !codes.is_null() {
        exit_codes(causes, spec, codes, &path.child("onExitCodes"));
    }
    let at_conditions = path.child("onPodConditions");
    if conditions.len() > MOST_CONDITIONS {
        causes.push(Cause::too_many(&at_conditions, conditions.len(), MOST_CONDITIONS));
    }
    for (index, pattern) in conditions.iter().enumerate() {
        let (path, kind) = (at_conditions.index(index), text(pattern, "type"));
        causes.wrong(&path.child("type"), kind, &name::qualified_name(kind));
        listed(causes, &path.child("status"), text(pattern, "status"), &["False", "True", "Unknown"]);
    }
    match (codes.is_null(), conditions.is_empty()) {
        (false, false) => {
            let detail = "specifying both OnExitCodes and OnPodConditions is not supported";
            causes.push(Cause::invalid_unshown(path, detail));
        }
        (true, true) => {
            let detail = "specifying one of OnExitCodes and OnPodConditions is required";
            causes.push(Cause::invalid_unshown(path, detail));
        }
        _ => {}
    }
}

fn exit_codes(causes: &mut Causes, spec: &Value, codes: &Value, path: &Path) {
    let operator = text(codes, "operator");
    listed(causes, &path.child("operator"), operator, &["In", "NotIn"]);
    if let Some(container) = at(codes, "containerName").as_str() {
        let lists = ["template.spec.containers", "template.spec.initContainers"];
        let mut all = lists.iter().flat_map(|list| items(spec, list));
        if !all.any(|one| text(one, "name") == container) {
            let detail = "must be one of the container or initContainer names in the pod template";
            causes.invalid(&path.child("containerName"), container, detail);
        }
    }
    let (path, values) = (path.child("values"), items(codes, "values"));
    let numbers: Vec<i64> = values.iter().filter_map(Value::as_i64).collect();
    let shown = || BadValue::raw(at(codes, "values").to_string());
    if numbers.is_empty() {
        causes.invalid(&path, shown(), "at least one value is required");
    } else if numbers.len() > MOST_EXIT_CODES {
        causes.push(Cause::too_many(&path, numbers.len(), MOST_EXIT_CODES));
    }
    for (index, number) in numbers.iter().enumerate() {
        if operator == "In" && *number == 0 {
            causes.invalid(&path.index(index), 0, "must not be 0 for the In operator");
        }
        if numbers[..index].contains(number) {
            causes.push(Cause::duplicate(&path.index(index), *number));
        }
    }
    if !numbers.is_sorted() {
        causes.invalid(&path, shown(), "must be ordered");
    }
}

pub(super) fn success(causes: &mut Causes, spec: &Value, path: &Path) {
    let policy = at(spec, "successPolicy");
    if policy.is_null() {
        return;
    }
    if text(spec, "completionMode") != "Indexed" {
        let shown = BadValue::raw(go_struct::line("batch.SuccessPolicy", policy));
        return causes.invalid(path, shown, "requires indexed completion mode");
    }
    let (path, rules) = (path.child("rules"), items(policy, "rules"));
    if rules.is_empty() {
        let detail = "at least one rules must be specified when the successPolicy is specified";
        causes.required(&path, detail);
    }
    if rules.len() > MOST_RULES {
        causes.push(Cause::too_many(&path, rules.len(), MOST_RULES));
    }
    let completions = int(spec, "completions").unwrap_or_default();
    for (index, rule) in rules.iter().enumerate() {
        success_rule(causes, rule, completions, &path.index(index));
    }
}

fn success_rule(causes: &mut Causes, rule: &Value, completions: i64, path: &Path) {
    let (indexes, count) = (at(rule, "succeededIndexes").as_str(), int(rule, "succeededCount"));
    if indexes.is_none() && count.is_none() {
        causes.required(path, "at least one of succeededCount or succeededIndexes must be specified");
    }
    let mut total = 0;
    if let Some(indexes) = indexes {
        let path = path.child("succeededIndexes");
        if indexes.len() > LONGEST_INDEXES {
            causes.push(Cause::too_long(&path, LONGEST_INDEXES));
        }
        match count_indexes(indexes, completions) {
            Ok(counted) => total = counted,
            Err(wrong) => {
                causes.invalid(&path, indexes, &format!("error parsing succeededIndexes: {wrong}"));
            }
        }
    }
    let Some(count) = count else { return };
    let path = path.child("succeededCount");
    causes.non_negative(&path, Some(count));
    if count > completions {
        let detail =
            format!("must be less than or equal to {completions} (the number of specified completions)");
        causes.invalid(&path, count, &detail);
    }
    if indexes.is_some() && count > total {
        let detail = format!(
            "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        );
        causes.invalid(&path, count, &detail);
    }
}

/// The fault of a text of indexes, in Kubernetes' words.
#[derive(Debug, thiserror::Error)]
enum WrongIndexes {
    #[error("cannot convert string to integer for index: \"{0}\"")]
    NoNumber(String),
    #[error(
        "the fragment \"{0}\" violates the requirement that an index interval can have at most two parts separated by '-'"
    )]
    Parts(String),
    #[error("too large index: \"{0}\"")]
    TooLarge(i64),
    #[error("non-increasing order, previous: {0}, current: {1}")]
    Order(i64, i64),
}

/// Counts the indexes in a text such as `0,2-4`, which must grow and be below the completions.
fn count_indexes(text: &str, completions: i64) -> Result<i64, WrongIndexes> {
    let mut total = 0;
    let mut last: Option<i64> = None;
    for interval in text.split(',').filter(|_| !text.is_empty()) {
        let (first, end) = interval.split_once('-').unwrap_or((interval, interval));
        if interval.matches('-').count() > 1 {
            return Err(WrongIndexes::Parts(interval.to_owned()));
        }
        let (first, end) = (index(first)?, index(end)?);
        if let Some(large) = [first, end].into_iter().find(|index| *index >= completions) {
            return Err(WrongIndexes::TooLarge(large));
        }
        if first > end || (interval.contains('-') && first == end) {
            return Err(WrongIndexes::Order(first, end));
        }
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(WrongIndexes::Order(last, first));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

fn index(text: &str) -> Result<i64, WrongIndexes> {
    text.parse::<i32>().map(i64::from).map_err(|_| WrongIndexes::NoNumber(text.to_owned()))
}
