//! `setpoint prove` on the seeded operator as a process: one real child process for each run.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use seeded_operator::{NAME, definition};
use serde_json::json;
use setpoint_cluster::{Controllers, Options};
use setpoint_prove::{Anchor, Fault, Oracle, Plan, Step};
use setpoint_prove_blackbox::{Bounds, Program, Proof, ProofError};
use tokio_util::sync::CancellationToken;

/// A proof of the operator with a bug. Its waits are long, because a loaded machine makes processes slow.
fn proof(arguments: &[&str]) -> Proof {
    let store = |size: &str| {
        Step::Apply(json!({
            "apiVersion": "seeded.example.org/v1", "kind": "Store", "metadata": {"name": "a"},
            "spec": {"replicas": 1, "size": size},
        }))
    };
    let mut cluster =
        Options { controllers: Controllers::Only(vec!["garbage".into()]), ..Options::default() };
    cluster.nodes.count = 0;
    Proof {
        program: Program {
            name: NAME.into(),
            path: env!("CARGO_BIN_EXE_seeded-operator").into(),
            arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
            variables: Vec::new(),
        },
        manifests: vec![definition()],
        files: Vec::new(),
        without: Vec::new(),
        account: None,
        life: vec![store("10Gi"), store("15Gi")],
        keeps: Vec::new(),
        watch_list: true,
        bounds: Bounds {
            // A replay runs whatever the budget is.
            budget: Duration::ZERO,
            suspicion: Duration::from_secs(3),
            patience: Duration::from_secs(10),
            shrink: false,
            ..Bounds::default()
        },
        cluster,
    }
}

/// The operator dies after it wrote the note that the size is done, and before it does it.
fn between_note_and_thing() -> Plan {
    let write =
        Anchor { verb: "PATCH".into(), resource: "statefulsets.apps".into(), name: "a".into(), nth: 1 };
    Plan { step: 2, at: Fault::CrashAfter { write } }
}

/// Returns the number of processes of the operator with an argument. A process that only waits to be collected has no
/// arguments any more.
fn running(argument: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let words = std::fs::read(entry.ok()?.path().join("cmdline")).ok()?;
        let words: Vec<String> =
            words.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into()).collect();
        Some(words)
    });
    let program = env!("CARGO_BIN_EXE_seeded-operator");
    processes.filter(|words| words[0] == program && words.iter().any(|word| word == argument)).count()
}

#[test]
fn a_killed_process_with_the_bug_does_not_converge_and_the_sound_one_does() {
    let (stop, plan) = (CancellationToken::new(), between_note_and_thing());
    let proved = proof(&["--bug=2"]).replay(Some(&plan), &stop, &|_| {}).unwrap();
    let [found] = proved.found.as_slice() else { panic!("{}", proved.report) };
    assert_eq!(found.finding.oracle, Oracle::Convergence, "{}", found.finding.headline);
    assert_eq!(found.replay.plan.plan.as_ref(), Some(&plan));
    assert!(found.finding.trace.contains("crash after a write"), "{}", found.finding.trace);
    assert_eq!(running("--bug=2"), 0, "a proof leaves no process behind");

    let proved = proof(&[]).replay(Some(&plan), &stop, &|_| {}).unwrap();
    assert!(proved.found.is_empty(), "{}", proved.report);
    let count = proved.report.visited["crash after a write"];
    assert_eq!((count.run, count.missed), (1, 0), "the fault must have struck: {}", proved.report);
}

#[test]
fn a_program_that_ends_at_its_start_is_an_error_with_its_last_words() {
    let stop = CancellationToken::new();
    let error = proof(&["--bug=77"]).run(&stop, &|_| {}).err().unwrap();
    assert!(matches!(error, ProofError::Ends(_)), "{error}");
    let text = error.to_string();
    assert!(text.contains("exit status: 2") && text.contains("there is no such bug here"), "{text}");

    let mut missing = proof(&[]);
    missing.program.path = "./no/such/manager".into();
    let error = missing.run(&stop, &|_| {}).err().unwrap();
    assert!(
        error.to_string().starts_with("cannot run the program ./no/such/manager: No such file"),
        "{error}"
    );

    let error = proof(&[]).run(&stop, &|_| {}).err().unwrap();
    assert!(error.to_string().contains("raise the budget"), "{error}");

    stop.cancel();
    let error = proof(&[]).run(&stop, &|_| {}).err().unwrap();
    assert!(matches!(error, ProofError::Stopped), "{error}");
}
