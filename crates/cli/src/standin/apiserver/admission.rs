//! `--enable-admission-plugins` and `--disable-admission-plugins`.

use anyhow::{Result, bail};
use setpoint_cluster::Admission;
use setpoint_kinds::admission::{Act, PLUGINS, Row};

use super::admission_configuration::pod_security;
use super::flags::Flags;

/// The admission plugins that the flags ask for.
#[derive(Debug, PartialEq, Eq)]
pub struct Plugins {
    /// The plugins that are on.
    pub admission: Admission,
    /// Warnings about requested plugins without effect.
    pub warnings: Vec<String>,
}

/// Refuses plugins that kube-apiserver does not know, in its words, and plugins whose protection is not implemented.
pub fn plugins(flags: &Flags) -> Result<Plugins> {
    let (enabled, disabled) = (&flags.enable_admission_plugins, &flags.disable_admission_plugins);
    let mut admission = Admission {
        not_ready_toleration_seconds: flags.default_not_ready_toleration_seconds,
        unreachable_toleration_seconds: flags.default_unreachable_toleration_seconds,
        ..Admission::default()
    };
    if let Some(file) = &flags.admission_control_config_file {
        admission.pod_security = pod_security(file)?;
    }
    let mut warnings = Vec::new();
    for name in enabled {
        let Some(row) = named(name) else { bail!("enable-admission-plugins plugin {name:?} is unknown") };
        match row.act {
            Act::Missing => bail!(
                "enable-admission-plugins: {name} is not implemented in Setpoint, so nothing would be checked: leave it \
                 out to start without it"
            ),
            Act::Idle => warnings.push(format!("admission plugin {name} does nothing in Setpoint")),
            Act::Here { .. } | Act::InServer => drop(admission.plugins.insert(row.plugin)),
        }
    }
    for name in disabled {
        let Some(row) = named(name) else { bail!("disable-admission-plugins plugin {name:?} is unknown") };
        admission.plugins.remove(&row.plugin);
    }
    let mut both: Vec<&str> =
        enabled.iter().filter(|name| disabled.contains(name)).map(String::as_str).collect();
    both.sort_unstable();
    both.dedup();
    if !both.is_empty() {
        bail!("[{}] in enable-admission-plugins and disable-admission-plugins overlapped", both.join(" "));
    }
    Ok(Plugins { admission, warnings })
}

fn named(name: &str) -> Option<&'static Row> {
    PLUGINS.iter().find(|row| row.plugin.to_string() == name)
}

#[cfg(test)]
mod tests {
    use setpoint_cluster::Plugin;

    use super::super::flags::parsed;
    use super::*;

    fn refusal(flags: &[&str]) -> String {
        plugins(&parsed(flags)).unwrap_err().to_string()
    }

    #[test]
    fn flags_turn_each_plugin_on_and_off() {
        let on =
            plugins(&parsed(&["--enable-admission-plugins=MutatingAdmissionWebhook,ResourceQuota"])).unwrap();
        assert_eq!(on, Plugins { admission: Admission::default(), warnings: Vec::new() });
        for row in PLUGINS {
            let off = plugins(&parsed(&[&format!("--disable-admission-plugins={}", row.plugin)])).unwrap();
            assert_eq!(off, Plugins { admission: Admission::without([row.plugin]), warnings: Vec::new() });
            let on = plugins(&parsed(&[&format!("--enable-admission-plugins={}", row.plugin)]));
            match row.act {
                Act::Here { .. } | Act::InServer => assert!(on.unwrap().admission.is_on(row.plugin)),
                Act::Idle => {
                    let warning = format!("admission plugin {} does nothing in Setpoint", row.plugin);
                    assert_eq!(on.unwrap().warnings, [warning]);
                }
                Act::Missing => {
                    let begin = format!("enable-admission-plugins: {} is not implemented", row.plugin);
                    assert!(on.is_err_and(|said| said.to_string().starts_with(&begin)));
                }
            }
        }
        let twice = ["--disable-admission-plugins=PodSecurity", "--disable-admission-plugins=ServiceAccount"];
        let off = Admission::without([Plugin::PodSecurity, Plugin::ServiceAccount]);
        assert_eq!(plugins(&parsed(&twice)).unwrap().admission, off);
    }

    #[test]
    fn flags_say_how_long_pods_stay_on_a_node_that_fails() {
        let given = parsed(&[
            "--default-not-ready-toleration-seconds=7",
            "--default-unreachable-toleration-seconds=8",
        ]);
        let admission = plugins(&given).unwrap().admission;
        assert_eq!(
            (admission.not_ready_toleration_seconds, admission.unreachable_toleration_seconds),
            (7, 8)
        );
    }

    /// Answers of kube-apiserver 1.37.
    #[test]
    fn unknown_plugins_and_contradictions_stop_the_start() {
        let enabled = refusal(&["--enable-admission-plugins=Nope"]);
        assert_eq!(enabled, "enable-admission-plugins plugin \"Nope\" is unknown");
        let disabled = refusal(&["--disable-admission-plugins=Nope"]);
        assert_eq!(disabled, "disable-admission-plugins plugin \"Nope\" is unknown");
        let name = "ServiceAccount";
        let both = refusal(&["--enable-admission-plugins", name, "--disable-admission-plugins", name]);
        assert_eq!(
            both,
            "[ServiceAccount] in enable-admission-plugins and disable-admission-plugins overlapped"
        );
    }
}
