use super::*;
use crate::annotation::Script;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

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

/// Plans at `now`, stores what was planned, and gives the plan.
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
    assert_eq!(step(&mut pod, &script, at(2)).again_at, Some(at(5)));
    assert_eq!((phase_of(&pod), ready(&pod)), ("Running", false));
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
