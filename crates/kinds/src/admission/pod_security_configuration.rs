//! `PodSecurityConfiguration`: the file with the settings of PodSecurity.

use serde::Deserialize;
use serde_json::Value;

use super::pod_security_standards::{Exemptions, InvalidPolicy, Level, PodSecurity, PolicyVersion, Standard};

const GROUP: &str = "pod-security.admission.config.k8s.io/";

/// A configuration that PodSecurity cannot follow.
#[derive(Debug, thiserror::Error)]
pub enum InvalidConfiguration {
    /// The document is of another kind.
    #[error("expected a PodSecurityConfiguration of {GROUP}v1, got {kind:?} of {version:?}")]
    Kind {
        /// The kind of the document.
        kind: String,
        /// The version of the document.
        version: String,
    },
    /// A field is unknown or has another type.
    #[error(transparent)]
    Shape(#[from] serde_json::Error),
    /// A level or version does not exist.
    #[error("defaults.{field}: Invalid value: {value:?}: {source}")]
    Default {
        /// The field.
        field: &'static str,
        /// Its value.
        value: String,
        /// The fault.
        source: InvalidPolicy,
    },
    /// An exemption is empty or stands there twice.
    #[error("exemptions.{field}: {value:?} is empty or a duplicate")]
    Exemption {
        /// The list.
        field: &'static str,
        /// The entry.
        value: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(rename = "apiVersion")]
    version: String,
    kind: String,
    #[serde(default)]
    defaults: Defaults,
    #[serde(default)]
    exemptions: Lists,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
struct Defaults {
    enforce: String,
    enforce_version: String,
    audit: String,
    audit_version: String,
    warn: String,
    warn_version: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
struct Lists {
    usernames: Vec<String>,
    namespaces: Vec<String>,
    runtime_classes: Vec<String>,
}

impl PodSecurity {
    /// Reads a `PodSecurityConfiguration`.
    pub fn read(document: Value) -> Result<PodSecurity, InvalidConfiguration> {
        let document: Document = serde_json::from_value(document)?;
        let version = document.version.strip_prefix(GROUP);
        if document.kind != "PodSecurityConfiguration"
            || !matches!(version, Some("v1" | "v1beta1" | "v1alpha1"))
        {
            return Err(InvalidConfiguration::Kind { kind: document.kind, version: document.version });
        }
        let Defaults { enforce, enforce_version, audit, audit_version, warn, warn_version } =
            document.defaults;
        let defaults = [
            standard(("enforce", &enforce), ("enforce-version", &enforce_version))?,
            standard(("audit", &audit), ("audit-version", &audit_version))?,
            standard(("warn", &warn), ("warn-version", &warn_version))?,
        ];
        let Lists { usernames, namespaces, runtime_classes } = document.exemptions;
        unique("usernames", &usernames)?;
        unique("namespaces", &namespaces)?;
        unique("runtimeClasses", &runtime_classes)?;
        Ok(PodSecurity { defaults, exemptions: Exemptions { usernames, namespaces, runtime_classes } })
    }
}

/// A level and a version; `privileged` and `latest` if they are empty.
fn standard(
    (level_field, level): (&'static str, &str),
    (version_field, version): (&'static str, &str),
) -> Result<Standard, InvalidConfiguration> {
    let invalid = |field: &'static str, value: &str, source: InvalidPolicy| InvalidConfiguration::Default {
        field,
        value: value.to_owned(),
        source,
    };
    let or = |text: &str, default: &'static str| {
        if text.is_empty() { default.to_owned() } else { text.to_owned() }
    };
    let (level, version) = (or(level, "privileged"), or(version, "latest"));
    Ok(Standard {
        level: Level::parse(&level).map_err(|source| invalid(level_field, &level, source))?,
        version: PolicyVersion::parse(&version).map_err(|source| invalid(version_field, &version, source))?,
    })
}

fn unique(field: &'static str, list: &[String]) -> Result<(), InvalidConfiguration> {
    let mut seen = std::collections::BTreeSet::new();
    match list.iter().find(|value| value.is_empty() || !seen.insert(*value)) {
        Some(value) => Err(InvalidConfiguration::Exemption { field, value: value.clone() }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document(more: &Value) -> Value {
        let mut document = json!({ "apiVersion": "pod-security.admission.config.k8s.io/v1", "kind": "PodSecurityConfiguration" });
        document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        document
    }

    #[test]
    fn a_configuration_names_defaults_and_exemptions() {
        assert_eq!(PodSecurity::read(document(&json!({}))).unwrap(), PodSecurity::default());
        let read = PodSecurity::read(document(&json!({
            "defaults": { "enforce": "baseline", "enforce-version": "v1.30", "warn": "restricted" },
            "exemptions": { "usernames": ["a"], "namespaces": ["b"], "runtimeClasses": ["c"] },
        })));
        let read = read.unwrap();
        let words = read.defaults.map(|standard| standard.to_string());
        assert_eq!(words, ["baseline:v1.30", "privileged:latest", "restricted:latest"]);
        let list = |name: &str| vec![name.to_owned()];
        let exemptions =
            Exemptions { usernames: list("a"), namespaces: list("b"), runtime_classes: list("c") };
        assert_eq!(read.exemptions, exemptions);
    }

    #[test]
    fn a_configuration_that_would_not_act_is_refused() {
        for (more, why) in [
            (json!({ "kind": "Pod" }), "expected a PodSecurityConfiguration"),
            (json!({ "apiVersion": "v1" }), "expected a PodSecurityConfiguration"),
            (json!({ "default": {} }), "unknown field `default`"),
            (json!({ "defaults": { "enforced": "baseline" } }), "unknown field `enforced`"),
            (
                json!({ "defaults": { "enforce": "most" } }),
                "defaults.enforce: Invalid value: \"most\": must be one of",
            ),
            (json!({ "defaults": { "audit-version": "1" } }), "defaults.audit-version: Invalid value: \"1\""),
            (
                json!({ "exemptions": { "namespaces": ["a", "a"] } }),
                "exemptions.namespaces: \"a\" is empty or a duplicate",
            ),
        ] {
            let refused = PodSecurity::read(document(&more)).unwrap_err().to_string();
            assert!(refused.contains(why), "{more}: {refused}");
        }
    }
}
