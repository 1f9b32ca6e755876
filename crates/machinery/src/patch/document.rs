//! The object while the operations of a JSON patch change it. A long list is held in runs: an item that comes or goes
//! moves its run and not everything behind it, which would make a patch take time with the square of its length.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::fieldset::values_equal;

/// Items of a run when a list is cut. A run of more than twice as many is cut again.
const RUN: usize = 512;

/// A value of the object.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// A value into which no operation has looked.
    Closed(Value),
    Object(BTreeMap<String, Node>),
    List(Runs),
}

impl Node {
    /// Makes the parts of the value reachable. Each value is taken apart once at most.
    pub(super) fn open(&mut self) {
        let Node::Closed(value) = self else { return };
        *self = match value.take() {
            Value::Object(fields) => {
                Node::Object(fields.into_iter().map(|(name, value)| (name, Node::Closed(value))).collect())
            }
            Value::Array(items) => Node::List(Runs::of(items)),
            other => Node::Closed(other),
        };
    }

    /// The value as it is now.
    pub(super) fn close(self) -> Value {
        match self {
            Node::Closed(value) => value,
            Node::Object(fields) => {
                Value::Object(fields.into_iter().map(|(name, node)| (name, node.close())).collect())
            }
            Node::List(runs) => runs.runs.into_iter().flatten().map(Node::close).collect(),
        }
    }

    /// Whether the value is an object or a list.
    pub(super) fn is_container(&self) -> bool {
        !matches!(self, Node::Closed(value) if !value.is_object() && !value.is_array())
    }

    pub(super) fn equals(&self, other: &Value) -> bool {
        match (self, other) {
            (Node::Closed(value), other) => values_equal(value, other),
            (Node::Object(fields), Value::Object(others)) => {
                fields.len() == others.len()
                    && fields
                        .iter()
                        .all(|(name, node)| others.get(name).is_some_and(|other| node.equals(other)))
            }
            (Node::List(items), Value::Array(others)) => {
                items.length == others.len()
                    && items.runs.iter().flatten().zip(others).all(|(node, other)| node.equals(other))
            }
            _ => false,
        }
    }

    /// The levels of the value: none for one that is no container.
    pub(super) fn depth(&self) -> usize {
        match self {
            Node::Closed(value) => depth(value),
            Node::Object(fields) => 1 + fields.values().map(Node::depth).max().unwrap_or(0),
            Node::List(items) => 1 + items.runs.iter().flatten().map(Node::depth).max().unwrap_or(0),
        }
    }
}

/// The levels of a value: none for one that is no container.
pub(super) fn depth(value: &Value) -> usize {
    let below = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(fields) => fields.values().map(depth).max(),
        _ => return 0,
    };
    1 + below.unwrap_or(0)
}

/// A list in runs, none of which is empty.
#[derive(Clone, Debug)]
pub(super) struct Runs {
    runs: Vec<Vec<Node>>,
    length: usize,
}

impl Runs {
    fn of(items: Vec<Value>) -> Self {
        let length = items.len();
        let mut runs = Vec::with_capacity(length.div_ceil(RUN));
        let mut items = items.into_iter().map(Node::Closed);
        while runs.len() * RUN < length {
            runs.push(items.by_ref().take(RUN).collect());
        }
        Runs { runs, length }
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// The run with an item, and the item's place in it.
    fn place(&self, mut at: usize) -> Option<(usize, usize)> {
        for (index, run) in self.runs.iter().enumerate() {
            if at < run.len() {
                return Some((index, at));
            }
            at -= run.len();
        }
        None
    }

    pub(super) fn get(&self, at: usize) -> Option<&Node> {
        let (run, place) = self.place(at)?;
        self.runs[run].get(place)
    }

    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut Node> {
        let (run, place) = self.place(at)?;
        self.runs[run].get_mut(place)
    }

    /// Puts an item before the one at that place, or at the end if there is none.
    pub(super) fn insert(&mut self, at: usize, node: Node) {
        let end = self.runs.len().checked_sub(1).map(|last| (last, self.runs[last].len()));
        let Some((run, place)) = self.place(at).or(end) else {
            self.runs.push(vec![node]);
            self.length = 1;
            return;
        };
        self.length += 1;
        self.runs[run].insert(place, node);
        if self.runs[run].len() > 2 * RUN {
            let rest = self.runs[run].split_off(RUN);
            self.runs.insert(run + 1, rest);
        }
    }

    pub(super) fn remove(&mut self, at: usize) -> Option<Node> {
        let (run, place) = self.place(at)?;
        let node = self.runs[run].remove(place);
        self.length -= 1;
        if self.runs[run].is_empty() {
            self.runs.remove(run);
        }
        Some(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list in runs does what a plain one does.
    #[test]
    fn runs_are_a_list() {
        let mut state = 1_u64;
        let mut draw = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from(state >> 33).unwrap() % below
        };
        for start in [0, 1, RUN, 3 * RUN + 1] {
            let mut plain: Vec<Value> = (0..start).map(Value::from).collect();
            let mut runs = Runs::of(plain.clone());
            for step in 0..4000 {
                let at = draw(plain.len() + 1);
                if at < plain.len() && draw(3) == 0 {
                    assert_eq!(runs.get(at).cloned().map(Node::close).as_ref(), plain.get(at));
                    assert_eq!(runs.remove(at).map(Node::close), Some(plain.remove(at)));
                } else {
                    runs.insert(at, Node::Closed(Value::from(step)));
                    plain.insert(at, Value::from(step));
                }
                assert_eq!(runs.len(), plain.len());
            }
            assert!(runs.runs.iter().all(|run| !run.is_empty() && run.len() <= 2 * RUN));
            let list = Node::List(runs);
            assert!(list.equals(&Value::Array(plain.clone())));
            assert_eq!(list.close(), Value::Array(plain));
        }
    }
}
