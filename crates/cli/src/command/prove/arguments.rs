//! The flags of `setpoint prove`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use setpoint_prove::{Plan, Step};
use setpoint_prove_blackbox::{Bounds, Program, Proof, Replay, life, manifests, samples, service_account};

/// The first minor version of Kubernetes whose server streams first states by default.
const WATCH_LIST: u32 = 32;

const EXAMPLES: &str = "Examples:
  A Go operator made with kubebuilder:
    kustomize build config/default > all.yaml
    setpoint prove --manifests all.yaml --program manager=./bin/manager --samples config/samples \\
        -- --health-probe-bind-address=127.0.0.1:{port}

  A Python operator:
    setpoint prove --manifests crd.yaml --program operator=kopf --samples sample.yaml --patience 70s \\
        -- run --standalone handlers.py

  A finding again:
    setpoint prove --replay .setpoint/prove/1.yaml

Exit codes: 0 no finding, 1 findings, 2 wrong use or no proof.";

/// Find the convergence bugs of an operator, in any language.
///
/// Runs the operator as a process on clusters of its own. Lives the life of your samples undisturbed, then each step of
/// it again with one fault each: kills, lost answers, conflicts, refusals, late and interrupted watches. Every run must
/// end as the undisturbed one.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// File or folder with the operator's manifests: definitions, account, roles. `-` is the standard input. Repeat the
    /// flag for several. Deployments and webhook configurations are not applied.
    #[arg(long, value_name = "PATH", required_unless_present = "replay")]
    manifests: Vec<PathBuf>,
    /// The operator: a name for reports, and its program. It finds its cluster by $KUBECONFIG.
    #[arg(long, value_name = "NAME=PATH", required_unless_present = "replay", value_parser = named)]
    program: Option<(String, PathBuf)>,
    /// File or folder with objects to live: they are created, deleted, created again and deleted again.
    #[arg(long, value_name = "PATH", conflicts_with = "life", required_unless_present_any = ["replay", "life"])]
    samples: Option<PathBuf>,
    /// A life in your own words: a YAML list of `apply: OBJECT`, `patch: {name, patch}` and `delete: {name}`.
    #[arg(long, value_name = "FILE")]
    life: Option<PathBuf>,
    /// Run the one plan of a plan file again.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["manifests", "program", "samples", "life"])]
    replay: Option<PathBuf>,
    /// Time after which no further run begins.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration)]
    budget: Duration,
    /// Number of worlds side by side [default: four for each processor].
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Rest after which a suspicious run is judged: longer than the operator's longest back-off. The process must only
    /// wait meanwhile: time in which it computes does not count.
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = duration)]
    patience: Duration,
    /// Let the server answer as one of an older version of Kubernetes. Servers before 1.32 do not stream first states, so
    /// that clients may begin with an old one: only then are stale restarts tried.
    #[arg(long, value_name = "VERSION", value_parser = version)]
    server_like: Option<u32>,
    /// Number of findings after which to end.
    #[arg(long, value_name = "N", default_value_t = 10)]
    findings: usize,
    /// Resource of which objects may outlive the life, such as persistentvolumeclaims. Repeat the flag for several.
    #[arg(long, value_name = "RESOURCE")]
    keeps: Vec<String>,
    /// The account of the operator [default: that of the Deployment among the manifests, or the first one].
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = account)]
    service_account: Option<(String, String)>,
    /// Variable of the operator's environment. `{port}` becomes a free port.
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,
    /// File for the report as an HTML page.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// File for a JUnit report.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Folder for plan files and logs of findings.
    #[arg(long, value_name = "DIR", default_value = ".setpoint/prove")]
    pub folder: PathBuf,
    /// Arguments of the operator. `{port}` becomes a free port, another one in each process.
    #[arg(last = true, value_name = "ARGUMENTS")]
    arguments: Vec<String>,
}

impl Arguments {
    /// Returns the proof, and the plan if there is one to replay.
    pub fn proof(&self) -> Result<(Proof, Option<Option<Plan>>)> {
        if let Some(file) = &self.replay {
            return self.again(file);
        }
        let Some((name, path)) = self.program.clone() else { bail!("--program is missing") };
        let (steps, without) = match (&self.life, &self.samples) {
            (Some(file), _) => (steps(file)?, file.clone()),
            (None, Some(path)) => (life(&samples(path)?), path.clone()),
            (None, None) => bail!("--samples or --life is missing"),
        };
        let without = vec![without];
        let manifests = manifests(&self.manifests, &without)?;
        let proof = Proof {
            program: Program { name, path, arguments: self.arguments.clone(), variables: self.env.clone() },
            account: self.service_account.clone().or_else(|| service_account(&manifests)),
            manifests,
            files: self.manifests.clone(),
            without,
            life: steps,
            keeps: self.keeps.clone(),
            watch_list: self.server_like.is_none_or(|minor| minor >= WATCH_LIST),
            bounds: self.bounds(self.patience),
            cluster: setpoint_cluster::Options::default(),
        };
        Ok((proof, None))
    }

    fn again(&self, file: &Path) -> Result<(Proof, Option<Option<Plan>>)> {
        let describe = || format!("cannot replay {}", file.display());
        let text = std::fs::read_to_string(file).with_context(describe)?;
        let replay = Replay::from_yaml(&text).with_context(describe)?;
        let manifests = manifests(&replay.manifests, &replay.without)?;
        let proof = Proof {
            program: replay.program,
            account: self.service_account.clone().or_else(|| service_account(&manifests)),
            manifests,
            files: replay.manifests,
            without: replay.without,
            life: replay.plan.life,
            keeps: replay.keeps,
            watch_list: replay.watch_list,
            bounds: Bounds { shrink: false, ..self.bounds(Duration::from_millis(replay.patience)) },
            cluster: setpoint_cluster::Options::default(),
        };
        Ok((proof, Some(replay.plan.plan)))
    }

    fn bounds(&self, patience: Duration) -> Bounds {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Bounds {
            budget: self.budget,
            jobs: self.jobs.unwrap_or(4 * processors).max(1),
            patience,
            findings: self.findings.max(1),
            ..Bounds::default()
        }
    }
}

/// Reads the steps of a life.
fn steps(file: &Path) -> Result<Vec<Step>> {
    let describe = || format!("the life {}", file.display());
    let text = std::fs::read_to_string(file).with_context(describe)?;
    serde_saphyr::from_str(&text).map_err(|error| anyhow::anyhow!("{error}")).with_context(describe)
}

fn named(text: &str) -> Result<(String, PathBuf), String> {
    let (name, path) = text.split_once('=').ok_or("write NAME=PATH, such as manager=./bin/manager")?;
    match name.is_empty() || path.is_empty() {
        true => Err("write NAME=PATH, such as manager=./bin/manager".into()),
        false => Ok((name.to_owned(), path.into())),
    }
}

fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn account(text: &str) -> Result<(String, String)> {
    let (namespace, name) = text.split_once('/').context("write NAMESPACE/NAME")?;
    Ok((namespace.to_owned(), name.to_owned()))
}

/// Reads `1.31`, and returns the minor version.
fn version(text: &str) -> Result<u32> {
    let minor = text.strip_prefix("1.").and_then(|minor| minor.parse().ok());
    minor.context("write a version such as 1.31")
}

/// Reads `90s`, `5m`, `1h` or `500ms`.
fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().map_err(|_| "write a number and a unit, such as 90s or 5m")?;
    let millis = match &text[digits..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err("the unit is ms, s, m or h".into()),
    };
    Ok(Duration::from_millis(number.saturating_mul(millis)))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn parse(words: &[&str]) -> Result<Arguments, clap::Error> {
        Command::try_parse_from([&["prove"], words].concat()).map(|command| command.arguments)
    }

    #[test]
    fn flags_are_read() {
        let words = [
            "--manifests=config",
            "--program=manager=./bin/manager",
            "--samples=s.yaml",
            "--budget=90s",
            "--",
            "--health=:{port}",
        ];
        let read = parse(&words).unwrap();
        assert_eq!(read.program, Some(("manager".into(), "./bin/manager".into())));
        assert_eq!((read.budget, read.arguments), (Duration::from_secs(90), vec!["--health=:{port}".into()]));
        assert!(parse(&["--replay=1.yaml"]).is_ok());
        for wrong in [&["--program=manager"][..], &["--budget=5"], &["--samples=a", "--life=b"], &[]] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_life_is_a_list_of_steps() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("life.yaml");
        std::fs::write(
            &file,
            "- apply: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n- patch: {name: a, patch: {data: {b: c}}}\n- delete: {name: a}\n",
        )
        .unwrap();
        let read = steps(&file).unwrap();
        assert_eq!((read.len(), read[2].clone()), (3, Step::Delete { name: "a".into() }));
        std::fs::write(&file, "- wait: 5\n").unwrap();
        let error = format!("{:#}", steps(&file).unwrap_err());
        assert!(error.contains("life.yaml") && error.contains("wait"), "{error}");
    }
}
