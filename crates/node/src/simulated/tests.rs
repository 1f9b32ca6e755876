use super::*;
use crate::annotation::Script;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn pod(restart_policy: &str) -> Pod {
    let container = Container { name: "main".into(), image: Some("nginx".into()), ..Container::default() };
    Pod {
        metadata: ObjectMeta { name: Some("p".into()), generation: Some(1), ..ObjectMeta::default() },
        spec: Some(PodSpec {
            containers: vec![container],
            restart_policy: Some(restart_policy.into()),
            ..PodSpec::default()
        }),
        status: None,
    }
}

fn addresses() -> Addresses {
    Addresses { host: "10.0.0.1".into(), pod: "10.244.0.5".into() }
}

/// Plans at `now`, stores the planned status, and returns the plan.
fn step(pod: &mut Pod, script: &Script, now: Timestamp) -> Plan {
    let plan = plan(pod, script, &addresses(), now);
    if let Some(status) = &plan.status {
        pod.status = Some(status.clone());
    }
    plan
}

fn phase_of(pod: &Pod) -> &str {
    pod.status.as_ref().unwrap().phase.as_deref().unwrap()
}

fn ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().unwrap().conditions.as_ref().unwrap();
    conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True")
}

#[test]
fn without_a_script_one_write_makes_a_pod_ready_and_no_second_follows() {
    let mut pod = pod("Always");
    let first = step(&mut pod, &Script::default(), at(0));
    assert_eq!((phase_of(&pod), ready(&pod), first.again_at), ("Running", true, None));
    assert_eq!(pod.status.as_ref().unwrap().pod_ip.as_deref(), Some("10.244.0.5"));
    assert_eq!(step(&mut pod, &Script::default(), at(60)), Plan::default());
}

#[test]
fn delays_are_kept() {
    let script = Script {
        start_delay: Duration::from_secs(2),
        ready_delay: Duration::from_secs(3),
        ..Script::default()
    };
    let mut pod = pod("Always");
    assert_eq!(step(&mut pod, &script, at(0)).again_at, Some(at(2)));
    assert_eq!(phase_of(&pod), "Pending");
    let sandbox = |pod: &Pod| {
        let status = pod.status.as_ref().unwrap();
        let conditions = status.conditions.as_ref().unwrap();
        let up = conditions.iter().any(|c| c.type_ == "PodReadyToStartContainers" && c.status == "True");
        (up, status.host_ip.is_some(), status.pod_ip.is_some())
    };
    assert_eq!(sandbox(&pod), (false, true, false), "it has no address of its own before its sandbox is up");
    // The form in which servers store it.
    pod.status.as_mut().unwrap().container_statuses.as_mut().unwrap()[0].last_state =
        Some(Default::default());
    assert_eq!(step(&mut pod, &script, at(1)).status, None, "nothing happened");
    assert_eq!(step(&mut pod, &script, at(2)).again_at, Some(at(5)));
    assert_eq!((phase_of(&pod), ready(&pod)), ("Running", false));
    assert_eq!(sandbox(&pod), (true, true, true));
    assert_eq!(step(&mut pod, &script, at(5)).again_at, None);
    assert!(ready(&pod));
}

#[test]
fn a_container_that_ends_completes_or_fails_its_pod() {
    for (code, phase) in [(0, "Succeeded"), (7, "Failed")] {
        let script = Script { run_for: Some(Duration::from_secs(4)), exit_code: code, ..Script::default() };
        let mut pod = pod("Never");
        assert_eq!(step(&mut pod, &script, at(0)).again_at, Some(at(4)));
        step(&mut pod, &script, at(4));
        assert_eq!((phase_of(&pod), ready(&pod)), (phase, false));
        assert_eq!(step(&mut pod, &script, at(900)), Plan::default(), "a finished pod stays as it is");
    }
}

#[test]
fn a_pod_that_runs_to_completion_ends_after_a_moment_unless_it_is_told_otherwise() {
    let usual = Script::default();
    let with_command = |policy: &str| {
        let mut pod = pod(policy);
        pod.spec.as_mut().unwrap().containers[0].command = Some(vec!["test".into()]);
        pod
    };
    let mut of_job = pod("OnFailure");
    of_job.metadata.owner_references = Some(vec![OwnerReference {
        kind: "Job".into(),
        controller: Some(true),
        ..OwnerReference::default()
    }]);
    for mut pod in [of_job.clone(), with_command("Never"), with_command("OnFailure")] {
        assert_eq!(step(&mut pod, &usual, at(0)).again_at, Some(at(1)));
        assert_eq!((phase_of(&pod), ready(&pod)), ("Running", true));
        step(&mut pod, &usual, at(1));
        assert_eq!(phase_of(&pod), "Succeeded");
    }
    for mut pod in [pod("Never"), pod("OnFailure"), with_command("Always")] {
        assert_eq!(step(&mut pod, &usual, at(0)).again_at, None);
    }
    let forever = Script { runs_forever: true, ..usual };
    assert_eq!(step(&mut of_job.clone(), &forever, at(0)).again_at, None);
    let longer = Script { run_for: Some(Duration::from_secs(9)), ..usual };
    assert_eq!(step(&mut of_job, &longer, at(0)).again_at, Some(at(9)));
}

#[test]
fn restarts_back_off_by_doubling() {
    let script = Script { run_for: Some(Duration::from_secs(1)), exit_code: 1, ..Script::default() };
    let mut pod = pod("Always");
    step(&mut pod, &script, at(0));
    // The first restart is immediate, the second waits ten seconds, the third twenty.
    let plan = step(&mut pod, &script, at(1));
    let restarts =
        |pod: &Pod| pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0].restart_count;
    assert_eq!((restarts(&pod), plan.again_at), (1, Some(at(2))));
    assert_eq!(step(&mut pod, &script, at(2)).again_at, Some(at(12)));
    let state = pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0].state.clone().unwrap();
    assert_eq!(state.waiting.unwrap().reason.as_deref(), Some("CrashLoopBackOff"));
    assert_eq!(phase_of(&pod), "Running");
    step(&mut pod, &script, at(12));
    assert_eq!(restarts(&pod), 2);
    assert_eq!(step(&mut pod, &script, at(13)).again_at, Some(at(33)));
}

#[test]
fn on_failure_does_not_restart_a_success() {
    let script = Script { run_for: Some(Duration::from_secs(1)), ..Script::default() };
    let mut pod = pod("OnFailure");
    step(&mut pod, &script, at(0));
    step(&mut pod, &script, at(1));
    assert_eq!(phase_of(&pod), "Succeeded");
}

#[test]
fn a_deleted_pod_goes_after_its_delay_but_within_its_grace() {
    let mut pod = pod("Always");
    step(&mut pod, &Script::default(), at(0));
    pod.metadata.deletion_timestamp = Some(Time(at(40)));
    pod.metadata.deletion_grace_period_seconds = Some(30);
    assert!(step(&mut pod, &Script::default(), at(10)).remove, "stops at once by default");
    let slow = Script { stop_delay: Duration::from_secs(3), ..Script::default() };
    assert_eq!(step(&mut pod, &slow, at(10)).again_at, Some(at(13)));
    let stubborn = Script { stop_delay: Duration::from_secs(300), ..Script::default() };
    assert_eq!(step(&mut pod, &stubborn, at(10)).again_at, Some(at(40)), "killed when the grace is over");
    assert!(step(&mut pod, &stubborn, at(40)).remove);
    pod.metadata.deletion_timestamp = Some(Time("9999-12-30T22:00:00Z".parse().unwrap()));
    pod.metadata.deletion_grace_period_seconds = Some(i64::MAX);
    assert!(step(&mut pod, &slow, at(10)).remove, "a time that no calendar reaches is over");
}

#[test]
fn conditions_of_others_stay() {
    let mut pod = pod("Always");
    let gate = k8s_openapi::api::core::v1::PodCondition {
        type_: "example.com/gate".into(),
        status: "True".into(),
        ..Default::default()
    };
    pod.status = Some(PodStatus { conditions: Some(vec![gate.clone()]), ..PodStatus::default() });
    step(&mut pod, &Script::default(), at(0));
    assert!(pod.status.unwrap().conditions.unwrap().contains(&gate));
}

#[test]
fn a_changed_image_restarts_what_runs_and_ends_the_wait_of_what_failed() {
    let change = |pod: &mut Pod| pod.spec.as_mut().unwrap().containers[0].image = Some("nginx:2".into());
    let container = |pod: &Pod| pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0].clone();
    let mut steady = pod("Never");
    step(&mut steady, &Script::default(), at(0));
    change(&mut steady);
    assert_eq!(step(&mut steady, &Script::default(), at(9)).redefined, ["main"]);
    let status = container(&steady);
    assert_eq!((status.image.as_str(), status.restart_count, ready(&steady)), ("nginx:2", 1, true));
    assert_eq!(status.last_state.unwrap().terminated.unwrap().finished_at, Some(Time(at(9))));
    assert_eq!(step(&mut steady, &Script::default(), at(10)), Plan::default());

    let script = Script { run_for: Some(Duration::from_secs(1)), exit_code: 1, ..Script::default() };
    let mut failing = pod("Always");
    for second in [0, 1, 2] {
        step(&mut failing, &script, at(second));
    }
    assert!(container(&failing).state.unwrap().waiting.is_some());
    change(&mut failing);
    assert!(step(&mut failing, &script, at(3)).redefined.is_empty(), "nothing ran");
    assert_eq!(container(&failing).restart_count, 2);
    assert!(container(&failing).state.unwrap().running.is_some());

    let mut done = pod("Never");
    step(&mut done, &Script { exit_code: 0, ..script }, at(0));
    step(&mut done, &Script { exit_code: 0, ..script }, at(1));
    change(&mut done);
    assert_eq!(step(&mut done, &script, at(2)), Plan::default(), "what has ended stays so");
}

#[test]
fn a_pod_that_is_held_is_seen_to_have_ended_before_it_goes() {
    for (held, ended) in [(true, true), (false, false)] {
        let mut pod = pod("Never");
        step(&mut pod, &Script::default(), at(0));
        pod.metadata.finalizers = held.then(|| vec!["example.com/hold".to_owned()]);
        pod.metadata.deletion_timestamp = Some(Time(at(40)));
        pod.metadata.deletion_grace_period_seconds = Some(30);
        let first = step(&mut pod, &Script::default(), at(10));
        assert_eq!((first.status.is_some(), first.remove), (ended, !ended));
        if ended {
            assert_eq!((phase_of(&pod), ready(&pod)), ("Failed", false));
            assert!(step(&mut pod, &Script::default(), at(11)).remove);
        }
    }
}

#[test]
fn a_pod_that_is_active_for_too_long_fails() {
    let mut pod = pod("Always");
    pod.spec.as_mut().unwrap().active_deadline_seconds = Some(30);
    assert_eq!(step(&mut pod, &Script::default(), at(0)).again_at, Some(at(30)));
    assert_eq!(step(&mut pod, &Script::default(), at(29)).again_at, Some(at(30)));
    assert_eq!(phase_of(&pod), "Running");
    let ended = step(&mut pod, &Script::default(), at(31));
    let status = pod.status.clone().unwrap();
    assert_eq!((phase_of(&pod), ready(&pod), ended.expired), ("Failed", false, true));
    assert_eq!(status.reason.as_deref(), Some("DeadlineExceeded"));
    assert_eq!(
        status.message.as_deref(),
        Some("Pod was active on the node longer than the specified deadline")
    );
    let end = status.container_statuses.unwrap()[0].state.clone().unwrap().terminated.unwrap();
    assert_eq!((end.exit_code, end.finished_at), (143, Some(Time(at(30)))));
    assert_eq!(step(&mut pod, &Script::default(), at(60)), Plan::default(), "a failed pod stays as it is");
}

#[test]
fn the_status_names_the_generation_that_it_is_of() {
    let mut pod = pod("Always");
    step(&mut pod, &Script::default(), at(0));
    assert_eq!(pod.status.as_ref().unwrap().observed_generation, Some(1));
    pod.metadata.generation = Some(2);
    step(&mut pod, &Script::default(), at(1));
    let status = pod.status.unwrap();
    assert_eq!(status.observed_generation, Some(2));
    assert!(status.conditions.unwrap().iter().all(|condition| condition.observed_generation == Some(2)));
}
