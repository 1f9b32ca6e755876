//! The switches of a server that is recorded.

/// The switches with which both servers play a file of scenarios.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Setting {
    /// The switches of almost all files.
    Usual,
    /// No privileged containers, short tokens, no limits and quotas: `restricted`.
    Restricted,
}

/// All settings.
pub const SETTINGS: [Setting; 2] = [Setting::Usual, Setting::Restricted];

impl Setting {
    /// The setting of a file.
    pub fn of(stem: &str) -> Setting {
        if stem == "restricted" { Setting::Restricted } else { Setting::Usual }
    }

    /// kube-apiserver's flags. Scenarios make pods in namespaces that no controller gave a service account.
    pub fn flags(self) -> &'static [&'static str] {
        match self {
            Setting::Usual => &["--disable-admission-plugins=ServiceAccount"],
            Setting::Restricted => &[
                "--disable-admission-plugins=ServiceAccount,LimitRanger,ResourceQuota",
                "--allow-privileged=false",
                "--service-account-max-token-expiration=2h",
            ],
        }
    }
}
