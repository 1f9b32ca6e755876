//! `--admission-control-config-file`: the settings of PodSecurity.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::Value;
use setpoint_kinds::admission::PodSecurity;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Configuration {
    #[serde(rename = "apiVersion")]
    version: String,
    kind: String,
    #[serde(default)]
    plugins: Vec<PluginConfiguration>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PluginConfiguration {
    name: String,
    #[serde(default)]
    path: String,
    configuration: Option<Value>,
}

/// Reads the settings of PodSecurity from an AdmissionConfiguration. Settings of another plugin are refused: nothing
/// would follow them.
pub fn pod_security(file: &Path) -> Result<PodSecurity> {
    let configuration: Configuration = serde_json::from_value(read(file)?)
        .with_context(|| format!("{} is no AdmissionConfiguration", file.display()))?;
    let version = configuration.version.strip_prefix("apiserver.config.k8s.io/");
    if configuration.kind != "AdmissionConfiguration" || !matches!(version, Some("v1" | "v1alpha1")) {
        bail!("{} is no AdmissionConfiguration of apiserver.config.k8s.io/v1", file.display());
    }
    let mut settings = PodSecurity::default();
    for plugin in configuration.plugins {
        let document = match (plugin.configuration, plugin.path.as_str()) {
            (Some(document), _) => document,
            (None, "") => continue,
            (None, path) => read(&file.parent().unwrap_or(Path::new("")).join(path))?,
        };
        if plugin.name != "PodSecurity" {
            bail!(
                "admission-control-config-file: Setpoint has no settings for the admission plugin {}",
                plugin.name
            );
        }
        settings = PodSecurity::read(document).context("admission-control-config-file: PodSecurity")?;
    }
    Ok(settings)
}

fn read(file: &Path) -> Result<Value> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("unable to read admission control configuration from {}", file.display()))?;
    serde_saphyr::from_str(&text).with_context(|| format!("{} is no YAML", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Result<PodSecurity> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("admission.yaml");
        std::fs::write(&file, text).unwrap();
        let own = "apiVersion: pod-security.admission.config.k8s.io/v1\nkind: PodSecurityConfiguration\n\
                   defaults: {enforce: restricted}\n";
        std::fs::write(folder.path().join("own.yaml"), own).unwrap();
        pod_security(&file)
    }

    const HEAD: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n";

    #[test]
    fn the_file_or_a_file_that_it_names_has_the_settings() {
        let recorded =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/admission/configuration.yaml");
        assert_eq!(pod_security(&recorded).unwrap().exemptions.usernames, ["alice"]);
        assert_eq!(settings(HEAD).unwrap(), PodSecurity::default());
        let named = settings(&format!("{HEAD}plugins: [{{name: PodSecurity, path: own.yaml}}]")).unwrap();
        assert_eq!(named.defaults[0].to_string(), "restricted:latest");
    }

    #[test]
    fn settings_that_nothing_would_follow_stop_the_start() {
        for (text, why) in [
            ("kind: Pod\napiVersion: v1", "is no AdmissionConfiguration of"),
            (&format!("{HEAD}plugin: []"), "is no AdmissionConfiguration"),
            (
                &format!("{HEAD}plugins: [{{name: EventRateLimit, path: own.yaml}}]"),
                "no settings for the admission plugin EventRateLimit",
            ),
            (
                &format!("{HEAD}plugins: [{{name: PodSecurity, path: absent.yaml}}]"),
                "unable to read admission control configuration",
            ),
            (
                &format!("{HEAD}plugins: [{{name: PodSecurity, configuration: {{}}}}]"),
                "admission-control-config-file: PodSecurity",
            ),
        ] {
            let refused = settings(text).unwrap_err().to_string();
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }
}
