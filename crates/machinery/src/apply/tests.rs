mod properties;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use setpoint_schema::{Field, ListKind, Node, Omit, PatchStrategy, Scalar, Shape, Struct, TypeRef};

fn inline(shape: Shape) -> TypeRef {
    TypeRef::Inline(Schema::of(Node::new(shape)))
}

fn scalar(scalar: Scalar) -> TypeRef {
    inline(Shape::Scalar(scalar))
}

fn list(item: TypeRef, kind: ListKind) -> TypeRef {
    inline(Shape::List { item, kind })
}

fn map(value: TypeRef) -> TypeRef {
    inline(Shape::Map { value, atomic: false })
}

fn field(name: &str, ty: TypeRef) -> Field {
    Field {
        name: name.into(),
        ty,
        required: false,
        default: None,
        patch: PatchStrategy::default(),
        proto: None,
        omit: Omit::Empty,
        pointer: false,
    }
}

fn object(mut fields: Vec<Field>) -> Struct {
    fields.sort_by(|left, right| left.name.cmp(&right.name));
    Struct::of(fields)
}

/// A kind with one field of each way to merge.
fn schema() -> Schema {
    let text = || scalar(Scalar::String);
    let number = || scalar(Scalar::Int32);
    let port = object(vec![
        field("port", number()),
        Field { default: Some("TCP".into()), ..field("protocol", text()) },
        field("name", text()),
    ]);
    let keyed = ListKind::Map(vec!["port".into(), "protocol".into()]);
    let mut atomic = object(vec![field("a", text()), field("b", text())]);
    atomic.atomic = true;
    let spec = object(vec![
        field("replicas", number()),
        field("name", text()),
        field("ports", list(inline(Shape::Struct(port)), keyed)),
        field("set", list(text(), ListKind::Set)),
        field("atomicList", list(text(), ListKind::Atomic)),
        field("map", map(text())),
        field("atomicMap", inline(Shape::Map { value: text(), atomic: true })),
        field("atomic", inline(Shape::Struct(atomic))),
        field("any", inline(Shape::Any)),
        field("nested", inline(Shape::Struct(object(vec![field("a", text()), field("b", text())])))),
    ]);
    let metadata = object(vec![
        field("name", text()),
        field("namespace", text()),
        field("uid", text()),
        field("labels", map(text())),
        field("annotations", map(text())),
        field("finalizers", list(text(), ListKind::Set)),
    ]);
    let status = object(vec![field("phase", text())]);
    let root = object(vec![
        field("apiVersion", text()),
        field("kind", text()),
        field("metadata", inline(Shape::Struct(metadata))),
        field("spec", inline(Shape::Struct(spec))),
        field("status", inline(Shape::Struct(status))),
    ]);
    Schema::of(Node::new(Shape::Struct(root)))
}

/// One object and everybody who writes it.
struct World {
    schema: Schema,
    kind: GroupVersionKind,
    live: Option<Value>,
    clock: i64,
    reset: ResetFields,
}

impl World {
    fn new() -> Self {
        let kind = GroupVersionKind::new("example.com", "v1", "Thing");
        let reset = ResetFields::exclude(&[&["status"]]);
        World { schema: schema(), kind, live: None, clock: 1_000, reset }
    }

    fn context<'c>(&'c self, manager: &'c str) -> WriteContext<'c> {
        WriteContext {
            schema: &self.schema,
            kind: &self.kind,
            manager,
            subresource: "",
            now: Timestamp::from_second(self.clock).unwrap(),
            reset_fields: &self.reset,
            versions: &OneVersion,
        }
    }

    fn config(spec: Value) -> Value {
        json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x"}, "spec": spec})
    }

    fn try_apply(&mut self, manager: &str, spec: Value, force: bool) -> Result<bool, ApplyError> {
        self.clock += 1;
        let config = World::config(spec);
        let applied = server_side_apply(self.live.as_ref(), &config, force, &self.context(manager))?;
        let changed = applied.changed;
        self.live = Some(applied.object.into_owned());
        Ok(changed)
    }

    fn apply(&mut self, manager: &str, spec: Value) -> bool {
        self.try_apply(manager, spec, false).unwrap()
    }

    fn update(&mut self, manager: &str, spec: Value) {
        self.clock += 1;
        let mut new = World::config(spec);
        if let Some(entries) = self.live.as_ref().and_then(managed_fields) {
            new["metadata"]["managedFields"] = entries.clone();
        }
        track_update(self.live.as_ref(), &mut new, &self.context(manager));
        self.live = Some(new);
    }

    fn spec(&self) -> &Value {
        &self.live.as_ref().unwrap()["spec"]
    }

    fn owned(&self, manager: &str) -> Value {
        let entries = self.live.as_ref().and_then(managed_fields).and_then(Value::as_array);
        let entry = entries.into_iter().flatten().find(|entry| entry["manager"] == manager);
        entry.map_or(Value::Null, |entry| entry["fieldsV1"]["f:spec"].clone())
    }
}

#[test]
fn the_first_apply_creates_and_owns_what_it_says() {
    let mut world = World::new();
    assert!(
        world.apply("a", json!({"replicas": 3, "map": {"k": "v"}, "ports": [{"port": 80}], "set": ["x"]}))
    );
    assert_eq!(
        world.owned("a"),
        json!({
            "f:map": {"f:k": {}},
            "f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}},
            "f:replicas": {},
            "f:set": {"v:\"x\"": {}},
        })
    );
    let live = world.live.clone().unwrap();
    assert_eq!(live["metadata"]["managedFields"][0]["time"], "1970-01-01T00:16:41Z");
    assert!(
        !world.apply("a", json!({"replicas": 3, "map": {"k": "v"}, "ports": [{"port": 80}], "set": ["x"]}))
    );
    assert_eq!(world.live, Some(live));
}

#[test]
fn another_value_is_a_conflict_and_force_takes_the_field() {
    let mut world = World::new();
    world.apply("a", json!({"replicas": 1, "name": "n"}));
    let error = world.try_apply("b", json!({"replicas": 2}), false).unwrap_err();
    assert_eq!(error.to_string(), "Apply failed with 1 conflict: conflict with \"a\": .spec.replicas");
    assert_eq!(error.causes(), [("conflict with \"a\"".to_owned(), ".spec.replicas".to_owned())]);
    assert!(world.try_apply("b", json!({"replicas": 2}), true).unwrap());
    assert_eq!(world.owned("a"), json!({"f:name": {}}));
    assert_eq!(world.owned("b"), json!({"f:replicas": {}}));
    // The same value is shared.
    assert!(world.apply("c", json!({"replicas": 2})));
    assert_eq!(world.owned("c"), json!({"f:replicas": {}}));
    let error = world.try_apply("d", json!({"replicas": 5, "name": "m"}), false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 3 conflicts: conflicts with \"a\":\n- .spec.name\nconflicts with \"b\":\n- \
         .spec.replicas\nconflicts with \"c\":\n- .spec.replicas"
    );
}

#[test]
fn an_updater_is_named_with_its_version() {
    let mut world = World::new();
    world.update("kubectl", json!({"replicas": 1}));
    let error = world.try_apply("b", json!({"replicas": 2}), false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 1 conflict: conflict with \"kubectl\" using example.com/v1: .spec.replicas"
    );
}

#[test]
fn what_is_applied_no_more_goes_unless_somebody_owns_it() {
    let mut world = World::new();
    world.apply("a", json!({"replicas": 1, "map": {"k": "v", "l": "w"}, "set": ["x", "y"], "ports": [{"port": 1}, {"port": 2}]}));
    world.apply("b", json!({"set": ["y"], "map": {"l": "w"}}));
    world.apply("a", json!({"ports": [{"port": 2}]}));
    assert_eq!(world.spec(), &json!({"map": {"l": "w"}, "set": ["y"], "ports": [{"port": 2}]}));
    world.apply("b", json!({}));
    assert_eq!(world.spec(), &json!({"ports": [{"port": 2}]}));
}

#[test]
fn unowned_fields_inside_an_owned_item_stay_until_the_item_goes() {
    let mut world = World::new();
    world.apply("a", json!({"ports": [{"port": 80}]}));
    // Somebody without a manager fills a field in, as defaulting does.
    world.live.as_mut().unwrap()["spec"]["ports"][0]["protocol"] = "TCP".into();
    assert!(!world.apply("a", json!({"ports": [{"port": 80}]})));
    world.apply("a", json!({"ports": [{"port": 80, "name": "n"}]}));
    assert_eq!(world.spec(), &json!({"ports": [{"name": "n", "port": 80, "protocol": "TCP"}]}));
    world.apply("a", json!({"replicas": 1}));
    assert_eq!(world.spec(), &json!({"replicas": 1}));
}

#[test]
fn atomic_parts_have_one_owner() {
    let mut world = World::new();
    world.apply("a", json!({"atomic": {"a": "1"}, "atomicList": ["x"], "atomicMap": {"k": "v"}, "any": {"list": [1], "o": {"p": 1}}}));
    assert_eq!(
        world.owned("a"),
        json!({
            "f:any": {"f:list": {}, "f:o": {".": {}, "f:p": {}}},
            "f:atomic": {},
            "f:atomicList": {},
            "f:atomicMap": {},
        })
    );
    let error =
        world.try_apply("b", json!({"atomicMap": {"l": "w"}, "any": {"o": {"q": 2}}}), false).unwrap_err();
    assert_eq!(error.to_string(), "Apply failed with 1 conflict: conflict with \"a\": .spec.atomicMap");
}

#[test]
fn an_update_owns_what_it_changes_and_takes_it_from_appliers() {
    let mut world = World::new();
    world.apply("a", json!({"replicas": 1, "name": "n"}));
    world.update("scaler", json!({"replicas": 5, "name": "n", "nested": {"a": "x"}}));
    assert_eq!(world.owned("a"), json!({"f:name": {}}));
    assert_eq!(world.owned("scaler"), json!({"f:nested": {".": {}, "f:a": {}}, "f:replicas": {}}));
    world.update("scaler", json!({"name": "n", "nested": {"a": "x"}}));
    assert_eq!(world.owned("scaler"), json!({"f:nested": {".": {}, "f:a": {}}}));
    world.update("other", json!({}));
    assert_eq!(world.owned("a"), Value::Null);
    assert_eq!(world.live.as_ref().and_then(managed_fields), None);
}

#[test]
fn an_object_without_managers_becomes_before_first_apply() {
    let mut world = World::new();
    world.live = Some(World::config(json!({"replicas": 1, "name": "n"})));
    world.update("nobody", json!({"replicas": 1, "name": "m"}));
    assert_eq!(world.live.as_ref().and_then(managed_fields), None);
    world.apply("a", json!({"name": "m"}));
    assert_eq!(world.owned("before-first-apply"), json!({".": {}, "f:name": {}, "f:replicas": {}}));
    assert_eq!(world.owned("a"), json!({"f:name": {}}));
}

#[test]
fn many_updaters_are_folded_into_one() {
    let mut world = World::new();
    for writer in 0..12 {
        let map: serde_json::Map<String, Value> =
            (0..=writer).map(|at| (format!("k{at:02}"), Value::from("v"))).collect();
        world.update(&format!("writer-{writer}"), json!({"map": map}));
    }
    let entries = world.live.as_ref().and_then(managed_fields).and_then(Value::as_array).unwrap();
    assert_eq!(entries.len(), MAX_UPDATE_MANAGERS);
    assert_eq!(entries[0]["manager"], "ancient-changes");
    assert_eq!(
        world.owned("ancient-changes"),
        json!({".": {}, "f:map": {".": {}, "f:k00": {}, "f:k01": {}, "f:k02": {}}})
    );
}

#[test]
fn kubectl_takes_over_what_it_applied_on_the_client() {
    let mut world = World::new();
    let last = World::config(json!({"replicas": 1, "name": "n"})).to_string();
    let annotation = "kubectl.kubernetes.io/last-applied-configuration";
    let mut created = World::config(json!({"replicas": 1, "name": "n"}));
    created["metadata"]["annotations"] = json!({annotation: last});
    track_update(None, &mut created, &world.context("kubectl-client-side-apply"));
    world.live = Some(created);
    world.try_apply("other", json!({"replicas": 2}), false).unwrap_err();
    assert!(world.apply("kubectl", json!({"replicas": 2, "name": "n"})));
    let live = world.live.as_ref().unwrap();
    let renewed = live["metadata"]["annotations"][annotation].as_str().unwrap();
    assert!(renewed.ends_with("\"replicas\":2}}\n"), "{renewed}");
}

#[test]
fn refusals_carry_the_servers_texts() {
    let mut world = World::new();
    let text = |result: Result<bool, ApplyError>| result.unwrap_err().to_string();
    assert_eq!(
        text(world.try_apply("a", json!({"nope": 1}), false)),
        "failed to create typed patch object (/x; example.com/v1, Kind=Thing): .spec.nope: field not declared in schema"
    );
    assert_eq!(
        text(world.try_apply("a", json!({"set": ["a", "a"]}), false)),
        "failed to create typed patch object (/x; example.com/v1, Kind=Thing): .spec.set: duplicate entries for key [=\"a\"]"
    );
    assert_eq!(
        text(world.try_apply("a", json!({"replicas": "x"}), false)),
        "failed to create typed patch object (/x; example.com/v1, Kind=Thing): .spec.replicas: expected numeric (int or float), got string"
    );
    let mut unmanaged = World::config(json!({"replicas": []}));
    unmanaged["metadata"]["namespace"] = "n".into();
    world.live = Some(unmanaged);
    assert_eq!(
        text(world.try_apply("a", json!({"nope": 1}), false)),
        "failed to create manager for existing fields: failed to convert new object (n/x; example.com/v1, Kind=Thing) to \
         smd typed: .spec.replicas: expected numeric (int or float), got []interface {}"
    );
    let mut config = World::config(json!({}));
    config["metadata"]["managedFields"] = json!([]);
    assert_eq!(
        server_side_apply(None, &config, false, &world.context("a")),
        Err(ApplyError::ManagedFieldsInConfig)
    );
    config["apiVersion"] = "v1".into();
    let error = server_side_apply(None, &config, false, &world.context("a")).unwrap_err();
    assert_eq!(error.to_string(), "invalid object type: /v1, Kind=Thing");
}

#[test]
fn status_is_not_owned_on_the_main_path() {
    let world = World::new();
    let mut config = World::config(json!({"replicas": 1}));
    config["status"] = json!({"phase": "Ready"});
    let applied = server_side_apply(None, &config, false, &world.context("a")).unwrap();
    assert_eq!(
        applied.object["metadata"]["managedFields"][0]["fieldsV1"],
        json!({"f:spec": {"f:replicas": {}}})
    );
}

#[test]
fn lists_keep_the_applied_order_between_the_items_of_others() {
    let mut world = World::new();
    world.update("u", json!({"set": ["a", "b", "c", "d"]}));
    world.apply("x", json!({"set": ["d", "new", "b"]}));
    assert_eq!(world.spec()["set"], json!(["a", "c", "d", "new", "b"]));
    world.apply("x", json!({"set": ["b", "new", "d"]}));
    assert_eq!(world.spec()["set"], json!(["a", "c", "b", "new", "d"]));
}

#[test]
fn scale_stands_for_the_parents_replicas() {
    let mut world = World::new();
    world.apply("a", json!({"replicas": 1, "name": "n"}));
    let parent = world.live.as_ref().and_then(managed_fields);
    let entries = scale::entries_of_scale(parent, &scale::SpecReplicas).unwrap().unwrap();
    assert_eq!(entries[0]["apiVersion"], "autoscaling/v1");
    assert_eq!(entries[0]["fieldsV1"], json!({"f:spec": {"f:replicas": {}}}));
    let written = json!([{"manager": "hpa", "operation": "Update", "subresource": "scale", "apiVersion": "autoscaling/v1",
        "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}}]);
    let after = scale::entries_of_parent(parent, Some(&written), "example.com/v1", &scale::SpecReplicas)
        .unwrap()
        .unwrap();
    assert_eq!(after[0]["fieldsV1"], json!({"f:spec": {"f:name": {}}}));
    assert_eq!(after[1]["manager"], "hpa");
    assert_eq!(after[1]["apiVersion"], "example.com/v1");
}

#[test]
fn only_times_may_differ_in_a_write_that_is_none() {
    let object = |time: &str, name: &str| json!({"metadata": {"managedFields": [{"time": time, "manager": name}], "name": "n"}, "spec": 1});
    assert!(only_timestamps_differ(&object("a", "m"), &object("b", "m")));
    assert!(!only_timestamps_differ(&object("a", "m"), &object("a", "o")));
    assert!(!only_timestamps_differ(&object("a", "m"), &json!({"metadata": {"name": "n"}, "spec": 1})));
}

/// Without empty lists: nobody owns those, in Kubernetes neither, and pruning forgets them.
fn any_spec() -> impl Strategy<Value = Value> {
    let words = || prop::sample::subsequence(vec!["a", "b", "c", "d"], 1..4).prop_shuffle();
    let ports = prop::sample::subsequence(vec![1, 2, 3], 1..3).prop_shuffle();
    let option = |strategy: BoxedStrategy<Value>| prop::option::of(strategy);
    (
        option((0..3).prop_map(Value::from).boxed()),
        option(words().prop_map(Value::from).boxed()),
        option(words().prop_map(Value::from).boxed()),
        option(words().prop_map(|names| names.into_iter().map(|n| (n.to_owned(), json!(n))).collect()).boxed()),
        option(ports.prop_map(|ports| ports.into_iter().map(|port| json!({"port": port, "name": "n"})).collect()).boxed()),
        option(words().prop_map(|names| json!({"o": names.into_iter().map(|n| (n.to_owned(), json!([n]))).collect::<Value>()})).boxed()),
    )
        .prop_map(|(replicas, set, atomic, map, ports, any)| {
            let fields = [("replicas", replicas), ("set", set), ("atomicList", atomic), ("map", map), ("ports", ports), ("any", any)];
            fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
        })
}

proptest! {
    #[test]
    fn apply_is_idempotent(first in any_spec(), other in any_spec()) {
        let mut world = World::new();
        world.apply("a", first.clone());
        world.try_apply("b", other, true).unwrap();
        world.try_apply("a", first.clone(), true).unwrap();
        let settled = world.live.clone();
        prop_assert!(!world.try_apply("a", first, true).unwrap());
        prop_assert_eq!(world.live, settled);
    }

    #[test]
    fn the_order_of_disjoint_appliers_does_not_matter(spec in any_spec(), split in any::<u8>()) {
        let fields = spec.as_object().unwrap();
        let part = |own: bool| -> Value {
            let kept = fields.iter().enumerate().filter(|(at, _)| (split >> at & 1 == 1) == own);
            kept.map(|(_, (name, value))| (name.clone(), value.clone())).collect()
        };
        let mut one = World::new();
        one.apply("a", part(true));
        one.apply("b", part(false));
        let mut two = World::new();
        two.apply("b", part(false));
        two.apply("a", part(true));
        prop_assert_eq!(one.spec(), two.spec());
        prop_assert_eq!(one.owned("a"), two.owned("a"));
        prop_assert_eq!(one.owned("b"), two.owned("b"));
    }

    #[test]
    fn what_nobody_applies_any_more_is_gone(first in any_spec(), other in any_spec()) {
        let mut alone = World::new();
        alone.apply("b", other.clone());
        let mut world = World::new();
        world.apply("a", first);
        world.try_apply("b", other.clone(), true).unwrap();
        world.apply("a", json!({}));
        // Only order may remember the other one.
        let sets = |world: &World| to_set::to_set(world.live.as_ref().unwrap(), Type::root(&world.schema)).difference(&UNOWNED);
        let left: Vec<String> = sets(&world).difference(&sets(&alone)).paths().iter().map(|path| crate::fieldset::display_path(path)).collect();
        prop_assert!(left.iter().all(|path| !path.starts_with(".spec.")), "{left:?}");
        prop_assert_eq!(world.owned("b"), alone.owned("b"));
    }
}

#[test]
fn reset_fields_follow_the_resource_and_the_path() {
    let set = FieldSet::of_fields([
        &["metadata", "labels"][..],
        &["spec", "replicas"],
        &["status", "phase"],
        &["spec", "ephemeralContainers"],
    ]);
    let kept = |group: &str, resource: &str, subresource: &str, custom: bool| {
        ResetFields::of(group, resource, subresource, true, custom).filter(set.clone()).to_string()
    };
    assert_eq!(
        kept("apps", "deployments", "", false),
        ".metadata.labels\n.spec.ephemeralContainers\n.spec.replicas"
    );
    assert_eq!(kept("apps", "deployments", "status", false), ".status.phase");
    assert_eq!(kept("", "services", "status", false), ".metadata.labels\n.status.phase");
    assert_eq!(kept("example.com", "things", "status", true), ".status.phase");
    assert_eq!(kept("", "pods", "ephemeralcontainers", false), ".spec.ephemeralContainers");
}
