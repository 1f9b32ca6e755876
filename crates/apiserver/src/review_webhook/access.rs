//! The webhook that authorizes requests.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::cache::Cache;
use super::{Calls, ReviewClient, ReviewError, ReviewVersion, status};

/// The longest question whose answer is kept, as kube-apiserver has it.
const LONGEST: usize = 10_000;

/// A webhook that authorizes requests: `--authorization-webhook-*`.
pub struct AccessWebhook {
    calls: Calls,
    version: ReviewVersion,
    authorized: Duration,
    unauthorized: Duration,
    answers: Cache<AccessStatus>,
}

/// The opinion of a webhook about a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct AccessStatus {
    /// The webhook allows the request.
    pub allowed: bool,
    /// No later authorizer may allow the request.
    pub denied: bool,
    /// The reason.
    pub reason: String,
}

impl AccessWebhook {
    /// A webhook whose answers are kept for these times.
    pub fn new(
        client: Arc<dyn ReviewClient>,
        version: ReviewVersion,
        authorized: Duration,
        unauthorized: Duration,
    ) -> Self {
        AccessWebhook { calls: Calls::new(client), version, authorized, unauthorized, answers: Cache::new() }
    }

    /// Asks for an opinion on a SubjectAccessReview with this spec.
    ///
    /// # Errors
    /// The webhook gave no opinion.
    pub(crate) async fn opinion(&self, spec: &Value) -> Result<AccessStatus, ReviewError> {
        let question = spec.to_string();
        if let Some(answer) = self.answers.get(&question) {
            return Ok(answer);
        }
        let mut spec = spec.clone();
        if let (ReviewVersion::V1Beta1, Some(fields)) = (self.version, spec.as_object_mut())
            && let Some(groups) = fields.remove("groups")
        {
            fields.insert("group".to_owned(), groups);
        }
        let review = json!({
            "kind": "SubjectAccessReview",
            "apiVersion": format!("authorization.k8s.io/{}", self.version.name()),
            "metadata": {},
            "spec": spec,
            "status": {"allowed": false},
        });
        let reviewed = self.calls.post(&review).await?;
        let status: AccessStatus = status(reviewed)?;
        if question.len() < LONGEST {
            let time = if status.allowed { self.authorized } else { self.unauthorized };
            self.answers.put(&question, status.clone(), time);
        }
        Ok(status)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Scripted;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn answers_are_kept_by_what_they_say_and_the_older_version_says_group() {
        let client = Scripted::new(|review, _| {
            let allowed = review["spec"]["user"] == "alice";
            Ok(json!({"status": {"allowed": allowed, "reason": "because"}}))
        });
        let webhook = AccessWebhook::new(
            client.clone(),
            ReviewVersion::V1Beta1,
            Duration::from_secs(300),
            Duration::from_secs(30),
        );
        let spec = |user: &str| json!({"user": user, "groups": ["dev"]});
        for _ in 0..2 {
            assert!(webhook.opinion(&spec("alice")).await.unwrap().allowed);
            let bob = webhook.opinion(&spec("bob")).await.unwrap();
            assert_eq!((bob.allowed, bob.denied, &*bob.reason), (false, false, "because"));
        }
        assert_eq!(client.calls(), 2);
        assert_eq!(client.asked.lock().unwrap()[0]["spec"], json!({"user": "alice", "group": ["dev"]}));
        tokio::time::advance(Duration::from_secs(31)).await;
        webhook.opinion(&spec("alice")).await.unwrap();
        assert_eq!(client.calls(), 2);
        webhook.opinion(&spec("bob")).await.unwrap();
        assert_eq!(client.calls(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_webhook_that_speaks_v1_gets_groups_and_nothing_is_kept_for_no_time() {
        let client = Scripted::new(|_, _| Ok(json!({"status": {"denied": true}})));
        let (version, none) = (ReviewVersion::V1, Duration::ZERO);
        let webhook = AccessWebhook::new(client.clone(), version, none, none);
        for _ in 0..2 {
            assert!(webhook.opinion(&json!({"user": "a", "groups": ["dev"]})).await.unwrap().denied);
        }
        assert_eq!(client.calls(), 2);
        let asked = client.asked.lock().unwrap()[0].clone();
        assert_eq!(asked["apiVersion"], "authorization.k8s.io/v1");
        assert_eq!(asked["spec"]["groups"], json!(["dev"]));
    }
}
