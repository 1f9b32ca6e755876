//! An operator as a process: where it finds its cluster, and what runs beside its controllers.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use http::header::USER_AGENT;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};

pub use crate::shutdown::Signals;

use crate::client::connect_with;
use crate::leader_election::LeaderElection;
use crate::manager::{Manager, ManagerError, ManagerOptions, SetupError};
use crate::user_agent::user_agent;

/// How an operator's process is run. Flags of a command line map to its fields one by one.
///
/// ```no_run
/// # async fn example() -> Result<(), setpoint::program::ProgramError> {
/// use setpoint::program::Program;
///
/// let program = Program::with(|program| {
///     program.name = "cafe".into();
///     program.leader_elect = true;
/// });
/// program.run(|manager| { let _ = manager; Ok(()) }).await
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Program {
    /// The operator's name: of its lease, in its events, as field owner.
    pub name: String,
    /// Its version, in the `User-Agent` of its requests.
    pub version: String,
    /// The kubeconfig to use; without one, what kube infers: `KUBECONFIG`, the service account of a pod.
    pub kubeconfig: Option<PathBuf>,
    /// Whether to compete for a lease, so that of several replicas one acts.
    pub leader_elect: bool,
    /// The lease's namespace; the namespace of the kubeconfig or pod when absent.
    pub leader_election_namespace: Option<String>,
    /// The address of the metrics.
    pub metrics_address: Option<SocketAddr>,
    /// The address of health and readiness.
    pub health_address: Option<SocketAddr>,
    /// The address of webhooks, if some are registered.
    #[cfg(feature = "webhooks")]
    pub webhook_address: Option<SocketAddr>,
    /// The address to serve on where one of the others says `0.0.0.0`: for a pod that shares its host's network.
    pub own_address: Option<IpAddr>,
}

impl Program {
    /// Returns the defaults after `change`. A struct literal does not compile, because fields may be added.
    pub fn with(change: impl FnOnce(&mut Self)) -> Self {
        let mut program = Self::default();
        change(&mut program);
        program
    }
}

/// Why an operator's process ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// The kubeconfig.
    #[error("kubeconfig: {0}")]
    Kubeconfig(#[from] kube::config::KubeconfigError),
    /// No way to a cluster.
    #[error("no cluster: {0}")]
    Infer(#[from] kube::config::InferConfigError),
    /// The client.
    #[error(transparent)]
    Client(#[from] kube::Error),
    /// A controller.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The manager.
    #[error(transparent)]
    Manager(#[from] ManagerError),
    /// The text to print has no such form.
    #[error("cannot print: {0}")]
    Print(String),
    /// Signals cannot be handled.
    #[error("signals: {0}")]
    Signals(#[from] std::io::Error),
}

impl Program {
    /// The configuration of the client: kube's own retries off, because informers and queues back off themselves.
    ///
    /// Dropping the future changes nothing.
    ///
    /// # Errors
    /// When there is no cluster to be found.
    pub async fn config(&self) -> Result<Config, ProgramError> {
        let mut config = match &self.kubeconfig {
            Some(path) => {
                let kubeconfig = Kubeconfig::read_from(path)?;
                Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?
            }
            None => Config::infer().await?,
        };
        config.default_retry = false;
        // For requests through kube's own client too.
        config.headers.push((USER_AGENT, user_agent(&self.name, &self.version)));
        Ok(config)
    }

    /// A manager for that cluster.
    ///
    /// Dropping the future changes nothing.
    ///
    /// # Errors
    /// When there is no cluster to be found.
    pub async fn manager(&self) -> Result<Manager, ProgramError> {
        self.manager_with(self.config().await?)
    }

    fn manager_with(&self, config: Config) -> Result<Manager, ProgramError> {
        let namespace =
            self.leader_election_namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let leader_election = self.leader_elect.then(|| LeaderElection::new(&namespace, &self.name));
        let options = ManagerOptions {
            name: self.name.clone(),
            version: self.version.clone(),
            leader_election,
            metrics_address: self.serving(self.metrics_address),
            health_address: self.serving(self.health_address),
            #[cfg(feature = "webhooks")]
            webhook_address: self.serving(self.webhook_address),
            ..ManagerOptions::default()
        };
        Ok(Manager::new(connect_with(config)?, options))
    }

    fn serving(&self, address: Option<SocketAddr>) -> Option<SocketAddr> {
        let address = address?;
        let own = self.own_address.filter(|_| address.ip().is_unspecified());
        Some(own.map_or(address, |own| SocketAddr::new(own, address.port())))
    }

    /// Registers controllers and runs them until SIGTERM or SIGINT.
    ///
    /// Dropping the future stops the operator at once, as [`Manager::run`] says.
    ///
    /// # Errors
    /// When it cannot start, or cannot go on.
    pub async fn run(
        &self,
        register: impl FnOnce(&Manager) -> Result<(), SetupError>,
    ) -> Result<(), ProgramError> {
        let manager = self.manager().await?;
        register(&manager)?;
        Ok(manager.run_until_signal().await?)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[test]
    fn everywhere_means_the_own_address_where_there_is_one() {
        let shared = Program { own_address: Some([127, 1, 0, 9].into()), ..Program::default() };
        let at = |text: &str| text.parse::<SocketAddr>().ok();
        assert_eq!(shared.serving(at("0.0.0.0:8081")), at("127.1.0.9:8081"));
        assert_eq!(shared.serving(at("127.0.0.1:8081")), at("127.0.0.1:8081"));
        assert_eq!(Program::default().serving(at("0.0.0.0:8081")), at("0.0.0.0:8081"));
        assert_eq!(shared.serving(None), None);
    }

    #[tokio::test]
    async fn its_metrics_name_the_server() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.read_u8().await.unwrap();
            stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").await.unwrap();
            stream
        };
        let config = Config::new(format!("http://{address}").parse().unwrap());
        let manager = Program::default().manager_with(config).unwrap();
        let client = manager.client();
        let live = client.live();
        let (_stream, answer) = tokio::join!(serve, live.get::<ConfigMap>(("default", "a")));
        assert!(answer.unwrap().is_none());
        let counted = format!(r#"rest_client_requests_total{{code="404",host="{address}",method="GET"}} 1"#);
        let metrics = manager.metrics().encode();
        assert!(metrics.contains(&counted), "{metrics}");
    }
}
