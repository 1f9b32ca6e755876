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
    /// The origin that a request tells of.
    pub(crate) fn of(user: &UserInfo, headers: &HeaderMap) -> Self {
        let causes = first(headers, RECONCILE_CAUSES);
        let reconcile_id = first(headers, RECONCILE_ID);
        Origin {
            user: user.name.clone(),
            program: first(headers, USER_AGENT).split('/').next().unwrap_or_default().to_owned(),
            reconcile_id: Some(reconcile_id.into_owned()).filter(|id| !id.is_empty()),
            causes: causes.split(',').filter_map(|cause| cause.trim().parse().ok()).collect(),
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
