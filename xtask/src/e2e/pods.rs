//! Pods that run programs, as kubectl sees them: logs, exec, attach, port-forward, each with the oldest and the
//! newest kubectl, on `setpoint up` and through the real kube-apiserver.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::Setup;
use super::cluster::{Cluster, Kubectl};

/// The programs that the pods may run; PROGRAM is ours, XTASK this one.
pub const IMAGES: &str = r#"
[[image]]
pattern = "shell:*"
programs.sh = ["/bin/sh"]
programs.cat = ["/bin/cat"]
exec = true

[[image]]
pattern = "closed:*"
programs.sh = ["/bin/sh"]

[[image]]
pattern = "echo:*"
programs.echo = ["XTASK", "e2e-echo"]
default = "echo"
"#;

const PODS: &str = include_str!("pods.yaml");
const SOON: Duration = Duration::from_secs(30);
/// More than every buffer on the way together.
const BIG: usize = 4 << 20;

pub fn run(setup: &Setup) -> Result<()> {
    let kubectls = [setup.peer("kubectl")?, setup.peer("kubectl-1.32")?];
    let folder = tempfile::tempdir()?;
    write_images(folder.path(), &setup.setpoint)?;
    let cluster = Cluster::start_in(&setup.setpoint, folder, &["--images", "images.toml"])?;
    let kubectl = cluster.kubectl(&kubectls[0]);
    begin(&kubectl)?;
    for program in &kubectls {
        session(&cluster.kubectl(program)).with_context(|| program.display().to_string())?;
    }
    many_at_once(&kubectl)?;
    simulated(&kubectl)?;
    let processes = processes_of(cluster.folder.path())?;
    ensure!(!processes.is_empty(), "no program runs");
    let folder = cluster.kill()?;
    nothing_left(&processes)?;
    drop(folder);
    Ok(())
}

/// The table with the programs of this machine.
pub fn write_images(folder: &Path, setpoint: &Path) -> Result<()> {
    let own = std::env::current_exe()?;
    let text = IMAGES.replace("XTASK", &own.display().to_string());
    std::fs::write(folder.join("images.toml"), text.replace("PROGRAM", &setpoint.display().to_string()))?;
    Ok(())
}

/// Makes the pods and waits until they run.
pub fn begin(kubectl: &Kubectl) -> Result<()> {
    kubectl.comes_to_print(&["get", "serviceaccounts"], "default", SOON)?;
    kubectl.feed(&["apply", "-f", "-"], Some(PODS))?;
    let pods = ["pod/sh", "pod/closed", "pod/pair", "pod/listener"];
    kubectl.ok(&[&["wait", "--for=condition=Ready", "--timeout=60s"][..], &pods].concat())?;
    kubectl.ok(&["rollout", "status", "deployment/echo", "--timeout=60s"])?;
    Ok(())
}

/// Everything that one kubectl can ask of a running program.
pub fn session(kubectl: &Kubectl) -> Result<()> {
    logs(kubectl)?;
    exec(kubectl)?;
    terminal(kubectl)?;
    attach(kubectl)?;
    forward(kubectl, "pod", "3001:7")?;
    forward(kubectl, "service", "3001:80")?;
    Ok(())
}

fn logs(kubectl: &Kubectl) -> Result<()> {
    kubectl.comes_to_print(&["logs", "sh"], "three", SOON)?;
    ensure!(kubectl.ok(&["logs", "sh"])? == "one\ntwo\nthree\n", "not the log");
    ensure!(kubectl.ok(&["logs", "sh", "--tail=1"])? == "three\n", "not the tail");
    ensure!(kubectl.ok(&["logs", "sh", "--limit-bytes=5"])? == "one\nt", "not five bytes");
    ensure!(kubectl.ok(&["logs", "sh", "--since=1h", "--tail=2"])? == "two\nthree\n", "not since an hour");
    let stamped = kubectl.ok(&["logs", "sh", "--timestamps", "--tail=1"])?;
    ensure!(stamped.starts_with("20") && stamped.ends_with("Z three\n"), "no time in {stamped:?}");
    ensure!(kubectl.ok(&["logs", "pair", "-c", "real"])? == "real\n", "not the container's");
    kubectl.prints(&["logs", "pair", "-c", "pretend"], "simulated container pretend started")?;
    kubectl.comes_to_print(&["get", "pod", "crash"], "CrashLoopBackOff", SOON)?;
    ensure!(
        kubectl.ok(&["logs", "crash", "--previous"])? == "before the end\n",
        "not the log of the run before"
    );
    kubectl.prints(&["get", "pod", "crash", "-o", "jsonpath={..lastState.terminated.exitCode}"], "3")?;
    kubectl.refused(
        &["logs", "sh", "--previous"],
        None,
        "previous terminated container \"main\" in pod \"sh\" not found",
    )?;
    kubectl.refused(&["logs", "wrong"], None, "is waiting to start: CreateContainerError")?;
    follow(kubectl)
}

/// `logs -f` shows what comes and ends with the container.
fn follow(kubectl: &Kubectl) -> Result<()> {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: short}\nspec: {restartPolicy: Never, containers: [{name: main, image: 'shell:1', command: [sh, -c, 'echo a; sleep 1; printf b']}]}\n";
    kubectl.feed(&["create", "-f", "-"], Some(pod))?;
    kubectl.comes_to_print(&["logs", "short"], "a", SOON)?;
    ensure!(kubectl.ok(&["logs", "-f", "short"])? == "a\nb", "not all of it was followed");
    kubectl.ok(&["delete", "pod", "short", "--timeout=30s"])?;
    Ok(())
}

fn exec(kubectl: &Kubectl) -> Result<()> {
    let output =
        kubectl.command(&["exec", "sh", "--", "sh", "-c", "echo out; echo bad >&2; exit 7"]).output()?;
    ensure!(
        output.status.code() == Some(7),
        "exit code {:?}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    ensure!(output.stdout == b"out\n", "not its output");
    ensure!(String::from_utf8_lossy(&output.stderr).contains("bad\n"), "not its errors");
    kubectl.refused(
        &["exec", "sh", "--", "perl"],
        None,
        "the image table lets shell:* run cat, sh, not \"perl\"",
    )?;
    kubectl.refused(&["exec", "closed", "--", "sh"], None, "does not allow exec")?;
    kubectl.refused(&["exec", "pair", "-c", "pretend", "--", "sh"], None, "simulated")?;
    let sent = pattern(BIG);
    let mut sessions = Vec::new();
    for _ in 0..2 {
        sessions.push(feed_cat(kubectl, sent.clone())?);
    }
    for session in sessions {
        ensure!(
            session.join().ok().context("a session broke")?? == sent,
            "what came back is not what was sent"
        );
    }
    Ok(())
}

type Copied = std::thread::JoinHandle<Result<Vec<u8>>>;

fn feed_cat(kubectl: &Kubectl, sent: Vec<u8>) -> Result<Copied> {
    let mut child = kubectl
        .command(&["exec", "-i", "sh", "--", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut input = child.stdin.take().context("no input")?;
    Ok(std::thread::spawn(move || {
        let typing = std::thread::spawn(move || input.write_all(&sent));
        let output = child.wait_with_output()?;
        typing.join().ok().context("typing broke")??;
        ensure!(output.status.success(), "cat ended with {}", output.status);
        Ok(output.stdout)
    }))
}

fn pattern(count: usize) -> Vec<u8> {
    (0..count as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// `exec -t`: the program has a terminal of the client's size.
fn terminal(kubectl: &Kubectl) -> Result<()> {
    let command =
        kubectl.command(&["exec", "-it", "sh", "--", "sh", "-c", "'tty; sleep 0.3; stty size; exit 4'"]);
    let words: Vec<String> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let line = format!("stty cols 91 rows 17; {}", words.join(" "));
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    if let Some(folder) = command.get_current_dir() {
        script.current_dir(folder);
    }
    let output = script.spawn().context("script (of bsdutils)")?.wait_with_output()?;
    let shown = String::from_utf8_lossy(&output.stdout);
    ensure!(shown.contains("/dev/pts/") && shown.contains("17 91"), "no terminal of that size in {shown:?}");
    ensure!(output.status.code() == Some(4), "exit code {}", output.status);
    Ok(())
}

fn attach(kubectl: &Kubectl) -> Result<()> {
    let mut child = kubectl
        .command(&["attach", "-i", "listener", "-c", "main"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut input = child.stdin.take().context("no input")?;
    input.write_all(b"word\n")?;
    let mut output = child.stdout.take().context("no output")?;
    let mut got = [0; 9];
    output.read_exact(&mut got)?;
    ensure!(&got == b"got word\n", "attached to {:?}", String::from_utf8_lossy(&got));
    drop(input);
    child.kill()?;
    child.wait()?;
    Ok(())
}

/// A forwarded port carries many bytes unharmed, several connections at once, and lets each side finish first.
fn forward(kubectl: &Kubectl, kind: &str, ports: &str) -> Result<()> {
    let target = match kind {
        "pod" => kubectl
            .ok(&["get", "pods", "-l", "app=echo", "-o", "name"])?
            .lines()
            .next()
            .unwrap_or("")
            .to_owned(),
        _ => "service/echo".to_owned(),
    };
    let remote = ports.split(':').next_back().unwrap_or_default();
    let forward = PortForward::start(kubectl, &target, remote)?;
    exchange(forward.port).with_context(|| format!("port-forward to {target}"))
}

/// A running `kubectl port-forward`; killed when dropped.
struct PortForward {
    child: Child,
    port: u16,
    /// Held, because kubectl ends when nobody reads what it says.
    output: std::io::BufReader<std::process::ChildStdout>,
}

impl Drop for PortForward {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl PortForward {
    /// On a free port.
    fn start(kubectl: &Kubectl, target: &str, remote: &str) -> Result<PortForward> {
        use std::io::BufRead;
        let mut child = kubectl
            .command(&["port-forward", target, &format!(":{remote}")])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let output = std::io::BufReader::new(child.stdout.take().context("no output")?);
        let mut forward = PortForward { child, port: 0, output };
        let mut line = String::new();
        forward.output.read_line(&mut line)?;
        let port =
            line.split_whitespace().nth(2).and_then(|address| address.rsplit(':').next()?.parse().ok());
        forward.port = port.with_context(|| format!("kubectl port-forward said {line:?}"))?;
        Ok(forward)
    }
}

fn exchange(port: u16) -> Result<()> {
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
            // The program adds a word when it has seen the end of what it got.
            Ok(got.strip_suffix(b"end") == Some(&wanted))
        }));
    }
    for connection in connections {
        ensure!(connection.join().ok().context("a connection broke")??, "not the bytes that were sent");
    }
    Ok(())
}

/// Three replicas of one program, two Deployments of it, all on the same port, and forwards to each at once.
fn many_at_once(kubectl: &Kubectl) -> Result<()> {
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
    let mut forwards = Vec::new();
    for pod in pods.lines() {
        forwards.push(PortForward::start(kubectl, pod, "7")?);
    }
    forwards.iter().try_for_each(|forward| exchange(forward.port))
}

fn simulated(kubectl: &Kubectl) -> Result<()> {
    let run = |name: &str, annotations: &str| {
        let pod = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, annotations: {{{annotations}}}}}\nspec: {{restartPolicy: OnFailure, containers: [{{name: main, image: nginx}}]}}\n"
        );
        kubectl.feed(&["create", "-f", "-"], Some(&pod))
    };
    run("done", "setpoint.dev/run-for: 100ms")?;
    run("fails", "setpoint.dev/run-for: 100ms, setpoint.dev/exit-code: '9'")?;
    run("slow", "setpoint.dev/start-delay: 1s, setpoint.dev/ready-delay: 1s")?;
    kubectl.comes_to_print(&["get", "pod", "done"], "Completed", SOON)?;
    kubectl.comes_to_print(&["get", "pod", "fails"], "CrashLoopBackOff", SOON)?;
    kubectl.comes_to_print(&["get", "pod", "slow"], "1/1", SOON)?;
    kubectl.prints(&["get", "node", "setpoint-0"], "Ready")?;
    kubectl.prints(&["get", "lease", "-n", "kube-node-lease", "setpoint-0"], "setpoint-0")?;
    kubectl.ok(&["delete", "pod", "done", "fails", "slow", "--timeout=30s"])?;
    Ok(())
}

/// The programs whose environment says that they are of this cluster.
fn processes_of(folder: &Path) -> Result<Vec<u32>> {
    let kubeconfig = std::fs::read_to_string(folder.join("k.yaml"))?;
    let port = kubeconfig.split("https://127.0.0.1:").nth(1).unwrap_or_default();
    let port: String = port.chars().take_while(char::is_ascii_digit).collect();
    let wanted = format!("KUBERNETES_SERVICE_PORT={port}\0");
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        if String::from_utf8_lossy(&environment).contains(&wanted) {
            found.push(pid);
        }
    }
    Ok(found)
}

/// After `kill -9` of the server: no program, and at the next start no folder.
fn nothing_left(processes: &[u32]) -> Result<()> {
    let deadline = Instant::now() + SOON;
    let alive = |pid: &u32| Path::new(&format!("/proc/{pid}/environ")).exists();
    while processes.iter().any(alive) {
        ensure!(Instant::now() < deadline, "programs outlived their node: {processes:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// What `e2e-echo` does: sends back what it gets on port 7 of the address that the node tells, and adds a word at
/// the end.
pub fn echo() -> Result<()> {
    let host = std::env::var("SETPOINT_HOST").unwrap_or_else(|_| "127.0.0.1".into());
    let port = std::env::var("SETPOINT_PORT_7").ok().and_then(|port| port.parse().ok()).unwrap_or(7u16);
    let listener = std::net::TcpListener::bind((host.as_str(), port))?;
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
