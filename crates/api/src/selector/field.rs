//! Field selectors.

use std::fmt;

use super::SelectorError;

/// One comparison of one field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldRequirement {
    /// `metadata.name`, `spec.nodeName`, …
    pub field: String,
    /// The text it is compared with.
    pub value: String,
    /// Whether it must differ.
    pub negated: bool,
}

/// Comparisons of fields, all of which must hold.
///
/// ```
/// use setpoint_api::selector::FieldSelector;
/// let selector = FieldSelector::parse("status.phase!=Running,metadata.name=a").unwrap();
/// assert!(selector.matches(|field| if field == "metadata.name" { "a" } else { "" }.into()));
/// assert_eq!(selector.exact("metadata.name"), Some("a"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

impl FieldSelector {
    /// Matches every object.
    pub fn everything() -> Self {
        FieldSelector::default()
    }

    /// The text form, as `?fieldSelector=` has it.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut terms = split_terms(text);
        terms.sort_unstable();
        let mut requirements = Vec::new();
        for term in terms.into_iter().filter(|term| !term.is_empty()) {
            let Some((field, operator, value)) = split_term(term) else {
                let message = format!("invalid selector: '{text}'; can't understand '{term}'");
                return Err(SelectorError(message));
            };
            let value = unescape(value)?;
            requirements.push(FieldRequirement { field: field.to_owned(), value, negated: operator == "!=" });
        }
        Ok(FieldSelector { requirements })
    }

    /// The comparisons.
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// Whether it restricts nothing.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Selects what has this one value in `field`.
    pub fn equal(field: impl Into<String>, value: impl Into<String>) -> Self {
        let requirement = FieldRequirement { field: field.into(), value: value.into(), negated: false };
        FieldSelector { requirements: vec![requirement] }
    }

    /// The one value that `field` must have, where the selector says so.
    pub fn exact(&self, field: &str) -> Option<&str> {
        self.requirements.iter().find(|one| one.field == field && !one.negated).map(|one| &*one.value)
    }

    /// Whether the fields that `value_of` tells satisfy it; an absent field is the empty text.
    pub fn matches(&self, value_of: impl Fn(&str) -> String) -> bool {
        self.requirements.iter().all(|one| (value_of(&one.field) == one.value) != one.negated)
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, one) in self.requirements.iter().enumerate() {
            if at > 0 {
                f.write_str(",")?;
            }
            let value = one.value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
            write!(f, "{}{}{value}", one.field, if one.negated { "!=" } else { "=" })?;
        }
        Ok(())
    }
}

fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

fn split_term(term: &str) -> Option<(&str, &'static str, &str)> {
    for (at, _) in term.char_indices() {
        for operator in ["!=", "==", "="] {
            if let Some(value) = term[at..].strip_prefix(operator) {
                return Some((&term[..at], operator, value));
            }
        }
    }
    None
}

fn unescape(value: &str) -> Result<String, SelectorError> {
    let refuse = |sequence: &str| {
        Err(SelectorError(format!("invalid field selector: invalid escape sequence: {sequence}")))
    };
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                Some(c) => return refuse(&format!("\\{c}")),
                None => return refuse("\\"),
            },
            ',' | '=' => {
                let message = format!("invalid field selector: unescaped character in value: {}", c as u32);
                return Err(SelectorError(message));
            }
            c => out.push(c),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_sorted_unescaped_and_printed() {
        let selector = FieldSelector::parse(r"b==x\,y,a!=1,").unwrap();
        assert_eq!(selector.to_string(), r"a!=1,b=x\,y");
        assert_eq!(selector.exact("b"), Some("x,y"));
        assert_eq!(selector.exact("a"), None);
    }

    #[test]
    fn refusals_are_in_kubernetes_words() {
        for (text, words) in [
            ("a", "invalid selector: 'a'; can't understand 'a'"),
            (r"a=\x", r"invalid field selector: invalid escape sequence: \x"),
            ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        ] {
            assert_eq!(FieldSelector::parse(text).unwrap_err().to_string(), words);
        }
    }
}
