//! The switches of a server that is recorded.

/// The switches with which both servers play a file of scenarios.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Setting {
    /// The switches of almost all files.
    Usual,
    /// No privileged containers, short tokens, no limits and quotas: `restricted`.
    Restricted,
    /// No flag about admission plugins: `accounts`.
    Plugged,
    /// Settings of PodSecurity (`testdata/admission/configuration.yaml`): `exemptions`.
    Exempting,
    /// Admission plugins that are off by default: `opted`.
    Opted,
    /// None of the admission plugins that are on by default: `unplugged`.
    Unplugged,
}

/// All settings.
pub const SETTINGS: [Setting; 6] = [
    Setting::Usual,
    Setting::Restricted,
    Setting::Plugged,
    Setting::Exempting,
    Setting::Opted,
    Setting::Unplugged,
];

impl Setting {
    /// The setting of a file.
    pub fn of(stem: &str) -> Setting {
        match stem {
            "restricted" => Setting::Restricted,
            "accounts" => Setting::Plugged,
            "exemptions" => Setting::Exempting,
            "opted" => Setting::Opted,
            "unplugged" => Setting::Unplugged,
            _ => Setting::Usual,
        }
    }

    /// kube-apiserver's flags. Scenarios make pods in namespaces that no controller gave a service account.
    pub fn flags(self) -> &'static [&'static str] {
        match self {
            Setting::Usual => &["--disable-admission-plugins=ServiceAccount"],
            Setting::Plugged => &[],
            Setting::Exempting => &[
                "--disable-admission-plugins=ServiceAccount",
                concat!(
                    "--admission-control-config-file=",
                    env!("CARGO_MANIFEST_DIR"),
                    "/../../testdata/admission/configuration.yaml"
                ),
            ],
            Setting::Opted => &[
                "--disable-admission-plugins=ServiceAccount",
                "--enable-admission-plugins=LimitPodHardAntiAffinityTopology,AlwaysPullImages,\
                 ExtendedResourceToleration,OwnerReferencesPermissionEnforcement,DenyServiceExternalIPs",
            ],
            Setting::Unplugged => &[
                "--disable-admission-plugins=NamespaceLifecycle,LimitRanger,ServiceAccount,TaintNodesByCondition,\
                 PodSecurity,Priority,DefaultTolerationSeconds,DefaultStorageClass,StorageObjectInUseProtection,\
                 PodGroupProtection,PersistentVolumeClaimResize,RuntimeClass,CertificateApproval,CertificateSigning,\
                 ClusterTrustBundleAttest,CertificateSubjectRestriction,DefaultIngressClass,PodTopologyLabels,\
                 NodeDeclaredFeatureValidator,PodResizeValidator,MutatingAdmissionPolicy,MutatingAdmissionWebhook,\
                 ValidatingAdmissionPolicy,ValidatingAdmissionWebhook,ResourceQuota",
            ],
            Setting::Restricted => &[
                "--disable-admission-plugins=ServiceAccount,LimitRanger,ResourceQuota",
                "--allow-privileged=false",
                "--service-account-max-token-expiration=2h",
            ],
        }
    }
}
