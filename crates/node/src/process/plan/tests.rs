use super::*;
use serde_json::json;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn pod(spec: serde_json::Value) -> Pod {
    let metadata = json!({"name": "p", "namespace": "n", "uid": "u"});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

fn addresses() -> Addresses {
    Addresses { host: "127.0.0.1".into(), pod: "10.244.0.2".into() }
}

fn ended(code: i32, second: i64) -> Run {
    let time = Some(Time(at(second)));
    Run::Ended(ContainerStateTerminated {
        exit_code: code,
        started_at: time.clone(),
        finished_at: time,
        ..ContainerStateTerminated::default()
    })
}

fn runs(pairs: &[(&str, Runs)]) -> BTreeMap<String, Runs> {
    pairs.iter().map(|(name, runs)| ((*name).to_owned(), runs.clone())).collect()
}

fn running() -> Runs {
    Runs { run: Run::Running { since: at(0) }, ready: true, started: true, ..Runs::default() }
}

fn one(policy: &str) -> Pod {
    pod(json!({"restartPolicy": policy, "containers": [{"name": "main", "image": "i"}]}))
}

fn waiting(plan: &ProcessPlan) -> (String, String) {
    let status = plan.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0].clone();
    let waiting = status.state.unwrap().waiting.unwrap();
    (waiting.reason.unwrap_or_default(), waiting.message.unwrap_or_default())
}

#[test]
fn the_first_restart_is_at_once_and_later_ones_back_off() {
    let pod = one("Always");
    let first = runs(&[("main", Runs { run: ended(1, 0), ..Runs::default() })]);
    assert_eq!(plan(&pod, &first, &addresses(), at(0)).start, ["main"]);
    let third = Runs { run: ended(1, 0), restarts: 2, failures: 2, ..Runs::default() };
    let plan = plan(&pod, &runs(&[("main", third)]), &addresses(), at(1));
    assert_eq!((plan.start.len(), plan.again_at), (0, Some(at(20))));
    let message = "back-off 20s restarting failed container=main pod=p_n(u)";
    assert_eq!(waiting(&plan), ("CrashLoopBackOff".into(), message.into()));
    let status = plan.status.unwrap();
    assert_eq!(status.phase.as_deref(), Some("Running"));
    let last = status.container_statuses.unwrap()[0].last_state.clone().unwrap();
    assert_eq!(last.terminated.unwrap().exit_code, 1);
}

#[test]
fn restart_policy_decides_the_end() {
    for (policy, code, phase, again) in [
        ("Never", 0, "Succeeded", 0),
        ("Never", 3, "Failed", 0),
        ("OnFailure", 0, "Succeeded", 0),
        ("OnFailure", 3, "Running", 1),
        ("Always", 0, "Running", 1),
    ] {
        let known = runs(&[("main", Runs { run: ended(code, 0), ..Runs::default() })]);
        let plan = plan(&one(policy), &known, &addresses(), at(0));
        assert_eq!(plan.start.len(), again, "{policy} {code}");
        assert_eq!(plan.status.unwrap().phase.as_deref(), Some(phase), "{policy} {code}");
    }
}

fn with_init(init: serde_json::Value) -> Pod {
    pod(json!({"restartPolicy": "Always", "initContainers": init, "containers": [{"name": "main"}]}))
}

fn initialized(plan: &ProcessPlan) -> (String, String) {
    let conditions = plan.status.as_ref().unwrap().conditions.clone().unwrap();
    let condition = conditions.into_iter().find(|c| c.type_ == "Initialized").unwrap();
    (condition.status, condition.message.unwrap_or_default())
}

#[test]
fn init_containers_run_one_after_the_other_before_the_others() {
    let pod = with_init(json!([{"name": "a"}, {"name": "b"}]));
    let begin = plan(&pod, &BTreeMap::new(), &addresses(), at(0));
    assert_eq!(begin.start, ["a"]);
    let waits = "containers with incomplete status: [a b]".to_owned();
    assert_eq!(initialized(&begin), ("False".into(), waits));
    assert_eq!(waiting(&begin).0, "PodInitializing");
    let done = Runs { run: ended(0, 0), ..Runs::default() };
    let second = plan(&pod, &runs(&[("a", done.clone())]), &addresses(), at(0));
    assert_eq!(second.start, ["b"]);
    let last = plan(&pod, &runs(&[("a", done.clone()), ("b", done)]), &addresses(), at(0));
    assert_eq!((last.start.clone(), initialized(&last).0), (vec!["main".to_owned()], "True".into()));
}

#[test]
fn a_failed_init_container_is_tried_again_or_ends_the_pod() {
    let failed = Runs { run: ended(1, 0), ..Runs::default() };
    let again =
        plan(&with_init(json!([{"name": "a"}])), &runs(&[("a", failed.clone())]), &addresses(), at(0));
    assert_eq!(again.start, ["a"]);
    let never = pod(
        json!({"restartPolicy": "Never", "initContainers": [{"name": "a"}], "containers": [{"name": "main"}]}),
    );
    let over = plan(&never, &runs(&[("a", failed)]), &addresses(), at(0));
    assert!(over.start.is_empty());
    assert_eq!(over.status.unwrap().phase.as_deref(), Some("Failed"));
}

#[test]
fn a_sidecar_has_to_start_and_starts_again_beside_the_others() {
    let pod = with_init(json!([{"name": "side", "restartPolicy": "Always"}]));
    assert_eq!(plan(&pod, &BTreeMap::new(), &addresses(), at(0)).start, ["side"]);
    let begun = plan(&pod, &runs(&[("side", running())]), &addresses(), at(0));
    assert_eq!(begun.start, ["main"]);
    let ended = Runs { run: ended(0, 0), restarts: 1, ..Runs::default() };
    let after = plan(&pod, &runs(&[("side", ended), ("main", running())]), &addresses(), at(0));
    assert_eq!(after.start, ["side"]);
}

#[test]
fn a_run_that_was_ended_for_another_image_is_followed_by_the_next_whatever_the_policy() {
    let pod = one("Never");
    let old = Runs { run: ended(143, 0), image: "old".into(), redefined: true, ..Runs::default() };
    let next = plan(&pod, &runs(&[("main", old.clone())]), &addresses(), at(0));
    assert_eq!(next.start, ["main"]);
    let shown = next.status.unwrap().container_statuses.unwrap()[0].clone();
    assert_eq!(shown.image, "old", "what ran last");
    let ended = runs(&[("main", Runs { redefined: false, ..old })]);
    assert!(plan(&pod, &ended, &addresses(), at(0)).start.is_empty());
}

#[test]
fn what_was_stored_is_not_written_again() {
    let mut pod = one("Always");
    let known = runs(&[("main", running())]);
    let status = plan(&pod, &known, &addresses(), at(0)).status.unwrap();
    // A server keeps fields of structs though they have no content.
    let stored = json!(status);
    assert_eq!(stored["containerStatuses"][0]["lastState"], json!({}));
    pod.status = Some(serde_json::from_value(stored).unwrap());
    assert_eq!(plan(&pod, &known, &addresses(), at(9)).status, None);
}
