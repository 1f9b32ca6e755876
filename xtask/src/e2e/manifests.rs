//! MarkdownView's operator deployed as its manifests say: a pod of ours under its service account.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::Setup;
use super::cluster::{Cluster, Kubectl};
use super::operator::{self, MARKDOWNVIEW};

const SOON: Duration = Duration::from_secs(60);
const NAME: &str = MARKDOWNVIEW.account.0;
const NAMESPACE: &str = MARKDOWNVIEW.account.1;

pub fn run(setup: &Setup) -> Result<()> {
    let program = setup.peer("kubectl")?;
    let programs = operator::build()?;
    let folder = super::folder::new()?;
    let table = folder.path().join("images.toml");
    std::fs::write(&table, images(&setup.setpoint, &programs))?;
    let table = table.to_str().context("a path that is text")?;
    let cluster = Cluster::start(&setup.setpoint, &["--images", table])?;
    let kubectl = cluster.kubectl(&program);
    kubectl.feed(&["apply", "-f", "-"], Some(&MARKDOWNVIEW.prints(&programs, &["manifests"])?))?;
    let deployment = format!("deployment/{NAME}");
    kubectl
        .ok(&["rollout", "status", &deployment, "--namespace", NAMESPACE, "--timeout=60s"])
        .with_context(|| cluster.errors())?;
    kubectl.feed(&["apply", "-f", "-"], Some(&MARKDOWNVIEW.sample_text()?))?;
    MARKDOWNVIEW.until_well(&kubectl, SOON)?;
    pod_is_as_in_a_cluster(&kubectl)?;
    kubectl.prints(&["logs", &deployment, "--namespace", NAMESPACE], "became leader")?;
    second_replica_takes_over(&kubectl)?;
    kubectl.ok(&["delete", "markdownview", "markdownview-sample"])?;
    operator::until("the viewer to go", SOON, || {
        Ok(kubectl
            .ok(&["get", "deployment,configmap,service", "-o", "name"])?
            .matches("markdownview-sample")
            .count()
            == 0)
    })?;
    operator::nothing_forbidden(&kubectl)
}

/// Which images are programs of this host: the operator, and the viewer that it starts.
fn images(setpoint: &Path, programs: &Path) -> String {
    format!(
        "[[image]]\npattern = \"markdownview-operator:*\"\ntrust = \"host\"\nprograms.markdownview-operator = [{:?}]\n\n\
         [[image]]\npattern = \"peaceiris/mdbook:*\"\ntrust = \"host\"\nprograms.mdbook = [{:?}, \"viewer\"]\n\
         default = \"mdbook\"\nworking-dir = \"/book\"\n",
        programs.join(MARKDOWNVIEW.program),
        setpoint
    )
}

fn pod_is_as_in_a_cluster(kubectl: &Kubectl) -> Result<()> {
    let selector = format!("app.kubernetes.io/name={NAME}");
    let pods = kubectl.ok(&["get", "pods", "--namespace", NAMESPACE, "-l", &selector, "-o", "yaml"])?;
    ensure!(pods.contains(&format!("serviceAccountName: {NAME}")), "another account:\n{pods}");
    ensure!(pods.contains("/var/run/secrets/kubernetes.io/serviceaccount"), "no token:\n{pods}");
    let managers = ["get", "deployment", "viewer-markdownview-sample", "-o", "yaml", "--show-managed-fields"];
    kubectl.prints(&managers, &format!("manager: {NAME}"))
}

/// Two replicas, one lease; the leader's pod is deleted and the other goes on.
fn second_replica_takes_over(kubectl: &Kubectl) -> Result<()> {
    let deployment = format!("deployment/{NAME}");
    kubectl.ok(&["scale", &deployment, "--namespace", NAMESPACE, "--replicas=2"])?;
    kubectl.ok(&["rollout", "status", &deployment, "--namespace", NAMESPACE, "--timeout=60s"])?;
    let holder = || {
        let words = ["get", "lease", NAME, "--namespace", NAMESPACE, "-o", "jsonpath={.spec.holderIdentity}"];
        kubectl.ok(&words)
    };
    let first = holder()?;
    let logs = |pod: &str| kubectl.ok(&["logs", pod, "--namespace", NAMESPACE]);
    let pods = kubectl.ok(&["get", "pods", "--namespace", NAMESPACE, "-o", "name"])?;
    let leading: Vec<&str> =
        pods.lines().filter(|pod| logs(pod).is_ok_and(|log| log.contains("became leader"))).collect();
    ensure!(leading.len() == 1, "{leading:?} of {pods} lead");
    kubectl.ok(&["delete", leading[0], "--namespace", NAMESPACE])?;
    operator::until("another leader", SOON, || Ok(holder()? != first && !holder()?.is_empty()))?;
    let page = r##"{"spec":{"markdowns":{"page1.md":"# From the second"}}}"##;
    kubectl.ok(&["patch", "markdownview", "markdownview-sample", "--type=merge", "-p", page])?;
    let words = ["get", "configmap", "markdowns-markdownview-sample", "-o", "yaml"];
    kubectl.comes_to_print(&words, "# From the second", SOON)
}
