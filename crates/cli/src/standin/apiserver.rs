//! `kube-apiserver`: this cluster's server under the real one's flags, as far as envtest and its users set them.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use setpoint_cluster::{Cluster, Controllers, NodeOptions, Options, Serving};

/// Flags with effect first, then those that are taken and change nothing here.
#[derive(clap::Parser, Debug)]
#[command(name = "kube-apiserver", about = "Setpoint's API server under kube-apiserver's flags.")]
pub struct Flags {
    /// The folder with apiserver.crt and apiserver.key to serve with; made there when they are missing.
    #[arg(long)]
    pub cert_dir: Option<PathBuf>,
    /// The authority of client certificates.
    #[arg(long)]
    pub client_ca_file: Option<PathBuf>,
    /// The port to serve on.
    #[arg(long, default_value_t = 6443)]
    pub secure_port: u16,
    /// The address to serve on.
    #[arg(long, default_value = "127.0.0.1")]
    pub bind_address: IpAddr,
    /// The issuer of service-account tokens.
    #[arg(long)]
    pub service_account_issuer: Option<String>,
    /// Keys of service-account tokens to accept.
    #[arg(long)]
    pub service_account_key_file: Vec<PathBuf>,
    /// The key to sign service-account tokens with.
    #[arg(long)]
    pub service_account_signing_key_file: Option<PathBuf>,
    /// Where cluster IPs come from.
    #[arg(long)]
    pub service_cluster_ip_range: Option<String>,
    /// RBAC or AlwaysAllow.
    #[arg(long, default_value = "AlwaysAllow")]
    pub authorization_mode: String,
    /// Plugins to turn off: ServiceAccount has effect.
    #[arg(long)]
    pub disable_admission_plugins: Option<String>,
    /// Taken: the store is this process's own.
    #[arg(long)]
    pub etcd_servers: Option<String>,
    /// Taken.
    #[arg(long, num_args = 0..=1, default_missing_value = "true")]
    pub allow_privileged: Option<String>,
    /// Taken.
    #[arg(long)]
    pub enable_admission_plugins: Option<String>,
    /// Taken.
    #[arg(long)]
    pub feature_gates: Vec<String>,
    /// Taken.
    #[arg(long)]
    pub runtime_config: Vec<String>,
    /// Taken.
    #[arg(long)]
    pub advertise_address: Option<String>,
    /// Taken.
    #[arg(long)]
    pub audit_policy_file: Option<String>,
    /// Taken.
    #[arg(long)]
    pub audit_log_path: Option<String>,
    /// Taken.
    #[arg(long)]
    pub audit_log_maxage: Option<String>,
    /// Taken.
    #[arg(long)]
    pub audit_log_maxbackup: Option<String>,
    /// Taken.
    #[arg(long)]
    pub audit_log_maxsize: Option<String>,
    /// Taken.
    #[arg(long)]
    pub audit_webhook_config_file: Option<String>,
    /// Taken.
    #[arg(short = 'v', long = "v")]
    pub verbosity: Option<String>,
}

/// Serves until SIGTERM. `controllers` are those that `SETPOINT_CONTROLLERS` asks for.
pub async fn run(flags: Flags, controllers: Option<String>) -> Result<()> {
    let mut signals = setpoint::Signals::new()?;
    let read = |path: &Path| {
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
    };
    let names = controllers.map(|text| setpoint_controllers::parse_names(&text, &["node"])).transpose()?;
    let nodes = names.as_ref().is_some_and(|names| names.contains("node"));
    let mut options = Options {
        controllers: names.map_or(Controllers::None, |names| Controllers::Only(names.into_iter().collect())),
        nodes: NodeOptions { count: u32::from(nodes), ..NodeOptions::default() },
        rbac: flags.authorization_mode.split(',').any(|mode| mode == "RBAC"),
        service_account_admission: !flags
            .disable_admission_plugins
            .iter()
            .flat_map(|names| names.split(','))
            .any(|name| name == "ServiceAccount"),
        service_account_issuer: flags.service_account_issuer.clone(),
        prose: Some(crate::prose::tell),
        ..Options::default()
    };
    if let Some(range) = &flags.service_cluster_ip_range {
        options.service_cidr.clone_from(range);
    }
    if let Some(path) = &flags.service_account_signing_key_file {
        options.service_account_signing_key = Some(read(path)?);
    }
    for path in &flags.service_account_key_file {
        options.service_account_keys.push(read(path)?);
    }
    let serving = serving(&flags)?;
    let cluster = Cluster::start(options).await?;
    let address = SocketAddr::new(flags.bind_address, flags.secure_port);
    cluster.listen_with(address, serving).await?;
    signals.next().await;
    cluster.shutdown().await;
    Ok(())
}

/// The certificate of `--cert-dir` and the authority of `--client-ca-file`, where they are given.
fn serving(flags: &Flags) -> Result<Serving> {
    let mut serving = Serving::default();
    if let Some(folder) = &flags.cert_dir {
        let (certificate, key) = (folder.join("apiserver.crt"), folder.join("apiserver.key"));
        if certificate.is_file() && key.is_file() {
            let text = |path: &Path| std::fs::read_to_string(path);
            serving.identity = Some((text(&certificate)?, text(&key)?));
        }
    }
    if let Some(path) = &flags.client_ca_file {
        serving.client_authority = Some(std::fs::read_to_string(path)?);
    }
    Ok(serving)
}
