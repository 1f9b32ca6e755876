//! `kubectl rollout`, `scale`, `cordon`, `taint`, `wait` and `delete --cascade`: the same words on our cluster and on a
//! real one, and the same answers.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::Setup;
use super::controllers::{ALL, World};
use super::operator;

const SOON: Duration = Duration::from_secs(60);

/// The part of a command's output that is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Compare {
    /// All of it.
    All,
    /// Its last line: those before tell of steps, whose number is a matter of timing.
    LastLine,
    /// Only whether it succeeds.
    Success,
    /// Waits until the output is this.
    Comes(&'static str),
}
use Compare::{All, Comes, LastLine, Success};

const WEB: &str = "deployment/web";

/// Every command and what of its answer must be the same everywhere.
const SESSION: &[(Compare, &[&str])] = &[
    (All, &["create", "deployment", "web", "--image=nginx:1.28", "--replicas=3"]),
    (LastLine, &["rollout", "status", WEB, "--timeout=60s"]),
    (All, &["annotate", WEB, "kubernetes.io/change-cause=first"]),
    // Unless the first ReplicaSet has it before the second comes, it never does.
    (
        Success,
        &[
            "wait",
            "replicasets",
            "--for=jsonpath={.metadata.annotations.kubernetes\\.io/change-cause}=first",
            "-l",
            "app=web",
            "--timeout=60s",
        ],
    ),
    (All, &["set", "image", WEB, "nginx=nginx:1.29"]),
    (All, &["annotate", "--overwrite", WEB, "kubernetes.io/change-cause=second"]),
    (LastLine, &["rollout", "status", WEB, "--timeout=60s"]),
    // The status does not wait for the annotation of the second ReplicaSet.
    (Comes("second"), &["get", "replicasets", "-o", "jsonpath={.items[*].metadata.annotations}"]),
    (All, &["rollout", "history", WEB]),
    (All, &["rollout", "history", WEB, "--revision=1"]),
    (All, &["rollout", "undo", WEB]),
    (LastLine, &["rollout", "status", WEB, "--timeout=60s"]),
    (All, &["get", WEB, "-o", "jsonpath={..image}"]),
    (All, &["rollout", "undo", WEB, "--to-revision=2"]),
    (LastLine, &["rollout", "status", WEB, "--timeout=60s"]),
    (All, &["get", WEB, "-o", "jsonpath={..image}"]),
    (All, &["rollout", "undo", WEB, "--to-revision=99"]),
    (All, &["rollout", "history", WEB]),
    (All, &["rollout", "pause", WEB]),
    (All, &["rollout", "pause", WEB]),
    (All, &["set", "image", WEB, "nginx=nginx:1.30"]),
    (All, &["rollout", "undo", WEB]),
    (All, &["rollout", "restart", WEB]),
    (
        All,
        &[
            "wait",
            WEB,
            "--for=jsonpath={.status.conditions[?(@.reason==\"DeploymentPaused\")].status}=Unknown",
            "--timeout=60s",
        ],
    ),
    (
        All,
        &[
            "get",
            "replicasets",
            "-o",
            "jsonpath={.items[*].status.replicas}",
            "--sort-by=.metadata.annotations.deployment\\.kubernetes\\.io/revision",
        ],
    ),
    (All, &["rollout", "resume", WEB]),
    (LastLine, &["rollout", "status", WEB, "--timeout=60s"]),
    (Success, &["rollout", "restart", WEB]),
    (LastLine, &["rollout", "status", WEB, "--timeout=60s"]),
    (All, &["scale", WEB, "--replicas=5", "--current-replicas=4"]),
    (All, &["scale", WEB, "--replicas=5", "--current-replicas=3"]),
    (All, &["wait", WEB, "--for=jsonpath={.status.availableReplicas}=5", "--timeout=60s"]),
    (All, &["wait", WEB, "--for=condition=Available", "--timeout=60s"]),
    (All, &["wait", WEB, "--for=condition=Progressing=False", "--timeout=1s"]),
    (
        All,
        &["get", WEB, "--no-headers", "-o", "custom-columns=R:.status.replicas,A:.status.availableReplicas"],
    ),
    // Nodes that take nothing more.
    (All, &["cordon", "setpoint-0"]),
    (All, &["cordon", "setpoint-0"]),
    (
        All,
        &[
            "wait",
            "node/setpoint-0",
            "--for=jsonpath={.spec.taints[0].key}=node.kubernetes.io/unschedulable",
            "--timeout=60s",
        ],
    ),
    (All, &["get", "node", "setpoint-0", "-o", "jsonpath={.spec.unschedulable} {.spec.taints[*].key}"]),
    (All, &["run", "waits", "--image=x"]),
    (All, &["wait", "pod/waits", "--for=condition=PodScheduled=False", "--timeout=60s"]),
    (
        All,
        &["get", "pod", "waits", "-o", "jsonpath={.status.conditions[?(@.type==\"PodScheduled\")].message}"],
    ),
    (All, &["uncordon", "setpoint-0"]),
    (All, &["wait", "pod/waits", "--for=condition=Ready", "--timeout=60s"]),
    (All, &["taint", "node", "setpoint-0", "team=a:NoSchedule"]),
    (All, &["taint", "node", "setpoint-0", "team=b:NoSchedule"]),
    (All, &["run", "shunned", "--image=x"]),
    (
        All,
        &[
            "run",
            "welcome",
            "--image=x",
            "--overrides={\"spec\":{\"tolerations\":[{\"key\":\"team\",\"operator\":\"Exists\"}]}}",
        ],
    ),
    (All, &["wait", "pod/welcome", "--for=condition=Ready", "--timeout=60s"]),
    (All, &["wait", "pod/shunned", "--for=condition=PodScheduled=False", "--timeout=60s"]),
    (
        All,
        &[
            "get",
            "pod",
            "shunned",
            "-o",
            "jsonpath={.status.conditions[?(@.type==\"PodScheduled\")].message}",
        ],
    ),
    (All, &["taint", "node", "setpoint-0", "team-"]),
    (All, &["wait", "pod/shunned", "--for=condition=Ready", "--timeout=60s"]),
    (All, &["delete", "pod", "waits", "shunned", "welcome", "--timeout=60s"]),
    // The three ways to delete.
    (All, &["delete", WEB, "--cascade=orphan", "--timeout=60s"]),
    (
        All,
        &[
            "get",
            "replicasets",
            "-o",
            "jsonpath={.items[*].metadata.ownerReferences}{.items[*].status.availableReplicas}",
        ],
    ),
    (All, &["create", "deployment", "web", "--image=nginx:1.28", "--replicas=3"]),
    (LastLine, &["rollout", "status", WEB, "--timeout=60s"]),
    (All, &["delete", WEB, "--cascade=foreground", "--timeout=60s"]),
    (All, &["get", "deployments,replicasets,pods", "-o", "name"]),
    (All, &["create", "deployment", "web", "--image=nginx:1.28", "--replicas=3"]),
    (LastLine, &["rollout", "status", WEB, "--timeout=60s"]),
    (All, &["delete", WEB, "--cascade=background", "--timeout=60s"]),
    (Success, &["wait", "pods", "--for=delete", "-l", "app=web", "--timeout=60s"]),
    (All, &["get", "deployments,replicasets,pods", "-o", "name"]),
];

pub fn run(setup: &Setup) -> Result<()> {
    let program = setup.peer("kubectl")?;
    let mut told = Vec::new();
    for parts in [ALL[0], ALL[3]] {
        let world = World::start(setup, parts, |_| Ok(())).context(parts.name)?;
        super::proxy::until("the default account", || {
            world.api.find("/api/v1/namespaces/default/serviceaccounts/default")
        })?;
        super::proxy::until("the node", || {
            let node = world.api.find("/api/v1/nodes/setpoint-0")?;
            Ok(node.filter(|node| node["spec"]["taints"].is_null()))
        })?;
        told.push(session(&program, &world.kubeconfig())?);
    }
    let mut wrong = Vec::new();
    for (((_, words), ours), theirs) in SESSION.iter().zip(&told[0]).zip(&told[1]) {
        if ours != theirs {
            wrong.push(format!("kubectl {}\n  here:  {ours}\n  there: {theirs}", words.join(" ")));
        }
    }
    ensure!(wrong.is_empty(), "{} answers differ:\n{}", wrong.len(), wrong.join("\n"));
    println!("rollout: {} kubectl commands answered alike", SESSION.len());
    Ok(())
}

fn session(program: &Path, kubeconfig: &Path) -> Result<Vec<String>> {
    let cache = super::folder::new()?;
    let mut answers = Vec::new();
    for (compare, words) in SESSION {
        let answer = || -> Result<(bool, String)> {
            let mut command = Command::new(program);
            command.arg("--kubeconfig").arg(kubeconfig).arg("--cache-dir").arg(cache.path()).args(*words);
            let output = command.output()?;
            let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
            Ok((output.status.success(), said.into_owned()))
        };
        if let Comes(wanted) = compare {
            operator::until(&format!("{} to print {wanted}", words.join(" ")), SOON, || {
                Ok(answer()?.1.contains(wanted))
            })?;
        }
        let (succeeded, said) = answer()?;
        let said = match compare {
            Success | Comes(_) => "",
            LastLine => said.trim().lines().last().unwrap_or_default(),
            All => said.trim(),
        };
        answers.push(format!("{succeeded}: {}", without_hashes(said)));
    }
    Ok(answers)
}

/// The hash of a template is each controller's own affair.
fn without_hashes(text: &str) -> String {
    let words =
        text.split_inclusive(char::is_whitespace).map(|word| match word.split_once("pod-template-hash=") {
            Some((before, hash)) => {
                format!("{before}pod-template-hash=HASH{}", &hash[hash.trim_end().len()..])
            }
            None => word.to_owned(),
        });
    words.collect()
}
