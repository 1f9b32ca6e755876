//! Status conditions.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Conditions under construction: sets each by type, keeps transition times where the status stays.
///
/// ```
/// use setpoint::conditions::Conditions;
/// let noon = "2026-11-15T12:00:00Z".parse().unwrap();
/// let mut conditions = Conditions::of(None, Some(3), noon);
/// conditions.set_false("Available", "Reconciling", "Deployment not found");
/// conditions.set_true("Available", "OK", "");
/// let list = conditions.into_list();
/// assert_eq!((list.len(), list[0].status.as_str(), list[0].observed_generation), (1, "True", Some(3)));
/// ```
#[derive(Clone, Debug)]
pub struct Conditions {
    list: Vec<Condition>,
    generation: Option<i64>,
    now: Timestamp,
}

impl Conditions {
    /// Begins with what the status has. `generation` is the object's, noted as `observedGeneration`.
    pub fn of(present: Option<&[Condition]>, generation: Option<i64>, now: Timestamp) -> Self {
        Conditions { list: present.unwrap_or_default().to_vec(), generation, now }
    }

    /// Sets a condition to true.
    pub fn set_true(&mut self, kind: &str, reason: &str, message: &str) -> &mut Self {
        self.set_text(kind, "True", reason, message)
    }

    /// Sets a condition to false.
    pub fn set_false(&mut self, kind: &str, reason: &str, message: &str) -> &mut Self {
        self.set_text(kind, "False", reason, message)
    }

    /// Sets a condition to unknown.
    pub fn set_unknown(&mut self, kind: &str, reason: &str, message: &str) -> &mut Self {
        self.set_text(kind, "Unknown", reason, message)
    }

    fn set_text(&mut self, kind: &str, status: &str, reason: &str, message: &str) -> &mut Self {
        let condition = Condition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            observed_generation: self.generation,
            last_transition_time: Time(self.now),
        };
        set_condition(&mut self.list, condition);
        self
    }

    /// Removes a condition.
    pub fn remove(&mut self, kind: &str) -> &mut Self {
        self.list.retain(|condition| condition.type_ != kind);
        self
    }

    /// The conditions, in the order in which they were first set.
    pub fn into_list(self) -> Vec<Condition> {
        self.list
    }
}

/// Sets a condition by its type. Its transition time changes only if the status does. Says whether anything changed.
pub fn set_condition(list: &mut Vec<Condition>, mut condition: Condition) -> bool {
    // The API stores whole seconds, so the comparison uses whole seconds too.
    let second = condition.last_transition_time.0.as_second();
    condition.last_transition_time =
        Time(Timestamp::from_second(second).expect("its own second is in range"));
    let Some(known) = list.iter_mut().find(|known| known.type_ == condition.type_) else {
        list.push(condition);
        return true;
    };
    if known.status == condition.status {
        condition.last_transition_time = known.last_transition_time.clone();
    }
    let changed = *known != condition;
    *known = condition;
    changed
}

/// A condition by its type.
pub fn condition_of<'a>(list: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    list.iter().find(|condition| condition.type_ == kind)
}

/// Whether a condition is true.
pub fn is_true(list: &[Condition], kind: &str) -> bool {
    condition_of(list, kind).is_some_and(|condition| condition.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transition_time_follows_the_status_alone() {
        let early: Timestamp = "2026-11-15T12:00:00.7Z".parse().unwrap();
        let late: Timestamp = "2026-11-15T13:00:00Z".parse().unwrap();
        let mut conditions = Conditions::of(None, Some(1), early);
        conditions.set_true("Ready", "OK", "");
        let first = conditions.into_list();
        assert_eq!(first[0].last_transition_time.0.to_string(), "2026-11-15T12:00:00Z");
        let mut conditions = Conditions::of(Some(&first), Some(1), late);
        conditions.set_true("Ready", "OK", "");
        assert_eq!(conditions.into_list(), first);
        let mut conditions = Conditions::of(Some(&first), Some(2), late);
        conditions.set_false("Ready", "Broken", "no");
        let second = conditions.into_list();
        assert_eq!(second[0].last_transition_time.0, late);
        assert!(is_true(&first, "Ready") && !is_true(&second, "Ready"));
    }
}
