//! The part of JSONPath that Kubernetes uses in printer columns, scale paths and selectable fields.

use serde_json::Value;

/// How deep filters may nest. Parsing recurses over them.
const MOST_FILTERS: usize = 32;

/// So many values are visited for one path. Each `..` can multiply them: a path of a few letters would otherwise lead to
/// more values than there is memory.
const MOST_VISITS: usize = 1_000_000;

/// A parsed path.
///
/// ```
/// use serde_json::json;
/// use setpoint_kinds::jsonpath::JsonPath;
/// let path = JsonPath::parse(".a[1]['b.c']").unwrap();
/// assert_eq!(path.find(&json!({"a": [0, {"b.c": 7}]})), [&json!(7)]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    Slice(Option<i64>, Option<i64>),
    All,
    Deep(String),
    Filter(Vec<Step>, Compare),
}

#[derive(Clone, Debug, PartialEq)]
enum Compare {
    Exists,
    With(&'static str, Value),
}

/// Why a path was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct JsonPathError(String);

impl JsonPath {
    /// Parses a path, with or without the braces around it.
    pub fn parse(text: &str) -> Result<Self, JsonPathError> {
        let text = text.trim();
        let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(text);
        Parser { rest: inner.trim(), depth: 0 }.steps().map(JsonPath)
    }

    /// Everything that the path leads to, as far as `MOST_VISITS` values allow.
    pub fn find<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        let mut left = MOST_VISITS;
        follow(&self.0, vec![value], &mut left)
    }

    /// The fields of a path that has nothing but fields; none for any other.
    pub fn fields(&self) -> Option<Vec<&str>> {
        self.0
            .iter()
            .map(|step| match step {
                Step::Field(name) => Some(&**name),
                _ => None,
            })
            .collect()
    }
}

/// Follows the steps from each of these values. `left` is how many values may still be visited.
fn follow<'a>(steps: &[Step], mut here: Vec<&'a Value>, left: &mut usize) -> Vec<&'a Value> {
    for step in steps {
        here = here.into_iter().flat_map(|value| take(step, value, left)).collect();
    }
    here
}

fn take<'a>(step: &Step, value: &'a Value, left: &mut usize) -> Vec<&'a Value> {
    let Some(fewer) = left.checked_sub(1) else { return Vec::new() };
    *left = fewer;
    match step {
        Step::Field(name) => value.get(name).into_iter().collect(),
        Step::Index(index) => {
            let items = value.as_array().map_or(&[][..], Vec::as_slice);
            place(*index, items.len()).and_then(|at| items.get(at)).into_iter().collect()
        }
        Step::Slice(from, to) => {
            let items = value.as_array().map_or(&[][..], Vec::as_slice);
            let bound = |index: Option<i64>, none: usize| {
                index.map_or(none, |index| place(index, items.len()).unwrap_or(0).min(items.len()))
            };
            let (from, to) = (bound(*from, 0), bound(*to, items.len()));
            items.get(from..to.max(from)).unwrap_or_default().iter().collect()
        }
        Step::All => children(value),
        Step::Deep(name) => {
            let mut found: Vec<&Value> = value.get(name).into_iter().collect();
            found.extend(children(value).into_iter().flat_map(|child| take(step, child, left)));
            found
        }
        Step::Filter(path, compare) => {
            let items = value.as_array().map_or(&[][..], Vec::as_slice);
            items.iter().filter(|item| holds(path, compare, item, left)).collect()
        }
    }
}

fn place(index: i64, length: usize) -> Option<usize> {
    usize::try_from(if index < 0 { index + length as i64 } else { index }).ok()
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(fields) => fields.values().collect(),
        _ => Vec::new(),
    }
}

fn holds(path: &[Step], compare: &Compare, item: &Value, left: &mut usize) -> bool {
    let found = follow(path, vec![item], left);
    let Some(found) = found.first() else { return false };
    let Compare::With(operator, wanted) = compare else { return true };
    let order = match (found, wanted) {
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (Value::Number(a), Value::Number(b)) => a.as_f64().partial_cmp(&b.as_f64()),
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        _ => None,
    };
    match (*operator, order) {
        ("==", order) => order.is_some_and(std::cmp::Ordering::is_eq),
        ("!=", order) => !order.is_some_and(std::cmp::Ordering::is_eq),
        ("<", Some(order)) => order.is_lt(),
        (">", Some(order)) => order.is_gt(),
        ("<=", Some(order)) => order.is_le(),
        (">=", Some(order)) => order.is_ge(),
        _ => false,
    }
}

struct Parser<'a> {
    rest: &'a str,
    /// How many filters this path is in.
    depth: usize,
}

impl Parser<'_> {
    fn steps(&mut self) -> Result<Vec<Step>, JsonPathError> {
        let mut steps = Vec::new();
        self.rest = self.rest.strip_prefix(['$', '@']).unwrap_or(self.rest);
        while !self.rest.is_empty() {
            if let Some(rest) = self.rest.strip_prefix("..") {
                self.rest = rest;
                let name = self.word()?;
                steps.push(Step::Deep(name));
            } else if let Some(rest) = self.rest.strip_prefix('.') {
                self.rest = rest;
                if let Some(rest) = self.rest.strip_prefix('*') {
                    self.rest = rest;
                    steps.push(Step::All);
                } else if !self.rest.is_empty() && !self.rest.starts_with('[') {
                    let name = self.word()?;
                    steps.push(Step::Field(name));
                }
            } else if self.rest.starts_with('[') {
                steps.push(self.bracket()?);
            } else if steps.is_empty() {
                let name = self.word()?;
                steps.push(Step::Field(name));
            } else {
                return Err(JsonPathError(format!("unrecognized character in path: {}", self.rest)));
            }
        }
        Ok(steps)
    }

    /// A field name; a backslash takes the next character as it is.
    fn word(&mut self) -> Result<String, JsonPathError> {
        let mut name = String::new();
        let mut chars = self.rest.char_indices();
        let mut end = self.rest.len();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => name.extend(chars.next().map(|(_, c)| c)),
                '.' | '[' | ']' | ' ' | '=' | '!' | '<' | '>' | ')' => {
                    end = at;
                    break;
                }
                c => name.push(c),
            }
        }
        self.rest = &self.rest[end..];
        if name.is_empty() { Err(JsonPathError("a field name is missing".to_owned())) } else { Ok(name) }
    }

    fn bracket(&mut self) -> Result<Step, JsonPathError> {
        let close = closing(self.rest).ok_or_else(|| JsonPathError("unterminated array".to_owned()))?;
        let inner = self.rest[1..close].trim();
        let step = parse_bracket(inner, self.depth)?;
        self.rest = &self.rest[close + 1..];
        Ok(step)
    }
}

/// Returns the position that closes the bracket which opens the text. Brackets in quotes do not count.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0, None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

fn parse_bracket(inner: &str, depth: usize) -> Result<Step, JsonPathError> {
    let invalid = || JsonPathError(format!("invalid array index {inner}"));
    if inner == "*" {
        return Ok(Step::All);
    }
    if let Some(name) = unquote(inner) {
        // A backslash takes the next character as it is, here too.
        let mut plain = String::with_capacity(name.len());
        let mut chars = name.chars();
        while let Some(c) = chars.next() {
            plain.extend(if c == '\\' { chars.next() } else { Some(c) });
        }
        return Ok(Step::Field(plain));
    }
    if let Some(condition) = inner.strip_prefix("?(").and_then(|text| text.strip_suffix(')')) {
        return parse_filter(condition.trim(), depth + 1);
    }
    if let Some((from, to)) = inner.split_once(':') {
        let bound = |text: &str| match text.trim() {
            "" => Ok(None),
            number => number.parse().map(Some).map_err(|_| invalid()),
        };
        return Ok(Step::Slice(bound(from)?, bound(to)?));
    }
    inner.parse().map(Step::Index).map_err(|_| invalid())
}

fn unquote(text: &str) -> Option<&str> {
    let inner = |quote: char| text.strip_prefix(quote).and_then(|text| text.strip_suffix(quote));
    if text.len() < 2 { None } else { inner('\'').or_else(|| inner('"')) }
}

fn parse_filter(condition: &str, depth: usize) -> Result<Step, JsonPathError> {
    if depth > MOST_FILTERS {
        return Err(JsonPathError(format!("filters nest deeper than {MOST_FILTERS} levels")));
    }
    for operator in ["==", "!=", "<=", ">=", "<", ">"] {
        if let Some((left, right)) = condition.split_once(operator) {
            let steps = Parser { rest: left.trim(), depth }.steps()?;
            let right = right.trim();
            let value = match unquote(right) {
                Some(text) => Value::String(text.to_owned()),
                None => serde_json::from_str(right)
                    .map_err(|_| JsonPathError(format!("unrecognized value {right}")))?,
            };
            return Ok(Step::Filter(steps, Compare::With(operator, value)));
        }
    }
    Ok(Step::Filter(Parser { rest: condition, depth }.steps()?, Compare::Exists))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_lead_where_kubernetes_leads_them() {
        let value = json!({"a": {"b": [{"n": "x", "v": 1}, {"n": "y", "v": 2}]}, "m": {"k.l/n": "q"}});
        for (path, found) in [
            (".a.b[0].v", json!([1])),
            ("{.a.b[-1].v}", json!([2])),
            ("$.a.b[*].n", json!(["x", "y"])),
            (".a.b[?(@.n==\"y\")].v", json!([2])),
            (".a.b[?(@.v>1)].n", json!(["y"])),
            (".m['k.l/n']", json!(["q"])),
            (r".m.k\.l/n", json!(["q"])),
            (".a.b[0:1].n", json!(["x"])),
            ("..v", json!([1, 2])),
            (".nothing.at.all", json!([])),
        ] {
            let path = JsonPath::parse(path).unwrap();
            assert_eq!(json!(path.find(&value)), found, "{path:?}");
        }
        let nested = |levels: usize| format!(".a{}1{}", "[?(@.a".repeat(levels), ")]".repeat(levels));
        assert!(JsonPath::parse(&nested(MOST_FILTERS)).is_ok());
        let deep = JsonPath::parse(&nested(100_000)).unwrap_err().to_string();
        assert_eq!(deep, "filters nest deeper than 32 levels");
        assert_eq!(JsonPath::parse(".a[").unwrap_err().to_string(), "unterminated array");
        assert_eq!(JsonPath::parse(".spec.x").unwrap().fields(), Some(vec!["spec", "x"]));
    }

    /// Without a bound the path leads to about 10^29 values.
    #[test]
    fn a_path_visits_so_many_values_and_no_more() {
        let deep = (0..120).fold(json!(1), |inner, _| json!({"a": inner}));
        let found = JsonPath::parse(&"..a".repeat(60)).unwrap().find(&deep);
        assert!(found.len() <= MOST_VISITS);
    }
}
