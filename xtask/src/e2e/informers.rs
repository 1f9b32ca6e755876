//! The caches of other people's clients stay true: client-go's dynamic informer and kube's reflector list, watch, live
//! through a restart of the server, find their version expired, and list again.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::cluster::{Cluster, Kubectl};
use super::{Missing, Setup};
use crate::run;

/// Time that a cache may take: clients wait before they try again.
const CATCH_UP: Duration = Duration::from_secs(60);
const OBJECTS: usize = 40;

pub fn run(setup: &Setup) -> Result<()> {
    let kubectl = setup.peer("kubectl")?;
    let (informer, watcher) = (build_informer()?, build_watcher()?);
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port().to_string();
    let flags = ["--port", &port, "--data-dir", "data", "--no-controllers"];
    let start_with =
        |folder, more: &[&str]| Cluster::start_in(&setup.setpoint, folder, &[&flags[..], more].concat());
    let start = |folder| start_with(folder, &[]);
    let cluster = start(super::folder::new()?)?;
    // The administrator's certificate changes with every start; all of them stay good, so a copy is enough.
    let keep = super::folder::new()?;
    let kubeconfig = keep.path().join("kubeconfig");
    std::fs::copy(cluster.folder.path().join("k.yaml"), &kubeconfig)?;

    cluster.kubectl(&kubectl).feed(&["create", "-f", "-"], Some(&maps("first", OBJECTS)))?;
    let mut caches = vec![
        Cache::start("client-go, dynamic informer", &informer, &kubeconfig, &[])?,
        Cache::start("kube-rs, list and watch", &watcher, &kubeconfig, &["list"])?,
        Cache::start("kube-rs, streaming list", &watcher, &kubeconfig, &["stream"])?,
    ];
    all_true(&mut caches, &cluster.kubectl(&kubectl), "list")?;
    change(&cluster.kubectl(&kubectl), "watched", 0)?;
    all_true(&mut caches, &cluster.kubectl(&kubectl), "watch")?;

    let cluster = start(cluster.kill()?)?;
    change(&cluster.kubectl(&kubectl), "restarted", 1)?;
    all_true(&mut caches, &cluster.kubectl(&kubectl), "restart")?;

    // While the caches are stopped, more changes happen than the next server remembers.
    caches.iter().try_for_each(|cache| cache.signal("-STOP"))?;
    change(&cluster.kubectl(&kubectl), "unseen", 2)?;
    let cluster = start_with(cluster.kill()?, &["--history-events", "2"])?;
    let expired = expired_watch(&cluster.kubectl(&kubectl))?;
    caches.iter().try_for_each(|cache| cache.signal("-CONT"))?;
    all_true(&mut caches, &cluster.kubectl(&kubectl), "expiry")?;
    println!(
        "informers: {} caches equal the server's truth after list, watch, restart and expiry ({expired})",
        caches.len()
    );
    Ok(())
}

/// Creates, changes and deletes.
fn change(kubectl: &Kubectl, name: &str, at: usize) -> Result<()> {
    kubectl.feed(&["create", "-f", "-"], Some(&maps(name, 3)))?;
    kubectl.ok(&["label", "configmap", &format!("first-{}", 3 * at), &format!("by={name}")])?;
    kubectl.ok(&[
        "delete",
        "configmap",
        &format!("first-{}", 3 * at + 1),
        &format!("first-{}", 3 * at + 2),
    ])?;
    Ok(())
}

/// The first version that was ever written is below the floor: a watch from there must say so.
fn expired_watch(kubectl: &Kubectl) -> Result<String> {
    let path = "/api/v1/configmaps?watch=true&resourceVersion=1&timeoutSeconds=5";
    let said = kubectl.ok(&["get", "--raw", path])?;
    let event: Value = serde_json::from_str(said.lines().next().context("the watch said nothing")?)?;
    if event["object"]["code"] != 410 {
        bail!("a watch from an old version said {event}");
    }
    Ok(event["object"]["message"].as_str().unwrap_or_default().to_owned())
}

fn maps(name: &str, count: usize) -> String {
    let map = |number| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("{name}-{number}"), "namespace": "default"}, "data": {"k": "v"}})
    };
    let items: Vec<Value> = (0..count).map(map).collect();
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

/// Waits until every cache holds exactly the server's objects.
fn all_true(caches: &mut [Cache], kubectl: &Kubectl, stage: &str) -> Result<()> {
    let list: Value = serde_json::from_str(&kubectl.ok(&["get", "--raw", "/api/v1/configmaps"])?)?;
    let mut truth: BTreeMap<String, String> = BTreeMap::new();
    for item in list["items"].as_array().context("no items")? {
        let text = |field: &str| item["metadata"][field].as_str().unwrap_or_default().to_owned();
        truth.insert(format!("{}/{}", text("namespace"), text("name")), text("resourceVersion"));
    }
    let deadline = Instant::now() + CATCH_UP;
    for cache in caches {
        loop {
            let held = cache.objects()?;
            if held == truth {
                break;
            }
            if Instant::now() > deadline {
                bail!("{stage}: the cache of {} holds {held:?}, the server {truth:?}", cache.name);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    Ok(())
}

/// A program with a cache; killed when dropped.
struct Cache {
    name: &'static str,
    child: Child,
    ask: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Drop for Cache {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Cache {
    fn start(name: &'static str, program: &Path, kubeconfig: &Path, words: &[&str]) -> Result<Cache> {
        let mut command = Command::new(program);
        command
            .arg(kubeconfig)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        let ask = child.stdin.take().context("no input")?;
        let answers = BufReader::new(child.stdout.take().context("no output")?);
        Ok(Cache { name, child, ask, answers })
    }

    /// The resourceVersions that it holds, by namespace and name.
    fn objects(&mut self) -> Result<BTreeMap<String, String>> {
        self.ask.write_all(b"\n")?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let answer: Value =
            serde_json::from_str(&line).with_context(|| format!("{}: {line:?}", self.name))?;
        Ok(serde_json::from_value(answer["objects"].clone())?)
    }

    fn signal(&self, signal: &str) -> Result<()> {
        run::check(Command::new("kill").arg(signal).arg(self.child.id().to_string()))
    }
}

fn build_informer() -> Result<PathBuf> {
    if run::found("go").is_none() {
        return Err(Missing("go is not on the search path".into()).into());
    }
    let program = run::root().join("target/peers/client-go-informers");
    let mut build = Command::new("go");
    build.current_dir(run::root().join("peers/client-go-informers")).env("CGO_ENABLED", "0");
    run::check(build.args(["build", "-buildvcs=false", "-o"]).arg(&program).arg("."))?;
    Ok(program)
}

fn build_watcher() -> Result<PathBuf> {
    let target = run::root().join("target/peers");
    let mut build = run::cargo();
    build.current_dir(run::root().join("peers/kube-watcher")).env("CARGO_TARGET_DIR", &target);
    run::check(build.args(["build", "--quiet", "--locked"]))?;
    Ok(target.join("debug/kube-watcher"))
}
