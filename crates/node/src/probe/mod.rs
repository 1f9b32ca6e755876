//! Probes: one attempt at a time, and a verdict from thresholds.

mod attempt;
mod grpc;
mod http_get;
mod connection;

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

pub use attempt::attempt;
pub use connection::ProbeFailure;

/// The check of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// A GET whose answer must be 200 to 399.
    Http(HttpGet),
    /// A TCP connection that must be accepted.
    Tcp {
        /// Another host, if the probe names one.
        host: Option<String>,
        /// The container's port.
        port: u16,
    },
    /// gRPC's health check, which must answer that it is serving.
    Grpc {
        /// The container's port.
        port: u16,
        /// The service name. Empty for the whole server.
        service: String,
    },
    /// A program beside the container's that must exit with 0.
    Exec {
        /// Its command line.
        command: Vec<String>,
    },
    /// The check cannot run, for this reason. It neither succeeds nor fails.
    Impossible(Unprobeable),
}

/// A probe that cannot run, in a kubelet's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unprobeable {
    /// The probe names no check.
    #[error("missing probe handler")]
    NoHandler,
    /// The container has no port of that name.
    #[error("couldn't find port: {0:?}")]
    NoPort(String),
    /// The number is no port.
    #[error("invalid port number: {0}")]
    BadPort(i32),
}

/// An HTTP check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpGet {
    /// Use TLS, with any certificate of the program.
    pub tls: bool,
    /// Another host, if the probe names one.
    pub host: Option<String>,
    /// The container's port.
    pub port: u16,
    /// The path.
    pub path: String,
    /// Extra headers.
    pub headers: Vec<(String, String)>,
}

/// The times of a probe, and the thresholds of its verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The check.
    pub check: Check,
    /// Delay before the first attempt.
    pub initial_delay: Duration,
    /// Time between attempts.
    pub period: Duration,
    /// Time limit of one attempt.
    pub timeout: Duration,
    /// Successes in a row that make the verdict good.
    pub success_threshold: i32,
    /// Failures in a row that make the verdict bad.
    pub failure_threshold: i32,
    /// Grace period of the container when this probe ends it. The pod's grace period applies if absent.
    pub grace: Option<Duration>,
}

/// Reads a probe.
pub fn schedule(probe: &Probe, container: &Container) -> Schedule {
    let check = check(probe, container).unwrap_or_else(Check::Impossible);
    let seconds = |value: Option<i32>, default: u64| {
        Duration::from_secs(value.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(default))
    };
    Schedule {
        check,
        initial_delay: seconds(probe.initial_delay_seconds, 0),
        period: seconds(probe.period_seconds, 10).max(Duration::from_secs(1)),
        timeout: seconds(probe.timeout_seconds, 1).max(Duration::from_secs(1)),
        success_threshold: probe.success_threshold.unwrap_or(1).max(1),
        failure_threshold: probe.failure_threshold.unwrap_or(3).max(1),
        grace: probe
            .termination_grace_period_seconds
            .and_then(|seconds| u64::try_from(seconds).ok())
            .map(Duration::from_secs),
    }
}

fn check(probe: &Probe, container: &Container) -> Result<Check, Unprobeable> {
    let named = |host: &Option<String>| host.clone().filter(|host| !host.is_empty());
    if let Some(get) = &probe.http_get {
        let path = get.path.clone().filter(|path| !path.is_empty()).unwrap_or_else(|| "/".into());
        return Ok(Check::Http(HttpGet {
            tls: get.scheme.as_deref() == Some("HTTPS"),
            host: named(&get.host),
            port: port(&get.port, container)?,
            path: if path.starts_with('/') { path } else { format!("/{path}") },
            headers: get.http_headers.iter().flatten().map(|h| (h.name.clone(), h.value.clone())).collect(),
        }));
    }
    if let Some(tcp) = &probe.tcp_socket {
        return Ok(Check::Tcp { host: named(&tcp.host), port: port(&tcp.port, container)? });
    }
    if let Some(grpc) = &probe.grpc {
        let port = port(&IntOrString::Int(grpc.port), container)?;
        return Ok(Check::Grpc { port, service: grpc.service.clone().unwrap_or_default() });
    }
    let command = probe.exec.as_ref().and_then(|exec| exec.command.clone());
    Ok(Check::Exec { command: command.ok_or(Unprobeable::NoHandler)? })
}

/// Returns the number of a port, which may be named.
fn port(port: &IntOrString, container: &Container) -> Result<u16, Unprobeable> {
    let number = match port {
        IntOrString::Int(number) => *number,
        IntOrString::String(name) => {
            let mut ports = container.ports.iter().flatten();
            match ports.find(|port| port.name.as_ref() == Some(name)) {
                Some(port) => port.container_port,
                None => name.parse().map_err(|_| Unprobeable::NoPort(name.clone()))?,
            }
        }
    };
    u16::try_from(number).ok().filter(|number| *number > 0).ok_or(Unprobeable::BadPort(number))
}

/// Counts results. The verdict changes when a threshold is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The present verdict. `None` before the first threshold.
    pub good: Option<bool>,
    successes: i32,
    failures: i32,
}

impl Verdict {
    /// A verdict that is not known yet.
    pub fn unknown() -> Self {
        Verdict { good: None, successes: 0, failures: 0 }
    }

    /// A good verdict, until a threshold of failures.
    pub fn good() -> Self {
        Verdict { good: Some(true), ..Verdict::unknown() }
    }

    /// Takes one result. Returns whether the verdict changed.
    pub fn take(&mut self, success: bool, schedule: &Schedule) -> bool {
        let before = self.good;
        if success {
            self.failures = 0;
            self.successes = self.successes.saturating_add(1);
            if self.successes >= schedule.success_threshold {
                self.good = Some(true);
            }
        } else {
            self.successes = 0;
            self.failures = self.failures.saturating_add(1);
            if self.failures >= schedule.failure_threshold {
                self.good = Some(false);
            }
        }
        self.good != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schedule_of(probe: serde_json::Value) -> Schedule {
        let container = serde_json::from_value(json!({
            "name": "main", "ports": [{"name": "http", "containerPort": 3000}],
        }))
        .unwrap();
        schedule(&serde_json::from_value(probe).unwrap(), &container)
    }

    #[test]
    fn a_named_port_is_the_containers() {
        let schedule = schedule_of(json!({"httpGet": {"port": "http", "path": "/x"}}));
        let wanted = HttpGet { tls: false, host: None, port: 3000, path: "/x".into(), headers: vec![] };
        assert_eq!(schedule.check, Check::Http(wanted));
        assert_eq!((schedule.period, schedule.failure_threshold), (Duration::from_secs(10), 3));
    }

    #[test]
    fn a_probe_that_cannot_be_asked_says_why() {
        let check = |probe| schedule_of(probe).check;
        let nameless = check(json!({"tcpSocket": {"port": "web"}}));
        assert_eq!(nameless, Check::Impossible(Unprobeable::NoPort("web".into())));
        assert_eq!(check(json!({})), Check::Impossible(Unprobeable::NoHandler));
        let https = check(json!({"httpGet": {"port": 1, "path": "live", "scheme": "HTTPS", "host": "h"}}));
        let Check::Http(https) = https else { panic!("{https:?}") };
        assert_eq!((https.tls, https.path.as_str(), https.host.as_deref()), (true, "/live", Some("h")));
        let grpc = check(json!({"grpc": {"port": 5000, "service": "s"}}));
        assert_eq!(grpc, Check::Grpc { port: 5000, service: "s".into() });
    }

    #[test]
    fn the_verdict_changes_at_its_thresholds() {
        let schedule =
            schedule_of(json!({"tcpSocket": {"port": 80}, "failureThreshold": 2, "successThreshold": 2}));
        let mut verdict = Verdict::unknown();
        let answers = [true, true, false, true, false, false];
        let changed: Vec<bool> = answers.iter().map(|answer| verdict.take(*answer, &schedule)).collect();
        assert_eq!(changed, [false, true, false, false, false, true]);
        assert_eq!(verdict.good, Some(false));
    }
}
