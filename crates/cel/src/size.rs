//! Sizes and paths as cel-go's cost estimator keeps them.

use std::cell::RefCell;
use std::rc::Rc;

/// The fewest and the most letters, items or entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) least: u64,
    pub(super) most: u64,
}

impl Size {
    pub(super) const UNKNOWN: Size = Size { least: 0, most: u64::MAX };

    pub(super) fn exactly(size: u64) -> Size {
        Size { least: size, most: size }
    }

    pub(super) fn at_most(most: u64) -> Size {
        Size { least: 0, most }
    }

    pub(super) fn add(self, other: Size) -> Size {
        Size { least: self.least.saturating_add(other.least), most: self.most.saturating_add(other.most) }
    }

    pub(super) fn times(self, other: Size) -> Size {
        Size { least: self.least.saturating_mul(other.least), most: self.most.saturating_mul(other.most) }
    }

    pub(super) fn union(self, other: Size) -> Size {
        Size { least: self.least.min(other.least), most: self.most.max(other.most) }
    }

    /// The cost of going over it once.
    pub(super) fn cost(self, factor: f64) -> u64 {
        scaled(self.most, factor)
    }
}

/// The product, rounded up.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "cel-go computes with the same floats, and a cast from a float saturates"
)]
pub(super) fn scaled(size: u64, factor: f64) -> u64 {
    (size as f64 * factor).ceil() as u64
}

/// The sizes of the keys and values of a list or map.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entries {
    pub(super) is_list: bool,
    pub(super) key: Size,
    pub(super) value: Size,
}

impl Entries {
    pub(super) fn union(left: Option<Entries>, right: Option<Entries>) -> Option<Entries> {
        let (left, right) = left.zip(right)?;
        let (key, value) = (left.key.union(right.key), left.value.union(right.value));
        Some(Entries { is_list: left.is_list, key, value })
    }
}

/// The place of a value below a variable. It behaves as a Go slice: a longer path may share its memory with a shorter
/// one, and a second longer path then overwrites the first. cel-go's estimates depend on that.
#[derive(Clone, Debug, Default)]
pub(super) struct Place {
    names: Rc<RefCell<Vec<String>>>,
    length: usize,
    capacity: usize,
}

impl Place {
    pub(super) fn root(name: &str) -> Place {
        Place::default().then(name)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The path with one more name, as Go's `append` makes it.
    pub(super) fn then(&self, name: &str) -> Place {
        if self.length < self.capacity {
            let mut names = self.names.borrow_mut();
            match names.get_mut(self.length) {
                Some(slot) => name.clone_into(slot),
                None => names.push(name.to_owned()),
            }
            drop(names);
            return Place { names: self.names.clone(), length: self.length + 1, capacity: self.capacity };
        }
        let mut names: Vec<String> = self.names.borrow()[..self.length].to_vec();
        names.push(name.to_owned());
        let capacity = (self.capacity * 2).max(1);
        Place { names: Rc::new(RefCell::new(names)), length: self.length + 1, capacity }
    }

    /// A path with one more name in memory of its own.
    pub(super) fn copied(&self, name: &str) -> Place {
        let mut names: Vec<String> = self.names.borrow()[..self.length].to_vec();
        names.push(name.to_owned());
        Place { length: names.len(), capacity: names.len(), names: Rc::new(RefCell::new(names)) }
    }

    /// The variable and each name below it.
    pub(super) fn names(&self) -> Vec<String> {
        self.names.borrow()[..self.length].to_vec()
    }
}
