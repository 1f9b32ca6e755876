//! The chain of authorizers, as one request asks it.
//!
//! Checks are functions of a snapshot, and a transaction cannot wait for a webhook. A check that needs an opinion of the
//! authorization webhook therefore fails and notes its question. The caller of the checks then asks the webhook with no lock held
//! ([`Access::fetch`]), and runs the checks again.

use serde_json::{Map, Value, json};
use setpoint_store::Snapshot;

use super::authz::{Attributes, granted, refusal};
use crate::context::RequestContext;
use crate::error::{ApiError, Result};
use crate::options::{Authorization, Options};
use crate::request::{RequestInfo, Verb};
use crate::review_webhook::{AccessStatus, Answers};
use crate::user::{MASTERS, UserInfo};

/// The authorizers, and the opinions that a request has so far.
#[derive(Clone, Copy)]
pub(crate) struct Access<'a> {
    pub(crate) options: &'a Options,
    pub(crate) answers: &'a Answers,
}

/// The decision of the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Allowed, with the reason.
    Allowed(String),
    /// Nobody allows the request, or the webhook denies it.
    Refused {
        /// The reasons of the authorizers; empty if none gives one.
        reason: String,
        /// The failure of an authorizer.
        error: Option<String>,
    },
}

impl<'a> Access<'a> {
    /// The authorizers as this request asks them.
    pub(crate) fn of(ctx: &'a RequestContext) -> Self {
        Access { options: ctx.server.options(), answers: &ctx.answers }
    }

    /// Asks the webhook what the last checks lacked. Returns whether there was such a question: the checks must then run
    /// again.
    pub(crate) async fn fetch(&self) -> bool {
        self.answers.fetch(self.options.access_webhook.as_deref()).await
    }

    /// Asks the authorizers in their order. Members of `system:masters` are allowed before any is asked.
    pub(crate) fn decide(&self, snapshot: &Snapshot, user: &UserInfo, wanted: &Attributes<'_>) -> Verdict {
        if user.is_in(MASTERS) {
            return Verdict::Allowed(String::new());
        }
        let (mut reasons, mut error) = (Vec::new(), None);
        for authorizer in &self.options.authorization {
            match authorizer {
                Authorization::AlwaysAllow => return Verdict::Allowed(String::new()),
                Authorization::AlwaysDeny => reasons.push("alwaysdeny: Everything is forbidden.".to_owned()),
                Authorization::Node => {}
                Authorization::Rbac => {
                    if let Some(reason) = granted(snapshot, user, wanted) {
                        return Verdict::Allowed(reason);
                    }
                }
                Authorization::Webhook => match self.answers.find(review_spec(user, wanted)) {
                    // The decision is void, so it must not come from an authorizer behind the webhook.
                    None => return Verdict::Refused { reason: String::new(), error: None },
                    Some(Err(failure)) => error = Some(failure.message),
                    Some(Ok(status)) if status.denied => return denied(status),
                    Some(Ok(status)) if status.allowed => return Verdict::Allowed(status.reason),
                    Some(Ok(status)) if status.reason.is_empty() => {}
                    Some(Ok(status)) => reasons.push(format!("default: {}", status.reason)),
                },
            }
        }
        Verdict::Refused { reason: reasons.join("\n"), error }
    }

    /// Whether a user may do something.
    pub(crate) fn allows(&self, snapshot: &Snapshot, user: &UserInfo, wanted: &Attributes<'_>) -> bool {
        matches!(self.decide(snapshot, user, wanted), Verdict::Allowed(_))
    }
}

/// Refuses a request that the user may not make, in kube-apiserver's words.
pub(crate) fn authorize(
    access: Access<'_>,
    snapshot: &Snapshot,
    user: &UserInfo,
    wanted: &Attributes<'_>,
) -> Result<()> {
    match access.decide(snapshot, user, wanted) {
        Verdict::Allowed(_) => Ok(()),
        Verdict::Refused { reason, error: None } => Err(refusal(user, wanted, &reason)),
        Verdict::Refused { error: Some(error), .. } => {
            Err(ApiError::internal_plain(format!("Internal Server Error: {error}")))
        }
    }
}

/// Authorizes a request as a whole.
pub(crate) async fn authorize_request(
    access: Access<'_>,
    snapshot: &Snapshot,
    user: &UserInfo,
    info: &RequestInfo,
) -> Result<()> {
    loop {
        let decided = authorize(access, snapshot, user, &Attributes::of(info));
        if !access.fetch().await {
            return decided;
        }
    }
}

/// Whether the user may use another verb on the request's object.
pub(crate) async fn allows_verb(
    access: Access<'_>,
    snapshot: &Snapshot,
    user: &UserInfo,
    info: &RequestInfo,
    verb: &str,
) -> bool {
    loop {
        let allows = access.allows(snapshot, user, &Attributes { verb, ..Attributes::of(info) });
        if !access.fetch().await {
            return allows;
        }
    }
}

/// Whether a user who replaces or applies an object that does not exist may also create it.
pub(crate) fn authorize_create(
    access: Access<'_>,
    snapshot: &Snapshot,
    user: &UserInfo,
    info: &RequestInfo,
) -> Result<()> {
    let info = RequestInfo { verb: Verb::Create, ..info.clone() };
    authorize(access, snapshot, user, &Attributes::of(&info))
}

fn denied(status: AccessStatus) -> Verdict {
    let both = "webhook subject access review returned both allow and deny response";
    Verdict::Refused { reason: status.reason, error: status.allowed.then(|| both.to_owned()) }
}

/// The spec of the SubjectAccessReview, as kube-apiserver sends it.
fn review_spec(user: &UserInfo, wanted: &Attributes<'_>) -> Value {
    let mut attributes = Map::new();
    let mut put = |field: &str, value: &str| {
        if !value.is_empty() {
            attributes.insert(field.to_owned(), json!(value));
        }
    };
    put("verb", wanted.verb);
    if wanted.is_resource {
        put("namespace", wanted.namespace);
        put("group", wanted.group);
        put("version", wanted.version);
        put("resource", wanted.resource);
        put("subresource", wanted.subresource);
        put("name", wanted.name);
    } else {
        put("path", wanted.path);
    }
    let kind = if wanted.is_resource { "resourceAttributes" } else { "nonResourceAttributes" };
    let mut spec = json!({kind: attributes});
    if !user.name.is_empty() {
        spec["user"] = json!(user.name);
    }
    if !user.groups.is_empty() {
        spec["groups"] = json!(user.groups);
    }
    if !user.uid.is_empty() {
        spec["uid"] = json!(user.uid);
    }
    if !user.extra.is_empty() {
        spec["extra"] = json!(user.extra);
    }
    spec
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use futures::future::BoxFuture;
    use setpoint_api::Random;
    use setpoint_store::Store;

    use super::*;
    use crate::review_webhook::{AccessWebhook, ReviewClient, ReviewError, ReviewVersion};

    /// Answers by the name of the user.
    struct ByName;

    impl ReviewClient for ByName {
        fn post(&self, review: Value) -> BoxFuture<'_, Result<Value, ReviewError>> {
            let status = match review["spec"]["user"].as_str() {
                Some("yes") => Ok(json!({"allowed": true, "reason": "yes"})),
                Some("no") => Ok(json!({"denied": true, "reason": "no"})),
                Some("both") => Ok(json!({"denied": true, "allowed": true})),
                Some("silent") => Ok(json!({"reason": "perhaps"})),
                _ => Err(ReviewError { message: "down".to_owned(), is_temporary: false }),
            };
            Box::pin(std::future::ready(status.map(|status| json!({"status": status}))))
        }
    }

    fn options(authorization: &[Authorization]) -> Options {
        let clock = setpoint_api::Clock::new(|| jiff::Timestamp::UNIX_EPOCH);
        let mut options = Options::new(Store::memory(Default::default()), clock, Random::from_seed(1));
        options.authorization = authorization.to_vec();
        let (version, none) = (ReviewVersion::V1, Duration::ZERO);
        options.access_webhook = Some(Arc::new(AccessWebhook::new(Arc::new(ByName), version, none, none)));
        options
    }

    async fn decided(options: &Options, user: &str) -> Verdict {
        let (answers, snapshot) = (Answers::default(), options.store.snapshot());
        let access = Access { options, answers: &answers };
        let wanted = Attributes { verb: "get", path: "/version", ..Attributes::default() };
        let user = UserInfo::new(user, ["dev"]);
        loop {
            let verdict = access.decide(&snapshot, &user, &wanted);
            if !access.fetch().await {
                assert!(!answers.is_missing());
                return verdict;
            }
        }
    }

    fn refused(reason: &str, error: Option<&str>) -> Verdict {
        Verdict::Refused { reason: reason.to_owned(), error: error.map(str::to_owned) }
    }

    #[tokio::test]
    async fn the_webhook_allows_denies_or_leaves_it_to_the_next() {
        use Authorization::{AlwaysAllow, AlwaysDeny, Webhook};
        let alone = options(&[Webhook]);
        assert_eq!(decided(&alone, "yes").await, Verdict::Allowed("yes".to_owned()));
        assert_eq!(decided(&alone, "no").await, refused("no", None));
        assert_eq!(decided(&alone, "silent").await, refused("default: perhaps", None));
        assert_eq!(decided(&alone, "lost").await, refused("", Some("down")));
        let both = "webhook subject access review returned both allow and deny response";
        assert_eq!(decided(&alone, "both").await, refused("", Some(both)));
        let first = options(&[Webhook, AlwaysAllow]);
        assert_eq!(decided(&first, "no").await, refused("no", None));
        assert_eq!(decided(&first, "silent").await, Verdict::Allowed(String::new()));
        // kube-apiserver leaves the decision to the next authorizer if the webhook of the flags fails.
        assert_eq!(decided(&first, "lost").await, Verdict::Allowed(String::new()));
        let last = options(&[AlwaysDeny, Webhook]);
        let said = "alwaysdeny: Everything is forbidden.\ndefault: perhaps";
        assert_eq!(decided(&last, "silent").await, refused(said, None));
    }

    /// As kube-apiserver 1.37 fills in a SubjectAccessReview.
    #[test]
    fn the_question_has_the_fields_of_the_request() {
        let mut user = UserInfo::new("alice", ["dev"]);
        user.extra.insert("k".to_owned(), vec!["v".to_owned()]);
        let wanted = Attributes {
            verb: "list",
            is_resource: true,
            version: "v1",
            resource: "pods",
            namespace: "default",
            ..Attributes::default()
        };
        assert_eq!(
            review_spec(&user, &wanted),
            json!({"user": "alice", "groups": ["dev", "system:authenticated"], "extra": {"k": ["v"]},
                "resourceAttributes": {"namespace": "default", "verb": "list", "version": "v1", "resource": "pods"}})
        );
        let path = Attributes { verb: "get", path: "/healthz", ..Attributes::default() };
        assert_eq!(
            review_spec(&user, &path)["nonResourceAttributes"],
            json!({"verb": "get", "path": "/healthz"})
        );
    }
}
