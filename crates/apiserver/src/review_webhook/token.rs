//! The webhook that authenticates bearer tokens.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use super::cache::Cache;
use super::{Calls, ReviewClient, ReviewError, ReviewVersion, status};
use crate::user::UserInfo;

/// The user of a token, and the requested audiences that the token is for.
pub(crate) type Accepted = (UserInfo, Vec<String>);

/// A webhook that authenticates bearer tokens: `--authentication-token-webhook-*`.
pub struct TokenWebhook {
    calls: Calls,
    version: ReviewVersion,
    time: Duration,
    answers: Cache<Option<Accepted>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Status {
    authenticated: bool,
    user: User,
    audiences: Option<Vec<String>>,
    error: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct User {
    username: String,
    uid: String,
    groups: Option<Vec<String>>,
    extra: Option<BTreeMap<String, Option<Vec<String>>>>,
}

impl From<User> for UserInfo {
    fn from(user: User) -> Self {
        let extra = user.extra.unwrap_or_default().into_iter();
        UserInfo {
            name: user.username,
            uid: user.uid,
            groups: user.groups.unwrap_or_default(),
            extra: extra.map(|(key, values)| (key, values.unwrap_or_default())).collect(),
        }
    }
}

impl TokenWebhook {
    /// A webhook whose answers are kept for `time`.
    pub fn new(client: Arc<dyn ReviewClient>, version: ReviewVersion, time: Duration) -> Self {
        TokenWebhook { calls: Calls::new(client), version, time, answers: Cache::new() }
    }

    /// Asks whose token this is. `None` if the webhook does not know the token, or not for one of the `audiences`.
    ///
    /// # Errors
    /// The webhook gave no answer, or an error of its own.
    pub(crate) async fn user(
        &self,
        token: &str,
        audiences: &[String],
        own: &[String],
    ) -> Result<Option<Accepted>, ReviewError> {
        let question = json!([token, audiences]).to_string();
        if let Some(answer) = self.answers.get(&question) {
            return Ok(answer);
        }
        let review = json!({
            "kind": "TokenReview",
            "apiVersion": format!("authentication.k8s.io/{}", self.version.name()),
            "metadata": {},
            "spec": {"token": token, "audiences": audiences},
            "status": {"user": {}},
        });
        let reviewed = self.calls.post(&review).await?;
        let answer = accepted(status(reviewed)?, audiences, own)?;
        // As in kube-apiserver, only answers are kept: an error is asked for again.
        self.answers.put(&question, answer.clone(), self.time);
        Ok(answer)
    }
}

fn accepted(status: Status, audiences: &[String], own: &[String]) -> Result<Option<Accepted>, ReviewError> {
    let given = status.audiences.filter(|given| !given.is_empty());
    let given = given.as_deref().unwrap_or(own);
    let shared: Vec<String> = audiences.iter().filter(|audience| given.contains(audience)).cloned().collect();
    if shared.is_empty() {
        return Ok(None);
    }
    match (status.authenticated, status.error) {
        (true, _) => Ok(Some((status.user.into(), shared))),
        (false, error) if error.is_empty() => Ok(None),
        (false, error) => Err(ReviewError::lasting(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Scripted, failed};
    use super::*;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_webhook_names_the_user_and_its_answer_is_kept() {
        let client = Scripted::new(|review, _| {
            let known = review["spec"]["token"] == "good";
            let user = json!({"username": "alice", "uid": "7", "groups": ["dev"], "extra": {"k": ["v"]}});
            Ok(json!({"status": {"authenticated": known, "user": user}}))
        });
        let webhook = TokenWebhook::new(client.clone(), ReviewVersion::V1Beta1, Duration::from_secs(120));
        let own = texts(&["api"]);
        for _ in 0..2 {
            let (user, audiences) = webhook.user("good", &own, &own).await.unwrap().unwrap();
            assert_eq!((&*user.name, &*user.uid, &user.groups), ("alice", "7", &texts(&["dev"])));
            assert_eq!(user.extra["k"], ["v"]);
            assert_eq!(audiences, own);
            assert_eq!(webhook.user("bad", &own, &own).await, Ok(None));
        }
        assert_eq!(client.calls(), 2);
        let asked = client.asked.lock().unwrap()[0].clone();
        assert_eq!(asked["apiVersion"], "authentication.k8s.io/v1beta1");
        assert_eq!(asked["spec"], json!({"token": "good", "audiences": ["api"]}));
        tokio::time::advance(Duration::from_secs(121)).await;
        webhook.user("good", &own, &own).await.unwrap();
        assert_eq!(client.calls(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_counts_for_the_audiences_that_the_webhook_names() {
        let client = Scripted::new(|_, _| {
            Ok(json!({"status": {"authenticated": true, "user": {"username": "a"}, "audiences": ["vault"]}}))
        });
        let webhook = TokenWebhook::new(client, ReviewVersion::V1, Duration::ZERO);
        let own = texts(&["api"]);
        assert_eq!(webhook.user("t", &own, &own).await, Ok(None));
        let (_, audiences) = webhook.user("t", &texts(&["vault", "api"]), &own).await.unwrap().unwrap();
        assert_eq!(audiences, ["vault"]);
    }

    #[tokio::test(start_paused = true)]
    async fn errors_are_not_kept() {
        let client = Scripted::new(|_, calls| match calls {
            0 => Err(failed(false)),
            1 => Ok(json!({"status": {"error": "expired"}})),
            _ => Ok(json!({"status": {"authenticated": true, "user": {"username": "a"}}})),
        });
        let webhook = TokenWebhook::new(client, ReviewVersion::V1, Duration::from_secs(120));
        let own = texts(&["api"]);
        assert_eq!(webhook.user("t", &own, &own).await, Err(failed(false)));
        assert_eq!(webhook.user("t", &own, &own).await, Err(ReviewError::lasting("expired".to_owned())));
        assert!(webhook.user("t", &own, &own).await.unwrap().is_some());
    }
}
