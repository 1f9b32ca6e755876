//! The content of the Secret, and the steps of a rotation. Pure: the caller reads, waits and writes.
//!
//! ```text
//! current ──(two thirds of its time are over)──▶ current + next
//!            every caBundle holds both authorities, and every API server had time to learn of it
//! current + next ──▶ next is current, and the old authority is retired
//!            replicas read the Secret by and by; until each has, both certificates are served
//! retired ──(its certificate has ended)──▶ gone
//! ```
//!
//! A retired authority stays in every `caBundle` until its certificate has ended. No replica can serve that certificate
//! after this moment, so nobody needs to know which replicas there are.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::pair::{Pair, Validity};

const FIELDS: [&str; 3] = ["ca.crt", "tls.crt", "tls.key"];
const NEXT: &str = "next-";
const RETIRED: &str = "retired-ca.crt";
const LAST_LINE: &str = "-----END CERTIFICATE-----";

/// The certificates that all replicas share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// Served now.
    pub(super) current: Pair,
    /// Served as soon as every API server trusts it.
    pub(super) next: Option<Pair>,
    /// Authorities of certificates that were served before, and may still be.
    pub(super) retired: Vec<String>,
}

/// The change that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Make the next pair.
    Prepare,
    /// Serve the next pair.
    Promote,
    /// Forget authorities whose certificates have ended.
    Prune,
}

impl State {
    /// The state of a new Secret.
    pub(super) fn new(current: Pair) -> Self {
        State { current, next: None, retired: Vec::new() }
    }

    /// Reads a Secret. `None` if it holds no certificates that can be served.
    pub(super) fn read(secret: &Value) -> Option<Self> {
        let text = |field: &str| {
            let encoded = secret["data"][field].as_str()?;
            String::from_utf8(STANDARD.decode(encoded).ok()?).ok().filter(|text| !text.is_empty())
        };
        let pair = |prefix: &str| {
            let [authority, certificate, key] = FIELDS.map(|field| text(&format!("{prefix}{field}")));
            Pair::read(authority?, certificate?, key?).ok()
        };
        let retired = text(RETIRED).unwrap_or_default();
        let retired = retired.split_inclusive(LAST_LINE).map(str::trim).filter(|pem| !pem.is_empty());
        Some(State {
            current: pair("")?,
            next: pair(NEXT),
            retired: retired.map(|pem| format!("{pem}\n")).collect(),
        })
    }

    /// The `data` of the Secret.
    pub(super) fn data(&self) -> Value {
        let mut data = BTreeMap::new();
        let pairs = [("", Some(&self.current)), (NEXT, self.next.as_ref())];
        for (prefix, pair) in pairs.into_iter().filter_map(|(prefix, pair)| Some((prefix, pair?))) {
            for (field, text) in FIELDS.iter().zip([&pair.authority, &pair.certificate, &pair.key]) {
                data.insert(format!("{prefix}{field}"), STANDARD.encode(text));
            }
        }
        if !self.retired.is_empty() {
            data.insert(RETIRED.to_owned(), STANDARD.encode(self.retired.concat()));
        }
        json!(data)
    }

    /// The authorities that every `caBundle` must hold.
    pub(super) fn bundle(&self) -> String {
        let pairs = std::iter::once(&self.current).chain(&self.next);
        pairs.map(|pair| pair.authority.as_str()).chain(self.retired.iter().map(String::as_str)).collect()
    }

    /// The change that is due. `settled`: every `caBundle` has held all authorities for long enough.
    pub(super) fn due(&self, now: Timestamp, settled: bool) -> Option<Step> {
        if self.next.is_some() {
            // Close to its end, the current certificate is worth less than one that a missing configuration distrusts.
            let late = now >= self.current.valid.last_moment();
            return (settled || late).then_some(Step::Promote);
        }
        if now >= self.current.valid.renewal() {
            return Some(Step::Prepare);
        }
        let ended = |pem: &String| Validity::of(pem).map_or(true, |valid| now >= valid.until);
        self.retired.iter().any(ended).then_some(Step::Prune)
    }

    /// The state after a step. `make` makes a new pair.
    pub(super) fn after<E>(
        &self,
        step: Step,
        now: Timestamp,
        make: impl FnOnce() -> Result<Pair, E>,
    ) -> Result<State, E> {
        let mut state = self.clone();
        match step {
            Step::Prepare => state.next = Some(make()?),
            Step::Promote => {
                if let Some(next) = state.next.take() {
                    let old = std::mem::replace(&mut state.current, next);
                    state.retired.push(old.authority);
                }
            }
            Step::Prune => {}
        }
        state.retired.retain(|pem| Validity::of(pem).is_ok_and(|valid| now < valid.until));
        Ok(state)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const DAY: i64 = 86_400;

    fn at(day: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + day * DAY).unwrap()
    }

    fn pair(day: i64) -> Pair {
        let validity = Duration::from_secs(90 * DAY.unsigned_abs());
        Pair::make(vec!["svc.ns.svc".into()], at(day), validity).unwrap()
    }

    #[test]
    fn a_rotation_never_serves_what_a_bundle_does_not_hold() {
        let first = State::new(pair(0));
        assert_eq!(first.due(at(59), true), None);
        assert_eq!(first.due(at(61), true), Some(Step::Prepare));
        let both = first.after(Step::Prepare, at(61), || Ok::<_, ()>(pair(61))).unwrap();
        assert_eq!(both.current, first.current);
        let authorities = |state: &State| state.bundle().matches(LAST_LINE).count();
        assert_eq!(authorities(&both), 2);
        assert_eq!(both.due(at(61), false), None, "not every API server trusts it");
        assert_eq!(both.due(at(61), true), Some(Step::Promote));
        assert_eq!(both.due(at(83), false), Some(Step::Promote), "the last moment");
        let promoted = both.after(Step::Promote, at(62), || Err(())).unwrap();
        assert_eq!(Some(&promoted.current), both.next.as_ref());
        assert!(promoted.bundle().contains(&first.current.authority), "a replica may serve it still");
        assert_eq!(promoted.due(at(89), true), None);
        assert_eq!(promoted.due(at(91), true), Some(Step::Prune));
        let pruned = promoted.after(Step::Prune, at(91), || Err(())).unwrap();
        assert_eq!((authorities(&pruned), pruned.due(at(91), true)), (1, None));
    }

    #[test]
    fn a_secret_gives_back_what_was_written() {
        let mut state = State::new(pair(0));
        assert_eq!(State::read(&json!({"data": state.data()})), Some(state.clone()));
        state.next = Some(pair(1));
        state.retired = vec![pair(2).authority, pair(3).authority];
        assert_eq!(State::read(&json!({"data": state.data()})), Some(state.clone()));
        let mut torn = state.data();
        torn["tls.key"] = json!(STANDARD.encode(pair(4).key));
        assert_eq!(State::read(&json!({"data": torn})), None, "the key of another certificate");
        for nothing in [json!({}), json!({"data": {"tls.crt": "%"}}), json!(null)] {
            assert_eq!(State::read(&nothing), None);
        }
        assert!(!format!("{state:?}").contains("PRIVATE"));
    }
}
