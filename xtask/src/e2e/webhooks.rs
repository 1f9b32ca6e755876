//! The webhooks of the examples as programs, called by kube-apiserver and by ours while their certificates are renewed.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use setpoint_peers::Options;

use super::Setup;
use super::cluster::{Cluster, Kubectl};
use super::operator::{self, Example, MARKDOWNVIEW, MYRESOURCE, Running};

const SOON: Duration = Duration::from_secs(60);
/// How long a certificate lasts, and how long two rotations may take.
const SECONDS: &str = "60";
const ROTATIONS: Duration = Duration::from_secs(240);

/// One operator with webhooks.
struct Webhooks {
    example: Example,
    /// The name of the Service and of the configurations.
    service: &'static str,
    /// The objects with a `caBundle`, and the place of the Service's reference in each.
    holders: &'static [(&'static str, &'static str, &'static str)],
}

const ADMISSION: &str = "/webhooks/0/clientConfig";
const CONVERSION: &str = "/spec/conversion/webhook/clientConfig";

const BOTH: [Webhooks; 2] = [
    Webhooks {
        example: MARKDOWNVIEW,
        service: "markdown-view-webhooks",
        holders: &[
            ("mutatingwebhookconfiguration", "markdown-view-webhooks", ADMISSION),
            ("validatingwebhookconfiguration", "markdown-view-webhooks", ADMISSION),
        ],
    },
    Webhooks {
        example: MYRESOURCE,
        service: "myresource-webhooks",
        holders: &[("crd", "myresources.mygroup.example.com", CONVERSION)],
    },
];

pub fn run(setup: &Setup) -> Result<()> {
    let program = setup.peer("kubectl")?;
    let programs = operator::build()?;
    let ours = Cluster::start(&setup.setpoint, &["--no-controllers"])?;
    live(&ours.kubectl(&program), &ours.kubeconfig(), &programs).context("on setpoint")?;
    drop(ours);
    let folder = super::folder::new()?;
    let real = setup.control_plane(folder.path(), &Options::default())?;
    let kubectl = Kubectl::on(&program, &real.kubeconfig());
    live(&kubectl, &real.kubeconfig(), &programs).context("on kube-apiserver")
}

fn live(kubectl: &Kubectl, admin: &Path, programs: &Path) -> Result<()> {
    let mut running = Vec::new();
    for webhooks in &BOTH {
        running.push(webhooks.start(kubectl, admin, programs)?);
    }
    let said = || running.iter().map(Running::said).collect::<Vec<_>>().join("\n");
    for webhooks in &BOTH {
        operator::until("every caBundle", SOON, || webhooks.is_trusted(kubectl)).with_context(said)?;
    }
    let mut seen = BOTH.map(|_| BTreeSet::new());
    let (mut rounds, began) = (0, Instant::now());
    // The first certificate of each operator, and two that follow.
    while seen.iter().any(|seen| seen.len() < 3) {
        let counts: Vec<usize> = seen.iter().map(BTreeSet::len).collect();
        ensure!(began.elapsed() < ROTATIONS, "{counts:?} certificates in {ROTATIONS:?}: {}", said());
        call(kubectl, rounds).with_context(said)?;
        for (webhooks, seen) in BOTH.iter().zip(&mut seen) {
            seen.insert(webhooks.certificate(kubectl)?);
        }
        rounds += 1;
    }
    let seconds = began.elapsed().as_secs();
    println!(
        "webhooks: {rounds} rounds of calls in {seconds} s and two rotations of each operator, none failed"
    );
    Ok(())
}

/// One call of each webhook.
fn call(kubectl: &Kubectl, round: usize) -> Result<()> {
    let name = format!("view-{round}");
    let view = |name: &str, spec: &str| {
        format!(
            r#"{{"apiVersion":"view.zoetrope.github.io/v1","kind":"MarkdownView","metadata":{{"name":"{name}"}},"spec":{spec}}}"#
        )
    };
    let empty = r##"{"markdowns":{"SUMMARY.md":"# Summary"},"viewerImage":""}"##;
    kubectl.feed(&["create", "-f", "-"], Some(&view(&name, empty)))?;
    let image = kubectl.ok(&["get", "markdownview", &name, "-o", "jsonpath={.spec.viewerImage}"])?;
    ensure!(image == "peaceiris/mdbook:latest", "the image is {image:?}");
    kubectl.ok(&["delete", "markdownview", &name, "--wait=false"])?;
    let old = r#"{"apiVersion":"mygroup.example.com/v1alpha1","kind":"MyResource","metadata":{"name":"NAME"},"spec":{"image":"nginx","memory":"512Mi"}}"#;
    let name = format!("resource-{round}");
    kubectl.feed(&["create", "-f", "-"], Some(&old.replace("NAME", &name)))?;
    let newer = ["get", "myresources.v1beta1.mygroup.example.com", &name, "-o"];
    let memory = kubectl.ok(&[&newer[..], &["jsonpath={.spec.resources.memory}"]].concat())?;
    ensure!(memory == "512Mi", "the memory is {memory:?}");
    kubectl.ok(&["delete", "myresources.v1alpha1.mygroup.example.com", &name, "--wait=false"])?;
    Ok(())
}

impl Webhooks {
    /// Installs the manifests for a program outside the cluster, and starts it.
    fn start(&self, kubectl: &Kubectl, admin: &Path, programs: &Path) -> Result<Running> {
        let all = self.example.prints(programs, &["--webhooks", "manifests"])?;
        let kept: Vec<&str> = all
            .split("---\n")
            .filter(|document| {
                !["Deployment", "Service"].iter().any(|kind| document.contains(&format!("\nkind: {kind}\n")))
            })
            .collect();
        kubectl.feed(&["apply", "-f", "-"], Some(&kept.join("---\n")))?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let (_, namespace) = self.example.account;
        kubectl.ok(&[
            "create",
            "service",
            "externalname",
            self.service,
            "--external-name",
            "localhost",
            "-n",
            namespace,
        ])?;
        for (kind, name, place) in self.holders {
            let patch = format!(r#"[{{"op":"replace","path":"{place}/service/port","value":{port}}}]"#);
            kubectl.ok(&["patch", kind, name, "--type=json", "-p", &patch])?;
        }
        let kubeconfig = self.example.kubeconfig_of_account(kubectl, admin)?;
        let address = format!("--webhook-bind-address=127.0.0.1:{port}");
        let flags = [&address, "--webhook-certificate-seconds", SECONDS];
        Running::start(&programs.join(self.example.program), &kubeconfig, &flags)
    }

    fn is_trusted(&self, kubectl: &Kubectl) -> Result<bool> {
        for (kind, name, place) in self.holders {
            let object: Value = serde_json::from_str(&kubectl.ok(&["get", kind, name, "-o", "json"])?)?;
            if object.pointer(&format!("{place}/caBundle")).is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The certificate that is served now.
    fn certificate(&self, kubectl: &Kubectl) -> Result<String> {
        let (_, namespace) = self.example.account;
        let secret = format!("{}-certificates", self.service);
        kubectl.ok(&["get", "secret", &secret, "-n", namespace, "-o", r"jsonpath={.data.tls\.crt}"])
    }
}
