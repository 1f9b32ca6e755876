//! The election record and what to do with it: pure, with time as an argument.
//!
//! The rules are client-go's: remote timestamps are never compared, only how long *this* process has seen the
//! record unchanged. So the clocks of two candidates may differ by any amount.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

/// The election record of a Lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) holder: String,
    pub(crate) duration_seconds: i32,
    pub(crate) acquired: Option<Timestamp>,
    pub(crate) renewed: Option<Timestamp>,
    pub(crate) transitions: i32,
}

impl Record {
    pub(crate) fn read(spec: &LeaseSpec) -> Self {
        Record {
            holder: spec.holder_identity.clone().unwrap_or_default(),
            duration_seconds: spec.lease_duration_seconds.unwrap_or_default(),
            acquired: spec.acquire_time.as_ref().map(|time| time.0),
            renewed: spec.renew_time.as_ref().map(|time| time.0),
            transitions: spec.lease_transitions.unwrap_or_default(),
        }
    }

    /// Writes the record over `spec`; what the record does not know stays.
    pub(crate) fn write(&self, spec: &mut LeaseSpec) {
        spec.holder_identity = Some(self.holder.clone());
        spec.lease_duration_seconds = Some(self.duration_seconds);
        spec.acquire_time = self.acquired.map(MicroTime);
        spec.renew_time = self.renewed.map(MicroTime);
        spec.lease_transitions = Some(self.transitions);
    }

    fn duration(&self) -> Duration {
        Duration::from_secs(u64::try_from(self.duration_seconds).unwrap_or(0))
    }
}

/// The state of the Lease as one candidate saw it.
#[derive(Clone, Debug)]
pub(crate) struct Observer {
    identity: String,
    duration_seconds: i32,
    observed: Option<(Record, Duration)>,
}

impl Observer {
    pub(crate) fn new(identity: &str, duration: Duration) -> Self {
        let duration_seconds = i32::try_from(duration.as_secs()).unwrap_or(i32::MAX);
        Observer { identity: identity.to_owned(), duration_seconds, observed: None }
    }

    /// The holder of the lease when it was last seen.
    pub(crate) fn holder(&self) -> Option<&str> {
        self.observed.as_ref().map(|(record, _)| record.holder.as_str()).filter(|holder| !holder.is_empty())
    }

    pub(crate) fn is_leader(&self) -> bool {
        self.holder() == Some(&self.identity)
    }

    /// Notes what the Lease says; `elapsed` is the local time since any fixed start.
    pub(crate) fn observe(&mut self, record: &Record, elapsed: Duration) {
        if self.observed.as_ref().is_none_or(|(known, _)| known != record) {
            self.observed = Some((record.clone(), elapsed));
        }
    }

    fn valid(&self, elapsed: Duration) -> bool {
        self.observed.as_ref().is_some_and(|(record, since)| *since + record.duration() > elapsed)
    }

    /// Whether the lease may be renewed without reading it first.
    pub(crate) fn may_renew_blindly(&self, elapsed: Duration) -> bool {
        self.is_leader() && self.valid(elapsed)
    }

    /// The record to write in order to take or keep the lease; `None` while somebody else holds it.
    pub(crate) fn claim(&self, now: Timestamp, elapsed: Duration) -> Option<Record> {
        let mine = self.is_leader();
        if self.holder().is_some() && !mine && self.valid(elapsed) {
            return None;
        }
        let before = self.observed.as_ref().map(|(record, _)| record);
        Some(Record {
            holder: self.identity.clone(),
            duration_seconds: self.duration_seconds,
            acquired: before.filter(|_| mine).and_then(|record| record.acquired).or(Some(now)),
            renewed: Some(now),
            transitions: match before {
                Some(record) if mine => record.transitions,
                Some(record) => record.transitions.saturating_add(1),
                None => 0,
            },
        })
    }

    /// The record that gives the lease up.
    pub(crate) fn release(&self, now: Timestamp) -> Record {
        let transitions = self.observed.as_ref().map_or(0, |(record, _)| record.transitions);
        Record {
            holder: String::new(),
            duration_seconds: 1,
            acquired: Some(now),
            renewed: Some(now),
            transitions,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn foreign(renewed: i64) -> Record {
        Record {
            holder: "other".into(),
            duration_seconds: 15,
            acquired: Some(time(1)),
            renewed: Some(time(renewed)),
            transitions: 4,
        }
    }

    #[test]
    fn a_lease_is_taken_only_after_it_stood_still_for_its_own_duration() {
        let mut observer = Observer::new("me", seconds(15));
        // The remote clock is a year ahead; only our own elapsed time counts.
        observer.observe(&foreign(31_536_000), seconds(100));
        assert_eq!(observer.claim(time(5), seconds(114)), None);
        observer.observe(&foreign(31_536_002), seconds(114));
        assert_eq!(observer.claim(time(5), seconds(128)), None);
        observer.observe(&foreign(31_536_002), seconds(128));
        let claim = observer.claim(time(5), seconds(129)).unwrap();
        assert_eq!((claim.holder.as_str(), claim.transitions, claim.acquired), ("me", 5, Some(time(5))));
    }

    #[test]
    fn renewal_keeps_the_time_of_acquisition_and_the_transitions() {
        let mut observer = Observer::new("me", seconds(15));
        let first = observer.claim(time(10), seconds(0)).unwrap();
        assert_eq!(first.transitions, 0);
        observer.observe(&first, seconds(0));
        assert!(observer.may_renew_blindly(seconds(14)) && !observer.may_renew_blindly(seconds(15)));
        let second = observer.claim(time(12), seconds(2)).unwrap();
        assert_eq!(
            (second.acquired, second.renewed, second.transitions),
            (Some(time(10)), Some(time(12)), 0)
        );
    }

    #[test]
    fn a_released_lease_is_free_at_once() {
        let mut other = Observer::new("other", seconds(15));
        other.observe(&foreign(3), seconds(0));
        let released = other.release(time(9));
        let mut observer = Observer::new("me", seconds(15));
        observer.observe(&released, seconds(0));
        let claim = observer.claim(time(9), seconds(0)).unwrap();
        assert_eq!(claim.transitions, 5);
    }
}
