//! RFC 6902 with kube-apiserver's leniencies (negative indexes count from the end; `replace` of an absent object
//! field sets it) and its texts.

use serde_json::Value;

use super::document::{Node, depth};
use crate::Interrupt;

/// More operations in one patch are refused.
pub const MAX_OPERATIONS: usize = 10_000;

/// Maximum size of all copies of one patch, as JSON. Each copy can double the object, and then few would fill the
/// memory.
const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

/// Why a patch was not applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The body is no list of operations: 400.
    #[error("{0}")]
    Decode(String),
    /// Too many operations: 413.
    #[error("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {0}")]
    TooManyOperations(usize),
    /// An operation does not apply or its test failed: 422.
    #[error("{0}")]
    Unprocessable(String),
    /// The object nests too deep meanwhile: 400.
    #[error("the object nests too deep")]
    TooDeep,
    /// A merge patch of `null`: 400.
    #[error("Invalid JSON Patch")]
    BadMergePatch,
}

/// How deep the object may nest between two operations. Few operations could otherwise nest it a million levels deep:
/// even dropping it would overflow the stack.
const MAX_DEPTH: usize = 250;

type Applied = Result<(), String>;

/// Applies the operations in turn; on an error the target may be half changed. It is void once the interrupt is raised.
///
/// # Errors
/// See [`PatchError`].
pub fn apply_json_patch(target: &mut Value, patch: &Value, interrupt: &Interrupt) -> Result<(), PatchError> {
    let Value::Array(operations) = patch else {
        let kind = match patch {
            Value::Null => return Ok(()),
            Value::Object(_) => "object",
            Value::String(_) => "string",
            Value::Number(_) => "number",
            _ => "bool",
        };
        return Err(PatchError::Decode(format!(
            "json: cannot unmarshal {kind} into Go value of type jsonpatch.Patch"
        )));
    };
    if operations.len() > MAX_OPERATIONS {
        return Err(PatchError::TooManyOperations(operations.len()));
    }
    let mut node = Node::Closed(target.take());
    let applied = apply_all(&mut node, operations, interrupt);
    *target = node.close();
    applied
}

fn apply_all(target: &mut Node, operations: &[Value], interrupt: &Interrupt) -> Result<(), PatchError> {
    let mut copied = 0;
    let mut deepest = target.depth();
    for operation in operations.iter().take_while(|_| !interrupt.is_raised()) {
        let deeper = deepest.max(depth_after(operation, deepest));
        deepest = match deeper > MAX_DEPTH {
            // That was a bound. What is really there may be less.
            true => {
                let now = target.depth();
                depth_after(operation, now).max(now)
            }
            false => deeper,
        };
        if deepest > MAX_DEPTH {
            return Err(PatchError::TooDeep);
        }
        apply_operation(target, operation, &mut copied).map_err(PatchError::Unprocessable)?;
    }
    Ok(())
}

/// The most levels down to which a value reaches that an operation inserts into an object of so many levels.
fn depth_after(operation: &Value, deepest: usize) -> usize {
    let levels = |name: &str| {
        let path = operation.get(name).and_then(Value::as_str);
        path.map_or(0, |path| path.bytes().filter(|byte| *byte == b'/').count())
    };
    let inserted = match operation.get("op").and_then(Value::as_str) {
        Some("add" | "replace") => operation.get("value").map_or(0, depth),
        Some("move" | "copy") => deepest.saturating_sub(levels("from")),
        _ => return 0,
    };
    levels("path") + inserted
}

fn apply_operation(target: &mut Node, operation: &Value, copied: &mut usize) -> Applied {
    let kind = operation.get("op").and_then(Value::as_str).unwrap_or("unknown");
    match kind {
        "add" => add(target, operation),
        "remove" => remove(target, operation),
        "replace" => replace(target, operation),
        "move" => relocate(target, operation),
        "test" => test(target, operation),
        "copy" => copy(target, operation, copied),
        other => Err(format!("Unexpected kind: {other}")),
    }
}

const MISSING: &str = "missing value";
const TEST_FAILED: &str = "test failed";

fn text_field<'a>(operation: &'a Value, name: &str) -> Result<&'a str, String> {
    match operation.get(name) {
        Some(Value::String(text)) => Ok(text),
        Some(Value::Null) | None if name == "path" => Err(format!("operation missing path field: {MISSING}")),
        Some(Value::Null) | None => Err(format!("operation, missing {name} field: {MISSING}")),
        Some(other) => {
            let kind = match other {
                Value::Object(_) => "object",
                Value::Array(_) => "array",
                Value::Bool(_) => "bool",
                _ => "number",
            };
            Err(format!("json: cannot unmarshal {kind} into Go value of type string"))
        }
    }
}

/// The container that holds what `path` names, and the last token.
fn find<'a>(target: &'a mut Node, path: &str) -> Option<(&'a mut Node, String)> {
    let mut tokens = path.split('/');
    tokens.next();
    let tokens: Vec<String> = tokens.map(|token| token.replace("~1", "/").replace("~0", "~")).collect();
    let (last, parents) = tokens.split_last()?;
    let mut container = target;
    for token in parents {
        container.open();
        container = match container {
            Node::Object(fields) => fields.get_mut(token)?,
            Node::List(items) => {
                let at = index_of(token, items.len()).ok()?;
                items.get_mut(at)?
            }
            Node::Closed(_) => return None,
        };
    }
    container.open();
    container.is_container().then_some((container, last.clone()))
}

fn invalid_index(index: i64) -> String {
    format!("Unable to access invalid index: {index}: invalid index referenced")
}

/// The position a token names in a list of that length.
fn index_of(token: &str, length: usize) -> Result<usize, String> {
    let index = parse_index(token)?;
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let at = if index < 0 { index + length } else { index };
    if at < 0 || at >= length {
        Err(invalid_index(index))
    } else {
        Ok(usize::try_from(at).unwrap_or(usize::MAX))
    }
}

fn parse_index(token: &str) -> Result<i64, String> {
    token.parse().map_err(|_| {
        format!("strconv.Atoi: parsing {}: invalid syntax", setpoint_api::go_format::quote(token))
    })
}

fn get<'v>(container: &'v Node, key: &str) -> Result<Option<&'v Node>, String> {
    match container {
        Node::Object(fields) => Ok(fields.get(key)),
        Node::List(items) => index_of(key, items.len()).map(|at| items.get(at)),
        Node::Closed(_) => Ok(None),
    }
}

fn insert(container: &mut Node, key: &str, value: Node) -> Applied {
    match container {
        Node::Object(fields) => drop(fields.insert(key.into(), value)),
        Node::List(items) if key == "-" => items.insert(items.len(), value),
        Node::List(items) => {
            let index = parse_index(key)
                .map_err(|error| format!("value was not a proper array index: '{key}': {error}"))?;
            let length = items.len() + 1;
            items.insert(index_of(&index.to_string(), length)?, value);
        }
        Node::Closed(_) => {}
    }
    Ok(())
}

fn take(container: &mut Node, key: &str) -> Result<Node, String> {
    match container {
        Node::Object(fields) => match fields.remove(key) {
            Some(value) => Ok(value),
            None => Err(format!("Unable to remove nonexistent key: {key}: {MISSING}")),
        },
        Node::List(items) => {
            let at = index_of(key, items.len())?;
            Ok(items.remove(at).expect("the index is within the list"))
        }
        Node::Closed(_) => Ok(Node::Closed(Value::Null)),
    }
}

fn operand(operation: &Value) -> Node {
    Node::Closed(operation.get("value").cloned().unwrap_or(Value::Null))
}

fn add(target: &mut Node, operation: &Value) -> Applied {
    let path = text_field(operation, "path")
        .map_err(|_| format!("add operation failed to decode path: {MISSING}"))?;
    let Some((container, key)) = find(target, path) else {
        return Err(format!("add operation does not apply: doc is missing path: \"{path}\": {MISSING}"));
    };
    insert(container, &key, operand(operation))
        .map_err(|error| format!("error in add for path: '{path}': {error}"))
}

fn remove(target: &mut Node, operation: &Value) -> Applied {
    let path = text_field(operation, "path")
        .map_err(|_| format!("remove operation failed to decode path: {MISSING}"))?;
    let Some((container, key)) = find(target, path) else {
        return Err(format!("remove operation does not apply: doc is missing path: \"{path}\": {MISSING}"));
    };
    take(container, &key).map(drop).map_err(|error| format!("error in remove for path: '{path}': {error}"))
}

fn replace(target: &mut Node, operation: &Value) -> Applied {
    let path = text_field(operation, "path")
        .map_err(|error| format!("replace operation failed to decode path: {error}"))?;
    let value = operand(operation);
    if path.is_empty() {
        if !value.is_container() {
            return Err("replace operation value must be object or array: %!w(<nil>)".into());
        }
        *target = value;
        return Ok(());
    }
    let Some((container, key)) = find(target, path) else {
        return Err(format!("replace operation does not apply: doc is missing path: {path}: {MISSING}"));
    };
    match container {
        Node::List(items) => {
            let place = index_of(&key, items.len()).ok().and_then(|at| items.get_mut(at));
            let Some(place) = place else {
                return Err(format!(
                    "replace operation does not apply: doc is missing key: {path}: {MISSING}"
                ));
            };
            *place = value;
            Ok(())
        }
        other => insert(other, &key, value),
    }
}

fn relocate(target: &mut Node, operation: &Value) -> Applied {
    let from = text_field(operation, "from")
        .map_err(|error| format!("move operation failed to decode from: {error}"))?;
    let Some((container, key)) = find(target, from) else {
        return Err(format!("move operation does not apply: doc is missing from path: {from}: {MISSING}"));
    };
    let in_source = |error: String| format!("error in move for path: '{key}': {error}");
    let value = take(container, &key).map_err(in_source)?;
    let path = text_field(operation, "path")
        .map_err(|error| format!("move operation failed to decode path: {error}"))?;
    let Some((container, key)) = find(target, path) else {
        return Err(format!(
            "move operation does not apply: doc is missing destination path: {path}: {MISSING}"
        ));
    };
    insert(container, &key, value).map_err(|error| format!("error in move for path: '{path}': {error}"))
}

fn test(target: &mut Node, operation: &Value) -> Applied {
    let path = text_field(operation, "path")
        .map_err(|error| format!("test operation failed to decode path: {error}"))?;
    let expected = operation.get("value").unwrap_or(&Value::Null);
    let failed = || Err(format!("testing value {path} failed: {TEST_FAILED}"));
    if path.is_empty() {
        return if target.equals(expected) { Ok(()) } else { failed() };
    }
    let Some((container, key)) = find(target, path) else {
        return Err(format!("test operation does not apply: is missing path: {path}: {MISSING}"));
    };
    let found = get(container, &key).map_err(|error| format!("error in test for path: '{path}': {error}"))?;
    let is_equal = found.map_or(expected.is_null(), |found| found.equals(expected));
    if is_equal { Ok(()) } else { failed() }
}

fn copy(target: &mut Node, operation: &Value, copied: &mut usize) -> Applied {
    let from = text_field(operation, "from")
        .map_err(|error| format!("copy operation failed to decode from: {error}"))?;
    let Some((container, key)) = find(target, from) else {
        return Err(format!("copy operation does not apply: doc is missing from path: {from}: {MISSING}"));
    };
    let value = get(container, &key).map_err(|error| format!("error in copy for from: '{from}': {error}"))?;
    let value = value.cloned().map_or(Value::Null, Node::close);
    let path = text_field(operation, "path")
        .map_err(|_| format!("copy operation failed to decode path: {MISSING}"))?;
    let Some((container, key)) = find(target, path) else {
        return Err(format!(
            "copy operation does not apply: doc is missing destination path: {path}: {MISSING}"
        ));
    };
    *copied += value.to_string().len();
    if *copied > MAX_COPIED_BYTES {
        return Err(format!(
            "Unable to complete the copy, the accumulated size increase of copy is {copied}, exceeding the limit \
             {MAX_COPIED_BYTES}"
        ));
    }
    insert(container, &key, Node::Closed(value))
        .map_err(|error| format!("error while adding value during copy: {error}"))
}
