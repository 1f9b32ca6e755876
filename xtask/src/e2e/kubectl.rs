//! The commands that people type, with the oldest and the newest kubectl.

pub mod compare;
mod normal;
mod steps;

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::Setup;
use super::cluster::{Cluster, Kubectl};
use super::operator;

const CRD: &str = include_str!("crontab.yaml");
const SOON: Duration = Duration::from_secs(20);

pub fn current(setup: &Setup) -> Result<()> {
    session(setup, &setup.peer("kubectl")?)
}

pub fn oldest(setup: &Setup) -> Result<()> {
    session(setup, &setup.peer("kubectl-1.32")?)
}

fn session(setup: &Setup, program: &Path) -> Result<()> {
    let cluster = Cluster::start(&setup.setpoint, &[])?;
    let kubectl = cluster.kubectl(program);
    about_the_cluster(&kubectl)?;
    objects(&kubectl)?;
    custom_resources(&kubectl)?;
    workloads(&kubectl)?;
    Ok(())
}

fn about_the_cluster(kubectl: &Kubectl) -> Result<()> {
    kubectl.prints(&["version"], "Server Version: v1.37")?;
    kubectl.prints(&["cluster-info"], "Kubernetes control plane")?;
    kubectl.prints(&["api-versions"], "apps/v1")?;
    kubectl.prints(&["api-resources"], "deployments")?;
    kubectl.prints(&["get", "namespaces"], "kube-node-lease")?;
    kubectl.prints(&["get", "service"], "10.96.0.1")?;
    kubectl.prints(&["auth", "whoami"], "admin")?;
    kubectl.prints(&["auth", "can-i", "create", "pods"], "yes")?;
    Ok(())
}

fn objects(kubectl: &Kubectl) -> Result<()> {
    kubectl.prints(&["create", "namespace", "demo"], "namespace/demo created")?;
    kubectl
        .prints(&["-n", "demo", "create", "configmap", "c", "--from-literal=a=1"], "configmap/c created")?;
    kubectl.prints(
        &["-n", "demo", "create", "secret", "generic", "s", "--from-literal=p=q"],
        "secret/s created",
    )?;
    kubectl.prints(&["-n", "demo", "label", "configmap", "c", "team=a"], "labeled")?;
    kubectl.prints(&["-n", "demo", "annotate", "configmap", "c", "note=b"], "annotated")?;
    kubectl.prints(
        &["-n", "demo", "patch", "configmap", "c", "--type=merge", "-p", r#"{"data":{"b":"2"}}"#],
        "patched",
    )?;
    let operations = r#"[{"op":"replace","path":"/data/a","value":"3"}]"#;
    kubectl.prints(&["-n", "demo", "patch", "configmap", "c", "--type=json", "-p", operations], "patched")?;
    kubectl
        .prints(&["-n", "demo", "get", "configmap", "c", "-o", "jsonpath={.data}"], r#"{"a":"3","b":"2"}"#)?;
    kubectl.prints(&["-n", "demo", "get", "configmap", "-l", "team=a"], "c      2")?;
    kubectl.prints(&["explain", "deployment.spec.replicas"], "replicas")?;
    let wrong = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: wrong}\nfoo: 1\n";
    kubectl.refused(&["create", "-f", "-", "--validate=strict"], Some(wrong), "unknown field")?;
    kubectl.refused(&["get", "configmap", "absent"], None, "configmaps \"absent\" not found")?;
    kubectl.prints(&["-n", "demo", "delete", "configmap", "c"], "deleted")?;
    Ok(())
}

fn custom_resources(kubectl: &Kubectl) -> Result<()> {
    kubectl.feed(&["apply", "-f", "-"], Some(CRD))?;
    kubectl.ok(&[
        "wait",
        "--for=condition=Established",
        "crd/crontabs.stable.example.com",
        "--timeout=20s",
    ])?;
    let tab = "apiVersion: stable.example.com/v1\nkind: CronTab\nmetadata: {name: tab}\nspec: {cronSpec: '* * * * *', image: i}\n";
    kubectl.feed(&["apply", "-f", "-"], Some(tab))?;
    kubectl.feed(&["apply", "-f", "-"], Some(&tab.replace("image: i", "image: j")))?;
    let rows = kubectl.ok(&["get", "ct"])?;
    ensure!(rows.contains("SPEC") && rows.contains("* * * * *"), "no printer column in:\n{rows}");
    kubectl.prints(&["scale", "crontab/tab", "--replicas=3"], "scaled")?;
    kubectl.refused(
        &["apply", "-f", "-"],
        Some(&tab.replace("image: i", "image: i, replicas: eleven")),
        "replicas",
    )?;
    kubectl.ok(&["delete", "crd", "crontabs.stable.example.com"])?;
    // kubectl still has the kind in its own discovery cache; the server does not know it any more.
    kubectl.refused(&["get", "ct"], None, "could not find the requested resource")?;
    Ok(())
}

fn workloads(kubectl: &Kubectl) -> Result<()> {
    kubectl.prints(&["create", "deployment", "web", "--image=nginx:1.28", "--replicas=2"], "created")?;
    kubectl.ok(&["rollout", "status", "deployment/web", "--timeout=30s"])?;
    kubectl.prints(&["get", "deployment", "web"], "2/2")?;
    kubectl.prints(&["get", "pods", "-o", "wide"], "Running")?;
    kubectl.ok(&["set", "image", "deployment/web", "nginx=nginx:1.29"])?;
    kubectl.ok(&["rollout", "status", "deployment/web", "--timeout=30s"])?;
    kubectl.prints(&["rollout", "history", "deployment/web"], "2 ")?;
    kubectl.ok(&["rollout", "undo", "deployment/web"])?;
    kubectl.ok(&["rollout", "status", "deployment/web", "--timeout=30s"])?;
    kubectl.prints(&["get", "deployment", "web", "-o", "jsonpath={..image}"], "nginx:1.28")?;
    kubectl.ok(&["scale", "deployment/web", "--replicas=5"])?;
    kubectl.comes_to_print(&["get", "deployment", "web"], "5/5", SOON)?;
    kubectl.ok(&["expose", "deployment", "web", "--port=80"])?;
    kubectl.comes_to_print(&["get", "endpointslices", "-o", "jsonpath={..addresses}"], "10.244.", SOON)?;
    kubectl.ok(&["delete", "deployment", "web", "--cascade=foreground", "--timeout=30s"])?;
    operator::until("nothing to be left behind", SOON, || {
        Ok(kubectl.ok(&["get", "pods,replicasets", "-o", "name"])?.trim().is_empty())
    })?;
    kubectl.ok(&["delete", "namespace", "demo", "--timeout=30s"])?;
    Ok(())
}
