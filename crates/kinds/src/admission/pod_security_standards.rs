//! The settings of PodSecurity: levels and versions, the labels that name them, and the exemptions.

use std::fmt;

use serde_json::Value;
use setpoint_api::cause::{Cause, Path};

use crate::access::text;

const PREFIX: &str = "pod-security.kubernetes.io/";

/// A level, from the one that allows everything to the one that allows least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Allows everything.
    Privileged,
    /// Prevents known ways to gain rights on the node.
    Baseline,
    /// Demands current hardening.
    Restricted,
}

/// The Kubernetes version whose rules count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PolicyVersion {
    /// `v1.N`.
    Minor(u32),
    /// The newest rules.
    Latest,
}

/// A level in a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standard {
    /// The level.
    pub level: Level,
    /// The version.
    pub version: PolicyVersion,
}

impl fmt::Display for Standard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        };
        match self.version {
            PolicyVersion::Latest => write!(f, "{level}:latest"),
            PolicyVersion::Minor(minor) => write!(f, "{level}:v1.{minor}"),
        }
    }
}

/// A level or version that does not exist.
#[derive(Debug, thiserror::Error)]
pub enum InvalidPolicy {
    /// No such level.
    #[error("must be one of privileged, baseline, restricted")]
    Level,
    /// No such version.
    #[error("must be \"latest\" or \"v1.x\"")]
    Version,
}

impl Level {
    /// Reads a level.
    pub fn parse(text: &str) -> Result<Level, InvalidPolicy> {
        match text {
            "privileged" => Ok(Level::Privileged),
            "baseline" => Ok(Level::Baseline),
            "restricted" => Ok(Level::Restricted),
            _ => Err(InvalidPolicy::Level),
        }
    }
}

impl PolicyVersion {
    /// Reads a version: `latest` or `v1.N`.
    pub fn parse(text: &str) -> Result<PolicyVersion, InvalidPolicy> {
        if text == "latest" {
            return Ok(PolicyVersion::Latest);
        }
        let digits = text.strip_prefix("v1.").filter(|digits| {
            let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
            plain && (*digits == "0" || !digits.starts_with('0'))
        });
        let minor = digits.and_then(|digits| digits.parse().ok());
        minor.map(PolicyVersion::Minor).ok_or(InvalidPolicy::Version)
    }
}

/// The standards of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) enforce: Standard,
    pub(super) audit: Standard,
    pub(super) warn: Standard,
}

impl Policy {
    pub(super) fn is_privileged(&self) -> bool {
        [self.enforce, self.audit, self.warn].iter().all(|mode| mode.level == Level::Privileged)
    }
}

/// The settings of the plugin: kube-apiserver's `PodSecurityConfiguration`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSecurity {
    /// The standards of namespaces without labels: `enforce`, `audit` and `warn`.
    pub defaults: [Standard; 3],
    /// The exemptions.
    pub exemptions: Exemptions,
}

impl Default for PodSecurity {
    fn default() -> Self {
        let privileged = Standard { level: Level::Privileged, version: PolicyVersion::Latest };
        PodSecurity { defaults: [privileged; 3], exemptions: Exemptions::default() }
    }
}

impl PodSecurity {
    /// The warning that the labels of an exempt namespace have no effect.
    pub(super) fn ignored(&self, namespace: &str, policy: &Policy, labels: &Value) -> Option<String> {
        let [enforce, audit, warn] = self.defaults;
        let same = |a: Standard, b: Standard| {
            a == b || (a.level == Level::Privileged && b.level == Level::Privileged)
        };
        if policy.is_privileged()
            || (same(policy.enforce, enforce) && same(policy.audit, audit) && same(policy.warn, warn))
        {
            return None;
        }
        let modes = [("enforce", policy.enforce), ("audit", policy.audit), ("warn", policy.warn)];
        let has = |label: String| labels.get(label).is_some();
        let named: Vec<String> = modes
            .into_iter()
            .filter(|(_, standard)| standard.level != Level::Privileged)
            .filter(|(mode, _)| has(format!("{PREFIX}{mode}")) || has(format!("{PREFIX}{mode}-version")))
            .map(|(mode, standard)| format!("{mode}={standard}"))
            .collect();
        Some(format!(
            "namespace \"{namespace}\" is exempt from Pod Security, and the policy ({}) will be ignored",
            named.join(", ")
        ))
    }
}

/// The requests that PodSecurity leaves alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exemptions {
    /// Users.
    pub usernames: Vec<String>,
    /// Namespaces.
    pub namespaces: Vec<String>,
    /// RuntimeClasses.
    pub runtime_classes: Vec<String>,
}

impl Exemptions {
    /// Whether the request, or the pod or template in it, is exempt.
    pub(super) fn covers(&self, namespace: &str, user: &str, pod: &Value) -> bool {
        let has = |list: &[String], name: &str| list.iter().any(|own| own == name);
        has(&self.namespaces, namespace) || has(&self.usernames, user) || self.covers_class(pod)
    }

    pub(super) fn covers_class(&self, pod: &Value) -> bool {
        let class = text(pod, "spec.runtimeClassName");
        !class.is_empty() && self.runtime_classes.iter().any(|own| own == class)
    }
}

/// The standards that labels name, and the errors in the labels. In the place of an invalid value stands the strictest
/// for `enforce` and none for `audit` and `warn`.
pub(super) fn read(labels: &Value, defaults: [Standard; 3]) -> (Policy, Vec<Cause>) {
    let mut errors = Vec::new();
    let mut modes = defaults;
    for (mode, standard) in ["enforce", "audit", "warn"].into_iter().zip(&mut modes) {
        let mut refuse = |label: &str, value: &str, error: InvalidPolicy| {
            let path = Path::new("metadata.labels").key(label);
            errors.push(Cause::invalid(&path, value, &error.to_string()));
        };
        let label = format!("{PREFIX}{mode}");
        if let Some(value) = labels.get(&label).and_then(Value::as_str) {
            let level = Level::parse(value).map_err(|error| refuse(&label, value, error));
            let strictest = if mode == "enforce" { Level::Restricted } else { Level::Privileged };
            standard.level = level.unwrap_or(strictest);
        }
        let label = format!("{PREFIX}{mode}-version");
        if let Some(value) = labels.get(&label).and_then(Value::as_str) {
            let version = PolicyVersion::parse(value).map_err(|error| refuse(&label, value, error));
            standard.version = version.unwrap_or(PolicyVersion::Latest);
        }
    }
    let [enforce, audit, mut warn] = modes;
    let label = |name: &str| labels.get(format!("{PREFIX}{name}")).and_then(Value::as_str);
    // Who enforces a level by label is also warned at that level.
    let enforces = label("enforce").is_some_and(|value| Level::parse(value).is_ok());
    if enforces && label("warn").is_none() && enforce.level > warn.level {
        warn.level = enforce.level;
        if label("warn-version").is_none() {
            warn.version = enforce.version;
        }
    }
    (Policy { enforce, audit, warn }, errors)
}
