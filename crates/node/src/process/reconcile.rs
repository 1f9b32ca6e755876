//! One reconcile of a process pod: its volumes, its containers, its status.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    ConfigMap, Container, PersistentVolume, PersistentVolumeClaim, Pod, Secret, Service, ServiceAccount,
};
use kube::ResourceExt;
use serde_json::{Value, json};
use setpoint::recorder::EventType;
use setpoint::{Client, Context, Error, Key, Query};

use super::container::Input;
use super::environment::{References, environment, expand};
use super::init::Launch;
use super::mount_guard::MountGuard;
use super::mounts::{self, MountError, Tokens};
use super::plan::{ProcessPlan, is_sidecar, plan};
use super::pods::{ProcessPods, deadline};
use super::probing::Probes;
use super::root::{Mount, View};
use super::running::Message;
use super::start::{Start, StartKind};
use super::{lasting, loader_variables, own_folder, program, service_links, trust_bundle, volume};
use crate::address::{Listen, PodPorts, loopback};
use crate::annotation::Script;
use crate::events::PodEvents;
use crate::image::{Image, ImageError, ImageTable};
use crate::options::NodeOptions;
use crate::plain_file;
use crate::probe::{Check, Schedule, schedule};
use crate::simulated::Plan;
use crate::status::{self, Addresses};

/// A stored token that is longer is cut, and therefore requested again.
const TOKEN_BYTES: u64 = 64 * 1024;

/// Interval at which the trust anchors of a pod are read again. No watch tells of their changes: it would cost every
/// cluster, and few pods use them.
const TRUST_BUNDLE_LOOK: jiff::SignedDuration = jiff::SignedDuration::from_secs(60);

/// Whether any container of the pod runs as a process.
pub fn is_process(pod: &Pod, images: &ImageTable) -> bool {
    let containers =
        pod.spec.iter().flat_map(|spec| spec.containers.iter().chain(spec.init_containers.iter().flatten()));
    containers.filter_map(|container| container.image.as_deref()).any(|image| images.find(image).is_some())
}

/// The inputs of one reconcile of a pod, beside the pod.
pub struct PodReconcile<'a> {
    /// The process pods.
    pub pods: &'a ProcessPods,
    /// The node's options.
    pub options: &'a NodeOptions,
    /// The pod's addresses in the cluster.
    pub addresses: &'a Addresses,
    /// Behaviour of the pod's simulated containers.
    pub script: Script,
    /// The time.
    pub now: Timestamp,
}

impl PodReconcile<'_> {
    /// Advances the pod. Returns the status to write.
    pub async fn run(&self, ctx: &Context, key: &Key, pod: &Pod) -> Result<Plan, Error> {
        if pod.metadata.deletion_timestamp.is_some() {
            return Ok(self.terminate(key, pod));
        }
        if is_finished(pod) {
            // Containers that still run (sidecars) end with the others.
            self.pods.stop(key, true);
            return Ok(Plan::default());
        }
        if let Some(end) = status::active_until(pod).filter(|end| *end <= self.now) {
            return Ok(self.expire(key, pod, end));
        }
        self.admit(key, pod)?;
        self.pods.redefine(key, pod, grace(pod));
        let mut references = self.references(ctx.client(), pod).await?;
        let (tokens, renew_at) = self.tokens(ctx.client(), pod).await?;
        // Files and variables may contain the pod's address, which its status lacks before the first start.
        let mut addressed = pod.clone();
        status::addresses(addressed.status.get_or_insert_default(), self.addresses);
        let ready = self.write_volumes(ctx, &addressed, &references, &tokens);
        let mut planned = plan(pod, &self.pods.runs(key), self.addresses, self.now);
        if ready && !planned.start.is_empty() {
            references.services = self.services(ctx.client(), pod).await?;
            for name in std::mem::take(&mut planned.start) {
                self.start(ctx, key, &addressed, &name, &references);
            }
            planned = ProcessPlan {
                start: Vec::new(),
                ..plan(pod, &self.pods.runs(key), self.addresses, self.now)
            };
        }
        // The arrival of a missing object wakes the pod. A disk error does not, so look again after a pause.
        let unmounted = (!ready).then(|| self.now + jiff::SignedDuration::from_secs(10));
        let until = status::active_until(pod);
        let anchors = trust_bundle::wants(pod).then(|| self.now + TRUST_BUNDLE_LOOK);
        let others = renew_at.into_iter().chain(unmounted).chain(until).chain(anchors);
        let again_at = planned.again_at.into_iter().chain(others).min();
        Ok(Plan { status: planned.status, again_at, ..Plan::default() })
    }

    async fn references(&self, client: &Client, pod: &Pod) -> Result<References, Error> {
        let names = mounts::references(pod);
        let namespace = pod.namespace().unwrap_or_default();
        let capacity = self.options.capacity.clone();
        let mut references = References { capacity, ..References::default() };
        for name in names.config_maps {
            if let Some(found) = client.get::<ConfigMap>((namespace.as_str(), name.as_str())).await? {
                references.config_maps.insert(name, found);
            }
        }
        for name in names.secrets {
            if let Some(found) = client.get::<Secret>((namespace.as_str(), name.as_str())).await? {
                references.secrets.insert(name, found);
            }
        }
        if trust_bundle::wants(pod) {
            references.trust_bundles = trust_bundle::list(client).await?;
        }
        for volume in pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()) {
            let Some(name) = lasting::claim_name(pod, volume) else { continue };
            let claim = client.get::<PersistentVolumeClaim>((namespace.as_str(), name.as_str())).await?;
            let Some(claim) = claim else { continue };
            let bound = match lasting::owned(pod, volume, &claim) {
                Err(error) => Err(error),
                Ok(()) => {
                    let Some(bound) = lasting::volume_name(&claim) else { continue };
                    let found = match own_folder::is_name(bound) {
                        true => client.get::<PersistentVolume>(bound).await?,
                        false => None,
                    };
                    lasting::bound(&claim, bound, found.as_deref())
                }
            };
            references.volumes.insert(volume.name.clone(), bound);
        }
        Ok(references)
    }

    /// Returns the variables by which the pod's containers find Services.
    async fn services(&self, client: &Client, pod: &Pod) -> Result<BTreeMap<String, String>, Error> {
        let near = Query::namespace(pod.namespace().unwrap_or_default());
        let near = client.list::<Service>(near).await?;
        let master = client.get::<Service>((service_links::MASTER_NAMESPACE, service_links::MASTER)).await?;
        Ok(service_links::variables(pod, near.iter().map(|service| &**service), master.as_deref()))
    }

    fn admit(&self, key: &Key, pod: &Pod) -> Result<(), Error> {
        let known = self.pods.ports(key);
        let ports = match known {
            Some(ports) => ports,
            None => self.ports(pod)?,
        };
        self.pods.make_folder(&pod.uid().unwrap_or_default())?;
        self.pods.admit(key, pod, ports, mounts::references(pod));
        Ok(())
    }

    /// Returns the addresses on which the pod's programs will listen.
    fn ports(&self, pod: &Pod) -> std::io::Result<PodPorts> {
        let spec = pod.spec.clone().unwrap_or_default();
        if spec.host_network == Some(true) {
            return Ok(PodPorts::Own(Ipv4Addr::LOCALHOST));
        }
        match self.options.listen {
            Listen::OwnAddress => {
                let address = self.addresses.pod.parse().unwrap_or(Ipv4Addr::LOCALHOST);
                Ok(PodPorts::Own(loopback(address, self.options.cluster)))
            }
            Listen::FreePorts => {
                let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
                let ports = containers.flat_map(|container| container.ports.iter().flatten());
                let declared: BTreeSet<u16> =
                    ports.filter_map(|port| u16::try_from(port.container_port).ok()).collect();
                PodPorts::free(declared)
            }
        }
    }

    fn terminate(&self, key: &Key, pod: &Pod) -> Plan {
        let Some(deadline) = deadline(pod) else { return Plan::default() };
        if self.pods.stop(key, self.now >= deadline) {
            self.pods.forget(key);
            return Plan { remove: true, ..Plan::default() };
        }
        // The end of the last container wakes the pod. This timer is for a container that does not stop.
        let again_at =
            if self.now < deadline { deadline } else { self.now + jiff::SignedDuration::from_secs(1) };
        Plan { again_at: Some(again_at), ..Plan::default() }
    }

    /// Stops the containers of a pod that was active for too long. The pod has failed when none runs any more.
    fn expire(&self, key: &Key, pod: &Pod, end: Timestamp) -> Plan {
        let kill_at = end.checked_add(grace(pod)).unwrap_or(end);
        if !self.pods.stop(key, self.now >= kill_at) {
            let again_at = kill_at.max(self.now + jiff::SignedDuration::from_secs(1));
            return Plan { again_at: Some(again_at), ..Plan::default() };
        }
        let planned = plan(pod, &self.pods.runs(key), self.addresses, self.now);
        let mut next = planned.status.or_else(|| pod.status.clone()).unwrap_or_default();
        status::expire(&mut next, pod, self.now);
        Plan { status: Some(next), expired: true, ..Plan::default() }
    }

    /// Writes the files of every volume. Returns false, and writes an event, if a referenced object is missing.
    fn write_volumes(&self, ctx: &Context, pod: &Pod, references: &References, tokens: &Tokens) -> bool {
        let folder = self.pods.folder(&pod.uid().unwrap_or_default()).join("volumes");
        for volume in pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()) {
            let place = folder.join(&volume.name);
            let text = |error: std::io::Error| error.to_string();
            let written = match mounts::files(pod, volume, references, tokens) {
                _ if !own_folder::is_name(&volume.name) => Err("is no name of a volume".to_owned()),
                Ok(Some(files)) => volume::write(&place, &files).map(drop).map_err(text),
                Ok(None) => match references.volumes.get(&volume.name) {
                    Some(Ok(bound)) => self.pods.make_volume(bound).map_err(text),
                    Some(Err(unbound)) => Err(unbound.to_string()),
                    None => std::fs::create_dir_all(&place).map_err(text),
                },
                Err(error) => Err(error.to_string()),
            };
            if let Err(message) = written {
                let message = format!("MountVolume.SetUp failed for volume {:?} : {message}", volume.name);
                PodEvents::of(ctx.recorder(), pod).warning("FailedMount", message);
                return false;
            }
        }
        true
    }

    /// Returns a token for each audience and lifetime that the volumes project, renewed if most of its life is over,
    /// and the time of the next renewal.
    async fn tokens(&self, client: &Client, pod: &Pod) -> Result<(Tokens, Option<Timestamp>), Error> {
        let folder = self.pods.folder(&pod.uid().unwrap_or_default()).join("tokens");
        let mut tokens = Tokens::new();
        let mut renew_at: Option<Timestamp> = None;
        for (at, wanted) in mounts::tokens(pod).into_iter().enumerate() {
            let kept = folder.join(at.to_string());
            let kept_text = plain_file::read(&kept, TOKEN_BYTES).unwrap_or_default();
            let mut text = String::from_utf8(kept_text).unwrap_or_default();
            if renewal(&text, wanted.1).is_none_or(|renewal| renewal <= self.now) {
                text = request_token(client, pod, wanted.0.as_deref(), wanted.1).await?;
                std::fs::create_dir_all(&folder)?;
                plain_file::replace(&kept, &text)?;
            }
            renew_at = renew_at.into_iter().chain(renewal(&text, wanted.1)).min();
            tokens.insert(wanted, text);
        }
        Ok((tokens, renew_at))
    }

    fn start(&self, ctx: &Context, key: &Key, pod: &Pod, name: &str, references: &References) {
        let Some(container) = find(pod, name) else { return };
        let image = container.image.as_deref().unwrap_or_default();
        let pod_events = PodEvents::of(ctx.recorder(), pod);
        let result = self.prepare(key, pod, container, references, &pod_events).and_then(|kind| {
            let start = Start { name: name.to_owned(), image: image.to_owned(), kind };
            self.pods.start(key, start).map_err(|error| ("RunContainerError", error.to_string()))
        });
        match result {
            Ok(()) => pod_events.started(name, image),
            Err((reason, message)) => {
                pod_events.container(EventType::Warning, name, "Failed", format!("Error: {message}"));
                self.pods.refuse(key, name, reason, message);
            }
        }
    }

    fn prepare(
        &self,
        key: &Key,
        pod: &Pod,
        container: &Container,
        references: &References,
        pod_events: &PodEvents<'_>,
    ) -> Result<StartKind, (&'static str, String)> {
        let image = container.image.as_deref().unwrap_or_default();
        let Some(entry) = self.options.images.find(image) else {
            return Ok(StartKind::Simulated(self.script_of(pod, container)));
        };
        let given = self.given(pod, references);
        let mut variables = environment(pod, container, references, &given)
            .map_err(|error| ("CreateContainerConfigError", error.to_string()))?;
        let dropped = loader_variables::remove(&mut variables, &given);
        if !dropped.is_empty() {
            let message =
                format!("variables that make programs load code are dropped: {}", dropped.join(", "));
            pod_events.container(EventType::Warning, &container.name, "DroppedVariables", message);
        }
        variables.extend(self.pods.ports(key).iter().flat_map(PodPorts::environment));
        let words = |words: &Option<Vec<String>>| -> Vec<String> {
            words.iter().flatten().map(|word| expand(word, &variables)).collect()
        };
        let command = entry
            .command(&words(&container.command), &words(&container.args))
            .map_err(|error| ("CreateContainerError", error.to_string()))?;
        let folder = self.pods.folder(&pod.uid().unwrap_or_default());
        let message = message_of(container, &folder);
        let view = self
            .view(pod, container, entry, (&variables, references, &message))
            .map_err(|error| ("CreateContainerError", error.to_string()))?;
        let launch = Launch {
            command,
            environment: variables,
            root: folder.clone(),
            view,
            join: None,
            stdin: None,
            terminal: None,
        };
        let input = Input {
            stdin: (container.stdin == Some(true)).then_some(folder),
            once: container.stdin_once == Some(true),
            terminal: container.tty == Some(true),
        };
        let probes = probes(container, entry).map_err(|error| ("CreateContainerError", error.to_string()))?;
        let probes = Box::new(Probes { grace: grace(pod), ..probes });
        Ok(StartKind::Process { launch: Box::new(launch), input, probes, message })
    }

    /// Returns a container's view of the file system.
    fn view(
        &self,
        pod: &Pod,
        container: &Container,
        entry: &Image,
        (variables, references, message): (&BTreeMap<String, String>, &References, &Message),
    ) -> Result<View, MountError> {
        let Some(spec) = &pod.spec else { return Err(MountError::NoSpec) };
        let volumes = self.pods.folder(&pod.uid().unwrap_or_default()).join("volumes");
        let folder_of = |volume: &str| match references.volumes.get(volume) {
            Some(Ok(bound)) => self.pods.volume_folder(bound),
            Some(Err(_)) => None,
            None => Some(volumes.join(volume)),
        };
        let mut mounts = mounts::mounts(spec, container, variables, folder_of)?;
        if let Some(file) = &message.file {
            let target = container.termination_message_path.as_deref().unwrap_or("/dev/termination-log");
            let (volume, target) = (file.clone(), target.into());
            mounts.push(Mount { volume, sub_path: "".into(), make_missing: false, target, read_only: false });
        }
        let guard = MountGuard::of(entry);
        for mount in &mounts {
            guard.check(&mount.target)?;
        }
        let directory = container.working_dir.clone().map(Into::into).or_else(|| entry.working_dir.clone());
        Ok(View { mounts, guard, directory })
    }

    /// A simulated init container succeeds at once. Other containers follow the pod's annotations.
    fn script_of(&self, pod: &Pod, container: &Container) -> Script {
        let init = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
        let ends = init.into_iter().any(|init| init.name == container.name && !is_sidecar(init));
        match ends {
            true => Script { run_for: Some(Duration::ZERO), ..Script::default() },
            false => self.script,
        }
    }

    /// Variables that precede every container's own environment.
    fn given(&self, pod: &Pod, references: &References) -> Vec<(String, String)> {
        let mut given: Vec<(String, String)> =
            references.services.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        given.extend([
            ("PATH".to_owned(), program::PATH.to_owned()),
            ("HOSTNAME".to_owned(), pod.name_any()),
            // Not the home of the user who started the node: a program in a pod must not find that user's kubeconfig.
            ("HOME".to_owned(), "/".to_owned()),
        ]);
        // After the Services: no traffic reaches their addresses, and these variables have the API server's real
        // address.
        given.extend(self.options.environment.iter().cloned());
        given
    }
}

fn find<'a>(pod: &'a Pod, name: &str) -> Option<&'a Container> {
    let spec = pod.spec.as_ref()?;
    spec.init_containers.iter().flatten().chain(&spec.containers).find(|container| container.name == name)
}

/// Returns the probes of a container. An exec probe may name only the image's programs.
fn probes(container: &Container, image: &Image) -> Result<Probes, ImageError> {
    let read = |probe: &Option<k8s_openapi::api::core::v1::Probe>| -> Result<Option<Schedule>, ImageError> {
        let Some(probe) = probe else { return Ok(None) };
        let mut schedule = schedule(probe, container);
        if let Check::Exec { command } = &schedule.check {
            schedule.check = Check::Exec { command: image.command(command, &[])? };
        }
        Ok(Some(schedule))
    };
    Ok(Probes {
        startup: read(&container.startup_probe)?,
        readiness: read(&container.readiness_probe)?,
        liveness: read(&container.liveness_probe)?,
        ..Probes::default()
    })
}

async fn request_token(
    client: &Client,
    pod: &Pod,
    audience: Option<&str>,
    seconds: i64,
) -> Result<String, Error> {
    let account = pod.spec.as_ref().and_then(|spec| spec.service_account_name.clone());
    let account = account.unwrap_or_else(|| "default".into());
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {
            "audiences": audience.into_iter().collect::<Vec<_>>(),
            "expirationSeconds": seconds,
            "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": pod.name_any(), "uid": pod.uid()},
        },
    });
    let namespace = pod.namespace().unwrap_or_default();
    let key = (namespace.as_str(), account.as_str());
    let answer: Value = client.create_subresource::<ServiceAccount, _>(key, "token", &request).await?;
    Ok(answer["status"]["token"].as_str().unwrap_or_default().to_owned())
}

/// Returns the time of a token's renewal: after four fifths of its life, as in a kubelet.
fn renewal(token: &str, seconds: i64) -> Option<Timestamp> {
    Timestamp::from_second(super::environment::token_expiry(token)? - seconds / 5).ok()
}

/// Creates an empty file for a container's termination message, and returns its location.
fn message_of(container: &Container, folder: &Path) -> Message {
    let place = folder.join("containers").join(&container.name);
    let file = place.join("termination-log");
    let made = std::fs::create_dir_all(place).and_then(|()| plain_file::replace(&file, ""));
    let from_log = container.termination_message_policy.as_deref() == Some("FallbackToLogsOnError");
    Message { file: made.ok().map(|()| file), from_log }
}

fn is_finished(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// Returns the grace period of a pod's containers.
fn grace(pod: &Pod) -> Duration {
    let seconds = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    Duration::from_secs(seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(30))
}
