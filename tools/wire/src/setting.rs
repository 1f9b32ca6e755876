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
    /// None of the admission plugins that are on by default: `unplugged`.
    Unplugged,
}

/// All settings.
pub const SETTINGS: [Setting; 4] =
    [Setting::Usual, Setting::Restricted, Setting::Plugged, Setting::Unplugged];

impl Setting {
    /// The setting of a file.
    pub fn of(stem: &str) -> Setting {
        match stem {
            "restricted" => Setting::Restricted,
            "accounts" => Setting::Plugged,
            "unplugged" => Setting::Unplugged,
            _ => Setting::Usual,
        }
    }

    /// kube-apiserver's flags. Scenarios make pods in namespaces that no controller gave a service account.
    pub fn flags(self) -> &'static [&'static str] {
        match self {
            Setting::Usual => &["--disable-admission-plugins=ServiceAccount"],
            Setting::Plugged => &[],
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
