//! The opinions of the authorization webhook that one request has asked for.

use std::collections::BTreeMap;
use std::sync::Mutex;

use serde_json::Value;

use super::{AccessStatus, AccessWebhook, ReviewError};

/// The most questions of one request. Constrained impersonation asks most, about each group and extra value.
const MOST: usize = 1000;

/// The opinions so far, and the question that a check lacked.
#[derive(Debug, Default)]
pub(crate) struct Answers(Mutex<Questions>);

#[derive(Debug, Default)]
struct Questions {
    known: BTreeMap<String, Result<AccessStatus, ReviewError>>,
    /// The spec of a SubjectAccessReview.
    missing: Option<Value>,
}

impl Answers {
    /// Returns the known opinion. Notes the question if there is none.
    pub(crate) fn find(&self, spec: Value) -> Option<Result<AccessStatus, ReviewError>> {
        let mut asked = self.0.lock().expect("no holder of this lock panics");
        let found = asked.known.get(&spec.to_string()).cloned();
        if found.is_none() {
            asked.missing = Some(spec);
        }
        found
    }

    /// Whether a check lacked an opinion. The refusal of that check is void.
    pub(crate) fn is_missing(&self) -> bool {
        self.0.lock().expect("no holder of this lock panics").missing.is_some()
    }

    /// Asks the webhook what the last checks lacked. Returns whether there was such a question.
    pub(crate) async fn fetch(&self, webhook: Option<&AccessWebhook>) -> bool {
        let (missing, count) = {
            let mut asked = self.0.lock().expect("no holder of this lock panics");
            (asked.missing.take(), asked.known.len())
        };
        let Some(spec) = missing else { return false };
        let opinion = match webhook {
            Some(webhook) if count < MOST => webhook.opinion(&spec).await,
            Some(_) => Err(ReviewError::lasting(format!("one request asks more than {MOST} questions"))),
            None => Err(ReviewError::lasting("the authorizer Webhook has no webhook".to_owned())),
        };
        if let Err(error) = &opinion {
            tracing::warn!(%error, "the authorization webhook failed");
        }
        self.0.lock().expect("no holder of this lock panics").known.insert(spec.to_string(), opinion);
        true
    }
}
