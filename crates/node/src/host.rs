//! The nodes' pods behind the kubelet's paths.

use std::io;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use serde_json::{Value, json};
use setpoint::Key;
use tokio::net::TcpStream;

use crate::address::PodPorts;
use crate::image::Image;
use crate::kubelet::port_forward::Dial;
use crate::kubelet::service::{ContainerName, Host, HostError, LogSource, Service};
use crate::pods::Pods;
use crate::process::attach::Attachment;
use crate::process::exec::ExecCommand;
use crate::process::reconcile::is_process;
use crate::status::last_end;

impl Dial for PodPorts {
    type Io = TcpStream;

    async fn dial(&self, port: u16) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(self.place(port)?).await?;
        // Interactive traffic passes here, so small pieces should be sent at once.
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }
}

/// The pods of one node. Clones share them.
#[derive(Clone)]
pub struct NodePods {
    pods: Pods,
    node: u32,
}

impl NodePods {
    /// Returns the kubelet's HTTP service of a node, if the node is one of this process. Its sessions end with it.
    pub fn kubelet(pods: &Pods, node: &str) -> Option<Service<NodePods>> {
        let index = pods.options().index(node)?;
        Some(Service::new(NodePods { pods: pods.clone(), node: index }, pods.clock().clone()))
    }

    fn find(&self, name: &ContainerName) -> Result<(Key, std::sync::Arc<Pod>), HostError> {
        let key = Key::new(Some(&name.namespace), &name.pod);
        let pod = self.pods.pod(&key).filter(|pod| self.pods.node_of(pod) == Some(self.node));
        let pod = pod.ok_or_else(|| HostError::NotFound(format!("pod {key} is not on this node")))?;
        Ok((key, pod))
    }
}

impl NodePods {
    /// Returns the image-table entry of a container, or `None` if the container is simulated.
    fn entry(&self, pod: &Pod, name: &ContainerName) -> Option<&Image> {
        let spec = pod.spec.as_ref()?;
        let mut containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
        let container = containers.find(|container| container.name == name.container)?;
        self.pods.options().images.find(container.image.as_deref().unwrap_or_default())
    }
}

impl Host for NodePods {
    type Dial = PodPorts;

    fn pods(&self) -> Value {
        let mut items: Vec<Value> =
            self.pods.of_node(self.node).iter().filter_map(|pod| serde_json::to_value(&**pod).ok()).collect();
        for item in &mut items {
            // Items of a list carry no type of their own.
            if let Some(fields) = item.as_object_mut() {
                fields.remove("apiVersion");
                fields.remove("kind");
            }
        }
        json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items})
    }

    fn log(&self, name: &ContainerName, previous: bool) -> Result<LogSource, HostError> {
        let (key, pod) = self.find(name)?;
        let status = status_of(&pod, &name.container);
        let gone = || {
            HostError::NotYet(format!(
                "previous terminated container {:?} in pod {:?} not found",
                name.container, name.pod
            ))
        };
        if previous && status.as_ref().is_none_or(|status| last_end(status).is_none()) {
            return Err(gone());
        }
        if let Some(processes) =
            self.pods.processes().filter(|_| is_process(&pod, &self.pods.options().images))
        {
            // Between two runs, the last run is both the previous and the newest one.
            let waiting = status.as_ref().is_some_and(|status| is_waiting(status).is_some());
            return match processes.log(&key, &name.container, previous && !waiting) {
                Some(log) => Ok(LogSource::File(log)),
                None if previous => Err(gone()),
                None => Err(not_started(name, status.as_ref())),
            };
        }
        match status {
            Some(status) if is_waiting(&status).is_some() && last_end(&status).is_none() => {
                Err(not_started(name, Some(&status)))
            }
            Some(status) => Ok(LogSource::Lines(lifecycle(&status, previous))),
            None => Err(not_started(name, None)),
        }
    }

    fn exec(&self, name: &ContainerName, command: &[String]) -> Result<ExecCommand, HostError> {
        let (key, pod) = self.find(name)?;
        let Some(entry) = self.entry(&pod, name) else {
            return Err(HostError::Refused(format!(
                "container {} is simulated: there is no program to run {command:?} beside",
                name.container
            )));
        };
        if !entry.exec {
            return Err(HostError::Refused(format!(
                "the image table does not allow exec for {}",
                entry.pattern
            )));
        }
        let command = entry.command(command, &[]).map_err(|error| HostError::Refused(error.to_string()))?;
        let processes = self.pods.processes();
        let exec = processes.and_then(|processes| processes.exec(&key, &name.container, command));
        exec.ok_or_else(|| HostError::NotFound(format!("container not found ({:?})", name.container)))
    }

    fn attach(&self, name: &ContainerName) -> Result<Attachment, HostError> {
        let (key, pod) = self.find(name)?;
        if self.entry(&pod, name).is_none() {
            return Err(HostError::Refused(format!(
                "container {} is simulated: there is no program to attach to",
                name.container
            )));
        }
        let attachment = self.pods.processes().and_then(|processes| processes.attach(&key, &name.container));
        attachment.ok_or_else(|| HostError::NotFound(format!("container not found ({:?})", name.container)))
    }

    fn dial(&self, name: &ContainerName) -> Result<PodPorts, HostError> {
        let (key, _) = self.find(name)?;
        let ports = self.pods.processes().and_then(|processes| processes.ports(&key));
        Ok(ports.unwrap_or(PodPorts::None))
    }
}

fn status_of(pod: &Pod, container: &str) -> Option<ContainerStatus> {
    let status = pod.status.as_ref()?;
    let all = [&status.container_statuses, &status.init_container_statuses];
    all.into_iter().flatten().flatten().find(|status| status.name == container).cloned()
}

/// Returns the reason for which a container waits, if it waits.
fn is_waiting(status: &ContainerStatus) -> Option<&str> {
    let waiting = status.state.as_ref()?.waiting.as_ref()?;
    Some(waiting.reason.as_deref().unwrap_or_default())
}

fn not_started(name: &ContainerName, status: Option<&ContainerStatus>) -> HostError {
    let reason = status.and_then(is_waiting).unwrap_or("ContainerCreating");
    let (container, pod) = (&name.container, &name.pod);
    HostError::NotYet(format!("container {container:?} in pod {pod:?} is waiting to start: {reason}"))
}

/// A simulated container has no output. Its log describes its life.
fn lifecycle(status: &ContainerStatus, previous: bool) -> Vec<u8> {
    let state = if previous { status.last_state.as_ref() } else { status.state.as_ref() };
    let mut lines = String::new();
    let mut line = |time: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Time, text: String| {
        lines.push_str(&format!("{:.9} stdout F {text}\n", time.0));
    };
    if let Some(time) = state.and_then(|state| state.running.as_ref()?.started_at.as_ref()) {
        line(time, format!("simulated container {} started (restart {})", status.name, status.restart_count));
    }
    if let Some(end) = state.and_then(|state| state.terminated.as_ref()) {
        if let Some(time) = &end.started_at {
            line(time, format!("simulated container {} started", status.name));
        }
        if let Some(time) = &end.finished_at {
            line(time, format!("simulated container {} ended with code {}", status.name, end.exit_code));
        }
    }
    lines.into_bytes()
}
