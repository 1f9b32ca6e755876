//! `--enable-admission-plugins` and `--disable-admission-plugins`.

use anyhow::{Result, bail};
use setpoint_cluster::Admission;

use super::flags::Flags;

/// The state of a kube-apiserver admission plugin here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Implemented, and a flag can turn it off.
    Switched,
    /// Implemented and always on.
    Acts,
    /// It is not implemented and would refuse or restrict something: asking for it stops the start.
    Guards,
    /// It is not implemented and would refuse nothing.
    Absent,
}

use Standing::{Absent, Acts, Guards, Switched};

/// The plugins of kube-apiserver 1.37, in its order.
const PLUGINS: [(&str, Standing); 39] = [
    ("AlwaysAdmit", Absent),
    ("NamespaceAutoProvision", Absent),
    ("NamespaceLifecycle", Acts),
    // NamespaceLifecycle refuses more than NamespaceExists.
    ("NamespaceExists", Acts),
    ("LimitPodHardAntiAffinityTopology", Guards),
    ("LimitRanger", Switched),
    ("ServiceAccount", Switched),
    ("NodeRestriction", Guards),
    ("TaintNodesByCondition", Acts),
    ("AlwaysPullImages", Guards),
    ("ImagePolicyWebhook", Guards),
    ("PodSecurity", Guards),
    ("PodNodeSelector", Guards),
    ("Priority", Acts),
    ("DefaultTolerationSeconds", Acts),
    ("PodTolerationRestriction", Guards),
    ("EventRateLimit", Guards),
    ("ExtendedResourceToleration", Absent),
    ("DefaultStorageClass", Acts),
    ("StorageObjectInUseProtection", Acts),
    ("PodGroupProtection", Guards),
    ("OwnerReferencesPermissionEnforcement", Guards),
    ("PersistentVolumeClaimResize", Guards),
    ("RuntimeClass", Guards),
    ("CertificateApproval", Guards),
    ("CertificateSigning", Guards),
    ("ClusterTrustBundleAttest", Guards),
    ("CertificateSubjectRestriction", Guards),
    ("DefaultIngressClass", Acts),
    ("DenyServiceExternalIPs", Guards),
    ("PodTopologyLabels", Absent),
    ("NodeDeclaredFeatureValidator", Guards),
    ("PodResizeValidator", Guards),
    ("MutatingAdmissionPolicy", Guards),
    ("MutatingAdmissionWebhook", Acts),
    ("ValidatingAdmissionPolicy", Acts),
    ("ValidatingAdmissionWebhook", Acts),
    ("ResourceQuota", Switched),
    ("AlwaysDeny", Guards),
];

/// The admission plugins that the flags ask for.
#[derive(Debug, PartialEq, Eq)]
pub struct Plugins {
    /// The plugins with a switch.
    pub admission: Admission,
    /// Warnings about requested plugins without effect.
    pub warnings: Vec<String>,
}

/// Refuses plugins that kube-apiserver does not know, in its words, and plugins whose protection is not implemented.
pub fn plugins(flags: &Flags) -> Result<Plugins> {
    let (enabled, disabled) = (&flags.enable_admission_plugins, &flags.disable_admission_plugins);
    let mut warnings = Vec::new();
    for name in enabled {
        match standing(name) {
            None => bail!("enable-admission-plugins plugin {name:?} is unknown"),
            Some(Guards) => bail!(
                "enable-admission-plugins: {name} is not implemented in Setpoint, so nothing would be checked: leave it \
                 out to start without it"
            ),
            Some(Absent) => warnings.push(format!("admission plugin {name} does nothing in Setpoint")),
            Some(Acts | Switched) => {}
        }
    }
    for name in disabled {
        match standing(name) {
            None => bail!("disable-admission-plugins plugin {name:?} is unknown"),
            Some(Acts) => {
                bail!(
                    "disable-admission-plugins: Setpoint cannot turn {name} off; only LimitRanger, \
                     ResourceQuota and ServiceAccount have a switch"
                )
            }
            Some(Switched | Guards | Absent) => {}
        }
    }
    let mut both: Vec<&str> =
        enabled.iter().filter(|name| disabled.contains(name)).map(String::as_str).collect();
    both.sort_unstable();
    both.dedup();
    if !both.is_empty() {
        bail!("[{}] in enable-admission-plugins and disable-admission-plugins overlapped", both.join(" "));
    }
    let is_on = |name: &str| !disabled.iter().any(|disabled| disabled == name);
    let admission = Admission {
        service_account: is_on("ServiceAccount"),
        limit_ranger: is_on("LimitRanger"),
        resource_quota: is_on("ResourceQuota"),
    };
    Ok(Plugins { admission, warnings })
}

fn standing(name: &str) -> Option<Standing> {
    PLUGINS.iter().find(|(own, _)| *own == name).map(|(_, standing)| *standing)
}

#[cfg(test)]
mod tests {
    use super::super::flags::parsed;
    use super::*;

    fn refusal(flags: &[&str]) -> String {
        plugins(&parsed(flags)).unwrap_err().to_string()
    }

    #[test]
    fn plugins_that_act_may_be_named_and_some_can_be_turned_off() {
        let all = Admission::default();
        let on =
            plugins(&parsed(&["--enable-admission-plugins=MutatingAdmissionWebhook,ResourceQuota"])).unwrap();
        assert_eq!(on, Plugins { admission: all, warnings: Vec::new() });
        // The flags with which envtest starts it.
        let off = plugins(&parsed(&["--disable-admission-plugins=ServiceAccount"])).unwrap();
        let admission = Admission { service_account: false, ..all };
        assert_eq!(off, Plugins { admission, warnings: Vec::new() });
        let limits = plugins(&parsed(&["--disable-admission-plugins=LimitRanger,ResourceQuota"])).unwrap();
        assert_eq!(limits.admission, Admission { limit_ranger: false, resource_quota: false, ..all });
        let twice = ["--disable-admission-plugins=PodSecurity", "--disable-admission-plugins=ServiceAccount"];
        assert!(!plugins(&parsed(&twice)).unwrap().admission.service_account);
        let idle = plugins(&parsed(&["--enable-admission-plugins=NamespaceAutoProvision"])).unwrap();
        assert_eq!(idle.warnings, ["admission plugin NamespaceAutoProvision does nothing in Setpoint"]);
    }

    #[test]
    fn a_plugin_that_would_protect_and_is_not_here_stops_the_start() {
        let guards = PLUGINS.iter().filter(|(_, standing)| *standing == Guards);
        for (name, _) in guards {
            let said = refusal(&[&format!("--enable-admission-plugins=ServiceAccount,{name}")]);
            assert!(
                said.starts_with(&format!("enable-admission-plugins: {name} is not implemented")),
                "{said}"
            );
        }
        let said = refusal(&["--disable-admission-plugins=ServiceAccount,NamespaceLifecycle"]);
        assert!(said.contains("cannot turn NamespaceLifecycle off"), "{said}");
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
