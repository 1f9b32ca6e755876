//! Label selectors.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use super::SelectorError;
use super::lexer::{Token, scan};
use crate::cause::{BadValue, Cause, Path, aggregate};
use crate::go_format::quote;
use crate::name;

/// How a requirement relates its key to its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Operator {
    In,
    NotIn,
    Equals,
    DoubleEquals,
    NotEquals,
    Exists,
    DoesNotExist,
    GreaterThan,
    LessThan,
}

/// One condition on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

impl Requirement {
    /// Checks key and values as Kubernetes does; the error is in its words.
    pub fn new(key: &str, operator: Operator, values: Vec<String>) -> Result<Self, SelectorError> {
        let mut causes = Vec::new();
        let key_path = Path::new("key");
        let value_path = Path::new("values");
        let wrong = name::qualified_name(key);
        if !wrong.is_empty() {
            causes.push(Cause::invalid(&key_path, key, &wrong.join("; ")));
        }
        let shown = || BadValue::raw(serde_json::to_string(&values).expect("a list of text is JSON"));
        match operator {
            Operator::In | Operator::NotIn if values.is_empty() => causes.push(Cause::invalid(
                &value_path,
                shown(),
                "for 'in', 'notin' operators, values set can't be empty",
            )),
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => causes.push(Cause::invalid(
                &value_path,
                shown(),
                "values set must be empty for exists and does not exist",
            )),
            Operator::GreaterThan | Operator::LessThan => {
                for (at, value) in values.iter().enumerate() {
                    if value.parse::<i64>().is_err() {
                        let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                        causes.push(Cause::invalid(&value_path.index(at), value, detail));
                    }
                }
            }
            _ => {}
        }
        for (at, value) in values.iter().enumerate() {
            let wrong = name::label_value(value);
            if !wrong.is_empty() {
                causes.push(Cause::invalid(&value_path.index(at).key(key), value, &wrong.join("; ")));
            }
        }
        if !causes.is_empty() {
            return Err(SelectorError(aggregate(&causes)));
        }
        Ok(Requirement { key: key.to_owned(), operator, values })
    }

    /// The label.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The relation.
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// The values that the key is compared with.
    pub fn values(&self) -> &[String] {
        &self.values
    }

    fn matches_value(&self, value: Option<&str>) -> bool {
        let listed = |value: &str| self.values.iter().any(|one| one == value);
        match self.operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => value.is_some_and(listed),
            Operator::NotIn | Operator::NotEquals => !value.is_some_and(listed),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan | Operator::LessThan => {
                let bound = self.values.first().and_then(|one| one.parse::<i64>().ok());
                match (value.and_then(|one| one.parse::<i64>().ok()), bound) {
                    (Some(value), Some(bound)) if self.operator == Operator::GreaterThan => value > bound,
                    (Some(value), Some(bound)) => value < bound,
                    _ => false,
                }
            }
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut values = self.values.clone();
        values.sort();
        let (key, values) = (&self.key, values.join(","));
        match self.operator {
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::Exists => f.write_str(key),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

/// Conditions on labels, all of which must hold.
///
/// ```
/// use setpoint_api::selector::LabelSelector;
/// let selector = LabelSelector::parse("app=web,tier notin (cache),!legacy").unwrap();
/// assert!(selector.matches([("app", "web"), ("tier", "front")]));
/// assert_eq!(selector.to_string(), "app=web,!legacy,tier notin (cache)");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
    nothing: bool,
}

impl LabelSelector {
    /// Matches every object.
    pub fn everything() -> Self {
        LabelSelector::default()
    }

    /// Matches no object, as an absent LabelSelector does.
    pub fn nothing() -> Self {
        LabelSelector { requirements: Vec::new(), nothing: true }
    }

    /// The text form, as `?labelSelector=` has it.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut requirements = Parser { tokens: scan(text), at: 0 }.parse()?;
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(LabelSelector { requirements, nothing: false })
    }

    /// The JSON form: `matchLabels` and `matchExpressions`. `null` matches nothing, `{}` everything.
    pub fn from_json(selector: &Value) -> Result<Self, SelectorError> {
        if selector.is_null() {
            return Ok(LabelSelector::nothing());
        }
        let mut requirements = Vec::new();
        for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
            let value = value.as_str().unwrap_or_default().to_owned();
            requirements.push(Requirement::new(key, Operator::Equals, vec![value])?);
        }
        for expression in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
            let text = |field: &str| expression.get(field).and_then(Value::as_str).unwrap_or_default();
            let operator = match text("operator") {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => {
                    return Err(SelectorError(format!(
                        "{} is not a valid label selector operator",
                        quote(other)
                    )));
                }
            };
            let values = expression.get("values").and_then(Value::as_array).into_iter().flatten();
            let values = values.filter_map(|one| one.as_str().map(str::to_owned)).collect();
            requirements.push(Requirement::new(text("key"), operator, values)?);
        }
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(LabelSelector { requirements, nothing: false })
    }

    /// Conditions that somebody else has checked.
    pub fn from_requirements(
        requirements: impl IntoIterator<Item = (String, Operator, Vec<String>)>,
    ) -> Self {
        let requirements = requirements.into_iter();
        let mut requirements: Vec<Requirement> =
            requirements.map(|(key, operator, values)| Requirement { key, operator, values }).collect();
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        LabelSelector { requirements, nothing: false }
    }

    /// A plain map of labels, as `spec.selector` of a Service has it.
    pub fn from_map(labels: &Value) -> Self {
        let labels = labels.as_object().into_iter().flatten();
        let requirements = labels.map(|(key, value)| Requirement {
            key: key.clone(),
            operator: Operator::Equals,
            values: vec![value.as_str().unwrap_or_default().to_owned()],
        });
        LabelSelector { requirements: requirements.collect(), nothing: false }
    }

    /// The conditions, sorted by key.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Whether it restricts nothing.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty() && !self.nothing
    }

    /// Whether these labels satisfy it.
    pub fn matches<'a>(&self, labels: impl IntoIterator<Item = (&'a str, &'a str)> + Clone) -> bool {
        self.matches_by(|key| labels.clone().into_iter().find(|(known, _)| *known == key).map(|(_, v)| v))
    }

    /// Whether the labels that `lookup` knows satisfy it.
    pub fn matches_by<'a>(&self, lookup: impl Fn(&str) -> Option<&'a str>) -> bool {
        !self.nothing && self.requirements.iter().all(|one| one.matches_value(lookup(&one.key)))
    }

    /// Whether the labels of this object satisfy it.
    pub fn matches_object(&self, object: &Value) -> bool {
        let labels = object.get("metadata").and_then(|metadata| metadata.get("labels"));
        self.matches_by(|key| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str))
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, requirement) in self.requirements.iter().enumerate() {
            if at > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

struct Parser {
    tokens: Vec<(Token, String)>,
    at: usize,
}

impl Parser {
    /// Returns the next token for a position where a value may stand: there `in` and `notin` are plain words.
    fn peek(&self) -> (Token, &str) {
        let (token, text) = &self.tokens[self.at.min(self.tokens.len() - 1)];
        let token = if matches!(token, Token::In | Token::NotIn) { Token::Identifier } else { *token };
        (token, text)
    }

    fn next(&mut self) -> (Token, String) {
        let (token, text) = self.peek();
        let text = text.to_owned();
        self.at += 1;
        (token, text)
    }

    fn parse(mut self) -> Result<Vec<Requirement>, SelectorError> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                (Token::Identifier | Token::Not, _) => {
                    let requirement = self
                        .requirement()
                        .map_err(|error| SelectorError(format!("unable to parse requirement: {error}")))?;
                    requirements.push(requirement);
                    match self.next() {
                        (Token::End, _) => return Ok(requirements),
                        (Token::Comma, _) => {
                            let (token, text) = self.peek();
                            if !matches!(token, Token::Identifier | Token::Not) {
                                return refuse(text, ", expected: identifier after ','");
                            }
                        }
                        (_, text) => return refuse(&text, ", expected: ',' or 'end of string'"),
                    }
                }
                (Token::End, _) => return Ok(requirements),
                (_, text) => return refuse(text, ", expected: !, identifier, or 'end of string'"),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        let (mut token, mut key) = self.next();
        let negated = token == Token::Not;
        if negated {
            (token, key) = self.next();
        }
        if token != Token::Identifier {
            return refuse(&key, ", expected: identifier");
        }
        let wrong = name::qualified_name(&key);
        if !wrong.is_empty() {
            let cause = Cause::invalid(&Path::default(), &key, &wrong.join("; "));
            return Err(SelectorError(cause.to_string()));
        }
        if negated {
            return Requirement::new(&key, Operator::DoesNotExist, Vec::new());
        }
        if matches!(self.peek().0, Token::End | Token::Comma) {
            return Requirement::new(&key, Operator::Exists, Vec::new());
        }
        let operator = self.operator()?;
        let values = match operator {
            Operator::In | Operator::NotIn => self.values()?,
            _ => self.exact_value()?,
        };
        Requirement::new(&key, operator, values)
    }

    fn operator(&mut self) -> Result<Operator, SelectorError> {
        let (token, text) = self.tokens[self.at.min(self.tokens.len() - 1)].clone();
        self.at += 1;
        Ok(match token {
            Token::In => Operator::In,
            Token::Equals => Operator::Equals,
            Token::DoubleEquals => Operator::DoubleEquals,
            Token::Greater => Operator::GreaterThan,
            Token::Less => Operator::LessThan,
            Token::NotIn => Operator::NotIn,
            Token::NotEquals => Operator::NotEquals,
            _ => return refuse(&text, ", expected: in, notin, =, ==, !=, gt, lt"),
        })
    }

    fn values(&mut self) -> Result<Vec<String>, SelectorError> {
        match self.next() {
            (Token::Open, _) => {}
            (_, text) => return refuse(&text, " expected: '('"),
        }
        let (token, first) = self.peek();
        let first = first.to_owned();
        match token {
            Token::Identifier | Token::Comma => {
                let values = self.identifiers()?;
                match self.next() {
                    (Token::Close, _) => Ok(values.into_iter().collect()),
                    _ => refuse(&first, ", expected: ')'"),
                }
            }
            Token::Close => {
                self.next();
                Ok(vec![String::new()])
            }
            _ => refuse(&first, ", expected: ',', ')' or identifier"),
        }
    }

    fn identifiers(&mut self) -> Result<BTreeSet<String>, SelectorError> {
        let mut values = BTreeSet::new();
        loop {
            match self.next() {
                (Token::Identifier, text) => {
                    values.insert(text);
                    match self.peek() {
                        (Token::Comma, _) => {}
                        (Token::Close, _) => return Ok(values),
                        (_, text) => return refuse(text, ", expected: ',' or ')'"),
                    }
                }
                (Token::Comma, _) => {
                    if values.is_empty() {
                        values.insert(String::new());
                    }
                    match self.peek().0 {
                        Token::Close => {
                            values.insert(String::new());
                            return Ok(values);
                        }
                        Token::Comma => {
                            values.insert(String::new());
                        }
                        _ => {}
                    }
                }
                (_, text) => return refuse(&text, ", expected: ',', or identifier"),
            }
        }
    }

    fn exact_value(&mut self) -> Result<Vec<String>, SelectorError> {
        if matches!(self.peek().0, Token::End | Token::Comma) {
            return Ok(vec![String::new()]);
        }
        match self.next() {
            (Token::Identifier, text) => Ok(vec![text]),
            (_, text) => refuse(&text, ", expected: identifier"),
        }
    }
}

fn refuse<T>(found: &str, rest: &str) -> Result<T, SelectorError> {
    Err(SelectorError(format!("found '{found}'{rest}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn selectors_print_as_go_prints_them() {
        for (text, printed) in [
            ("", ""),
            ("x in (b,a),y", "x in (a,b),y"),
            ("x=a,y!=b", "x=a,y!=b"),
            ("x==a", "x==a"),
            ("!x", "!x"),
            ("x>1,y<2", "x>1,y<2"),
            ("x in ()", "x in ()"),
            ("x notin (,a)", "x notin (,a)"),
            ("x=", "x="),
            ("b,a", "a,b"),
        ] {
            assert_eq!(LabelSelector::parse(text).unwrap().to_string(), printed, "{text}");
        }
    }

    #[test]
    fn refusals_are_in_kubernetes_words() {
        for (text, words) in [
            ("x=a||y=b", "unable to parse requirement: values[0][x]: Invalid value: \"a||y\""),
            ("x,,y", "found ',', expected: identifier after ','"),
            ("=x", "found '=', expected: !, identifier, or 'end of string'"),
            ("x a", "unable to parse requirement: found 'a', expected: in, notin, =, ==, !=, gt, lt"),
            ("x in a", "unable to parse requirement: found 'a' expected: '('"),
            ("_x=a", "unable to parse requirement: <nil>: Invalid value: \"_x\": name part must consist of"),
        ] {
            let error = LabelSelector::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(words), "{text}: {error}");
        }
    }

    #[test]
    fn the_json_form_matches_like_the_text_form() {
        let selector = LabelSelector::from_json(&json!({"matchLabels": {"a": "1"},
            "matchExpressions": [{"key": "b", "operator": "NotIn", "values": ["x"]}]}))
        .unwrap();
        assert!(selector.matches_object(&json!({"metadata": {"labels": {"a": "1"}}})));
        assert!(!selector.matches_object(&json!({"metadata": {"labels": {"a": "1", "b": "x"}}})));
        assert!(!LabelSelector::from_json(&Value::Null).unwrap().matches_object(&json!({})));
        assert!(LabelSelector::from_json(&json!({})).unwrap().matches_object(&json!({})));
        assert!(
            LabelSelector::from_json(&json!({"matchExpressions": [{"key": "a", "operator": "x"}]})).is_err()
        );
    }
}
