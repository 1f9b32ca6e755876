//! The security context of Windows containers.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::access::{at, items, truth};
use crate::validate::check::Causes;
use setpoint_api::cause::Path;
use setpoint_api::name;

const LONGEST_SPEC_KIB: usize = 64;
const LONGEST_DOMAIN: usize = 256;
const LONGEST_USER: usize = 104;

static NET_BIOS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"^[^\\/:\*\?"<>|\.][^\\/:\*\?"<>|]{0,14}$"#).expect("a constant expression compiles")
});
static DNS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^[a-zA-Z0-9](?:[-a-zA-Z0-9]*[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[-a-zA-Z0-9]*[a-zA-Z0-9])?)*$")
        .expect("a constant expression compiles")
});

pub(super) fn options(causes: &mut Causes, context: &Value, path: &Path) {
    let (options, path) = (at(context, "windowsOptions"), path.child("windowsOptions"));
    if let Some(spec) = at(options, "gmsaCredentialSpecName").as_str() {
        causes.wrong(&path.child("gmsaCredentialSpecName"), spec, &name::dns1123_subdomain(spec));
    }
    if let Some(spec) = at(options, "gmsaCredentialSpec").as_str() {
        let path = path.child("gmsaCredentialSpec");
        if spec.is_empty() {
            causes.invalid(&path, spec, "gmsaCredentialSpec cannot be an empty string");
        } else if spec.len() > LONGEST_SPEC_KIB * 1024 {
            let detail = format!("gmsaCredentialSpec size must be under {LONGEST_SPEC_KIB} KiB");
            causes.invalid(&path, spec, &detail);
        }
    }
    if let Some(user) = at(options, "runAsUserName").as_str() {
        for wrong in user_name(user) {
            causes.invalid(&path.child("runAsUserName"), user, &wrong);
        }
    }
}

/// A user, perhaps with a domain before a backslash.
fn user_name(whole: &str) -> Vec<String> {
    let only = |wrong: &str| vec![wrong.to_owned()];
    if whole.is_empty() {
        return only("runAsUserName cannot be an empty string");
    }
    if whole.chars().any(|letter| letter.is_ascii_control()) {
        return only("runAsUserName cannot contain control characters");
    }
    if whole.matches('\\').count() > 1 {
        return only("runAsUserName cannot contain more than one backslash");
    }
    let mut wrong = Vec::new();
    let (domain, user) = whole.split_once('\\').map_or((None, whole), |(domain, user)| (Some(domain), user));
    if domain.is_some_and(|domain| domain.len() >= LONGEST_DOMAIN) {
        wrong.push(format!("runAsUserName's Domain length must be under {LONGEST_DOMAIN} characters"));
    }
    if domain.is_some_and(|domain| !NET_BIOS.is_match(domain) && !DNS.is_match(domain)) {
        wrong.push("runAsUserName's Domain doesn't match the NetBios nor the DNS format".to_owned());
    }
    if user.is_empty() {
        wrong.push("runAsUserName's User cannot be empty".to_owned());
    } else if user.len() > LONGEST_USER {
        let detail = format!("runAsUserName's User length must not be longer than {LONGEST_USER} characters");
        wrong.push(detail);
    }
    if !user.is_empty() && user.chars().all(|letter| matches!(letter, '.' | ' ')) {
        wrong.push("runAsUserName's User cannot contain only periods or spaces".to_owned());
    }
    if user.contains(['"', '/', '\\', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']']) {
        let detail = "runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]";
        wrong.push(detail.to_owned());
    }
    wrong
}

/// Either all containers are processes of the host, or none is.
pub(super) fn host_processes(causes: &mut Causes, spec: &Value, path: &Path) {
    const FIELD: &str = "securityContext.windowsOptions.hostProcess";
    let of_pod = at(spec, FIELD).as_bool();
    let (mut all, mut of_host) = (0, 0);
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for (index, container) in items(spec, list).iter().enumerate() {
            all += 1;
            let own = at(container, FIELD).as_bool();
            if let (Some(of_pod), Some(own)) = (of_pod, own)
                && of_pod != own
            {
                let detail =
                    format!("pod hostProcess value must be identical if both are specified, was {of_pod}");
                causes.invalid(&path.child(list).index(index).child(FIELD), own, &detail);
            }
            of_host += usize::from(own.or(of_pod) == Some(true));
        }
    }
    if of_host == 0 {
        return;
    }
    if of_host != all {
        let detail =
            "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        causes.invalid(path, "", detail);
    }
    if !truth(spec, "hostNetwork") {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        causes.invalid(&path.child("hostNetwork"), false, detail);
    }
    if causes.policy().forbids_privileged {
        causes.forbidden(path, "hostProcess containers are disallowed by cluster policy");
    }
}
