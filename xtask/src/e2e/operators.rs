//! The same operator programs on the real control plane and on ours: the same objects, and no right too few.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use setpoint_peers::{ControlPlane, Options};

use super::cluster::{Cluster, Kubectl};
use super::operator::{self, ALL, Example, Running};
use super::{Setup, objects};

const SOON: Duration = Duration::from_secs(60);
/// Kinds that the operators and their children have.
const KINDS: &str = "foo,myresource,markdownview,deployment,service,configmap";

pub fn run(setup: &Setup) -> Result<()> {
    let program = setup.peer("kubectl")?;
    for peer in ["etcd", "kube-apiserver", "kube-controller-manager"] {
        setup.peer(peer)?;
    }
    let programs = operator::build()?;
    let real = Real::start(setup)?;
    let kubectl = Kubectl::on(&program, &real.plane.kubeconfig());
    let on_real = live(&kubectl, &real.plane.kubeconfig(), &programs)?;
    let ours = Cluster::start(&setup.setpoint, &[])?;
    let our_kubectl = ours.kubectl(&program);
    let on_ours = live(&our_kubectl, &ours.kubeconfig(), &programs)?;
    objects::equal("kube-apiserver and setpoint", &on_real, &on_ours)?;
    println!("operators: {} objects are the same on kube-apiserver and on setpoint", on_ours.len());
    drop(real);
    finalizers_are_needed(setup, &program, &programs)
}

/// The real control plane with our scheduler and node, since it has neither.
struct Real {
    nodes: Child,
    plane: ControlPlane,
    _folder: tempfile::TempDir,
}

impl Drop for Real {
    fn drop(&mut self) {
        let _ = self.nodes.kill();
        let _ = self.nodes.wait();
    }
}

impl Real {
    fn start(setup: &Setup) -> Result<Real> {
        let folder = super::folder::new()?;
        let options = Options { controller_manager: Some(vec!["*".into()]), ..Options::default() };
        let plane = setup.control_plane(folder.path(), &options)?;
        let log = std::fs::File::create(folder.path().join("nodes.log"))?;
        let nodes = Command::new(&setup.setpoint)
            .args(["controllers", "--only", "scheduler,node", "--no-leader-election", "--kubeconfig"])
            .arg(plane.kubeconfig())
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("cannot start setpoint controllers")?;
        Ok(Real { nodes, plane, _folder: folder })
    }
}

/// Each operator under its service account, from its sample to a changed, drifted and healed one; gives all objects.
fn live(kubectl: &Kubectl, admin: &Path, programs: &Path) -> Result<Vec<Value>> {
    // Pods are refused before their namespace has its account, and nothing may be.
    kubectl.comes_to_print(&["get", "serviceaccounts"], "default", SOON)?;
    let mut running = Vec::new();
    for example in ALL {
        running.push(start(kubectl, admin, programs, &example)?);
        kubectl.feed(&["apply", "--server-side", "-f", "-"], Some(&example.sample_text()?))?;
    }
    for example in ALL {
        example.until_well(kubectl, SOON).with_context(|| said(&running))?;
    }
    kubectl.ok(&["scale", "deployment/example-foo", "--replicas=4"])?;
    kubectl.ok(&["patch", "foo", "example-foo", "--type=merge", "-p", r#"{"spec":{"replicas":2}}"#])?;
    kubectl.ok(&["delete", "deployment", "my-res1-deployment", "--cascade=foreground"])?;
    let page = r##"{"spec":{"markdowns":{"page1.md":null,"page2.md":"# Page 2"},"replicas":2}}"##;
    kubectl.ok(&["patch", "markdownview", "markdownview-sample", "--type=merge", "-p", page])?;
    let settled = |kind: &str, name: &str, pointer: &str, wanted: &str| {
        operator::until(&format!("{kind} {name}: {pointer} {wanted}"), SOON, || {
            let object: Value = serde_json::from_str(&kubectl.ok(&["get", kind, name, "-o", "json"])?)?;
            Ok(operator::holds(&object, pointer, wanted))
        })
        .with_context(|| said(&running))
    };
    settled("foo", "example-foo", "/status/availableReplicas", "2")?;
    settled("deployment", "my-res1-deployment", "/status/availableReplicas", "1")?;
    settled("myresource", "my-res1", "/status/state", "\"Ready\"")?;
    settled("deployment", "viewer-markdownview-sample", "/status/availableReplicas", "2")?;
    settled("markdownview", "markdownview-sample", "/status/state", "\"Healthy\"")?;
    for deployment in ["example-foo", "my-res1-deployment", "viewer-markdownview-sample"] {
        kubectl.ok(&["rollout", "status", "deployment", deployment, "--timeout=30s"])?;
    }
    for reason in ["Synced", "Available"] {
        kubectl.comes_to_print(&["get", "events", "-o", "jsonpath={..reason}"], reason, SOON)?;
    }
    operator::nothing_forbidden(kubectl)?;
    let mut found = objects::read(kubectl, KINDS, "default")?;
    // Generations and revisions count the steps between, which depend on who was first.
    found.iter_mut().for_each(without_counts);
    Ok(found)
}

fn without_counts(object: &mut Value) {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("generation");
    }
    if let Some(status) = object["status"].as_object_mut() {
        status.remove("observedGeneration");
    }
}

fn said(running: &[Running]) -> String {
    running.iter().map(Running::said).collect::<Vec<_>>().join("\n")
}

fn start(kubectl: &Kubectl, admin: &Path, programs: &Path, example: &Example) -> Result<Running> {
    kubectl.feed(&["apply", "-f", "-"], Some(&example.manifests_without_deployment(programs)?))?;
    let (kind, _) = example.sample;
    operator::until(&format!("{kind} to be served"), SOON, || Ok(kubectl.ok(&["get", kind]).is_ok()))?;
    let kubeconfig = example.kubeconfig_of_account(kubectl, admin)?;
    let flags = ["--leader-elect", "--leader-election-namespace", example.account.1];
    Running::start(&programs.join(example.program), &kubeconfig, &flags)
}

/// With the admission plugin on, a server refuses an owner reference that blocks deletion unless the user may write
/// the owner's finalizers. With that right the child is created. Without it the server refuses.
fn finalizers_are_needed(setup: &Setup, program: &Path, programs: &Path) -> Result<()> {
    let folder = super::folder::new()?;
    let flag = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement";
    let options = Options { apiserver_flags: vec![flag.into()], ..Options::default() };
    let plane = setup.control_plane(folder.path(), &options)?;
    let (admin, kubectl) = (plane.kubeconfig(), Kubectl::on(program, &plane.kubeconfig()));
    let mut running = Vec::new();
    for example in ALL {
        running.push(start(&kubectl, &admin, programs, &example)?);
        kubectl.feed(&["apply", "-f", "-"], Some(&example.sample_text()?))?;
    }
    let count = || Ok::<_, anyhow::Error>(kubectl.ok(&["get", "deployments", "-o", "name"])?.lines().count());
    // The plugin learns of new definitions by and by.
    operator::until("a Deployment of each", SOON, || Ok(count()? == ALL.len()))
        .with_context(|| said(&running))?;
    for (example, operator) in ALL.iter().zip(&running) {
        let (account, namespace) = example.account;
        let role: Value =
            serde_json::from_str(&kubectl.ok(&["get", "clusterrole", account, "-o", "json"])?)?;
        let rules = role["rules"].as_array().context("a role without rules")?;
        let at =
            rules.iter().position(|rule| rule.to_string().contains("/finalizers\"")).context("no rule")?;
        let patch = format!(r#"[{{"op":"remove","path":"/rules/{at}"}}]"#);
        kubectl.ok(&["patch", "clusterrole", account, "--type=json", "-p", &patch])?;
        // kube-apiserver judges by a cache.
        let (kind, user) = (example.sample.0, format!("--as=system:serviceaccount:{namespace}:{account}"));
        let asked = ["auth", "can-i", "update", kind, "--subresource=finalizers", &user];
        kubectl.comes_to_print(&asked, "no", SOON)?;
        let (_, name) = example.sample;
        kubectl.feed(&["apply", "-f", "-"], Some(&example.sample_text()?.replace(name, "another")))?;
        let refusal = "refers to a resource you can't set finalizers on";
        operator::until("the refusal", SOON, || Ok(operator.said().contains(refusal)))
            .with_context(|| format!("{account} does not need the right: {}", operator.said()))?;
    }
    ensure!(count()? == ALL.len(), "a child came without the right");
    println!("operators: the right on finalizers is needed where the server looks, and suffices");
    Ok(())
}
