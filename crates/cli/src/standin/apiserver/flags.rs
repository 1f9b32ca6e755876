//! The flags of kube-apiserver that this program takes. It refuses all others.

use std::net::IpAddr;
use std::path::PathBuf;

use anyhow::{Result, bail};

/// The flags: first those with an effect, then those that stop the start unless they ask for the state that exists
/// anyway.
#[derive(clap::Parser, Debug)]
#[command(name = "kube-apiserver", about = "Setpoint's API server under kube-apiserver's flags.")]
pub struct Flags {
    /// Folder with the serving certificate: apiserver.crt and apiserver.key. Without it Setpoint signs its own.
    #[arg(long)]
    pub cert_dir: Option<PathBuf>,
    /// Authority of client certificates.
    #[arg(long)]
    pub client_ca_file: Option<PathBuf>,
    /// Port to serve on.
    #[arg(long, default_value_t = 6443)]
    pub secure_port: u16,
    /// Address to serve on.
    #[arg(long, default_value = "127.0.0.1")]
    pub bind_address: IpAddr,
    /// Issuer of service-account tokens.
    #[arg(long)]
    pub service_account_issuer: Option<String>,
    /// Keys of accepted service-account tokens.
    #[arg(long)]
    pub service_account_key_file: Vec<PathBuf>,
    /// Key that signs service-account tokens.
    #[arg(long)]
    pub service_account_signing_key_file: Option<PathBuf>,
    /// Range of the cluster IPs.
    #[arg(long)]
    pub service_cluster_ip_range: Option<String>,
    /// The authorizers in their order: AlwaysAllow, AlwaysDeny, RBAC, Node (which allows nothing). AlwaysAllow by default.
    #[arg(long, value_delimiter = ',')]
    pub authorization_mode: Vec<String>,
    /// Whether requests without credentials are those of system:anonymous. AlwaysAllow turns it off.
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true, value_parser = go_bool,
        default_value = "true", default_missing_value = "true", action = clap::ArgAction::Set)]
    pub anonymous_auth: bool,
    /// Authority of the front proxy's certificate. Without it the proxy's headers are ignored.
    #[arg(long)]
    pub requestheader_client_ca_file: Option<PathBuf>,
    /// Accepted common names of the front proxy's certificate. Empty accepts any.
    #[arg(long, value_delimiter = ',')]
    pub requestheader_allowed_names: Vec<String>,
    /// Headers in which the front proxy passes user names.
    #[arg(long, value_delimiter = ',')]
    pub requestheader_username_headers: Vec<String>,
    /// Headers in which the front proxy passes uids.
    #[arg(long, value_delimiter = ',')]
    pub requestheader_uid_headers: Vec<String>,
    /// Headers in which the front proxy passes groups.
    #[arg(long, value_delimiter = ',')]
    pub requestheader_group_headers: Vec<String>,
    /// Prefixes of the headers in which the front proxy passes extra user attributes.
    #[arg(long, value_delimiter = ',')]
    pub requestheader_extra_headers_prefix: Vec<String>,
    /// Plugins to turn off: ServiceAccount has a switch.
    #[arg(long, value_delimiter = ',')]
    pub disable_admission_plugins: Vec<String>,
    /// Plugins to turn on. Implemented plugins are always on. A plugin that would protect something and is not
    /// implemented stops the start.
    #[arg(long, value_delimiter = ',')]
    pub enable_admission_plugins: Vec<String>,
    /// Features to turn on or off. A feature that protects something, or is unknown, stops the start unless Setpoint
    /// does the same.
    #[arg(long, value_delimiter = ',')]
    pub feature_gates: Vec<String>,
    /// APIs to serve. Turning one off stops the start.
    #[arg(long, value_delimiter = ',')]
    pub runtime_config: Vec<String>,
    /// Whether containers may be privileged. They always may, so false stops the start.
    #[arg(long, value_name = "true|false", num_args = 0..=1, value_parser = go_bool, default_value = "true",
        default_missing_value = "true", action = clap::ArgAction::Set)]
    pub allow_privileged: bool,
    /// Ignored: the store is part of this process.
    #[arg(long)]
    pub etcd_servers: Option<String>,
    /// Ignored.
    #[arg(long)]
    pub advertise_address: Option<String>,
    /// Ignored.
    #[arg(short = 'v', long = "v")]
    pub verbosity: Option<String>,
    /// Refused: ABAC is not implemented.
    #[arg(long)]
    pub authorization_policy_file: Option<PathBuf>,
    /// Refused: Webhook is not implemented.
    #[arg(long)]
    pub authorization_webhook_config_file: Option<PathBuf>,
    /// Refused: there is no audit log.
    #[arg(long)]
    pub audit_policy_file: Option<String>,
    /// Refused: there is no audit log.
    #[arg(long)]
    pub audit_log_path: Option<String>,
    /// Refused: there is no audit log.
    #[arg(long)]
    pub audit_log_maxage: Option<String>,
    /// Refused: there is no audit log.
    #[arg(long)]
    pub audit_log_maxbackup: Option<String>,
    /// Refused: there is no audit log.
    #[arg(long)]
    pub audit_log_maxsize: Option<String>,
    /// Refused: there is no audit log.
    #[arg(long)]
    pub audit_webhook_config_file: Option<String>,
}

/// Refuses flags that ask for a protection that is not implemented.
pub fn refuse_unprotected(flags: &Flags) -> Result<()> {
    let audit = [
        ("audit-policy-file", &flags.audit_policy_file),
        ("audit-log-path", &flags.audit_log_path),
        ("audit-log-maxage", &flags.audit_log_maxage),
        ("audit-log-maxbackup", &flags.audit_log_maxbackup),
        ("audit-log-maxsize", &flags.audit_log_maxsize),
        ("audit-webhook-config-file", &flags.audit_webhook_config_file),
    ];
    if let Some((name, _)) = audit.iter().find(|(_, value)| value.is_some()) {
        bail!("--{name}: Setpoint writes no audit log: leave the flag out to start without one");
    }
    if flags.service_account_issuer.as_deref() == Some("") {
        bail!("service-account-issuer should not be an empty string");
    }
    if !flags.allow_privileged {
        bail!("--allow-privileged=false: Setpoint does not refuse privileged containers: leave the flag out");
    }
    Ok(())
}

/// Parses a truth value as Go's `strconv.ParseBool` does.
pub fn go_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!("strconv.ParseBool: parsing {text:?}: invalid syntax")),
    }
}

#[cfg(test)]
pub fn parsed(flags: &[&str]) -> Flags {
    clap::Parser::parse_from([&["kube-apiserver"], flags].concat())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn what_asks_for_an_audit_log_or_refuses_privileged_pods_stops_the_start() {
        for flag in [
            "--audit-policy-file=x",
            "--audit-log-path=-",
            "--audit-log-maxage=1",
            "--audit-log-maxbackup=1",
            "--audit-log-maxsize=1",
            "--audit-webhook-config-file=x",
            "--service-account-issuer=",
            "--allow-privileged=false",
        ] {
            let said = refuse_unprotected(&parsed(&[flag])).unwrap_err().to_string();
            assert!(said.contains(flag.split_once('=').unwrap().0.trim_start_matches('-')), "{said}");
        }
        for flags in [&[][..], &["--allow-privileged=true"], &["--allow-privileged"]] {
            assert!(refuse_unprotected(&parsed(flags)).is_ok(), "{flags:?}");
        }
    }

    #[test]
    fn a_flag_that_is_not_implemented_is_not_taken() {
        for flag in [
            "--authorization-config=x",
            "--authentication-config=x",
            "--token-auth-file=x",
            "--encryption-provider-config=x",
            "--admission-control-config-file=x",
            "--tls-min-version=VersionTLS13",
            "--tls-cipher-suites=x",
            "--audit-log-mode=blocking",
            "--api-audiences=x",
            "--service-account-max-token-expiration=1h",
            "--kubelet-certificate-authority=x",
            "--oidc-issuer-url=x",
        ] {
            let refused = Flags::try_parse_from(["kube-apiserver", flag]).err().map(|error| error.kind());
            assert_eq!(refused, Some(clap::error::ErrorKind::UnknownArgument), "{flag}");
        }
    }

    #[test]
    fn truth_values_are_gos() {
        let flag = |value: &str| {
            let flags = Flags::try_parse_from(["kube-apiserver", &format!("--anonymous-auth={value}")]);
            flags.ok().map(|flags| flags.anonymous_auth)
        };
        assert_eq!((flag("F"), flag("1"), flag("perhaps")), (Some(false), Some(true), None));
        assert!(parsed(&[]).anonymous_auth && parsed(&["--anonymous-auth"]).anonymous_auth);
    }
}
