//! `Impersonate-*` headers: a request on behalf of somebody else.

use http::HeaderMap;
use setpoint_store::Snapshot;

use super::authz::{Attributes, allowed, refusal};
use super::{AUTHENTICATED, UNAUTHENTICATED, UserInfo};
use crate::error::{ApiError, Result};
use crate::options::Options;
use crate::request::RequestInfo;

/// The user that the request is made for: the impersonated one, if the real one may.
pub(crate) fn impersonate(
    options: &Options,
    snapshot: &Snapshot,
    user: UserInfo,
    headers: &HeaderMap,
    info: &RequestInfo,
) -> Result<UserInfo> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("").to_owned();
    let name = text("impersonate-user");
    let groups: Vec<String> = headers
        .get_all("impersonate-group")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .map(str::to_owned)
        .collect();
    let uid = text("impersonate-uid");
    let extras: Vec<(String, String)> = headers
        .iter()
        .filter_map(|(key, value)| {
            let key = key.as_str().strip_prefix("impersonate-extra-")?;
            Some((unescape(key), value.to_str().ok()?.to_owned()))
        })
        .collect();
    if name.is_empty() {
        if groups.is_empty() && uid.is_empty() && extras.is_empty() {
            return Ok(user);
        }
        let quoted: Vec<String> = groups.iter().map(|group| setpoint_api::cause::quote(group)).collect();
        return Err(ApiError::bad_request(format!(
            "requested &user.DefaultInfo{{Name:\"\", UID:{}, Groups:[]string{{{}}}, \
             Extra:map[string][]string(nil)}} without impersonating a user name",
            setpoint_api::cause::quote(&uid),
            quoted.join(", ")
        )));
    }
    let may = |group: &str, resource: &str, subresource: &str, namespace: &str, name: &str| {
        let wanted = Attributes {
            verb: "impersonate",
            is_resource: true,
            group,
            resource,
            subresource,
            namespace,
            name,
            path: "",
        };
        if allowed(options, snapshot, &user, &wanted) {
            return Ok(());
        }
        // The refusal names the request, as the newest kube-apiserver's does.
        let verb = format!("impersonate-on:user-info:{}", info.verb);
        let refused = Attributes {
            verb: &verb,
            is_resource: info.is_resource,
            group: &info.group,
            resource: &info.resource,
            subresource: &info.subresource,
            namespace: &info.namespace,
            name: &info.name,
            path: &info.path,
        };
        // Holding that verb on the target is half of a constrained mode, and grants nothing on its own.
        Err(refusal(&user, &refused))
    };
    let account = name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
    match account {
        Some((namespace, account)) => may("", "serviceaccounts", "", namespace, account)?,
        None => may("", "users", "", "", &name)?,
    }
    for group in &groups {
        may("", "groups", "", "", group)?;
    }
    for (key, value) in &extras {
        may("authentication.k8s.io", "userextras", key, "", value)?;
    }
    if !uid.is_empty() {
        may("authentication.k8s.io", "uids", "", "", &uid)?;
    }
    Ok(impersonated(name.clone(), account, groups, uid, extras))
}

fn impersonated(
    name: String,
    account: Option<(&str, &str)>,
    groups: Vec<String>,
    uid: String,
    extras: Vec<(String, String)>,
) -> UserInfo {
    let mut user = match account {
        Some((namespace, account)) if groups.is_empty() => UserInfo::service_account(namespace, account),
        _ => UserInfo { name: name.clone(), groups, ..UserInfo::default() },
    };
    let anonymous = name == "system:anonymous";
    let wanted = if anonymous { UNAUTHENTICATED } else { AUTHENTICATED };
    if !user.is_in(wanted) && !user.is_in(UNAUTHENTICATED) {
        user.groups.push(wanted.to_owned());
    }
    user.uid = uid;
    for (key, value) in extras {
        user.extra.entry(key).or_default().push(value);
    }
    user
}

/// Header names carry other bytes percent-encoded.
fn unescape(key: &str) -> String {
    let query = crate::request::Query::parse(&format!("k={key}"));
    query.get("k").unwrap_or(key).to_owned()
}
