//! Tables: objects that the graph queues, and every verdict.

use super::*;

fn uid(name: &str) -> Uid {
    name.into()
}

/// An object of kind Thing in namespace ns; its uid is its name. An owner `x!` blocks.
fn object(name: &str, owners: &[&str], deletion: Option<&[&str]>) -> Object {
    let owners = owners.iter().map(|owner| {
        let name = owner.trim_end_matches('!');
        Owner {
            api_version: "example.com/v1".into(),
            kind: "Thing".into(),
            name: name.into(),
            uid: uid(name),
            blocks: owner.ends_with('!'),
        }
    });
    Object {
        identity: Identity {
            api_version: "example.com/v1".into(),
            kind: "Thing".into(),
            namespace: Some("ns".into()),
            name: name.into(),
            uid: uid(name),
        },
        resource_version: "1".into(),
        owners: owners.collect(),
        deleting: deletion.is_some(),
        finalizers: deletion.unwrap_or_default().iter().map(|finalizer| finalizer.to_string()).collect(),
    }
}

fn graph(objects: impl IntoIterator<Item = Object>) -> Graph {
    let mut graph = Graph::default();
    objects.into_iter().for_each(|object| {
        graph.observe(object);
    });
    graph
}

fn delete(names: &[&str]) -> Vec<Work> {
    names.iter().map(|name| Work::Delete(uid(name))).collect()
}

fn verdict(graph: &Graph, name: &str) -> Verdict {
    evaluate(graph, name, |_, _| Presence::Unknown)
}

fn verdict_if(graph: &Graph, name: &str, presence: Presence) -> Verdict {
    evaluate(graph, name, |_, _| presence)
}

const BACKGROUND: Verdict = Verdict::Delete { policy: Policy::Background, unblock: false };

#[test]
fn a_dependent_of_an_unknown_owner_is_looked_at() {
    let mut graph = Graph::default();
    assert_eq!(graph.observe(object("child", &["owner"], None)), delete(&["child"]));
    // Seen again unchanged: nothing new.
    assert_eq!(graph.observe(object("child", &["owner"], None)), []);
    let Verdict::Verify(owners) = verdict(&graph, "child") else { panic!() };
    assert_eq!(owners[0].name, "owner");
    assert_eq!(verdict_if(&graph, "child", Presence::Absent), BACKGROUND);
    assert_eq!(verdict_if(&graph, "child", Presence::Present), Verdict::Nothing);
    assert_eq!(verdict_if(&graph, "child", Presence::WrongScope), Verdict::Nothing);
    // The owner turns up.
    graph.observe(object("owner", &[], None));
    assert_eq!(verdict(&graph, "child"), Verdict::Nothing);
}

#[test]
fn a_vanished_owner_takes_its_dependents() {
    let mut graph =
        graph([object("owner", &[], None), object("a", &["owner"], None), object("b", &["owner"], None)]);
    assert_eq!(graph.vanish("owner"), delete(&["a", "b"]));
    assert_eq!(verdict_if(&graph, "a", Presence::Absent), BACKGROUND);
    assert_eq!(graph.vanish("owner"), []);
    assert_eq!(graph.vanish("a"), []);
    assert_eq!(graph.len(), 1);
}

#[test]
fn one_living_owner_keeps_an_object_and_lost_references_go() {
    let mut graph =
        graph([object("a", &[], None), object("b", &[], None), object("child", &["a", "b"], None)]);
    graph.vanish("a");
    assert_eq!(verdict_if(&graph, "child", Presence::Absent), Verdict::DropReferences(vec![uid("a")]));
    // An owner that waits for its dependents counts as lost beside a living one.
    graph.observe(object("a", &[], Some(&[FOREGROUND])));
    assert_eq!(verdict(&graph, "child"), Verdict::DropReferences(vec![uid("a")]));
}

#[test]
fn foreground_waits_for_blocking_dependents_only() {
    let mut graph = graph([
        object("owner", &[], None),
        object("hard", &["owner!"], None),
        object("soft", &["owner"], None),
    ]);
    let work = graph.observe(object("owner", &[], Some(&[FOREGROUND])));
    assert_eq!(work, delete(&["hard", "soft", "owner"]));
    assert_eq!(graph.observe(object("owner", &[], Some(&[FOREGROUND]))), []);
    assert_eq!(verdict(&graph, "owner"), Verdict::LookAt(vec![uid("hard")]));
    assert_eq!(verdict(&graph, "hard"), BACKGROUND);
    assert_eq!(verdict(&graph, "soft"), BACKGROUND);
    assert_eq!(graph.vanish("hard"), delete(&["owner"]));
    assert_eq!(verdict(&graph, "owner"), Verdict::RemoveForegroundFinalizer);
}

#[test]
fn a_dependent_with_dependents_goes_in_the_foreground_too() {
    let objects = [
        object("owner", &[], Some(&[FOREGROUND])),
        object("mid", &["owner!"], None),
        object("leaf", &["mid!"], None),
    ];
    let graph = graph(objects);
    assert_eq!(verdict(&graph, "mid"), Verdict::Delete { policy: Policy::Foreground, unblock: false });
    assert_eq!(verdict(&graph, "leaf"), Verdict::Nothing);
}

#[test]
fn a_circle_of_waiting_objects_is_opened() {
    let mut graph = graph([object("a", &["b!"], None), object("b", &["a!"], None)]);
    assert_eq!(verdict(&graph, "a"), Verdict::Nothing);
    graph.observe(object("a", &["b!"], Some(&[FOREGROUND])));
    assert_eq!(verdict(&graph, "b"), Verdict::Delete { policy: Policy::Foreground, unblock: true });
    // Its references no longer block, so the first may go, and then the second.
    let work = graph.observe(object("b", &["a"], Some(&[FOREGROUND])));
    assert!(work.contains(&Work::Delete(uid("a"))), "{work:?}");
    assert_eq!(verdict(&graph, "a"), Verdict::RemoveForegroundFinalizer);
    graph.vanish("a");
    assert_eq!(verdict(&graph, "b"), Verdict::RemoveForegroundFinalizer);
}

#[test]
fn orphaning_is_asked_for_once() {
    let mut graph = graph([object("owner", &[], None), object("child", &["owner"], None)]);
    assert_eq!(graph.observe(object("owner", &[], Some(&[ORPHAN]))), [Work::Orphan(uid("owner"))]);
    assert_eq!(graph.observe(object("owner", &[], Some(&[ORPHAN]))), []);
    assert_eq!(graph.dependents("owner").count(), 1);
    // Released: the owner has no dependents, and the child is safe.
    graph.observe(object("child", &[], None));
    assert_eq!(graph.dependents("owner").count(), 0);
    assert_eq!(graph.vanish("owner"), []);
    assert_eq!(verdict(&graph, "child"), Verdict::Nothing);
}

#[test]
fn the_finalizer_an_object_has_names_the_policy() {
    for (finalizer, policy) in
        [(ORPHAN, Policy::Orphan), (FOREGROUND, Policy::Foreground), ("other", Policy::Background)]
    {
        let mut child = object("child", &["owner"], None);
        child.finalizers = vec![finalizer.into()];
        let graph = graph([child]);
        assert_eq!(verdict_if(&graph, "child", Presence::Absent), Verdict::Delete { policy, unblock: false });
    }
}

#[test]
fn an_object_on_its_way_out_is_left_alone() {
    let graph = graph([object("child", &["owner"], Some(&["other"]))]);
    assert_eq!(verdict_if(&graph, "child", Presence::Absent), Verdict::Nothing);
}

#[test]
fn a_reference_that_names_the_wrong_place_is_looked_up() {
    let mut elsewhere = object("owner", &[], None);
    elsewhere.identity.namespace = Some("other".into());
    let mut renamed = object("owner", &[], None);
    renamed.identity.name = "another".into();
    let mut kind = object("owner", &[], None);
    kind.identity.kind = "Other".into();
    for owner in [elsewhere, renamed, kind] {
        let mut graph = graph([owner]);
        assert_eq!(graph.observe(object("child", &["owner"], None)), delete(&["child"]));
        assert!(matches!(verdict(&graph, "child"), Verdict::Verify(_)));
        assert_eq!(verdict_if(&graph, "child", Presence::Absent), BACKGROUND);
    }
    // Another version of the same group, and an owner outside namespaces, are right places.
    let mut version = object("owner", &[], None);
    version.identity.api_version = "example.com/v2".into();
    let mut cluster = object("owner", &[], None);
    cluster.identity.namespace = None;
    for owner in [version, cluster] {
        let mut graph = graph([owner]);
        assert_eq!(graph.observe(object("child", &["owner"], None)), []);
        assert_eq!(verdict(&graph, "child"), Verdict::Nothing);
    }
}

#[test]
fn a_new_dependent_of_a_waiting_owner_is_looked_at() {
    let mut graph = graph([object("owner", &[], Some(&[FOREGROUND]))]);
    assert_eq!(graph.observe(object("late", &["owner!"], None)), delete(&["late"]));
    assert_eq!(verdict(&graph, "late"), BACKGROUND);
}

#[test]
fn a_kind_that_goes_is_forgotten() {
    let mut graph = graph([object("a", &[], None), object("b", &["a"], None)]);
    let mut uids = graph.of_kind("example.com/v1", "Thing");
    uids.sort();
    assert_eq!(uids, [uid("a"), uid("b")]);
    assert_eq!(graph.of_kind("example.com/v1", "Other"), Vec::<Uid>::new());
    uids.iter().for_each(|uid| drop(graph.vanish(uid)));
    assert_eq!(graph.len(), 0);
}
