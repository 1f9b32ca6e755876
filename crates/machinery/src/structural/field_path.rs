//! `fieldPath` of a validation rule: `.spec.field` or `.map['key']`.

use super::props::Props;
use setpoint_api::cause::Path;

/// One step of such a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// A declared field.
    Child(String),
    /// An entry of a map.
    Key(String),
}

/// The steps, if all of them exist in the schema.
pub fn resolve(text: &str, props: &Props) -> Option<Vec<Segment>> {
    let mut segments = Vec::new();
    let mut props = props;
    let mut rest = text;
    while !rest.is_empty() {
        let name;
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[', ']']).unwrap_or(after.len());
            name = after[..end].to_owned();
            rest = &after[end..];
        } else {
            let quoted = rest.strip_prefix("['")?;
            let (found, after) = quoted_name(quoted)?;
            name = found;
            rest = after.strip_prefix(']')?;
        }
        if name.is_empty() {
            return None;
        }
        if props.properties.is_empty() {
            props = props.additional.as_ref()?.schema.as_deref()?;
            segments.push(Segment::Key(name));
        } else {
            props = props.properties.get(&name)?;
            segments.push(Segment::Child(name));
        }
    }
    Some(segments)
}

/// Reads up to the closing quote; a backslash takes the next letter as it is.
fn quoted_name(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\'' => return Some((name, &text[at + 1..])),
            '\\' => name.push(letters.next()?.1),
            other => name.push(other),
        }
    }
    None
}

/// The path with these steps after it.
pub fn join(path: &Path, segments: &[Segment]) -> Path {
    segments.iter().fold(path.clone(), |path, segment| match segment {
        Segment::Child(name) => path.child(name),
        Segment::Key(name) => path.key(name),
    })
}
