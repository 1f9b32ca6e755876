//! The workload behind the API: built-in controllers, scheduler and nodes, in one manager.

use setpoint::manager::LogTarget;
use setpoint::{Manager, ManagerOptions, SetupError};
use setpoint_api::{Clock, Random};
use setpoint_apiserver::jwt;
use setpoint_apiserver::{Parts, Server, UserInfo};
use setpoint_controllers::TokenSigner;
use tokio_util::sync::CancellationToken;

use crate::nodes::LocalNodes;
use crate::options::{Controllers, Options};
use crate::transport;

/// Returns the manager of a cluster's controllers and nodes, or `None` if it has none.
pub fn manager(
    server: &Server,
    clock: &Clock,
    random: &Random,
    options: &Options,
    nodes: &LocalNodes,
) -> Result<Option<Manager>, SetupError> {
    if options.controllers == Controllers::None && options.nodes.count == 0 {
        return Ok(None);
    }
    let client = transport::client(server, UserInfo::admin("system:kube-controller-manager"));
    let manager = Manager::new(
        client,
        ManagerOptions::with(|options| {
            options.name = "kube-controller-manager".into();
            options.log_target = LogTarget::BuiltIn;
            options.clock = clock.clone();
            options.random = random.clone();
        }),
    );
    let only = match &options.controllers {
        Controllers::All => None,
        Controllers::None => Some(Default::default()),
        Controllers::Only(names) => Some(names.iter().cloned().collect()),
    };
    let root_ca = server.options().ca_certificate.clone();
    let key = server.options().service_accounts.signing.clone();
    let token_signer = key.map(|key| TokenSigner::new(move |claims| jwt::sign(&key, claims)));
    setpoint_controllers::register(&manager, &setpoint_controllers::Options { only, root_ca, token_signer })?;
    if options.nodes.count > 0 {
        nodes.serve(setpoint_node::register(&manager, options.nodes.clone())?);
    }
    Ok(Some(manager))
}

/// Returns the parts of the control plane that run here.
pub fn parts(options: &Options) -> Parts {
    match &options.controllers {
        Controllers::All => Parts { scheduler: true, controllers: true },
        Controllers::None => Parts::default(),
        Controllers::Only(names) => {
            let is_controller = |name: &String| !matches!(name.as_str(), "scheduler" | "node");
            let scheduler = names.iter().any(|name| name == "scheduler");
            Parts { scheduler, controllers: names.iter().any(is_controller) }
        }
    }
}

/// Returns the name of the volume provisioner, if one runs.
pub fn storage_provisioner(options: &Options) -> Option<String> {
    let runs = match &options.controllers {
        Controllers::All => true,
        Controllers::None => false,
        Controllers::Only(names) => names.iter().any(|name| name == "persistentvolume-provisioner"),
    };
    runs.then(|| setpoint_controllers::PROVISIONER.to_owned())
}

/// Runs the manager until the cluster stops.
pub async fn run(manager: Manager, stop: CancellationToken) {
    if let Err(error) = manager.run(stop.cancelled()).await {
        tracing::error!(%error, "the built-in controllers stopped");
    }
}
