//! The origins of the newest writes: who sent a write, with which program, and because of which other writes.
//!
//! Nothing of this is stored with an object. A reconcile of Setpoint's runtime sends its id and the versions that woke it as
//! headers, so a write can be followed back from controller to controller.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use http::HeaderMap;
use http::header::USER_AGENT;
use setpoint_store::Event;

use crate::header::first;
use crate::user::UserInfo;

/// How many origins are remembered. Beyond that the oldest are forgotten.
const MOST: usize = 16_384;
/// How many causes of one write are kept, and how many characters of a name. Setpoint's runtime sends four causes at most.
const MOST_CAUSES: usize = 16;
const LONGEST: usize = 128;
/// The header that names the reconcile.
const RECONCILE_ID: &str = "x-reconcile-id";
/// The header that lists the resourceVersions that woke it.
const RECONCILE_CAUSES: &str = "x-reconcile-causes";

/// The origin of one write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The name of the user.
    pub user: String,
    /// The program: what precedes the slash in its `User-Agent`.
    pub program: String,
    /// The reconcile that sent it, if one did.
    pub reconcile_id: Option<String>,
    /// The resourceVersions of the writes that woke the reconcile.
    pub causes: Vec<u64>,
}

impl Origin {
    /// The origin that a request tells of. A client says what it wants in its headers, so only their beginning is kept.
    pub(crate) fn of(user: &UserInfo, headers: &HeaderMap) -> Self {
        let text = |name: &str| -> String { first(headers, name).chars().take(LONGEST).collect() };
        let program = first(headers, USER_AGENT);
        let program = program.split('/').next().unwrap_or_default();
        let causes = first(headers, RECONCILE_CAUSES);
        Origin {
            user: user.name.clone(),
            program: program.chars().take(LONGEST).collect(),
            reconcile_id: Some(text(RECONCILE_ID)).filter(|id| !id.is_empty()),
            causes: causes
                .split(',')
                .filter_map(|cause| cause.trim().parse().ok())
                .take(MOST_CAUSES)
                .collect(),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.user)?;
        if !self.program.is_empty() {
            write!(f, " with {}", self.program)?;
        }
        if let Some(id) = &self.reconcile_id {
            write!(f, " in reconcile {id}")?;
        }
        for (number, cause) in self.causes.iter().enumerate() {
            write!(f, "{}{cause}", if number == 0 { " because of " } else { ", " })?;
        }
        Ok(())
    }
}

/// By the revision of the write.
#[derive(Default)]
pub(crate) struct Origins(Mutex<BTreeMap<u64, Arc<Origin>>>);

impl Origins {
    /// Notes the origin of a transaction's events.
    pub(crate) fn note(&self, origin: Origin, events: &[Arc<Event>]) {
        let origin = Arc::new(origin);
        let mut origins = self.0.lock().expect("no holder of this lock panics");
        origins.extend(events.iter().map(|event| (event.revision, Arc::clone(&origin))));
        while origins.len() > MOST {
            origins.pop_first();
        }
    }

    pub(crate) fn get(&self, revision: u64) -> Option<Arc<Origin>> {
        self.0.lock().expect("no holder of this lock panics").get(&revision).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_says_of_itself_is_bounded() {
        let mut headers = HeaderMap::new();
        let mut put = |name: &'static str, value: String| headers.insert(name, value.parse().unwrap());
        put("user-agent", "a".repeat(5000) + "/1");
        put(RECONCILE_ID, "b".repeat(5000));
        put(RECONCILE_CAUSES, "7, x,".repeat(5000));
        let origin = Origin::of(&UserInfo::admin("me"), &headers);
        assert_eq!((origin.program.len(), origin.reconcile_id.as_ref().unwrap().len()), (LONGEST, LONGEST));
        assert_eq!(origin.causes, [7; MOST_CAUSES]);
        let plain = Origin::of(&UserInfo::admin("me"), &HeaderMap::new());
        assert_eq!(plain.to_string(), "me");
        let of_reconcile =
            Origin { program: "cafe".into(), reconcile_id: Some("r".into()), causes: vec![8, 9], ..plain };
        assert_eq!(of_reconcile.to_string(), "me with cafe in reconcile r because of 8, 9");
    }
}
