//! Union, intersection and the two differences, each one pass over both tries.

use std::cmp::Ordering;

use super::{Entry, FieldSet};

impl FieldSet {
    /// Returns the members of either set.
    pub fn union(&self, other: &FieldSet) -> FieldSet {
        if self.is_empty() {
            return other.clone();
        }
        if other.is_empty() {
            return self.clone();
        }
        let mut entries = Vec::with_capacity(self.entries.len().max(other.entries.len()));
        let (mut left, mut right) = (self.entries.iter().peekable(), other.entries.iter().peekable());
        while let (Some(own), Some(theirs)) = (left.peek(), right.peek()) {
            match own.element.cmp(&theirs.element) {
                Ordering::Less => entries.extend(left.next().cloned()),
                Ordering::Greater => entries.extend(right.next().cloned()),
                Ordering::Equal => {
                    entries.push(Entry {
                        element: own.element.clone(),
                        member: own.member || theirs.member,
                        children: own.children.union(&theirs.children),
                    });
                    left.next();
                    right.next();
                }
            }
        }
        entries.extend(left.cloned());
        entries.extend(right.cloned());
        FieldSet { entries }
    }

    /// Returns the members of both sets.
    pub fn intersection(&self, other: &FieldSet) -> FieldSet {
        let mut out = FieldSet::new();
        self.zip_equal(other, |own, theirs| {
            let member = own.member && theirs.member;
            let children = own.children.intersection(&theirs.children);
            if member || !children.is_empty() {
                out.entries.push(Entry { element: own.element.clone(), member, children });
            }
        });
        out
    }

    /// Whether the sets share a member.
    pub fn intersects(&self, other: &FieldSet) -> bool {
        let mut found = false;
        self.zip_equal(other, |own, theirs| {
            found = found || (own.member && theirs.member) || own.children.intersects(&theirs.children);
        });
        found
    }

    fn zip_equal(&self, other: &FieldSet, mut each: impl FnMut(&Entry, &Entry)) {
        let (mut left, mut right) = (self.entries.iter().peekable(), other.entries.iter().peekable());
        while let (Some(own), Some(theirs)) = (left.peek(), right.peek()) {
            match own.element.cmp(&theirs.element) {
                Ordering::Less => drop(left.next()),
                Ordering::Greater => drop(right.next()),
                Ordering::Equal => {
                    each(own, theirs);
                    left.next();
                    right.next();
                }
            }
        }
    }

    /// Whether every member of this set is in the other.
    pub fn is_subset(&self, other: &FieldSet) -> bool {
        let mut right = other.entries.iter().peekable();
        self.entries.iter().all(|own| {
            while right.next_if(|theirs| theirs.element < own.element).is_some() {}
            match right.next_if(|theirs| theirs.element == own.element) {
                Some(theirs) => (theirs.member || !own.member) && own.children.is_subset(&theirs.children),
                None => false,
            }
        })
    }

    /// Returns the members of this set that are not in the other, path by path: a parent does not cover its children.
    pub fn difference(&self, other: &FieldSet) -> FieldSet {
        self.subtract(other, false)
    }

    /// Returns the members of this set that are neither in the other nor below a member of it.
    pub fn recursive_difference(&self, other: &FieldSet) -> FieldSet {
        self.subtract(other, true)
    }

    fn subtract(&self, other: &FieldSet, recursive: bool) -> FieldSet {
        let mut out = FieldSet::new();
        let mut right = other.entries.iter().peekable();
        for own in &self.entries {
            while right.next_if(|theirs| theirs.element < own.element).is_some() {}
            let Some(theirs) = right.next_if(|theirs| theirs.element == own.element) else {
                out.entries.push(own.clone());
                continue;
            };
            if recursive && theirs.member {
                continue;
            }
            let member = own.member && !theirs.member;
            let children = own.children.subtract(&theirs.children, recursive);
            if member || !children.is_empty() {
                out.entries.push(Entry { element: own.element.clone(), member, children });
            }
        }
        out
    }
}
