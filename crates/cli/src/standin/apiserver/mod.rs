//! `kube-apiserver`: this cluster's server with the real one's flags, as far as envtest and its users set them.

mod admission;
mod admission_configuration;
mod authorization;
mod features;
mod proxy;
mod quota;
mod token_life;
mod token_file;
mod webhooks;
mod flags;
mod table;

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result};
use setpoint_cluster::{Cluster, Controllers, NodeOptions, Options, Serving};

pub use flags::Flags;

/// Serves until SIGTERM. `controllers` is the value of `SETPOINT_CONTROLLERS`.
pub async fn run(flags: Flags, controllers: Option<String>) -> Result<()> {
    let mut signals = setpoint::program::Signals::new()?;
    let (mut options, warnings) = options(&flags, controllers)?;
    options.token_webhook = webhooks::token_webhook(&flags).await?;
    options.access_webhook = webhooks::access_webhook(&flags).await?;
    for warning in warnings {
        eprintln!("kube-apiserver: warning: {warning}");
    }
    let serving = serving(&flags)?;
    options.quota_bytes = quota::of_etcd(flags.etcd_servers.as_deref()).await;
    let cluster = Cluster::start(options).await?;
    let address = SocketAddr::new(flags.bind_address, flags.secure_port);
    cluster.listen_with(address, serving).await?;
    signals.next().await;
    cluster.shutdown().await;
    Ok(())
}

/// Returns the cluster that the flags ask for, and warnings about flags without effect. A flag that would protect
/// something acts or is an error: a server that starts without the protection looks like one that has it.
fn options(flags: &Flags, controllers: Option<String>) -> Result<(Options, Vec<String>)> {
    let mut warnings = flags::refuse_unprotected(flags)?;
    warnings.extend(features::check(flags)?);
    features::check_apis(flags)?;
    let authorization = authorization::authorizers(flags)?;
    warnings.extend(authorization::warnings(flags, &authorization));
    let plugins = admission::plugins(flags)?;
    warnings.extend(plugins.warnings);
    let (front_proxy, more) = proxy::front_proxy(flags)?;
    warnings.extend(more);
    let read = |path: &Path| {
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
    };
    let names = controllers.map(|text| setpoint_controllers::parse_names(&text, &["node"])).transpose()?;
    let nodes = names.as_ref().is_some_and(|names| names.contains("node"));
    let mut options = Options {
        controllers: names.map_or(Controllers::None, |names| Controllers::Only(names.into_iter().collect())),
        nodes: NodeOptions { count: u32::from(nodes), ..NodeOptions::default() },
        authorization,
        anonymous: flags.anonymous_auth,
        event_ttl: flags.event_ttl,
        node_ports: flags.service_node_port_range,
        front_proxy,
        admission: plugins.admission,
        allow_privileged: flags.allow_privileged,
        requests: flags.requests.limits()?,
        max_token_life: token_life::longest_life(flags)?,
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
    if let Some(path) = &flags.token_auth_file {
        let (tokens, more) = token_file::tokens(path)?;
        options.tokens = tokens;
        warnings.extend(more);
    }
    for path in &flags.service_account_key_file {
        options.service_account_keys.push(read(path)?);
    }
    Ok((options, warnings))
}

/// Reads the serving certificate and the authority of `--client-ca-file`, if the flags name them.
fn serving(flags: &Flags) -> Result<Serving> {
    let mut serving = Serving { advertise: flags.advertise_address, ..Serving::default() };
    if let (Some(certificate), Some(key)) = (&flags.tls_cert_file, &flags.tls_private_key_file) {
        let read = |path: &Path| {
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
        };
        serving.identity = Some((read(certificate)?, read(key)?));
    } else if let Some(folder) = &flags.cert_dir {
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

#[cfg(test)]
mod tests {
    use setpoint_cluster::{Authorization, Plugin};

    use super::flags::parsed;
    use super::*;

    /// The flags that controller-runtime's envtest passes, and further flags of the user.
    #[test]
    fn the_flags_of_envtest_start_a_server_with_rbac_and_without_the_service_account_plugin() {
        let flags = parsed(&[
            "--allow-privileged=true",
            "--authorization-mode=RBAC",
            "--bind-address=127.0.0.1",
            "--disable-admission-plugins=ServiceAccount",
            "--etcd-servers=http://127.0.0.1:2379",
            "--secure-port=41443",
            "--service-account-issuer=https://127.0.0.1:41443/",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--enable-admission-plugins=MutatingAdmissionWebhook,ValidatingAdmissionWebhook",
            "--feature-gates=WatchList=true",
            "--runtime-config=api/all=true",
        ]);
        let (options, warnings) = options(&flags, None).unwrap();
        assert!(warnings.is_empty(), "{warnings:?}");
        assert_eq!(options.authorization, [Authorization::Rbac]);
        assert!(options.allow_privileged);
        assert!(
            options.anonymous
                && !options.admission.is_on(Plugin::ServiceAccount)
                && options.front_proxy.is_none()
        );
    }

    #[test]
    fn what_a_flag_does_not_do_here_is_said() {
        let (options, warnings) = options(&parsed(&["--authorization-mode=Node,RBAC"]), None).unwrap();
        assert_eq!(options.authorization, [Authorization::Node, Authorization::Rbac]);
        assert_eq!(warnings, ["the Node authorizer is not implemented in Setpoint: it allows nothing"]);
        let (options, warnings) = super::options(&parsed(&["--anonymous-auth=false"]), None).unwrap();
        assert!(!options.anonymous && warnings.is_empty());
        let (_, warnings) = super::options(&parsed(&[]), None).unwrap();
        assert!(warnings[0].starts_with("AnonymousAuth is not allowed with the AlwaysAllow"), "{warnings:?}");
    }
}
