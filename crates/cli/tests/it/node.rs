//! A cluster with one node that runs programs.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, ServiceAccount};
use kube::api::{DeleteParams, LogParams, PostParams};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use setpoint_cluster::{Cluster, NodeOptions, Options};
use setpoint_node::ImageTable;
use setpoint_node::Listen;

/// The shell and its tools under names of the table, one image whose entry does not allow exec, and the viewer.
const IMAGES: &str = r#"
[[image]]
pattern = "shell"
trust = "host"
programs.sh = ["/bin/sh"]
programs.cat = ["/bin/cat"]
programs.test = ["/usr/bin/test"]
exec = true

[[image]]
pattern = "closed"
trust = "host"
programs.sh = ["/bin/sh"]

[[image]]
pattern = "viewer"
trust = "host"
programs.viewer = ["PROGRAM", "viewer"]
default = "viewer"

[[image]]
pattern = "script"
trust = "host"
programs.script = ["FOLDER/programs/script"]
default = "script"
"#;

/// Says how it was called.
const SCRIPT: &str = "#!/bin/sh\necho \"$0|$1|$2|$#\"; echo done; sleep 1000\n";

pub struct World {
    pub cluster: Cluster,
    pub client: Client,
    pub folder: tempfile::TempDir,
}

impl World {
    pub async fn start() -> World {
        World::listening(Listen::OwnAddress).await
    }

    pub async fn listening(listen: Listen) -> World {
        let folder = tempfile::tempdir().unwrap();
        let program = env!("CARGO_BIN_EXE_setpoint");
        let script = folder.path().join("programs/script");
        std::fs::create_dir(folder.path().join("programs")).unwrap();
        std::fs::write(&script, SCRIPT).unwrap();
        std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
        let images = IMAGES.replace("PROGRAM", program);
        let images = images.replace("FOLDER", folder.path().to_str().unwrap());
        let nodes = NodeOptions {
            images: ImageTable::parse(&images).unwrap(),
            helper: Some(PathBuf::from(program)),
            folder: Some(folder.path().to_path_buf()),
            // Tests run beside each other: each process has loopback addresses of its own.
            cluster: (std::process::id() % 15) as u8,
            listen,
            ..NodeOptions::default()
        };
        let cluster = Cluster::start(Options { nodes, ..Options::default() }).await.unwrap();
        let client = cluster.client();
        let world = World { cluster, client, folder };
        let accounts = world.api::<ServiceAccount>();
        let ready = world
            .cluster
            .eventually("the service account", async || accounts.get_opt("default").await.unwrap());
        ready.await.unwrap();
        world
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::default_namespaced(self.client.clone())
    }

    pub async fn create<K>(&self, object: Value) -> K
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope>
            + DeserializeOwned
            + serde::Serialize
            + Clone
            + std::fmt::Debug,
        K::DynamicType: Default,
    {
        let object: K = serde_json::from_value(object).unwrap();
        self.api().create(&PostParams::default(), &object).await.unwrap()
    }

    /// A pod of this spec.
    pub async fn pod(&self, name: &str, spec: Value) -> Pod {
        self.create(json!({"metadata": {"name": name}, "spec": spec})).await
    }

    /// A pod with one container that runs a shell script.
    pub async fn script(&self, name: &str, script: &str, more: Value) -> Pod {
        let mut container = json!({"name": "main", "image": "shell", "command": ["sh", "-c", script]});
        for (field, value) in more.as_object().into_iter().flatten() {
            container[field] = value.clone();
        }
        self.pod(name, json!({"terminationGracePeriodSeconds": 1, "containers": [container]})).await
    }

    /// Waits until the pod is so.
    pub async fn until(&self, name: &str, what: &str, is: impl Fn(&Pod) -> bool) -> Pod {
        let pods = self.api::<Pod>();
        let found =
            self.cluster.eventually(what, async || pods.get_opt(name).await.unwrap().filter(|pod| is(pod)));
        found.await.unwrap()
    }

    pub async fn until_ready(&self, name: &str) -> Pod {
        self.until(name, "ready", is_ready).await
    }

    pub async fn until_gone(&self, name: &str) {
        let pods = self.api::<Pod>();
        let gone = self
            .cluster
            .eventually("gone", async || pods.get_opt(name).await.unwrap().is_none().then_some(()));
        gone.await.unwrap();
    }

    pub async fn delete(&self, name: &str) {
        self.api::<Pod>().delete(name, &DeleteParams::default()).await.unwrap();
    }

    pub async fn logs(&self, name: &str, params: &LogParams) -> Result<String, kube::Error> {
        self.api::<Pod>().logs(name, params).await
    }

    /// Waits until the log has this.
    pub async fn until_logged(&self, name: &str, text: &str) -> String {
        let deadline = tokio::time::Instant::now() + setpoint_cluster::PATIENCE;
        loop {
            let log = self.logs(name, &LogParams::default()).await.unwrap_or_default();
            if log.contains(text) {
                return log;
            }
            assert!(tokio::time::Instant::now() < deadline, "no {text:?} in {log:?}");
            tokio::task::yield_now().await;
        }
    }

    /// The folder with a pod's files on the host.
    pub fn pod_folder(&self, pod: &Pod) -> PathBuf {
        self.folder.path().join("pods").join(pod.metadata.uid.as_deref().unwrap())
    }
}

pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

pub fn container(pod: &Pod, name: &str) -> ContainerStatus {
    let status = pod.status.clone().unwrap_or_default();
    let statuses = status.container_statuses.unwrap_or_default();
    statuses.into_iter().find(|status| status.name == name).unwrap_or_default()
}

/// The size of all files below a folder.
pub fn bytes_in(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| {
            let kind = entry.metadata().unwrap();
            if kind.is_dir() { bytes_in(&entry.path()) } else { kind.len() }
        })
        .sum()
}

/// Whether a process of that number runs.
pub fn runs(pid: &str) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // A zombie has ended.
    !state.is_empty() && !state.contains(") Z ")
}
