//! Pods that run programs, as kubectl sees them: logs, exec, attach, port-forward, each with the oldest and the
//! newest kubectl, on `setpoint up` and through the real kube-apiserver.

mod surroundings;
mod two_processes;
mod forward;
mod left;

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

pub use forward::echo;

use super::Setup;
use super::cluster::{Cluster, Kubectl};

/// The programs that the pods may run; PROGRAM is ours, XTASK this one.
pub const IMAGES: &str = r#"
[[image]]
pattern = "shell:*"
trust = "host"
programs.sh = ["/bin/sh"]
programs.cat = ["/bin/cat"]
exec = true

[[image]]
pattern = "closed:*"
trust = "host"
programs.sh = ["/bin/sh"]

[[image]]
pattern = "echo:*"
trust = "host"
programs.echo = ["XTASK", "e2e-echo"]
default = "echo"
"#;

const PODS: &str = include_str!("pods.yaml");
const SOON: Duration = Duration::from_secs(30);
/// More than every buffer on the way together.
const BIG: usize = 4 << 20;

pub fn run(setup: &Setup) -> Result<()> {
    let kubectls = [setup.peer("kubectl")?, setup.peer("kubectl-1.32")?];
    let folder = crate::e2e::folder::new()?;
    write_images(folder.path(), &setup.setpoint)?;
    let cluster = Cluster::start_in(&setup.setpoint, folder, &["--images", "images.toml"])?;
    let kubectl = cluster.kubectl(&kubectls[0]);
    begin(&kubectl)?;
    for program in &kubectls {
        session(&cluster.kubectl(program)).with_context(|| program.display().to_string())?;
    }
    over_spdy(&cluster.kubectl(&kubectls[0]).over_spdy())?;
    forward::many_at_once(&kubectl)?;
    simulated(&kubectl)?;
    two_processes::run(setup, &cluster, &kubectls)?;
    left::of_memory(setup, cluster)?;
    left::of_folder(setup, &kubectls[0])?;
    surroundings::run(setup, &kubectls[0])
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
    streams(kubectl)
}

fn streams(kubectl: &Kubectl) -> Result<()> {
    exec(kubectl)?;
    terminal(kubectl)?;
    attach(kubectl)?;
    forward::pod_and_service(kubectl)
}

/// kubectl uses websocket unless a flag or the server makes it use the older protocol.
pub fn over_spdy(kubectl: &Kubectl) -> Result<()> {
    let spoken = kubectl.command(&["exec", "sh", "-v=9", "--", "sh", "-c", "true"]).output()?;
    let said = String::from_utf8_lossy(&spoken.stderr);
    ensure!(said.contains("SPDY/3.1") || said.contains("X-Stream-Protocol-Version"), "not SPDY: {said}");
    streams(kubectl).context("over SPDY")
}

fn logs(kubectl: &Kubectl) -> Result<()> {
    kubectl.comes_to_print(&["logs", "sh"], "three", SOON)?;
    ensure!(kubectl.ok(&["logs", "sh"])? == "one\ntwo\nthree\n", "not the log");
    ensure!(kubectl.ok(&["logs", "sh", "--tail=1"])? == "three\n", "not the tail");
    ensure!(kubectl.ok(&["logs", "sh", "--limit-bytes=5"])? == "one\nt", "not five bytes");
    ensure!(kubectl.ok(&["logs", "sh", "--since=1h", "--tail=2"])? == "two\nthree\n", "not since an hour");
    let stamped = kubectl.ok(&["logs", "sh", "--timestamps", "--tail=1"])?;
    ensure!(stamped.starts_with("20") && stamped.ends_with("Z three\n"), "no time in {stamped:?}");
    kubectl.comes_to_print(&["logs", "pair", "-c", "real"], "real", SOON)?;
    ensure!(kubectl.ok(&["logs", "pair", "-c", "real"])? == "real\n", "not the container's");
    kubectl.comes_to_print(
        &["logs", "pair", "-c", "pretend"],
        "simulated container pretend started",
        SOON,
    )?;
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

/// `logs -f` shows new lines and ends with the container.
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
    // The size comes after the program began: until then there is none.
    let program = r#"'tty; n=0; while [ "$(stty size)" = "0 0" ] && [ $n -lt 200 ]; do sleep 0.1; n=$((n+1)); done; stty size; exit 4'"#;
    let command = kubectl.command(&["exec", "-it", "sh", "--", "sh", "-c", program]);
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
    script.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
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
