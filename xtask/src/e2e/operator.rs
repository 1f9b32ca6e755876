//! The example operators as programs, on any cluster.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::cluster::Kubectl;
use super::proxy::PAUSE;
use crate::run;

/// One example: its program, its account, its sample.
#[derive(Clone, Copy)]
pub struct Example {
    /// The package and its program.
    pub program: &'static str,
    /// The name and namespace of its service account.
    pub account: (&'static str, &'static str),
    /// Its kind, and the name of the sample.
    pub sample: (&'static str, &'static str),
    /// The sample's file.
    pub file: &'static str,
    /// The value of its status when all is well, as a JSON pointer and a value.
    pub well: (&'static str, &'static str),
}

pub const FOO: Example = Example {
    program: "foo-controller",
    account: ("sample-controller", "sample-system"),
    sample: ("foo", "example-foo"),
    file: "examples/foo/samples/foo.yaml",
    well: ("/status/availableReplicas", "1"),
};

pub const MYRESOURCE: Example = Example {
    program: "myresource-operator",
    account: ("myresource-operator", "myresource-system"),
    sample: ("myresource", "my-res1"),
    file: "examples/myresource/samples/myresource.yaml",
    well: ("/status/state", "\"Ready\""),
};

pub const MARKDOWNVIEW: Example = Example {
    program: "markdownview-operator",
    account: ("markdown-view-controller", "markdown-view-system"),
    sample: ("markdownview", "markdownview-sample"),
    file: "examples/markdownview/samples/markdownview.yaml",
    well: ("/status/state", "\"Healthy\""),
};

pub const ALL: [Example; 3] = [FOO, MYRESOURCE, MARKDOWNVIEW];

/// Builds the examples and our binary as `cargo test --workspace` builds them, so that nothing is built twice. Gives the
/// folder of the programs.
pub fn build() -> Result<PathBuf> {
    let mut command = run::cargo();
    // With an example among them, cargo chooses the features as it does for tests.
    command.args(["build", "--quiet", "--workspace", "--example", "leader", "--bin", "setpoint"]);
    for example in ALL {
        command.args(["--bin", example.program]);
    }
    run::check(&mut command)?;
    Ok(run::target_folder().join("debug"))
}

impl Example {
    /// Returns its output.
    pub fn prints(&self, programs: &Path, words: &[&str]) -> Result<String> {
        run::read(Command::new(programs.join(self.program)).args(words))
    }

    /// Returns its manifests without the Deployment, to run the program outside the cluster.
    pub fn manifests_without_deployment(&self, programs: &Path) -> Result<String> {
        let all = self.prints(programs, &["manifests"])?;
        let kept: Vec<&str> =
            all.split("---\n").filter(|document| !document.contains("\nkind: Deployment\n")).collect();
        Ok(kept.join("---\n"))
    }

    /// The text of the sample.
    pub fn sample_text(&self) -> Result<String> {
        Ok(std::fs::read_to_string(run::root().join(self.file))?)
    }

    /// A kubeconfig with a token of its service account, beside the administrator's.
    pub fn kubeconfig_of_account(&self, kubectl: &Kubectl, admin: &Path) -> Result<PathBuf> {
        let (account, namespace) = self.account;
        let token = kubectl.ok(&["create", "token", account, "--namespace", namespace, "--duration=1h"])?;
        let mut view = kubectl
            .ok(&["config", "view", "--raw", "-o", "json"])
            .map(|text| serde_json::from_str::<Value>(&text).context("kubectl config view"))??;
        view["users"] = json!([{"name": account, "user": {"token": token.trim()}}]);
        view["contexts"][0]["context"]["user"] = json!(account);
        let file = admin.with_file_name(format!("{account}.yaml"));
        std::fs::write(&file, view.to_string())?;
        Ok(file)
    }

    /// Whether an object of its kind is well.
    pub fn is_well(&self, object: &Value) -> bool {
        holds(object, self.well.0, self.well.1)
    }

    /// Waits until the sample is well.
    pub fn until_well(&self, kubectl: &Kubectl, within: Duration) -> Result<()> {
        let (kind, name) = self.sample;
        until(&format!("{kind} {name} to be well"), within, || {
            let object = kubectl.ok(&["get", kind, name, "-o", "json"])?;
            Ok(self.is_well(&serde_json::from_str(&object)?))
        })
    }
}

/// Whether an object has this JSON text as the value of a field.
pub fn holds(object: &Value, pointer: &str, wanted: &str) -> bool {
    object.pointer(pointer).is_some() && object.pointer(pointer) == serde_json::from_str(wanted).ok().as_ref()
}

/// A running operator; killed when dropped.
pub struct Running {
    child: Child,
    log: PathBuf,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    /// Starts a program whose output goes to a file beside the kubeconfig.
    pub fn start(program: &Path, kubeconfig: &Path, flags: &[&str]) -> Result<Running> {
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let log = kubeconfig.with_file_name(format!("{name}.log"));
        let file = std::fs::File::create(&log)?;
        let child = Command::new(program)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(flags)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Running { child, log })
    }

    /// Returns its output so far.
    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

/// Waits for a condition. An error of `look` counts as "not yet", and is reported after the time limit.
pub fn until(what: &str, within: Duration, mut look: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + within;
    loop {
        match look() {
            Ok(true) => return Ok(()),
            last if Instant::now() > deadline => {
                bail!("waited {} s for {what}: {:?}", within.as_secs(), last.err().map(|e| format!("{e:#}")))
            }
            _ => std::thread::sleep(PAUSE),
        }
    }
}

/// Number of looks in a row without a change.
const AT_REST: usize = 3;

/// Waits until the observed value no longer changes, and returns it.
pub fn until_at_rest<T: PartialEq>(
    what: &str,
    within: Duration,
    pause: Duration,
    look: impl Fn() -> Result<T>,
) -> Result<T> {
    let (mut before, mut same) = (look()?, 0);
    until(what, within, || {
        std::thread::sleep(pause);
        let now = look()?;
        same = if now == before { same + 1 } else { 0 };
        before = now;
        Ok(same >= AT_REST)
    })?;
    Ok(before)
}

/// The rows of `apiserver_request_total` as (labels, count).
pub fn requests(kubectl: &Kubectl) -> Result<Vec<(String, u64)>> {
    let text = kubectl.ok(&["get", "--raw", "/metrics"])?;
    let rows = text.lines().filter_map(|line| line.strip_prefix("apiserver_request_total{"));
    let rows: Vec<(String, u64)> = rows
        .filter_map(|row| {
            let (labels, count) = row.rsplit_once("} ")?;
            Some((labels.to_owned(), count.trim().parse::<f64>().ok()? as u64))
        })
        .collect();
    ensure!(!rows.is_empty(), "the server counts no requests");
    Ok(rows)
}

/// The value of a label in a row.
pub fn label<'a>(row: &'a str, name: &str) -> &'a str {
    let quoted = row.split_once(&format!("{name}=\"")).map_or("", |(_, rest)| rest);
    quoted.split('"').next().unwrap_or_default()
}

/// Fails if a request lacked a right.
pub fn nothing_forbidden(kubectl: &Kubectl) -> Result<()> {
    let refused: Vec<String> = requests(kubectl)?
        .into_iter()
        .map(|(row, _)| row)
        .filter(|row| label(row, "code") == "403")
        .collect();
    ensure!(refused.is_empty(), "forbidden: {refused:#?}");
    Ok(())
}
