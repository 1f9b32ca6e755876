//! `setpoint controllers`: the built-in controllers and nodes alone, against any API server.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use base64::Engine;
use kube::Config;
use setpoint::program::Program;
use setpoint_apiserver::jwt::{self, SigningKey};
use setpoint_controllers::TokenSigner;
use setpoint_node::NodeOptions;
use setpoint_node::{API_SERVER, Serving, ServingOptions};

use super::nodes::{self, PodFolder};

/// The name of the nodes in `--only`.
const NODE: &str = "node";

const EXAMPLES: &str = "Examples:
  setpoint controllers --kubeconfig FILE
  setpoint controllers --kubeconfig FILE --only scheduler,node --images images.toml --client-ca-file ca.crt";

/// Run the built-in controllers, the scheduler and nodes against any API server.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Kubeconfig of the cluster.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Run only these, separated by commas: names of controllers (an unknown name lists all), gc for garbage, or node.
    #[arg(long, value_name = "NAMES")]
    only: Option<String>,
    /// Run without leader election. Use it only if no other process runs these controllers.
    #[arg(long)]
    no_leader_election: bool,
    /// PEM file of the cluster's CA certificate, which rootca publishes [default: the kubeconfig's].
    #[arg(long, value_name = "FILE")]
    root_ca_file: Option<PathBuf>,
    /// PEM file of the ECDSA P-256 key with which serviceaccount-token signs the tokens in Secrets. Without it that
    /// controller does not run.
    #[arg(long, value_name = "FILE")]
    service_account_private_key_file: Option<PathBuf>,
    #[command(flatten)]
    nodes: Nodes,
}

/// Flags of the nodes.
#[derive(clap::Args, Debug)]
struct Nodes {
    /// Number of nodes.
    #[arg(long, value_name = "N", default_value_t = 1)]
    nodes: u32,
    /// Number of the first node (setpoint-N). Use it if other processes have nodes in the same cluster.
    #[arg(long, value_name = "N", default_value_t = 0)]
    first_node: u32,
    /// Image table: the images that run as processes of this host, and their programs (TOML).
    #[arg(long, value_name = "FILE")]
    images: Option<PathBuf>,
    /// PEM file of the authority that signed the API server's client certificate, for logs, exec and port-forward
    /// [default: the kubeconfig's].
    #[arg(long, value_name = "FILE")]
    client_ca_file: Option<PathBuf>,
    /// Common name of that certificate. Other certificates of the authority are refused. Repeat the flag for several
    /// names.
    #[arg(long, value_name = "NAME", default_value = API_SERVER)]
    kubelet_client_name: Vec<String>,
    /// Address on which nodes serve logs, exec and port-forward to the API server.
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    node_ip: IpAddr,
    /// Port of the first node; the others follow. 0 takes free ports.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    node_port: u16,
    /// PEM file of the nodes' serving certificate [default: self-signed].
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,
    /// PEM file of the key of that certificate.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,
}

/// Runs until a signal.
pub async fn run(arguments: Arguments) -> Result<()> {
    let only =
        arguments.only.as_deref().map(|text| setpoint_controllers::parse_names(text, &[NODE])).transpose()?;
    let with_nodes = only.as_ref().is_none_or(|names| names.contains(NODE)) && arguments.nodes.nodes > 0;
    if let Some(flag) = arguments.nodes.given().filter(|_| !with_nodes) {
        bail!("{flag} has no effect without nodes: name `node` in --only, and do not set --nodes 0");
    }
    let program = Program::with(|program| {
        program.name = "setpoint-controllers".into();
        program.kubeconfig = arguments.kubeconfig.clone();
        program.leader_elect = !arguments.no_leader_election;
        program.leader_election_namespace = Some("kube-system".into());
    });
    let config = program.config().await?;
    let root_ca = match &arguments.root_ca_file {
        Some(path) => Some(read(path)?),
        None => authority(&config)?,
    };
    let token_signer = arguments.service_account_private_key_file.as_deref().map(token_signer).transpose()?;
    let options = setpoint_controllers::Options { only, root_ca, token_signer };
    let folder = PodFolder::make(None)?;
    let nodes = with_nodes.then(|| arguments.nodes.options(&config, &folder)).transpose()?;
    let register = |manager: &setpoint::Manager| {
        setpoint_controllers::register(manager, &options)?;
        match nodes {
            Some((nodes, Some(serving))) => {
                setpoint_node::register_serving(manager, nodes, serving).map(drop)
            }
            Some((nodes, None)) => setpoint_node::register(manager, nodes).map(drop),
            None => Ok(()),
        }
    };
    Ok(program.run(register).await?)
}

fn token_signer(path: &Path) -> Result<TokenSigner> {
    let key = SigningKey::from_pem(&read(path)?)?;
    Ok(TokenSigner::new(move |claims| jwt::sign(&key, claims)))
}

impl Nodes {
    /// Returns a flag that asks for something of the nodes.
    fn given(&self) -> Option<&'static str> {
        let flags = [
            ("--nodes", self.nodes > 1),
            ("--first-node", self.first_node > 0),
            ("--images", self.images.is_some()),
            ("--client-ca-file", self.client_ca_file.is_some()),
            ("--node-port", self.node_port > 0),
            ("--tls-cert-file", self.tls_cert_file.is_some()),
        ];
        flags.into_iter().find_map(|(flag, given)| given.then_some(flag))
    }

    fn options(&self, config: &Config, folder: &PodFolder) -> Result<(NodeOptions, Option<Serving>)> {
        let url = &config.cluster_url;
        let host = url.host().unwrap_or("localhost").trim_start_matches('[').trim_end_matches(']');
        let port = url.port_u16().unwrap_or(if url.scheme_str() == Some("http") { 80 } else { 443 });
        let options = NodeOptions {
            count: self.nodes,
            first: self.first_node,
            address: self.node_ip,
            images: nodes::image_table(self.images.as_deref())?,
            helper: Some(std::env::current_exe()?),
            folder: Some(folder.path.clone()),
            cluster: folder.cluster,
            environment: nodes::api_environment(host, port),
            ..NodeOptions::default()
        };
        let client_authority = match &self.client_ca_file {
            Some(path) => Some(read(path)?),
            None => authority(config)?,
        };
        let Some(client_authority) = client_authority else {
            tracing::warn!("no --client-ca-file: the API server cannot reach these nodes for logs or exec");
            return Ok((options, None));
        };
        let identity = match (&self.tls_cert_file, &self.tls_private_key_file) {
            (Some(certificate), Some(key)) => Some((read(certificate)?, read(key)?)),
            _ => None,
        };
        let client_names = self.kubelet_client_name.clone();
        let serving = ServingOptions { port: self.node_port, client_authority, client_names, identity };
        let serving = Serving::bind(&options, &serving)?;
        Ok((options, Some(serving)))
    }
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Returns the authority of the kubeconfig as PEM.
fn authority(config: &Config) -> Result<Option<String>> {
    if let Some(path) = &config.root_cert_file {
        return read(path).map(Some);
    }
    let block = |der: &Vec<u8>| {
        let text = base64::engine::general_purpose::STANDARD.encode(der);
        let lines: Vec<&str> =
            text.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
        format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
    };
    Ok(config.root_cert.as_ref().map(|certificates| certificates.iter().map(block).collect()))
}
