//! `setpoint new` as a new user runs it: an operator in an empty folder, its tests, and its life on both servers.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use setpoint_peers::Options;

use super::Setup;
use super::cluster::{Cluster, Kubectl};
use super::operator::{self, Example, Running};
use crate::run;

const SOON: Duration = Duration::from_secs(60);

const OPERATOR: Example = Example {
    program: "my-operator",
    account: ("my-operator", "my-operator-system"),
    sample: ("website", "sample"),
    file: "samples/website.yaml",
    well: ("/status/conditions/0/status", "\"True\""),
};

pub fn run(setup: &Setup) -> Result<()> {
    let kubectl = setup.peer("kubectl")?;
    for peer in ["etcd", "kube-apiserver", "kube-controller-manager"] {
        setup.peer(peer)?;
    }
    let home = super::folder::new()?;
    let operator = Scaffolded::new(setup, home.path())?;
    operator.is_tested().context("a new operator")?;
    // Its tests have built the program.
    let programs = target_folder().join("debug");
    on_ours(setup, &kubectl, &operator, &programs).context("on setpoint up")?;
    on_kube_apiserver(setup, &kubectl, &operator, &programs).context("on kube-apiserver")?;
    as_a_pod(setup, &kubectl, &operator, &programs).context("as a pod")?;
    for words in [
        &["kind", "DNSRecord"][..],
        &["webhook", "Website"],
        &["version", "v1beta1", "--kind", "Website"],
        &["version", "v1alpha1", "--kind", "Website"],
        &["webhook", "DNSRecord"],
    ] {
        operator.grows(words)?;
    }
    operator.is_tested().context("an operator with all additions")
}

/// The folder of an operator, outside the repository.
struct Scaffolded {
    setpoint: PathBuf,
    folder: PathBuf,
}

/// The folder in which the operators are built: a second run builds only what has changed.
fn target_folder() -> PathBuf {
    run::target_folder().join("scaffold")
}

impl Scaffolded {
    fn new(setup: &Setup, home: &Path) -> Result<Scaffolded> {
        let words =
            ["new", OPERATOR.program, "--kind", "Website", "--group", "example.org", "--setpoint-path"];
        let said = run::read(Command::new(&setup.setpoint).args(words).arg(run::root()).current_dir(home))?;
        ensure!(said.contains("cargo test"), "no next step in: {said}");
        let folder = home.join(OPERATOR.program);
        // A release that came out since must not decide whether this passes.
        std::fs::copy(run::root().join("Cargo.lock"), folder.join("Cargo.lock"))?;
        Ok(Scaffolded { setpoint: setup.setpoint.clone(), folder })
    }

    fn grows(&self, words: &[&str]) -> Result<()> {
        let mut command = Command::new(&self.setpoint);
        run::read(command.arg("new").args(words).current_dir(&self.folder)).map(drop)
    }

    fn cargo(&self, words: &[&str]) -> Result<()> {
        let mut command = run::cargo();
        command.current_dir(&self.folder).env("CARGO_TARGET_DIR", target_folder()).args(words);
        run::check(&mut command)
    }

    /// Runs what its CI file runs.
    fn is_tested(&self) -> Result<()> {
        self.cargo(&["fmt", "--check"])?;
        self.cargo(&["clippy", "--quiet", "--all-targets", "--", "-D", "warnings"])?;
        self.cargo(&["test", "--quiet"])
    }

    fn sample(&self) -> Result<String> {
        Ok(std::fs::read_to_string(self.folder.join(OPERATOR.file))?)
    }
}

fn on_ours(setup: &Setup, program: &Path, operator: &Scaffolded, programs: &Path) -> Result<()> {
    let cluster = Cluster::start(&setup.setpoint, &[])?;
    let kubectl = cluster.kubectl(program);
    as_a_program(&kubectl, &cluster.kubeconfig(), operator, programs)
}

fn on_kube_apiserver(setup: &Setup, program: &Path, operator: &Scaffolded, programs: &Path) -> Result<()> {
    let folder = super::folder::new()?;
    let options = Options { controller_manager: Some(vec!["*".into()]), ..Options::default() };
    let real = setup.control_plane(folder.path(), &options)?;
    let kubectl = Kubectl::on(program, &real.kubeconfig());
    as_a_program(&kubectl, &real.kubeconfig(), operator, programs)
}

/// The program outside the cluster, under its service account.
fn as_a_program(kubectl: &Kubectl, admin: &Path, operator: &Scaffolded, programs: &Path) -> Result<()> {
    let manifests = OPERATOR.manifests_without_deployment(programs)?;
    kubectl.feed(&["apply", "--server-side", "-f", "-"], Some(&manifests))?;
    let account = OPERATOR.kubeconfig_of_account(kubectl, admin)?;
    let running = Running::start(&programs.join(OPERATOR.program), &account, &[])?;
    lives(kubectl, operator).with_context(|| running.said())
}

fn as_a_pod(setup: &Setup, program: &Path, operator: &Scaffolded, programs: &Path) -> Result<()> {
    let folder = super::folder::new()?;
    let table = folder.path().join("images.toml");
    let name = OPERATOR.program;
    let image = format!(
        "[[image]]\npattern = \"{name}:*\"\ntrust = \"host\"\nprograms.{name} = [{:?}]\n",
        programs.join(name)
    );
    std::fs::write(&table, image)?;
    let cluster =
        Cluster::start(&setup.setpoint, &["--images", table.to_str().context("a path that is text")?])?;
    let kubectl = cluster.kubectl(program);
    let manifests = OPERATOR.prints(programs, &["manifests"])?;
    kubectl.feed(&["apply", "--server-side", "-f", "-"], Some(&manifests))?;
    let (account, namespace) = OPERATOR.account;
    let deployment = format!("deployment/{account}");
    kubectl
        .ok(&["rollout", "status", &deployment, "--namespace", namespace, "--timeout=60s"])
        .with_context(|| cluster.errors())?;
    lives(&kubectl, operator)?;
    kubectl.prints(&["logs", &deployment, "--namespace", namespace], "became leader")
}

/// The life of the sample, from its creation to its end.
fn lives(kubectl: &Kubectl, operator: &Scaffolded) -> Result<()> {
    kubectl.feed(&["apply", "--server-side", "-f", "-"], Some(&operator.sample()?))?;
    OPERATOR.until_well(kubectl, SOON)?;
    let message = ["get", "configmap", "sample-website", "-o", "jsonpath={.data.message}"];
    kubectl.prints(&message, "Hello")?;
    let (kind, name) = OPERATOR.sample;
    kubectl.ok(&["patch", kind, name, "--type=merge", "-p", r#"{"spec":{"message":"Goodbye"}}"#])?;
    kubectl.comes_to_print(&message, "Goodbye", SOON)?;
    kubectl.ok(&["delete", "configmap", "sample-website"])?;
    kubectl.comes_to_print(&message, "Goodbye", SOON)?;
    kubectl.comes_to_print(&["get", "events", "-o", "jsonpath={..reason}"], "Published", SOON)?;
    let empty = r#"{"spec":{"message":""}}"#;
    kubectl.refused(&["patch", kind, name, "--type=merge", "-p", empty], None, "spec.message")?;
    kubectl.ok(&["delete", kind, name, "--timeout=30s"])?;
    kubectl.refused(&message, None, "not found")?;
    operator::nothing_forbidden(kubectl)
}
