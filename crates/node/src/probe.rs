//! Probes: one attempt at a time, and a verdict from thresholds.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::{Container, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::address::PodPorts;

/// What an attempt asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// A GET whose answer must be 200 to 399.
    Http {
        /// The container's port.
        port: u16,
        /// The path.
        path: String,
        /// Extra headers.
        headers: Vec<(String, String)>,
    },
    /// A connection that must be accepted.
    Tcp {
        /// The container's port.
        port: u16,
    },
    /// A program beside the container's that must exit with 0.
    Exec {
        /// Its command line.
        command: Vec<String>,
    },
}

/// When to ask, and how many answers make a verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// What is asked.
    pub check: Check,
    /// Before the first attempt.
    pub initial_delay: Duration,
    /// Between attempts.
    pub period: Duration,
    /// How long one may take.
    pub timeout: Duration,
    /// Successes in a row that make good.
    pub success_threshold: i32,
    /// Failures in a row that make bad.
    pub failure_threshold: i32,
    /// How long the container may take to stop when this probe ends it; the pod says when absent.
    pub grace: Option<Duration>,
}

/// Reads a probe; none where it asks something that only a real kubelet can (gRPC).
pub fn schedule(probe: &Probe, container: &Container) -> Option<Schedule> {
    let port = |port: &IntOrString| match port {
        IntOrString::Int(number) => u16::try_from(*number).ok(),
        IntOrString::String(name) => {
            let ports = container.ports.iter().flatten();
            ports
                .into_iter()
                .find(|port| port.name.as_ref() == Some(name))
                .and_then(|port| u16::try_from(port.container_port).ok())
        }
    };
    let check = if let Some(get) = &probe.http_get {
        let headers = get.http_headers.iter().flatten().map(|h| (h.name.clone(), h.value.clone())).collect();
        Check::Http { port: port(&get.port)?, path: get.path.clone().unwrap_or_else(|| "/".into()), headers }
    } else if let Some(tcp) = &probe.tcp_socket {
        Check::Tcp { port: port(&tcp.port)? }
    } else {
        Check::Exec { command: probe.exec.as_ref()?.command.clone()? }
    };
    let seconds = |value: Option<i32>, default: u64| {
        Duration::from_secs(value.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(default))
    };
    Some(Schedule {
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
    })
}

/// Counts answers; the verdict changes when a threshold is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The present verdict; none before the first threshold.
    pub good: Option<bool>,
    successes: i32,
    failures: i32,
}

impl Verdict {
    /// Nothing known yet.
    pub fn unknown() -> Self {
        Verdict { good: None, successes: 0, failures: 0 }
    }

    /// Good until shown otherwise.
    pub fn good() -> Self {
        Verdict { good: Some(true), ..Verdict::unknown() }
    }

    /// Takes one answer; whether the verdict changed.
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

/// Makes one HTTP or TCP attempt; exec is its owner's to run.
pub async fn attempt(check: &Check, ports: &PodPorts, timeout: Duration) -> Result<(), String> {
    let place = |port: u16| ports.place(port).map_err(|error| error.to_string());
    let made = async {
        match check {
            Check::Http { port, path, headers } => get(place(*port)?, path, headers).await,
            Check::Tcp { port } => {
                TcpStream::connect(place(*port)?).await.map(drop).map_err(|error| error.to_string())
            }
            Check::Exec { .. } => Err("exec probes run beside the container".into()),
        }
    };
    tokio::time::timeout(timeout, made).await.unwrap_or_else(|_| Err("timed out".into()))
}

async fn get(address: SocketAddr, path: &str, headers: &[(String, String)]) -> Result<(), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let stream = TcpStream::connect(address).await.map_err(|error| text(&error))?;
    let (mut send, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| text(&error))?;
    let mut driver = JoinSet::new();
    driver.spawn(async move { drop(connection.await) });
    let mut request =
        http::Request::get(path).header("host", address.to_string()).header("user-agent", "kube-probe/1.37");
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let request = request.body(Empty::<Bytes>::new()).map_err(|error| text(&error))?;
    let status = send.send_request(request).await.map_err(|error| text(&error))?.status().as_u16();
    if (200..400).contains(&status) {
        Ok(())
    } else {
        Err(format!("HTTP probe failed with statuscode: {status}"))
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
        schedule(&serde_json::from_value(probe).unwrap(), &container).unwrap()
    }

    #[test]
    fn a_named_port_is_the_containers() {
        let schedule = schedule_of(json!({"httpGet": {"port": "http", "path": "/x"}}));
        assert_eq!(schedule.check, Check::Http { port: 3000, path: "/x".into(), headers: vec![] });
        assert_eq!((schedule.period, schedule.failure_threshold), (Duration::from_secs(10), 3));
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

    #[tokio::test]
    async fn a_port_where_nobody_listens_fails_the_attempt() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        let host = PodPorts::Own(std::net::Ipv4Addr::LOCALHOST);
        assert!(attempt(&Check::Tcp { port }, &host, Duration::from_secs(5)).await.is_ok());
        drop(free);
        assert!(attempt(&Check::Tcp { port }, &host, Duration::from_secs(5)).await.is_err());
    }
}
