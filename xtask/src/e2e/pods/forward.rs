//! `kubectl port-forward`: bytes arrive unharmed, to pods and services, many at once.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Stdio};

use anyhow::{Context, Result, ensure};

use super::super::cluster::Kubectl;
use super::{BIG, pattern};

/// The port of this host that people forward from.
const USUAL: u16 = 3000;

/// `port-forward … 3000:80`, to a pod and to a service.
pub fn pod_and_service(kubectl: &Kubectl) -> Result<()> {
    let pods = kubectl.ok(&["get", "pods", "-l", "app=echo", "-o", "name"])?;
    let pod = pods.lines().next().context("no pod")?;
    for target in [pod, "service/echo"] {
        let forward = PortForward::usual(kubectl, target)?;
        exchange(forward.port).with_context(|| format!("port-forward to {target}"))?;
    }
    Ok(())
}

/// A running `kubectl port-forward`; killed when dropped.
pub struct PortForward {
    child: Child,
    /// Its port on 127.0.0.1.
    pub port: u16,
    /// Held, because kubectl ends when its output has no reader.
    output: BufReader<ChildStdout>,
}

impl Drop for PortForward {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl PortForward {
    /// Forwards port 3000 of this host to port 80, or a free port if 3000 is taken.
    pub fn usual(kubectl: &Kubectl, target: &str) -> Result<PortForward> {
        match TcpListener::bind(("127.0.0.1", USUAL)) {
            Ok(free) => {
                drop(free);
                let forward = PortForward::start(kubectl, target, &format!("{USUAL}:80"))?;
                ensure!(forward.port == USUAL, "kubectl listens on {}", forward.port);
                Ok(forward)
            }
            Err(error) => {
                println!("e2e pods: skipped: port {USUAL} of this host: {error}; another one for {target}");
                PortForward::start(kubectl, target, ":80")
            }
        }
    }

    /// `ports` as kubectl takes them.
    pub fn start(kubectl: &Kubectl, target: &str, ports: &str) -> Result<PortForward> {
        let mut child = kubectl
            .command(&["port-forward", target, ports])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let output = BufReader::new(child.stdout.take().context("no output")?);
        let mut forward = PortForward { child, port: 0, output };
        let mut line = String::new();
        forward.output.read_line(&mut line)?;
        let port =
            line.split_whitespace().nth(2).and_then(|address| address.rsplit(':').next()?.parse().ok());
        forward.port = port.with_context(|| format!("kubectl port-forward said {line:?}"))?;
        Ok(forward)
    }
}

/// Many bytes over several connections at once, each of which lets the other side finish first.
pub fn exchange(port: u16) -> Result<()> {
    let sent = pattern(BIG / 3);
    let mut connections = Vec::new();
    for _ in 0..3 {
        let sent = sent.clone();
        connections.push(std::thread::spawn(move || -> Result<bool> {
            let mut stream = TcpStream::connect(("127.0.0.1", port))?;
            let mut writer = stream.try_clone()?;
            let wanted = sent.clone();
            let typing = std::thread::spawn(move || -> std::io::Result<()> {
                writer.write_all(&sent)?;
                writer.shutdown(Shutdown::Write)
            });
            let mut got = Vec::new();
            stream.read_to_end(&mut got)?;
            typing.join().ok().context("writing broke")??;
            // The program adds a word when it has seen the end of its input.
            Ok(got.strip_suffix(b"end") == Some(&wanted))
        }));
    }
    for connection in connections {
        ensure!(connection.join().ok().context("a connection broke")??, "not the bytes that were sent");
    }
    Ok(())
}

/// Three replicas of one program and two Deployments of it, all on port 80, a forward to each and the usual one to the
/// service, all at once.
pub fn many_at_once(kubectl: &Kubectl) -> Result<()> {
    kubectl.prints(&["get", "deployment", "echo"], "3/3")?;
    kubectl.prints(&["get", "deployment", "other"], "1/1")?;
    let pods = kubectl.ok(&["get", "pods", "-l", "program=echo", "-o", "name"])?;
    let addresses =
        kubectl.ok(&["get", "pods", "-l", "program=echo", "-o", "jsonpath={.items[*].status.podIP}"])?;
    let mut unique: Vec<&str> = addresses.split_whitespace().collect();
    unique.sort_unstable();
    unique.dedup();
    ensure!(
        unique.len() == 4 && unique.iter().all(|ip| ip.starts_with("10.244.0.")),
        "addresses {addresses}"
    );
    let mut forwards = vec![PortForward::usual(kubectl, "service/echo")?];
    for pod in pods.lines() {
        forwards.push(PortForward::start(kubectl, pod, ":80")?);
    }
    forwards.iter().try_for_each(|forward| exchange(forward.port))
}

/// The command `e2e-echo`: sends back its input on port 80 of the address that the node names, and adds a word at the
/// end.
pub fn echo() -> Result<()> {
    let host = std::env::var("SETPOINT_HOST").unwrap_or_else(|_| "127.0.0.1".into());
    let port = std::env::var("SETPOINT_PORT_80").ok().and_then(|port| port.parse().ok()).unwrap_or(80u16);
    let listener = TcpListener::bind((host.as_str(), port))?;
    println!("listening on {host}:{port}");
    for stream in listener.incoming() {
        let mut stream = stream?;
        std::thread::spawn(move || -> std::io::Result<()> {
            let mut reader = stream.try_clone()?;
            std::io::copy(&mut reader, &mut stream)?;
            stream.write_all(b"end")?;
            stream.shutdown(Shutdown::Write)
        });
    }
    Ok(())
}
