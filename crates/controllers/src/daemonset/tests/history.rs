use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision;

use super::super::history::{History, keeps, patch_of, surplus};
use super::*;

fn revision(number: i64) -> Arc<ControllerRevision> {
    let name = format!("d-{number}");
    Arc::new(read(json!({ "revision": number, "data": {},
        "metadata": { "name": name, "labels": { "controller-revision-hash": number.to_string() } } })))
}

#[test]
fn a_revision_keeps_the_template_however_nothing_is_spelled() {
    let template = one_at_a_time().spec.template;
    let mut patch = patch_of(&template);
    assert_eq!(patch["spec"]["template"]["$patch"], "replace");
    let keeping = |patch: &Value| -> ControllerRevision {
        read(json!({ "revision": 1, "data": patch, "metadata": {} }))
    };
    assert!(keeps(&keeping(&patch), &template));
    patch["spec"]["template"]["metadata"]["creationTimestamp"] = Value::Null;
    assert!(keeps(&keeping(&patch), &template));
    patch["spec"]["template"]["spec"]["containers"][0]["image"] = json!("d:2");
    assert!(!keeps(&keeping(&patch), &template));
}

#[test]
fn old_revisions_beyond_the_limit_go_unless_pods_are_of_them() {
    let history = History { current: revision(6), old: (1..6).map(revision).collect() };
    let pods: Vec<Arc<Pod>> = pods(&["a:1:a", "b:3:fx", "c:6:a"]).into_iter().map(Arc::new).collect();
    for (limit, expected) in
        [(9, vec![]), (4, vec!["d-2"]), (2, vec!["d-2", "d-4", "d-5"]), (0, vec!["d-2", "d-4", "d-5"])]
    {
        let mut set = one_at_a_time();
        set.spec.revision_history_limit = Some(limit);
        let names: Vec<&str> =
            surplus(&set, &history, &pods).into_iter().map(crate::controller_revision::name).collect();
        assert_eq!(names, expected, "{limit}");
    }
}
