//! Compares two objects, path by path.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::types::{Atom, ListType, MapType, Type};
use crate::fieldset::{FieldSet, PathElement, values_equal};

/// The paths that differ; none is in two of the sets.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Comparison {
    pub(super) removed: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) added: FieldSet,
}

/// Compares two objects that fit the type.
pub(super) fn compare(old: &Value, new: &Value, ty: Type<'_>) -> Comparison {
    let mut walk = Walk { path: Vec::new(), out: Comparison::default() };
    walk.value(Some(old), Some(new), ty);
    walk.out
}

enum Step<'v> {
    Declared(&'v Arc<str>),
    Named(&'v str),
    Item(PathElement),
}

#[derive(Clone, Copy)]
enum Change {
    Removed,
    Modified,
    Added,
}

struct Walk<'v> {
    path: Vec<Step<'v>>,
    out: Comparison,
}

impl<'v> Walk<'v> {
    fn record(&mut self, change: Change) {
        let path: Vec<PathElement> = self
            .path
            .iter()
            .map(|step| match step {
                Step::Declared(name) => PathElement::Field((*name).clone()),
                Step::Named(name) => PathElement::field(name),
                Step::Item(element) => element.clone(),
            })
            .collect();
        match change {
            Change::Removed => self.out.removed.insert(&path),
            Change::Modified => self.out.modified.insert(&path),
            Change::Added => self.out.added.insert(&path),
        }
    }

    fn value(&mut self, old: Option<&'v Value>, new: Option<&'v Value>, ty: Type<'v>) {
        let leaf = match (old, new) {
            (_, None) => self.as_atom(old, new, ty.atom(old)),
            (None, Some(_)) => self.as_atom(old, new, ty.atom(new)),
            (Some(_), Some(_)) => {
                let (was, is) = (ty.atom(old), ty.atom(new));
                if !same_form(&was, &is) {
                    self.as_atom(old, new, was);
                }
                self.as_atom(old, new, is)
            }
        };
        if !leaf {
            match (old, new) {
                (None, _) => self.record(Change::Added),
                (_, None) => self.record(Change::Removed),
                _ => {}
            }
        }
    }

    /// Compares in one form; says whether the value was a leaf.
    fn as_atom(&mut self, old: Option<&'v Value>, new: Option<&'v Value>, atom: Atom<'v>) -> bool {
        match atom {
            Atom::Scalar(_) => self.leaf(old, new),
            Atom::List(list) => {
                let (was, is) = (old.and_then(Value::as_array), new.and_then(Value::as_array));
                if list.atomic() || (was.is_none_or(Vec::is_empty) && is.is_none_or(Vec::is_empty)) {
                    return self.leaf(old, new);
                }
                self.items(was.map_or(&[], Vec::as_slice), is.map_or(&[], Vec::as_slice), list);
                false
            }
            Atom::Map(map) => {
                let (was, is) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
                if map.atomic || (was.is_none_or(Map::is_empty) && is.is_none_or(Map::is_empty)) {
                    return self.leaf(old, new);
                }
                self.entries(was, is, map);
                false
            }
        }
    }

    fn leaf(&mut self, old: Option<&'v Value>, new: Option<&'v Value>) -> bool {
        match (old, new) {
            (None, _) => self.record(Change::Added),
            (_, None) => self.record(Change::Removed),
            (Some(old), Some(new)) if !values_equal(old, new) => self.record(Change::Modified),
            _ => {}
        }
        true
    }

    fn entries(
        &mut self,
        old: Option<&'v Map<String, Value>>,
        new: Option<&'v Map<String, Value>>,
        map: MapType<'v>,
    ) {
        let (mut old, mut new) = (old.into_iter().flatten().peekable(), new.into_iter().flatten().peekable());
        loop {
            let (name, was, is) = match (old.peek(), new.peek()) {
                (None, None) => return,
                (Some((name, was)), None) => (*name, Some(*was), None),
                (None, Some((name, is))) => (*name, None, Some(*is)),
                (Some((left, was)), Some((right, is))) => match left.cmp(right) {
                    std::cmp::Ordering::Less => (*left, Some(*was), None),
                    std::cmp::Ordering::Greater => (*right, None, Some(*is)),
                    std::cmp::Ordering::Equal => (*left, Some(*was), Some(*is)),
                },
            };
            if was.is_some() {
                old.next();
            }
            if is.is_some() {
                new.next();
            }
            let (step, ty) = match map.declared(name) {
                Some((name, ty)) => (Step::Declared(name), ty),
                None => match map.child(name) {
                    Some(ty) => (Step::Named(name), ty),
                    None => continue,
                },
            };
            self.path.push(step);
            self.value(was, is, ty);
            self.path.pop();
        }
    }

    fn items(&mut self, old: &'v [Value], new: &'v [Value], list: ListType<'v>) {
        let mut pairs: BTreeMap<PathElement, (Vec<&'v Value>, Vec<&'v Value>)> = BTreeMap::new();
        for item in old {
            if let Ok(element) = list.element_of(item) {
                pairs.entry(element).or_default().0.push(item);
            }
        }
        for item in new {
            if let Ok(element) = list.element_of(item) {
                pairs.entry(element).or_default().1.push(item);
            }
        }
        for (element, (was, is)) in pairs {
            self.path.push(Step::Item(element));
            self.item(&was, &is, list);
            self.path.pop();
        }
    }

    /// One item; items that occur twice on a side are one opaque thing on that side.
    fn item(&mut self, was: &[&'v Value], is: &[&'v Value], list: ListType<'v>) {
        match (was, is) {
            ([], [one]) => self.value(None, Some(*one), list.item),
            ([one], []) => self.value(Some(*one), None, list.item),
            ([old], [new]) => self.value(Some(*old), Some(*new), list.item),
            ([_, _, ..], [_, _, ..]) => {
                if was.len() != is.len() || was.iter().zip(is).any(|(was, is)| !values_equal(was, is)) {
                    self.record(Change::Modified);
                }
            }
            ([_, _, ..], _) => {
                if let [one] = is {
                    self.value(None, Some(*one), list.item);
                }
                self.record(Change::Removed);
            }
            (_, [_, _, ..]) => {
                if let [one] = was {
                    self.value(Some(*one), None, list.item);
                }
                self.record(Change::Added);
            }
            ([], []) => {}
        }
    }
}

fn same_form(left: &Atom<'_>, right: &Atom<'_>) -> bool {
    matches!(
        (left, right),
        (Atom::Scalar(_), Atom::Scalar(_)) | (Atom::List(_), Atom::List(_)) | (Atom::Map(_), Atom::Map(_))
    )
}
