//! The nodes' pods behind the kubelet's paths.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use serde_json::{Value, json};
use setpoint::Key;
use tokio::net::TcpStream;

use crate::kubelet::exec::ExecCommand;
use crate::kubelet::port_forward::Dial;
use crate::kubelet::service::{ContainerName, Host, HostError, LogSource};
use crate::pods::Pods;
use crate::process::reconcile::is_process;

/// The way to the ports of one pod.
#[derive(Clone, Copy, Debug)]
pub struct PodPorts(Option<Ipv4Addr>);

impl Dial for PodPorts {
    type Io = TcpStream;

    async fn dial(&self, port: u16) -> io::Result<TcpStream> {
        match self.0 {
            Some(address) => TcpStream::connect(SocketAddr::new(address.into(), port)).await,
            None => Err(io::Error::new(
                io::ErrorKind::ConnectionRefused,
                "the pod is simulated: no program listens behind it",
            )),
        }
    }
}

/// The pods of one node. Clones are the same.
#[derive(Clone)]
pub struct NodePods {
    pub(crate) pods: Pods,
    pub(crate) node: u32,
}

impl NodePods {
    fn find(&self, name: &ContainerName) -> Result<(Key, std::sync::Arc<Pod>), HostError> {
        let key = Key::new(Some(&name.namespace), &name.pod);
        let pod = self.pods.pod(&key).filter(|pod| self.pods.node_of(pod) == Some(self.node));
        let pod = pod.ok_or_else(|| HostError::NotFound(format!("pod {key} is not on this node")))?;
        Ok((key, pod))
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
        if let Some(processes) =
            self.pods.processes().filter(|_| is_process(&pod, &self.pods.options().images))
        {
            return match processes.log(&key, &name.container, previous) {
                Some(log) => Ok(LogSource::File(log)),
                None if previous => Err(HostError::NotFound(format!(
                    "previous terminated container {:?} in pod {:?} not found",
                    name.container, name.pod
                ))),
                None => Ok(LogSource::Lines(Vec::new())),
            };
        }
        let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
        let status = statuses.into_iter().find(|status| status.name == name.container);
        Ok(LogSource::Lines(status.map(|status| lifecycle(status, previous)).unwrap_or_default()))
    }

    fn exec(&self, name: &ContainerName, command: &[String]) -> Result<ExecCommand, HostError> {
        let (key, pod) = self.find(name)?;
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        let container = containers.into_iter().find(|container| container.name == name.container);
        let image = container.and_then(|container| container.image.clone()).unwrap_or_default();
        let Some(entry) = self.pods.options().images.find(&image) else {
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
        let processes =
            self.pods.processes().ok_or_else(|| HostError::Refused("no process containers here".into()))?;
        let running = processes.process(&key, &name.container);
        let (join, environment) = running
            .ok_or_else(|| HostError::NotFound(format!("container not found ({:?})", name.container)))?;
        Ok(ExecCommand { helper: processes.helper().clone(), join, command, environment })
    }

    fn dial(&self, name: &ContainerName) -> Result<PodPorts, HostError> {
        let (key, _) = self.find(name)?;
        Ok(PodPorts(self.pods.processes().and_then(|processes| processes.address(&key))))
    }
}

/// A simulated container has no output; its log tells its life.
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
