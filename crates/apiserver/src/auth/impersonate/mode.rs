//! The ways to be allowed to impersonate somebody, as KEP-5284 (constrained impersonation) orders them.

use std::collections::BTreeMap;

use setpoint_api::cause::{Cause, Path, aggregate};
use setpoint_api::name::{dns1123_label, dns1123_subdomain, regex_error};
use setpoint_store::Snapshot;

use crate::auth::access::{Access, authorize};
use crate::auth::authz::{Attributes, refusal};
use crate::error::{ApiError, Result};
use crate::user::{AUTHENTICATED, MASTERS, UNAUTHENTICATED, UserInfo};

const AUTHENTICATION: &str = "authentication.k8s.io";
const NODES: &str = "system:nodes";
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
/// From this many groups or extra values on, a constrained mode first asks for all of them at once.
const MANY: usize = 4;

/// A constrained mode needs a verb on the target and a verb on each part of the identity. The legacy one needs only
/// the latter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    UserInfo,
    Legacy,
}

/// In the order in which they are tried.
const MODES: [Mode; 5] =
    [Mode::AssociatedNode, Mode::ArbitraryNode, Mode::ServiceAccount, Mode::UserInfo, Mode::Legacy];

/// Returns the impersonated user as the first mode that allows it completes it. If none does, the error is the first
/// mode's.
pub(super) fn impersonated(
    access: Access<'_>,
    snapshot: &Snapshot,
    requestor: &UserInfo,
    target: &Attributes<'_>,
    wanted: &UserInfo,
) -> Result<UserInfo> {
    let mut first = None;
    for mode in MODES.into_iter().filter(|mode| mode.is_for(requestor, wanted)) {
        let attempt = Attempt { access, snapshot, requestor, mode };
        match attempt.check(target, wanted) {
            Ok(user) => return Ok(user),
            Err(error) => first = first.or(Some(error)),
        }
    }
    Err(first.unwrap_or_else(|| ApiError::internal("all impersonation modes failed")))
}

impl Mode {
    /// The constrained mode's name in verbs.
    fn name(self) -> Option<&'static str> {
        match self {
            Mode::AssociatedNode => Some("associated-node"),
            Mode::ArbitraryNode => Some("arbitrary-node"),
            Mode::ServiceAccount => Some("serviceaccount"),
            Mode::UserInfo => Some("user-info"),
            Mode::Legacy => None,
        }
    }

    /// Whether the mode is about such an identity at all.
    fn is_for(self, requestor: &UserInfo, wanted: &UserInfo) -> bool {
        let only_name = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let node = node(&wanted.name);
        let account = account(&wanted.name);
        match self {
            Mode::AssociatedNode => only_name && node.is_some_and(|node| is_associated(requestor, node)),
            Mode::ArbitraryNode => only_name && node.is_some(),
            Mode::ServiceAccount => only_name && account.is_some(),
            Mode::UserInfo => node.is_none() && account.is_none(),
            Mode::Legacy => true,
        }
    }
}

/// The node whose user this is.
fn node(user: &str) -> Option<&str> {
    user.strip_prefix("system:node:").filter(|name| dns1123_subdomain(name).is_empty())
}

/// Namespace and name of the account whose user this is.
fn account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    (dns1123_label(namespace).is_empty() && dns1123_subdomain(name).is_empty()).then_some((namespace, name))
}

/// Whether the requestor is an account whose token says that it runs on the node.
fn is_associated(requestor: &UserInfo, node: &str) -> bool {
    let own = requestor.extra.get(NODE_NAME).map(Vec::as_slice);
    account(&requestor.name).is_some() && matches!(own, Some([own]) if own == node)
}

/// One mode tried on one request.
struct Attempt<'a> {
    access: Access<'a>,
    snapshot: &'a Snapshot,
    requestor: &'a UserInfo,
    mode: Mode,
}

impl Attempt<'_> {
    fn check(&self, target: &Attributes<'_>, wanted: &UserInfo) -> Result<UserInfo> {
        if let Some(mode) = self.mode.name() {
            let verb = format!("impersonate-on:{mode}:{}", target.verb);
            self.ask(&Attributes { verb: &verb, ..*target })?;
        }
        let verb = self.mode.name().map_or("impersonate".to_owned(), |mode| format!("impersonate:{mode}"));
        let mut user = wanted.clone();
        self.name(&verb, wanted, &mut user)?;
        if !wanted.uid.is_empty() {
            self.ask(&Attributes { name: &wanted.uid, ..identity(&verb, AUTHENTICATION, "uids") })?;
        }
        self.groups(&verb, &wanted.groups)?;
        self.extra(&verb, &wanted.extra)?;
        let anonymous = user.name == "system:anonymous";
        let missing = if anonymous { UNAUTHENTICATED } else { AUTHENTICATED };
        if !user.is_in(missing) && !user.is_in(UNAUTHENTICATED) {
            user.groups.push(missing.to_owned());
        }
        Ok(user)
    }

    fn is_constrained(&self) -> bool {
        self.mode != Mode::Legacy
    }

    fn ask(&self, attributes: &Attributes<'_>) -> Result<()> {
        authorize(self.access, self.snapshot, self.requestor, attributes)
    }

    /// Nodes (in a constrained mode) and accounts are in fixed groups, unless the request names groups.
    fn name(&self, verb: &str, wanted: &UserInfo, user: &mut UserInfo) -> Result<()> {
        let group = self.named_group();
        if let Some((namespace, name)) = account(&wanted.name) {
            if wanted.groups.is_empty() {
                user.groups = UserInfo::service_account(namespace, name).groups;
            }
            return self.ask(&Attributes { namespace, name, ..identity(verb, group, "serviceaccounts") });
        }
        if let Some(node) = node(&wanted.name).filter(|_| self.is_constrained()) {
            user.groups = vec![NODES.to_owned()];
            // kube-apiserver remembers the answer for all nodes, so it asks for all nodes.
            let name = if self.mode == Mode::AssociatedNode { "*" } else { node };
            return self.ask(&Attributes { name, ..identity(verb, group, "nodes") });
        }
        self.ask(&Attributes { name: &wanted.name, ..identity(verb, group, "users") })
    }

    /// The API group of names and groups; uids and extra values are always of `authentication.k8s.io`.
    fn named_group(&self) -> &'static str {
        if self.is_constrained() { AUTHENTICATION } else { "" }
    }

    fn groups(&self, verb: &str, groups: &[String]) -> Result<()> {
        let one = |name| Attributes { name, ..identity(verb, self.named_group(), "groups") };
        if self.is_constrained() {
            if groups.iter().any(String::is_empty) {
                let why = "impersonating the empty string group is not allowed";
                return Err(refusal(self.requestor, &one(""), why));
            }
            if groups.iter().any(|group| group == MASTERS) {
                let why = "impersonating the system:masters group is not allowed";
                return Err(refusal(self.requestor, &one(MASTERS), why));
            }
            if groups.len() >= MANY && self.ask(&one("*")).is_ok() {
                return Ok(());
            }
        }
        groups.iter().try_for_each(|group| self.ask(&one(group)))
    }

    fn extra(&self, verb: &str, extra: &BTreeMap<String, Vec<String>>) -> Result<()> {
        let one = |subresource, name| Attributes {
            subresource,
            name,
            ..identity(verb, AUTHENTICATION, "userextras")
        };
        if self.is_constrained() {
            if let Some(why) = wrong_extra(extra) {
                return Err(refusal(self.requestor, &one("", ""), &why));
            }
            let values: usize = extra.values().map(Vec::len).sum();
            if values >= MANY && self.ask(&one("*", "*")).is_ok() {
                return Ok(());
            }
        }
        for (key, values) in extra {
            values.iter().try_for_each(|value| self.ask(&one(key, value)))?;
        }
        Ok(())
    }
}

/// The right to take on one part of an identity.
fn identity<'a>(verb: &'a str, group: &'a str, resource: &'a str) -> Attributes<'a> {
    Attributes { verb, is_resource: true, group, resource, ..Attributes::default() }
}

/// Says what a constrained mode rejects about the extra values, whoever asks.
fn wrong_extra(extra: &BTreeMap<String, Vec<String>>) -> Option<String> {
    for (key, values) in extra {
        if key.is_empty() {
            return Some("impersonating the empty string key in extra is not allowed".to_owned());
        }
        let wrong = wrong_key(key);
        if !wrong.is_empty() {
            return Some(format!(
                "impersonating an invalid key in extra is not allowed: {}",
                aggregate(&wrong)
            ));
        }
        if key.to_lowercase() != *key {
            let key = setpoint_api::go_format::quote(key);
            return Some(format!("impersonating a non-lowercase key in extra is not allowed: {key}"));
        }
        if values.iter().any(String::is_empty) {
            return Some("impersonating the empty string value in extra is not allowed".to_owned());
        }
    }
    None
}

fn wrong_key(key: &str) -> Vec<Cause> {
    let place = Path::new("extra").child("key");
    let (host, path) = match key.split_once('/') {
        Some((host, path)) if !host.is_empty() && !path.is_empty() => (host, path),
        _ => {
            let text = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            return vec![Cause::invalid(&place, key, text)];
        }
    };
    let mut wrong: Vec<Cause> =
        dns1123_subdomain(host).iter().map(|text| Cause::invalid(&place, host, text)).collect();
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
    if !path.bytes().all(allowed) {
        let text = regex_error("Invalid path", r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+", &[]);
        wrong.push(Cause::invalid(&place, path, &text));
    }
    wrong
}
