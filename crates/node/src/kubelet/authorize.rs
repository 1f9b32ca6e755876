//! Whether a client may use a node's paths: the API server is asked, as a kubelet in webhook mode asks it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Method;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::Api;
use kube::api::PostParams;
use tokio::time::Instant;

use super::client_certificate::User;

/// How long a yes is believed.
const ALLOWED_FOR: Duration = Duration::from_secs(300);
/// How long a no is.
const DENIED_FOR: Duration = Duration::from_secs(30);
/// Answers kept; when full, all are asked for again.
const ANSWERS: usize = 1024;

/// What a client wants of a node: a verb on `nodes` with one of these subresources.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wish {
    /// The node.
    pub node: String,
    /// The verb.
    pub verb: &'static str,
    /// Any of these is enough, the narrowest first.
    pub subresources: &'static [&'static str],
}

impl Wish {
    /// What a request comes to.
    pub fn of(node: &str, method: &Method, path: &str) -> Wish {
        let first = path.split('/').nth(1).unwrap_or_default();
        let subresources: &[&str] = match first {
            "pods" | "runningpods" => &["pods", "proxy"],
            "healthz" => &["healthz", "proxy"],
            _ => &["proxy"],
        };
        let verb = match (first, method) {
            // A websocket begins with a GET, and is no less than the POST that begins the same over SPDY.
            ("exec" | "attach" | "portForward", _) => "create",
            (_, &Method::GET | &Method::HEAD) => "get",
            (_, &Method::PUT) => "update",
            (_, &Method::DELETE) => "delete",
            (_, &Method::PATCH) => "patch",
            _ => "create",
        };
        Wish { node: node.to_owned(), verb, subresources }
    }
}

/// What the API server said, and until when that is believed.
type Answers = BTreeMap<(User, Wish), (bool, Instant)>;

/// Asks the API server and remembers its answers for a while. Clones are the same.
#[derive(Clone)]
pub struct Authorizer {
    reviews: Api<SubjectAccessReview>,
    answers: Arc<Mutex<Answers>>,
}

impl Authorizer {
    /// Asks through this client.
    pub fn new(client: kube::Client) -> Self {
        Authorizer { reviews: Api::all(client), answers: Arc::default() }
    }

    /// Whether the user may.
    ///
    /// # Errors
    /// When the API server does not say.
    pub async fn allows(&self, user: &User, wish: &Wish) -> Result<bool, kube::Error> {
        let asked = (user.clone(), wish.clone());
        if let Some(known) = self.known(&asked) {
            return Ok(known);
        }
        let mut allowed = false;
        for subresource in wish.subresources {
            let answer =
                self.reviews.create(&PostParams::default(), &review(user, wish, subresource)).await?;
            allowed = answer.status.is_some_and(|status| status.allowed);
            if allowed {
                break;
            }
        }
        let until = Instant::now() + if allowed { ALLOWED_FOR } else { DENIED_FOR };
        let mut answers = self.answers.lock().expect("no holder of this lock panics");
        if answers.len() >= ANSWERS {
            answers.clear();
        }
        answers.insert(asked, (allowed, until));
        Ok(allowed)
    }

    fn known(&self, asked: &(User, Wish)) -> Option<bool> {
        let answers = self.answers.lock().expect("no holder of this lock panics");
        let (allowed, until) = answers.get(asked)?;
        (Instant::now() < *until).then_some(*allowed)
    }
}

fn review(user: &User, wish: &Wish, subresource: &str) -> SubjectAccessReview {
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(user.name.clone()),
            groups: Some(user.groups.iter().cloned().chain(["system:authenticated".into()]).collect()),
            resource_attributes: Some(ResourceAttributes {
                verb: Some(wish.verb.into()),
                version: Some("v1".into()),
                resource: Some("nodes".into()),
                subresource: Some(subresource.into()),
                name: Some(wish.node.clone()),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_ask_for_the_rights_that_a_kubelets_do() {
        let wish = |method, path| Wish::of("n", &method, path);
        assert_eq!(wish(Method::GET, "/pods").subresources, ["pods", "proxy"]);
        assert_eq!(wish(Method::GET, "/containerLogs/a/b/c").verb, "get");
        assert_eq!(wish(Method::GET, "/exec/a/b/c").verb, "create", "a websocket runs commands too");
        assert_eq!(wish(Method::POST, "/exec/a/b/c"), wish(Method::GET, "/exec/a/b/c"));
    }
}
