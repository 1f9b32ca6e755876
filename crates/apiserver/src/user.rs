//! The user of a request.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// A user as authorization and reviews see them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserInfo {
    /// The name.
    pub name: String,
    /// A name that is never reused, or empty.
    pub uid: String,
    /// The groups, in order.
    pub groups: Vec<String>,
    /// Other information of the authenticator.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// The group of every authenticated request.
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
/// The group of every unauthenticated request.
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The user of a request without credentials.
const ANONYMOUS: &str = "system:anonymous";
/// The group that may do everything.
pub(crate) const MASTERS: &str = "system:masters";

impl UserInfo {
    /// A user in these groups and `system:authenticated`.
    pub fn new(name: impl Into<String>, groups: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut groups: Vec<String> = groups.into_iter().map(Into::into).collect();
        if !groups.iter().any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        UserInfo { name: name.into(), uid: String::new(), groups, extra: BTreeMap::new() }
    }

    /// A user who may do everything.
    pub fn admin(name: impl Into<String>) -> Self {
        UserInfo::new(name, [MASTERS])
    }

    /// The user of a service account.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        UserInfo::new(
            format!("system:serviceaccount:{namespace}:{name}"),
            ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")],
        )
    }

    /// The anonymous user.
    pub fn anonymous() -> Self {
        UserInfo::new(ANONYMOUS, [UNAUTHENTICATED])
    }

    /// Adds the group `system:authenticated`, unless the user is anonymous or is in one of the two groups already.
    pub(crate) fn authenticated(mut self) -> Self {
        if self.name != ANONYMOUS && !self.is_in(AUTHENTICATED) && !self.is_in(UNAUTHENTICATED) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }

    /// Whether this user is in `group`.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }

    /// The user as reviews show it.
    pub fn to_value(&self) -> Value {
        let mut user = json!({"username": self.name, "groups": self.groups});
        if !self.uid.is_empty() {
            user["uid"] = json!(self.uid);
        }
        if !self.extra.is_empty() {
            user["extra"] = json!(self.extra);
        }
        user
    }
}
