//! The single checks, in the words of `k8s.io/pod-security-admission`.

use serde_json::Value;
use setpoint_api::go_format::quote;

use super::containers::{all, named, plural, quoted, setters, sorted, with};
use crate::access::{at, entries, int, is_empty, items, text, truth};

/// The fault that a check finds in a pod.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) reason: &'static str,
    pub(super) detail: String,
}

fn refused(reason: &'static str, detail: String) -> Option<Refused> {
    Some(Refused { reason, detail })
}

/// Windows has none of what the check is about.
pub(super) fn unless_windows(pod: &Value, check: fn(&Value) -> Option<Refused>) -> Option<Refused> {
    if text(pod, "spec.os.name") == "windows" { None } else { check(pod) }
}

/// The root of a user namespace of its own is nobody on the node.
pub(super) fn unless_own_users(pod: &Value, check: fn(&Value) -> Option<Refused>) -> Option<Refused> {
    if at(pod, "spec.hostUsers") == false { None } else { check(pod) }
}

pub(super) fn app_armor(pod: &Value) -> Option<Refused> {
    const ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";
    let bad = |owner: &Value| {
        let profile = at(owner, "securityContext.appArmorProfile");
        !profile.is_null() && !matches!(text(profile, "type"), "RuntimeDefault" | "Localhost")
    };
    let profile = |owner| text(owner, "securityContext.appArmorProfile.type");
    let spec = at(pod, "spec");
    let containers = with(pod, |container| bad(container));
    let owners = std::iter::once(spec).chain(all(pod)).filter(|owner| bad(owner));
    let mut values: Vec<String> = sorted(owners.map(profile)).into_iter().map(str::to_owned).collect();
    let allowed =
        |value: &str| value.is_empty() || value == "runtime/default" || value.starts_with("localhost/");
    let annotations: Vec<String> = entries(pod, "metadata.annotations")
        .map(|(key, value)| (key, value.as_str().unwrap_or_default()))
        .filter(|(key, value)| key.starts_with(ANNOTATION) && !allowed(value))
        .map(|(key, value)| format!("{key}={}", quote(value)))
        .collect();
    let of_annotations = (!annotations.is_empty()).then(|| plural("annotation", annotations.len()));
    values.extend(annotations);
    let setters: Vec<String> = setters(bad(spec), &containers).into_iter().chain(of_annotations).collect();
    if setters.is_empty() {
        return None;
    }
    let reason = if values.len() == 1 { "forbidden AppArmor profile" } else { "forbidden AppArmor profiles" };
    let setters = setters.join(" and ");
    refused(reason, format!("{setters} must not set AppArmor profile type to {}", quoted(&values)))
}

/// The capabilities that a container adds beside the allowed ones.
fn added<'p>(container: &'p Value, allowed: &'static [&'static str]) -> impl Iterator<Item = &'p str> {
    let added = items(container, "securityContext.capabilities.add").iter();
    added.filter_map(Value::as_str).filter(|name| !allowed.contains(name))
}

fn adding(pod: &Value, allowed: &'static [&'static str]) -> Option<String> {
    let containers = with(pod, |container| added(container, allowed).next().is_some());
    let names = sorted(all(pod).flat_map(|container| added(container, allowed)));
    (!containers.is_empty()).then(|| {
        format!(
            "{} must not include {} in securityContext.capabilities.add",
            named(&containers),
            quoted(&names)
        )
    })
}

pub(super) fn capabilities_baseline(pod: &Value) -> Option<Refused> {
    const ALLOWED: &[&str] = &[
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    ];
    refused("non-default capabilities", adding(pod, ALLOWED)?)
}

pub(super) fn capabilities(pod: &Value) -> Option<Refused> {
    let keeping = with(pod, |container| {
        !items(container, "securityContext.capabilities.drop").iter().any(|name| name == "ALL")
    });
    let keeping = (!keeping.is_empty())
        .then(|| format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", named(&keeping)));
    let details: Vec<String> = keeping.into_iter().chain(adding(pod, &["NET_BIND_SERVICE"])).collect();
    if details.is_empty() { None } else { refused("unrestricted capabilities", details.join("; ")) }
}

pub(super) fn host_namespaces(pod: &Value) -> Option<Refused> {
    let fields = ["hostNetwork", "hostPID", "hostIPC"].into_iter();
    let shared: Vec<String> = fields
        .filter(|field| truth(pod, &format!("spec.{field}")))
        .map(|field| format!("{field}=true"))
        .collect();
    if shared.is_empty() { None } else { refused("host namespaces", shared.join(", ")) }
}

pub(super) fn host_path(pod: &Value) -> Option<Refused> {
    let volumes = items(pod, "spec.volumes").iter().filter(|volume| !at(volume, "hostPath").is_null());
    let names: Vec<&str> = volumes.map(|volume| text(volume, "name")).collect();
    if names.is_empty() {
        return None;
    }
    refused("hostPath volumes", format!("{} {}", plural("volume", names.len()), quoted(&names)))
}

fn uses(count: usize) -> &'static str {
    if count == 1 { "uses" } else { "use" }
}

pub(super) fn host_ports(pod: &Value) -> Option<Refused> {
    let ports = |container: &Value| -> Vec<String> {
        let ports = items(container, "ports").iter().filter_map(|port| int(port, "hostPort"));
        ports.filter(|port| *port != 0).map(|port| port.to_string()).collect()
    };
    let containers = with(pod, |container| !ports(container).is_empty());
    if containers.is_empty() {
        return None;
    }
    let numbers: Vec<String> = all(pod).flat_map(ports).collect();
    let numbers = sorted(numbers.iter().map(String::as_str));
    let (who, what) = (named(&containers), plural("hostPort", numbers.len()));
    refused("hostPort", format!("{who} {} {what} {}", uses(containers.len()), numbers.join(", ")))
}

pub(super) fn host_probes(pod: &Value) -> Option<Refused> {
    const PLACES: [&str; 10] = [
        "livenessProbe.httpGet.host",
        "livenessProbe.tcpSocket.host",
        "readinessProbe.httpGet.host",
        "readinessProbe.tcpSocket.host",
        "startupProbe.httpGet.host",
        "startupProbe.tcpSocket.host",
        "lifecycle.postStart.httpGet.host",
        "lifecycle.postStart.tcpSocket.host",
        "lifecycle.preStop.httpGet.host",
        "lifecycle.preStop.tcpSocket.host",
    ];
    let hosts =
        |container| PLACES.iter().map(move |place| text(container, place)).filter(|host| !host.is_empty());
    let containers = sorted(with(pod, |container| hosts(*container).next().is_some()));
    if containers.is_empty() {
        return None;
    }
    let hosts = sorted(all(pod).flat_map(hosts));
    let (who, what) = (named(&containers), plural("probe or lifecycle host", hosts.len()));
    refused("probe or lifecycle host", format!("{who} {} {what} {}", uses(containers.len()), quoted(&hosts)))
}

pub(super) fn privileged(pod: &Value) -> Option<Refused> {
    let containers = with(pod, |container| truth(container, "securityContext.privileged"));
    let setters = setters(false, &containers)?;
    refused("privileged", format!("{setters} must not set securityContext.privileged=true"))
}

pub(super) fn proc_mount(pod: &Value) -> Option<Refused> {
    const FIELD: &str = "securityContext.procMount";
    let bad = |container: &&Value| !matches!(text(container, FIELD), "" | "Default");
    let setters = setters(false, &with(pod, bad))?;
    let mounts = quoted(&sorted(all(pod).filter(bad).map(|container| text(container, FIELD))));
    refused("procMount", format!("{setters} must not set securityContext.procMount to {mounts}"))
}

pub(super) fn selinux(pod: &Value, allowed: usize) -> Option<Refused> {
    const TYPES: [&str; 4] = ["container_t", "container_init_t", "container_kvm_t", "container_engine_t"];
    const FIELD: &str = "securityContext.seLinuxOptions";
    let bad_type = |kind: &&str| !kind.is_empty() && !TYPES[..allowed].contains(kind);
    let bad = |owner: &Value| {
        let options = at(owner, FIELD);
        bad_type(&text(options, "type")) || !is_empty(options, "user") || !is_empty(options, "role")
    };
    let setters = setters(bad(at(pod, "spec")), &with(pod, |container| bad(container)))?;
    let owners: Vec<&Value> =
        std::iter::once(at(pod, "spec")).chain(all(pod)).map(|owner| at(owner, FIELD)).collect();
    let types = sorted(owners.iter().map(|options| text(options, "type")).filter(bad_type));
    let mut details = Vec::new();
    if !types.is_empty() {
        details.push(format!("{} {}", plural("type", types.len()), quoted(&types)));
    }
    for field in ["user", "role"] {
        if owners.iter().any(|options| !is_empty(options, field)) {
            details.push(format!("{field} may not be set"));
        }
    }
    let details = details.join("; ");
    refused("seLinuxOptions", format!("{setters} set forbidden securityContext.seLinuxOptions: {details}"))
}

pub(super) fn seccomp_annotations(pod: &Value) -> Option<Refused> {
    let names = all(pod).map(|container| {
        format!("container.seccomp.security.alpha.kubernetes.io/{}", text(container, "name"))
    });
    let names = std::iter::once("seccomp.security.alpha.kubernetes.io/pod".to_owned()).chain(names);
    let annotations = at(pod, "metadata.annotations");
    let allowed = |value: &str| {
        matches!(value, "runtime/default" | "docker/default") || value.starts_with("localhost/")
    };
    let forbidden: Vec<String> = names
        .filter_map(|name| {
            let value = annotations.get(&name)?.as_str()?;
            (!allowed(value)).then(|| format!("{name}={}", quote(value)))
        })
        .collect();
    let forbidden = sorted(forbidden.iter().map(String::as_str));
    if forbidden.is_empty() {
        return None;
    }
    let what = plural("annotation", forbidden.len());
    refused("seccompProfile", format!("forbidden {what} {}", forbidden.join(", ")))
}

/// The type of an owner's seccomp profile; `None` without a profile.
fn seccomp_type(owner: &Value) -> Option<&str> {
    let profile = at(owner, "securityContext.seccompProfile");
    (!profile.is_null()).then(|| text(profile, "type"))
}

fn is_bad_seccomp(kind: &&str) -> bool {
    !matches!(*kind, "Localhost" | "RuntimeDefault")
}

pub(super) fn seccomp_baseline(pod: &Value) -> Option<Refused> {
    let kind = |owner| seccomp_type(owner).filter(is_bad_seccomp);
    let spec = at(pod, "spec");
    let setters = setters(kind(spec).is_some(), &with(pod, |container| kind(*container).is_some()))?;
    let kinds = quoted(&sorted(std::iter::once(spec).chain(all(pod)).filter_map(kind)));
    refused(
        "seccompProfile",
        format!("{setters} must not set securityContext.seccompProfile.type to {kinds}"),
    )
}

pub(super) fn seccomp(pod: &Value) -> Option<Refused> {
    if let Some(refused) = seccomp_baseline(pod) {
        return Some(refused);
    }
    if seccomp_type(at(pod, "spec")).is_some() {
        return None;
    }
    let containers = with(pod, |container| seccomp_type(container).is_none());
    let setters = setters(false, &containers)?;
    refused(
        "seccompProfile",
        format!(
            "pod or {setters} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\""
        ),
    )
}

pub(super) fn sysctls(pod: &Value, allowed: usize) -> Option<Refused> {
    const SAFE: [&str; 14] = [
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_wmem",
        "net.ipv4.tcp_slow_start_after_idle",
        "net.ipv4.tcp_notsent_lowat",
    ];
    let names = items(pod, "spec.securityContext.sysctls").iter().map(|one| text(one, "name"));
    let forbidden: Vec<&str> = names.filter(|name| !SAFE[..allowed].contains(name)).collect();
    if forbidden.is_empty() { None } else { refused("forbidden sysctls", forbidden.join(", ")) }
}

pub(super) fn windows_host_process(pod: &Value) -> Option<Refused> {
    let is_on = |owner: &Value| truth(owner, "securityContext.windowsOptions.hostProcess");
    let setters = setters(is_on(at(pod, "spec")), &with(pod, |container| is_on(container)))?;
    refused("hostProcess", format!("{setters} must not set securityContext.windowsOptions.hostProcess=true"))
}

pub(super) fn escalation(pod: &Value) -> Option<Refused> {
    let containers =
        with(pod, |container| at(container, "securityContext.allowPrivilegeEscalation") != false);
    let setters = setters(false, &containers)?;
    refused(
        "allowPrivilegeEscalation != false",
        format!("{setters} must set securityContext.allowPrivilegeEscalation=false"),
    )
}

pub(super) fn volumes(pod: &Value) -> Option<Refused> {
    const ALLOWED: [&str; 9] = [
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    ];
    const OTHER: [&str; 21] = [
        "hostPath",
        "gcePersistentDisk",
        "awsElasticBlockStore",
        "gitRepo",
        "nfs",
        "iscsi",
        "glusterfs",
        "rbd",
        "flexVolume",
        "cinder",
        "cephfs",
        "flocker",
        "fc",
        "azureFile",
        "vsphereVolume",
        "quobyte",
        "azureDisk",
        "photonPersistentDisk",
        "portworxVolume",
        "scaleIO",
        "storageos",
    ];
    let has = |volume: &Value, kind: &str| !at(volume, kind).is_null();
    let bad = |volume: &&Value| !ALLOWED.iter().any(|kind| has(volume, kind));
    let volumes: Vec<&Value> = items(pod, "spec.volumes").iter().filter(bad).collect();
    if volumes.is_empty() {
        return None;
    }
    let kind = |volume: &&Value| OTHER.into_iter().find(|kind| has(volume, kind)).unwrap_or("unknown");
    let kinds = sorted(volumes.iter().map(kind));
    let names: Vec<&str> = volumes.iter().map(|volume| text(volume, "name")).collect();
    let (who, what) = (plural("volume", names.len()), plural("restricted volume type", kinds.len()));
    let (names, uses, kinds) = (quoted(&names), uses(volumes.len()), quoted(&kinds));
    refused("restricted volume types", format!("{who} {names} {uses} {what} {kinds}"))
}

pub(super) fn non_root(pod: &Value) -> Option<Refused> {
    const FIELD: &str = "securityContext.runAsNonRoot";
    const REASON: &str = "runAsNonRoot != true";
    let of_pod = at(pod, "spec.securityContext.runAsNonRoot");
    let explicit = with(pod, |container| at(container, FIELD) == false);
    if let Some(setters) = setters(of_pod == false, &explicit) {
        return refused(REASON, format!("{setters} must not set {FIELD}=false"));
    }
    if of_pod == true {
        return None;
    }
    let implicit = with(pod, |container| at(container, FIELD).is_null());
    let setters = setters(false, &implicit)?;
    refused(REASON, format!("pod or {setters} must set {FIELD}=true"))
}

pub(super) fn root_user(pod: &Value) -> Option<Refused> {
    let is_root = |owner: &Value| int(owner, "securityContext.runAsUser") == Some(0);
    let setters = setters(is_root(at(pod, "spec")), &with(pod, |container| is_root(container)))?;
    refused("runAsUser=0", format!("{setters} must not set runAsUser=0"))
}
