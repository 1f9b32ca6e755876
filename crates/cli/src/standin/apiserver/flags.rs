//! The flags of kube-apiserver that act.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{CommandFactory, FromArgMatches};

use super::table::{self, go_bool, go_duration};
use crate::limits::{GoDuration, RequestFlags};

/// The flags with an effect. [`table`] has all the others.
#[derive(clap::Parser, Debug)]
#[command(
    name = "kube-apiserver",
    about = "Setpoint's API server under kube-apiserver's flags.",
    args_override_self = true
)]
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
    /// The longest life of a token that a client asks for: 0, or between 1h and 2^32 seconds. A longer one is shortened.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = GoDuration::parse,
        allow_hyphen_values = true)]
    pub service_account_max_token_expiration: GoDuration,
    #[command(flatten)]
    pub requests: RequestFlags,
    /// Range of the cluster IPs.
    #[arg(long)]
    pub service_cluster_ip_range: Option<String>,
    /// The authorizers in their order: AlwaysAllow, AlwaysDeny, RBAC, Webhook, Node (which allows nothing). AlwaysAllow by
    /// default.
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
    /// A file with the settings of PodSecurity. Settings of another admission plugin stop the start.
    #[arg(long)]
    pub admission_control_config_file: Option<PathBuf>,
    /// Plugins to turn off.
    #[arg(long, value_delimiter = ',')]
    pub disable_admission_plugins: Vec<String>,
    /// Plugins to turn on. A plugin that would protect something and is not implemented stops the start.
    #[arg(long, value_delimiter = ',')]
    pub enable_admission_plugins: Vec<String>,
    /// The seconds for which pods stay on a node that is not ready, if they do not say it.
    #[arg(long, default_value_t = 300)]
    pub default_not_ready_toleration_seconds: i64,
    /// The seconds for which pods stay on a node that is unreachable, if they do not say it.
    #[arg(long, default_value_t = 300)]
    pub default_unreachable_toleration_seconds: i64,
    /// Features to turn on or off. A feature that protects something, or is unknown, stops the start unless Setpoint
    /// does the same.
    #[arg(long, value_delimiter = ',')]
    pub feature_gates: Vec<String>,
    /// APIs to serve. Turning one off stops the start.
    #[arg(long, value_delimiter = ',')]
    pub runtime_config: Vec<String>,
    /// Whether containers may be privileged.
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true, value_parser = go_bool,
        default_value = "false", default_missing_value = "true", action = clap::ArgAction::Set)]
    pub allow_privileged: bool,
    /// The etcd of `setpoint assets` tells its --quota-backend-bytes. Ignored otherwise: the store is part of this process.
    #[arg(long)]
    pub etcd_servers: Option<String>,
    /// Address of the endpoints of the Service kubernetes. Without it, the address that the server listens on.
    #[arg(long)]
    pub advertise_address: Option<IpAddr>,
    /// File with the serving certificate. Goes before the folder of --cert-dir.
    #[arg(long)]
    pub tls_cert_file: Option<PathBuf>,
    /// File with the key of the serving certificate.
    #[arg(long)]
    pub tls_private_key_file: Option<PathBuf>,
    /// File with bearer tokens: token, user, uid, and groups in one quoted column.
    #[arg(long)]
    pub token_auth_file: Option<PathBuf>,
    /// Kubeconfig of a webhook that authenticates bearer tokens.
    #[arg(long)]
    pub authentication_token_webhook_config_file: Option<PathBuf>,
    /// Version of the TokenReviews that the webhook speaks: v1 or v1beta1.
    #[arg(long, default_value = "v1beta1")]
    pub authentication_token_webhook_version: String,
    /// Time for which the server keeps the webhook's answers.
    #[arg(long, value_parser = go_duration, default_value = "2m0s")]
    pub authentication_token_webhook_cache_ttl: Duration,
    /// Kubeconfig of the webhook of the mode Webhook.
    #[arg(long)]
    pub authorization_webhook_config_file: Option<PathBuf>,
    /// Version of the SubjectAccessReviews that the webhook speaks: v1 or v1beta1.
    #[arg(long, default_value = "v1beta1")]
    pub authorization_webhook_version: String,
    /// Time for which the server keeps answers that allow a request.
    #[arg(long, value_parser = go_duration, default_value = "5m0s")]
    pub authorization_webhook_cache_authorized_ttl: Duration,
    /// Time for which the server keeps other answers.
    #[arg(long, value_parser = go_duration, default_value = "30s")]
    pub authorization_webhook_cache_unauthorized_ttl: Duration,
    /// Time for which Events are kept.
    #[arg(long, value_parser = go_duration, default_value = "1h0m0s")]
    pub event_ttl: Duration,
    /// Range of the node ports: first-last, both included.
    #[arg(long, value_parser = port_range, default_value = "30000-32767")]
    pub service_node_port_range: (u16, u16),
    /// Print the version of Kubernetes and end.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub version: Option<String>,
    /// The given flags without a field, with their values.
    #[arg(skip)]
    pub others: Vec<(&'static str, String)>,
}

impl Flags {
    /// Reads a command line. Its first word is the program.
    ///
    /// # Errors
    /// The text of clap, for the error output.
    pub fn read(line: impl IntoIterator<Item = OsString>) -> Result<Flags, clap::Error> {
        let own = Flags::command();
        let matches = table::complete(own.clone()).try_get_matches_from(line.into_iter().map(dashed))?;
        let mut flags = Flags::from_arg_matches(&matches)?;
        flags.others = table::given(&matches, &own);
        Ok(flags)
    }
}

/// Writes a flag with dashes: kube-apiserver takes underscores in its place.
fn dashed(word: OsString) -> OsString {
    let Some(flag) = word.to_str().and_then(|word| word.strip_prefix("--")) else { return word };
    let (name, value) = flag.split_at(flag.find('=').unwrap_or(flag.len()));
    format!("--{}{value}", name.replace('_', "-")).into()
}

/// A text that is no range of ports.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unable to parse port range: {0}")]
struct PortRangeError(String);

/// Parses a range of ports. `first+count` is another way to write one.
fn port_range(text: &str) -> Result<(u16, u16), PortRangeError> {
    let (first, last) = match (text.split_once('-'), text.split_once('+')) {
        (Some((first, last)), _) => (first.trim().parse().ok(), last.trim().parse().ok()),
        (None, Some((first, more))) => {
            let first: Option<u16> = first.trim().parse().ok();
            let more: Option<u16> = more.trim().parse().ok();
            (first, first.zip(more).and_then(|(first, more)| first.checked_add(more)))
        }
        (None, None) => (text.parse().ok(), text.parse().ok()),
    };
    match (first, last) {
        (Some(first), Some(last)) if 0 < first && first <= last => Ok((first, last)),
        _ => Err(PortRangeError(text.to_owned())),
    }
}

/// Refuses flags that ask for a protection that is not implemented. Returns warnings about flags without effect.
pub fn refuse_unprotected(flags: &Flags) -> Result<Vec<String>> {
    let warnings = table::check(&flags.others)?;
    if flags.service_account_issuer.as_deref() == Some("") {
        bail!("service-account-issuer should not be an empty string");
    }
    if flags.tls_cert_file.is_some() != flags.tls_private_key_file.is_some() {
        bail!("--tls-cert-file and --tls-private-key-file belong together");
    }
    Ok(warnings)
}

#[cfg(test)]
pub fn parsed(flags: &[&str]) -> Flags {
    Flags::read([&["kube-apiserver"], flags].concat().into_iter().map(OsString::from)).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_asks_for_an_audit_log_stops_the_start() {
        for flag in [
            "--audit-policy-file=x",
            "--audit-log-path=-",
            "--audit-log-maxage=1",
            "--audit-log-maxbackup=1",
            "--audit-log-maxsize=1",
            "--audit-webhook-config-file=x",
            "--service-account-issuer=",
        ] {
            let said = refuse_unprotected(&parsed(&[flag])).unwrap_err().to_string();
            assert!(said.contains(flag.split_once('=').unwrap().0.trim_start_matches('-')), "{said}");
        }
        assert!(refuse_unprotected(&parsed(&[])).is_ok());
    }

    #[test]
    fn a_flag_that_promises_what_is_not_here_stops_the_start() {
        for flag in [
            "--authorization-config=x",
            "--authentication-config=x",
            "--encryption-provider-config=x",
            "--tls-min-version=VersionTLS13",
            "--tls-cipher-suites=x",
            "--audit-log-mode=batch",
            "--api-audiences=x",
            "--kubelet-certificate-authority=x",
            "--oidc-issuer-url=x",
            "--authorization_policy_file=x",
        ] {
            let said = refuse_unprotected(&parsed(&[flag])).unwrap_err().to_string();
            let name = flag.split_once('=').unwrap().0.replace('_', "-");
            assert!(said.starts_with(&format!("{name}: ")), "{said}");
        }
        let unknown = Flags::read(["kube-apiserver", "--nope=x"].map(OsString::from));
        assert_eq!(unknown.err().map(|error| error.kind()), Some(clap::error::ErrorKind::UnknownArgument));
    }

    /// kro, cluster-api, kueue and others pass these.
    #[test]
    fn flags_that_tune_are_taken_however_often_they_come() {
        let flags = parsed(&[
            "--enable-priority-and-fairness=false",
            "--etcd-prefix=/x",
            "--etcd-servers=a",
            "--etcd_servers",
            "b",
            "--secure-port=1",
            "--secure-port=2",
            "-v",
            "5",
            "--v=6",
            "--vmodule=a=1",
            "--watch-cache",
            "--goaway-chance",
            "0.1",
        ]);
        assert_eq!(flags.secure_port, 2);
        assert_eq!(
            refuse_unprotected(&flags).unwrap(),
            [
                "--goaway-chance has no effect in Setpoint",
                "--enable-priority-and-fairness has no effect in Setpoint: requests beyond --max-requests-inflight are \
                 answered 429"
            ]
        );
    }

    #[test]
    fn ranges_of_ports_are_kube_apiservers() {
        assert_eq!(port_range("30000-32767"), Ok((30000, 32767)));
        assert_eq!(port_range("30000+10"), Ok((30000, 30010)));
        assert_eq!(port_range("30000"), Ok((30000, 30000)));
        for wrong in ["", "0", "2-1", "x-y", "65535+1", "70000"] {
            assert_eq!(port_range(wrong), Err(PortRangeError(wrong.to_owned())));
        }
    }

    #[test]
    fn truth_values_are_gos() {
        let flag = |value: &str| {
            let flags =
                Flags::read(["kube-apiserver", &format!("--anonymous-auth={value}")].map(OsString::from));
            flags.ok().map(|flags| flags.anonymous_auth)
        };
        assert_eq!((flag("F"), flag("1"), flag("perhaps")), (Some(false), Some(true), None));
        assert!(parsed(&[]).anonymous_auth && parsed(&["--anonymous-auth"]).anonymous_auth);
    }
}
