//! `setpoint load`: applies a folder in the order in which a cluster can take it.

mod manifests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::TryStreamExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams, WatchEvent, WatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::discovery::{self, ApiCapabilities, Scope};
use kube::{Api, Client, Config, ResourceExt};
use setpoint::program::Program;

use crate::named::{ClusterName, DEFAULT_NAME, Named};
use crate::output::say;
use manifests::Manifest;

const EXAMPLES: &str = "Examples:
  setpoint load manifests/
  setpoint load crd.yaml --name second
  setpoint load manifests/ --recursive --namespace team-a";

/// The field owner.
const OWNER: &str = "setpoint-load";
/// Time that a new definition may take to be served.
const ESTABLISHED: Duration = Duration::from_secs(30);
/// Pause between two looks at the discovery of a real cluster, which follows its definitions a moment later.
const DISCOVERED: Duration = Duration::from_millis(50);
/// The kubeconfig of a `setpoint up` in this folder.
const HERE: &str = ".setpoint/kubeconfig";

/// Apply the YAML and JSON files of a folder: namespaces, definitions (and waits until they are served), then the rest.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The folder, or one file.
    path: PathBuf,
    /// Also read the folders in it.
    #[arg(long, short = 'R')]
    recursive: bool,
    /// Kubeconfig of the cluster [default: $KUBECONFIG, else .setpoint/kubeconfig, else that of the cluster `default`;
    /// never ~/.kube/config].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The cluster, by its name.
    #[arg(long, conflicts_with = "kubeconfig")]
    name: Option<ClusterName>,
    /// Namespace of objects that name none [default: that of the kubeconfig].
    #[arg(long, short = 'n')]
    namespace: Option<String>,
    /// Take fields over from other owners.
    #[arg(long)]
    force_conflicts: bool,
}

/// Applies everything.
pub async fn run(arguments: Arguments) -> Result<()> {
    let began = Instant::now();
    let manifests = manifests::read(&arguments.path, arguments.recursive)?;
    let config = arguments.config().await?;
    eprintln!("applying {} objects to {}", manifests.len(), config.cluster_url);
    let mut loader = Loader {
        namespace: arguments.namespace.clone().unwrap_or_else(|| config.default_namespace.clone()),
        client: setpoint::client::connect_with(config)?,
        parameters: PatchParams { force: arguments.force_conflicts, ..PatchParams::apply(OWNER) },
        kinds: BTreeMap::new(),
    };
    for manifest in &manifests {
        let name = loader.apply(manifest).await.with_context(|| manifest.origin.clone())?;
        say(&format!("applied {name}"));
    }
    say(&format!("{} objects in {} ms", manifests.len(), began.elapsed().as_millis()));
    Ok(())
}

impl Arguments {
    async fn config(&self) -> Result<Config> {
        let environment = std::env::var_os("KUBECONFIG").is_some_and(|value| !value.is_empty());
        let kubeconfig = match (&self.kubeconfig, &self.name) {
            (Some(file), _) => Some(file.clone()),
            (None, Some(name)) => Some(Named::of(name.clone())?.running()?.kubeconfig),
            (None, None) if environment => None,
            (None, None) if Path::new(HERE).exists() => Some(HERE.into()),
            (None, None) => {
                let default = DEFAULT_NAME.parse().map_err(anyhow::Error::msg)?;
                Some(Named::of(default)?.running().context("no --kubeconfig, and none is found")?.kubeconfig)
            }
        };
        Ok(Program::with(|program| program.kubeconfig = kubeconfig).config().await?)
    }
}

struct Loader {
    client: Client,
    namespace: String,
    parameters: PatchParams,
    kinds: BTreeMap<String, (ApiResource, ApiCapabilities)>,
}

impl Loader {
    /// Applies one object. Returns its name for people.
    async fn apply(&mut self, manifest: &Manifest) -> Result<String> {
        let object: DynamicObject = serde_json::from_value(manifest.object.clone())?;
        let (resource, capabilities) = self.kind(&object).await?;
        let name = object.name_any();
        let (api, shown): (Api<DynamicObject>, String) = match capabilities.scope {
            Scope::Cluster => {
                (Api::all_with(self.client.clone(), &resource), format!("{}/{name}", resource.plural))
            }
            Scope::Namespaced => {
                let namespace = object.namespace().unwrap_or_else(|| self.namespace.clone());
                let shown = format!("{}/{name} in {namespace}", resource.plural);
                (Api::namespaced_with(self.client.clone(), &namespace, &resource), shown)
            }
        };
        api.patch(&name, &self.parameters, &Patch::Apply(&object)).await?;
        if resource.kind == "CustomResourceDefinition" {
            self.established(&name).await?;
        }
        Ok(shown)
    }

    async fn kind(&mut self, object: &DynamicObject) -> Result<(ApiResource, ApiCapabilities)> {
        let types = object.types.as_ref().context("no apiVersion and kind")?;
        let shown = format!("{} {}", types.api_version, types.kind);
        if let Some(known) = self.kinds.get(&shown) {
            return Ok(known.clone());
        }
        let kind = GroupVersionKind::try_from(types)?;
        let found = match discovery::pinned_kind(&self.client, &kind).await {
            Err(kube::Error::Discovery(_)) => bail!("the cluster has no kind {shown}"),
            Err(kube::Error::Api(status)) if status.code == 404 => bail!("the cluster has no kind {shown}"),
            found => found?,
        };
        self.kinds.insert(shown, found.clone());
        Ok(found)
    }

    /// Waits until a definition is established and discovery shows its versions.
    async fn established(&self, name: &str) -> Result<()> {
        let served = tokio::time::timeout(ESTABLISHED, self.served(name)).await;
        match served {
            Ok(served) => served,
            Err(_) => bail!("the definition is not established after {} s", ESTABLISHED.as_secs()),
        }
    }

    async fn served(&self, name: &str) -> Result<()> {
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let mut definition = api.get(name).await?;
        while !is_established(&definition) {
            let only = WatchParams::default().fields(&format!("metadata.name={name}"));
            let version = definition.resource_version().unwrap_or_default();
            let mut events = std::pin::pin!(api.watch(&only, &version).await?);
            while let Some(event) = events.try_next().await? {
                match event {
                    WatchEvent::Modified(changed) if is_established(&changed) => break,
                    WatchEvent::Error(_) => break,
                    _ => {}
                }
            }
            definition = api.get(name).await?;
        }
        let spec = &definition.spec;
        for version in spec.versions.iter().filter(|version| version.served) {
            let kind = GroupVersionKind::gvk(&spec.group, &version.name, &spec.names.kind);
            while discovery::pinned_kind(&self.client, &kind).await.is_err() {
                tokio::time::sleep(DISCOVERED).await;
            }
        }
        Ok(())
    }
}

fn is_established(definition: &CustomResourceDefinition) -> bool {
    let conditions = definition.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Established" && condition.status == "True")
}
