use serde_json::{Value, json};

use super::{Error, ErrorClass, apply};
use setpoint_schema::{Field, ListKind, Node, Omit, PatchStrategy, Scalar, Schema, Shape, Struct, TypeRef};

fn inline(shape: Shape) -> TypeRef {
    TypeRef::Inline(Schema::of(Node { name: Some("example.Thing".into()), ..Node::new(shape) }))
}

fn list(item: TypeRef) -> TypeRef {
    inline(Shape::List { item, kind: ListKind::Atomic })
}

fn text() -> TypeRef {
    inline(Shape::Scalar(Scalar::String))
}

fn field(name: &str, ty: TypeRef, patch: PatchStrategy) -> Field {
    Field {
        name: name.into(),
        ty,
        required: false,
        default: None,
        patch,
        proto: None,
        omit: Omit::Empty,
        pointer: false,
    }
}

fn object(mut fields: Vec<Field>) -> TypeRef {
    fields.sort_by(|left, right| left.name.cmp(&right.name));
    inline(Shape::Struct(Struct::of(fields)))
}

fn schema() -> Schema {
    let keyed = PatchStrategy { merge: true, merge_key: Some("name".into()), ..PatchStrategy::default() };
    let merged = PatchStrategy { merge: true, ..PatchStrategy::default() };
    let container = object(vec![
        field("name", text(), PatchStrategy::default()),
        field("image", text(), PatchStrategy::default()),
        field("args", list(text()), PatchStrategy::default()),
        field("env", list(object(vec![field("name", text(), PatchStrategy::default())])), keyed.clone()),
    ]);
    let root = object(vec![
        field("containers", list(container), keyed),
        field("finalizers", list(text()), merged),
        field("strategy", object(vec![]), PatchStrategy { retain_keys: true, ..PatchStrategy::default() }),
        field("whole", object(vec![]), PatchStrategy { replace: true, ..PatchStrategy::default() }),
        field("atomic", list(object(vec![])), PatchStrategy::default()),
        field("labels", inline(Shape::Map { value: text(), atomic: false }), PatchStrategy::default()),
    ]);
    root.resolve()
}

fn merged(live: Value, patch: Value) -> Value {
    apply(live, patch, &schema()).unwrap()
}

fn refused(live: Value, patch: Value) -> Error {
    apply(live, patch, &schema()).unwrap_err()
}

#[test]
fn keyed_items_merge_and_the_patch_decides_their_order() {
    let live = json!({"containers": [{"name": "a", "image": "1"}, {"name": "b"}, {"name": "c"}]});
    let patch = json!({"containers": [{"name": "c", "image": "3"}, {"name": "a", "args": ["x"]}]});
    let expected = json!({"containers": [
        {"name": "b"}, {"name": "c", "image": "3"}, {"name": "a", "image": "1", "args": ["x"]}]});
    assert_eq!(merged(live, patch), expected);
}

#[test]
fn new_items_come_before_what_only_the_server_has() {
    let live = json!({"containers": [{"name": "a"}]});
    assert_eq!(
        merged(live, json!({"containers": [{"name": "b"}]})),
        json!({"containers": [{"name": "b"}, {"name": "a"}]})
    );
}

#[test]
fn directives_delete_and_replace() {
    let live = json!({"containers": [{"name": "a"}, {"name": "b"}], "labels": {"x": "1"}, "whole": {"p": 1}});
    assert_eq!(
        merged(
            live.clone(),
            json!({"containers": [{"name": "a", "$patch": "delete"}], "labels": {"$patch": "replace", "y": "2"}})
        ),
        json!({"containers": [{"name": "b"}], "labels": {"y": "2"}, "whole": {"p": 1}})
    );
    assert_eq!(
        merged(
            live.clone(),
            json!({"containers": [{"$patch": "replace"}, {"name": "z"}], "labels": {"$patch": "delete"}, "whole": {"q": 2}})
        ),
        json!({"containers": [{"name": "z"}], "labels": {}, "whole": {"q": 2}})
    );
    assert_eq!(merged(live, json!({"$patch": "replace", "labels": {}})), json!({"labels": {}}));
}

#[test]
fn null_deletes_and_is_dropped_from_what_is_new() {
    let live = json!({"labels": {"x": "1", "y": "2"}});
    assert_eq!(
        merged(live, json!({"labels": {"x": null}, "strategy": {"a": null, "b": 1}})),
        json!({"labels": {"y": "2"}, "strategy": {"b": 1}})
    );
}

#[test]
fn scalars_merge_as_a_set() {
    let live = json!({"finalizers": ["a", "b", "c"]});
    assert_eq!(
        merged(live.clone(), json!({"finalizers": ["d", "a"]})),
        json!({"finalizers": ["d", "a", "b", "c"]})
    );
    assert_eq!(
        merged(live.clone(), json!({"$deleteFromPrimitiveList/finalizers": ["b", "x"]})),
        json!({"finalizers": ["a", "c"]})
    );
    assert_eq!(
        merged(
            live,
            json!({"$setElementOrder/finalizers": ["c", "d", "a"], "finalizers": ["d"], "$deleteFromPrimitiveList/finalizers": ["b"]})
        ),
        json!({"finalizers": ["c", "d", "a"]})
    );
}

#[test]
fn element_order_rules_keyed_lists() {
    let live = json!({"containers": [{"name": "a"}, {"name": "b"}, {"name": "own"}]});
    let patch = json!({
        "$setElementOrder/containers": [{"name": "c"}, {"name": "b"}, {"name": "a"}],
        "containers": [{"name": "c", "image": "i"}],
    });
    assert_eq!(
        merged(live.clone(), patch),
        json!({"containers": [{"name": "c", "image": "i"}, {"name": "b"}, {"name": "a"}, {"name": "own"}]})
    );
    let wrong = json!({"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "c"}]});
    assert_eq!(
        refused(live, wrong).to_string(),
        "The order in patch list:\n[map[name:c]]\n doesn't match $setElementOrder list:\n[map[name:a]]\n"
    );
}

#[test]
fn an_added_item_takes_the_place_that_a_deleted_one_left() {
    let live = json!({"containers": [{"name": "gone"}, {"name": "own"}]});
    let patch = json!({
        "$setElementOrder/containers": [{"name": "new"}],
        "containers": [{"name": "gone", "$patch": "delete"}, {"name": "new"}],
    });
    assert_eq!(merged(live, patch), json!({"containers": [{"name": "own"}, {"name": "new"}]}));
}

#[test]
fn retain_keys_clears_the_rest() {
    let live = json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {}}});
    let patch = json!({"strategy": {"$retainKeys": ["type"], "type": "Recreate"}});
    assert_eq!(merged(live.clone(), patch), json!({"strategy": {"type": "Recreate"}}));
    let wrong = json!({"strategy": {"$retainKeys": ["type"], "other": 1}});
    assert_eq!(refused(live.clone(), wrong).class(), ErrorClass::BadRequest);
    assert_eq!(refused(live, json!({"strategy": {"$retainKeys": 1}})), Error::BadRetainKeys);
}

#[test]
fn lists_without_a_strategy_are_replaced() {
    assert_eq!(
        merged(json!({"atomic": [{"a": 1}]}), json!({"atomic": [{"b": 2}]})),
        json!({"atomic": [{"b": 2}]})
    );
}

#[test]
fn refusals_carry_the_servers_texts() {
    let live = json!({"containers": [{"name": "a"}], "labels": {"x": "1"}});
    let text = |patch| refused(live.clone(), patch).to_string();
    assert_eq!(
        text(json!({"containers": [{"image": "x"}]})),
        "map: map[image:x] does not contain declared merge key: name"
    );
    assert_eq!(
        text(json!({"labels": {"$patch": "merge"}})),
        "unknown patch type: merge in map: map[$patch:merge]"
    );
    assert_eq!(
        text(json!({"containers": [{"name": "b", "$patch": "merge"}]})),
        "merging lists cannot yet be specified in the patch"
    );
    assert_eq!(
        text(json!({"containers": ["x"]})),
        "list element types are not identical: [[map[name:a]] [x]]"
    );
    assert_eq!(text(json!({"$deleteFromPrimitiveList": []})), "invalid patch format of primitive list");
}
