//! The cost that evaluations may have, in the units of kube-apiserver: 1,000,000 a rule, 10,000,000 an object.

use std::sync::atomic::{AtomicU64, Ordering};

use kube_cel::cel::Value;
use setpoint_machinery::Interrupt;

/// The cost limit of one evaluation.
const CALL_LIMIT: u64 = 1_000_000;
/// The cost limit of all evaluations on one object together.
const OBJECT_LIMIT: u64 = 10_000_000;

/// The number of bytes that one evaluation may copy into new values. kube-apiserver shares the parts of a value that
/// it puts together, and counts a list as one unit however long it is. Copies need this bound here, because the cost
/// limits do not bound them.
const HOLD_LIMIT: u64 = 256 * 1024 * 1024;

/// About what an item of a list takes beside its value.
pub(super) const ITEM: u64 = 64;

/// The error of an evaluation that costs too much, as cel-go words it.
pub(super) const EXCEEDED: &str = "operation cancelled: actual cost limit exceeded";

/// The cost that remains for one object, and the cost of the evaluation that runs.
#[derive(Debug)]
pub(super) struct Budget {
    object: AtomicU64,
    call: AtomicU64,
    /// The bytes that the evaluation may still copy.
    held: AtomicU64,
    /// Ends the evaluation as if it had cost too much.
    interrupt: Interrupt,
}

impl Default for Budget {
    fn default() -> Self {
        Budget {
            object: AtomicU64::new(OBJECT_LIMIT),
            call: AtomicU64::new(0),
            held: AtomicU64::new(HOLD_LIMIT),
            interrupt: Interrupt::default(),
        }
    }
}

impl Budget {
    /// The budget of an object. Its evaluations end soon after the interrupt is raised, and are void then.
    pub(super) fn until(interrupt: &Interrupt) -> Self {
        Budget { interrupt: interrupt.clone(), ..Budget::default() }
    }

    /// The budget of another object of the same request.
    pub(super) fn another(&self) -> Self {
        Budget::until(&self.interrupt)
    }

    /// Begins an evaluation.
    pub(super) fn begin(&self) {
        self.call.store(0, Ordering::Relaxed);
        self.held.store(HOLD_LIMIT, Ordering::Relaxed);
    }

    /// The cost of the evaluation so far.
    pub(super) fn spent(&self) -> u64 {
        self.call.load(Ordering::Relaxed)
    }

    /// Whether nothing is left for the object.
    pub(super) fn is_empty(&self) -> bool {
        self.object.load(Ordering::Relaxed) == 0
    }

    /// Ends the evaluation. Returns whether the object's budget held.
    pub(super) fn settle(&self) -> bool {
        let left = self.object.load(Ordering::Relaxed).checked_sub(self.spent());
        self.object.store(left.unwrap_or(0), Ordering::Relaxed);
        left.is_some()
    }

    /// The cost of all evaluations on the object that ended.
    pub(super) fn settled(&self) -> u64 {
        OBJECT_LIMIT - self.object.load(Ordering::Relaxed)
    }

    /// Deducts the cost that `other` has spent from this object's budget.
    pub(super) fn pay_for(&self, other: &Budget) {
        let left = self.object.load(Ordering::Relaxed).saturating_sub(other.settled());
        self.object.store(left, Ordering::Relaxed);
    }

    /// Adds to the cost of the evaluation. Returns whether it may cost that much.
    pub(super) fn spend(&self, cost: u64) -> bool {
        let spent = self.spent().saturating_add(cost);
        self.call.store(spent, Ordering::Relaxed);
        spent <= CALL_LIMIT && !self.interrupt.is_raised()
    }

    /// Whether the evaluation may cost so much more.
    pub(super) fn affords(&self, cost: u64) -> bool {
        self.spent().saturating_add(cost) <= CALL_LIMIT
    }

    /// Takes back a part of the cost.
    pub(super) fn refund(&self, cost: u64) {
        self.call.store(self.spent().saturating_sub(cost), Ordering::Relaxed);
    }

    /// Takes memory that the evaluation will hold. Returns whether there is as much.
    pub(super) fn hold(&self, size: u64) -> bool {
        let left = self.held.load(Ordering::Relaxed).checked_sub(size);
        self.held.store(left.unwrap_or(0), Ordering::Relaxed);
        left.is_some()
    }
}

/// About how many bytes a value takes.
pub(super) fn footprint(value: &Value) -> u64 {
    let own = match value {
        Value::String(text) => text.len() as u64,
        Value::Bytes(bytes) => bytes.len() as u64,
        Value::List(items) => items.iter().map(footprint).sum(),
        Value::Map(map) => map.map.values().map(|value| ITEM + footprint(value)).sum(),
        _ => 0,
    };
    ITEM + own
}
