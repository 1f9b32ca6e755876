//! The row of a pod.

use jiff::Timestamp;
use serde_json::Value;

use super::age::{age, human_duration, parse};
use super::cells::or_none;
use crate::access::{at, int, items, text, truth};

pub(super) fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let summary = summarise(pod);
    let restarts = match summary.last_restart {
        Some(last) if summary.restarts != 0 => {
            let ago = human_duration(now.as_nanosecond() - last.as_nanosecond());
            format!("{} ({ago} ago)", summary.restarts)
        }
        _ => summary.restarts.to_string(),
    };
    let ip = items(pod, "status.podIPs").first().map_or("", |ip| text(ip, "ip"));
    vec![
        text(pod, "metadata.name").into(),
        format!("{}/{}", summary.ready, summary.total).into(),
        summary.reason.into(),
        restarts.into(),
        age(pod, "metadata.creationTimestamp", now).into(),
        or_none(ip),
        or_none(text(pod, "spec.nodeName")),
        or_none(text(pod, "status.nominatedNodeName")),
        readiness_gates(pod),
    ]
}

struct Summary {
    ready: usize,
    total: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
    reason: String,
}

/// Restarts and the last of them.
#[derive(Clone, Copy, Default)]
struct Restarts(i64, Option<Timestamp>);

impl Restarts {
    fn add(&mut self, status: &Value) {
        self.0 += int(status, "restartCount").unwrap_or_default();
        self.1 = self.1.max(parse(at(status, "lastState.terminated.finishedAt")));
    }
}

fn restartable(pod: &Value, name: &str) -> bool {
    items(pod, "spec.initContainers")
        .iter()
        .any(|container| text(container, "name") == name && text(container, "restartPolicy") == "Always")
}

fn summarise(pod: &Value) -> Summary {
    let mut reason = match text(pod, "status.reason") {
        "" => text(pod, "status.phase").to_owned(),
        reason => reason.to_owned(),
    };
    let conditions = items(pod, "status.conditions");
    if conditions
        .iter()
        .any(|one| text(one, "type") == "PodScheduled" && text(one, "reason") == "SchedulingGated")
    {
        reason = "SchedulingGated".to_owned();
    }
    let sidecars = items(pod, "spec.initContainers").iter();
    let sidecars = sidecars.filter(|one| text(one, "restartPolicy") == "Always").count();
    let total = items(pod, "spec.containers").len() + sidecars;
    let init = init_containers(pod);
    let mut ready = init.ready;
    let mut restarts = init.restarts;
    let initialized = conditions.iter().find(|one| text(one, "type") == "Initialized");
    if let Some(stopped) = &init.reason {
        reason.clone_from(stopped);
    }
    if init.reason.is_none() || initialized.is_some_and(|one| text(one, "status") == "True") {
        restarts = init.sidecar_restarts;
        ready += containers(pod, &mut reason, &mut restarts);
    }
    if !at(pod, "metadata.deletionTimestamp").is_null() {
        if text(pod, "status.reason") == "NodeLost" {
            reason = "Unknown".to_owned();
        } else if !matches!(text(pod, "status.phase"), "Succeeded" | "Failed") {
            reason = "Terminating".to_owned();
        }
    }
    Summary { ready, total, restarts: restarts.0, last_restart: restarts.1, reason }
}

struct Init {
    ready: usize,
    restarts: Restarts,
    sidecar_restarts: Restarts,
    /// Why the pod is still initializing, if it is.
    reason: Option<String>,
}

fn init_containers(pod: &Value) -> Init {
    let mut init =
        Init { ready: 0, restarts: Restarts::default(), sidecar_restarts: Restarts::default(), reason: None };
    for (at_index, status) in items(pod, "status.initContainerStatuses").iter().enumerate() {
        let sidecar = restartable(pod, text(status, "name"));
        init.restarts.add(status);
        if sidecar {
            init.sidecar_restarts.add(status);
        }
        let terminated = at(status, "state.terminated");
        if !terminated.is_null() && int(terminated, "exitCode").unwrap_or_default() == 0 {
            continue;
        }
        if sidecar && truth(status, "started") {
            init.ready += usize::from(truth(status, "ready"));
            continue;
        }
        let waiting = text(status, "state.waiting.reason");
        init.reason = Some(if !terminated.is_null() {
            format!("Init:{}", termination(terminated))
        } else if !waiting.is_empty() && waiting != "PodInitializing" {
            format!("Init:{waiting}")
        } else {
            format!("Init:{at_index}/{}", items(pod, "spec.initContainers").len())
        });
        break;
    }
    init
}

fn termination(terminated: &Value) -> String {
    match (text(terminated, "reason"), int(terminated, "signal").unwrap_or_default()) {
        ("", 0) => format!("ExitCode:{}", int(terminated, "exitCode").unwrap_or_default()),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

/// How many containers are ready; the reason becomes that of the first container that has one.
fn containers(pod: &Value, reason: &mut String, restarts: &mut Restarts) -> usize {
    let (mut ready, mut running, mut error) = (0, false, String::new());
    for status in items(pod, "status.containerStatuses").iter().rev() {
        restarts.add(status);
        let terminated = at(status, "state.terminated");
        let waiting = text(status, "state.waiting.reason");
        if !waiting.is_empty() {
            waiting.clone_into(reason);
        } else if !terminated.is_null() {
            *reason = termination(terminated);
            if int(terminated, "exitCode").unwrap_or_default() != 0 {
                error.clone_from(reason);
            }
        } else if truth(status, "ready") && !at(status, "state.running").is_null() {
            running = true;
            ready += 1;
        }
    }
    if reason == "Completed" {
        let is_ready = items(pod, "status.conditions")
            .iter()
            .any(|one| text(one, "type") == "Ready" && text(one, "status") == "True");
        if running && is_ready {
            "Running".clone_into(reason);
        } else if !error.is_empty() {
            *reason = error;
        } else if running {
            "NotReady".clone_into(reason);
        }
    }
    ready
}

fn readiness_gates(pod: &Value) -> Value {
    let gates = items(pod, "spec.readinessGates");
    if gates.is_empty() {
        return "<none>".into();
    }
    let open = gates.iter().filter(|gate| {
        let wanted = text(gate, "conditionType");
        let condition = items(pod, "status.conditions").iter().find(|one| text(one, "type") == wanted);
        condition.is_some_and(|one| text(one, "status") == "True")
    });
    format!("{}/{}", open.count(), gates.len()).into()
}
