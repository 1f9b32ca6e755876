//! Events about pods, with the words and the form of a kubelet's events.

use k8s_openapi::api::core::v1::{ContainerStatus, ObjectReference, Pod, PodStatus};
use setpoint::recorder::EventType;
use setpoint::recorder::{EventApi, reference};
use setpoint::{Manager, Recorder};

use crate::status;

/// Returns a recorder like a kubelet's: each event has the pod's node as its host.
pub(crate) fn recorder(manager: &Manager) -> Recorder {
    manager.recorder("kubelet").with_api(EventApi::CoreV1)
}

/// Writes events about one pod.
pub(crate) struct PodEvents<'a> {
    recorder: Recorder,
    pod: &'a Pod,
}

impl<'a> PodEvents<'a> {
    /// Writes as the pod's node.
    pub(crate) fn of(recorder: &Recorder, pod: &'a Pod) -> Self {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
        PodEvents { recorder: recorder.with_host(node), pod }
    }

    /// Writes a warning about the whole pod.
    pub(crate) fn warning(&self, reason: &str, message: impl Into<String>) {
        self.recorder.warning(self.pod, reason, message);
    }

    /// Writes the event of a pod that was active for too long.
    pub(crate) fn expired(&self) {
        self.recorder.normal(self.pod, status::DEADLINE_EXCEEDED, status::DEADLINE_EXCEEDED_MESSAGE);
    }

    /// Writes an event about one container.
    pub(crate) fn container(&self, kind: EventType, name: &str, reason: &str, message: String) {
        let regarding = container_reference(self.pod, name);
        self.recorder.publish(kind, regarding, None, reason, reason, message);
    }

    /// Writes the events of a normal start: image pulled, container created and started.
    pub(crate) fn started(&self, name: &str, image: &str) {
        let present =
            format!("Container image {image:?} already present on machine and can be accessed by the pod");
        self.container(EventType::Normal, name, "Pulled", present);
        self.container(EventType::Normal, name, "Created", "Container created".to_owned());
        self.container(EventType::Normal, name, "Started", "Container started".to_owned());
    }

    /// Writes an event for each container in back-off.
    pub(crate) fn back_off(&self) {
        let Some(status) = &self.pod.status else { return };
        for container in backing_off(status) {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            let meta = &self.pod.metadata;
            let (pod, namespace, uid) = (text(&meta.name), text(&meta.namespace), text(&meta.uid));
            let name = &container.name;
            let message =
                format!("Back-off restarting failed container {name} in pod {pod}_{namespace}({uid})");
            self.container(EventType::Warning, name, "BackOff", message);
        }
    }

    /// Writes the event for a container that ends because its image was changed.
    pub(crate) fn redefined(&self, name: &str) {
        let message = format!("Container {name} definition changed, will be restarted");
        self.container(EventType::Normal, name, "Killing", message);
    }
}

/// Returns the containers of a pod that are in back-off.
pub(crate) fn backing_off(status: &PodStatus) -> impl Iterator<Item = &ContainerStatus> {
    let all = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
    all.filter(|container| {
        let waiting = container.state.as_ref().and_then(|state| state.waiting.as_ref());
        waiting.is_some_and(|waiting| waiting.reason.as_deref() == Some("CrashLoopBackOff"))
    })
}

fn container_reference(pod: &Pod, name: &str) -> ObjectReference {
    let init = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let list = if init.into_iter().any(|init| init.name == name) { "initContainers" } else { "containers" };
    ObjectReference { field_path: Some(format!("spec.{list}{{{name}}}")), ..reference(pod) }
}
