use proptest::prelude::*;
use serde_json::{Value, json};

use super::{FieldSet, PathElement, display_path};

fn set(fields: Value) -> FieldSet {
    FieldSet::from_fields_v1(&fields).unwrap()
}

#[test]
fn fields_v1_keeps_order_and_membership() {
    let fields = json!({
        "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
        "f:spec": {"f:ports": {"k:{\"port\":443,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}, "k:{\"port\":80,\"protocol\":\"TCP\"}": {}}},
        "x:future": {},
    });
    let set = set(fields);
    assert_eq!(
        set.to_fields_v1_text(),
        concat!(
            r#"{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:ports":{"#,
            r#""k:{\"port\":80,\"protocol\":\"TCP\"}":{},"k:{\"port\":443,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}}}}"#
        )
    );
    assert_eq!(set.len(), 5);
    let path = &set.paths()[4];
    assert_eq!(display_path(path), r#".spec.ports[port=443,protocol="TCP"].port"#);
}

#[test]
fn text_is_escaped_as_go_does() {
    let mut set = FieldSet::new();
    set.insert(&[PathElement::Value(std::sync::Arc::new(json!("<a>&\u{2028}")))]);
    set.insert(&[PathElement::Value(std::sync::Arc::new(json!(0.0000001)))]);
    assert_eq!(set.to_fields_v1_text(), r#"{"v:1e-7":{},"v:\"\\u003ca\\u003e\\u0026\\u2028\"":{}}"#);
}

#[test]
fn a_parent_is_not_its_children() {
    let both = set(json!({"f:a": {".": {}, "f:b": {}}}));
    let parent = set(json!({"f:a": {}}));
    let child = set(json!({"f:a": {"f:b": {}}}));
    assert_eq!(both.difference(&parent), child);
    assert_eq!(both.difference(&child), parent);
    assert_eq!(both.recursive_difference(&parent), FieldSet::new());
    assert_eq!(child.recursive_difference(&parent), FieldSet::new());
    assert!(parent.intersection(&child).is_empty());
    assert_eq!(parent.union(&child), both);
    assert!(child.is_subset(&both) && !both.is_subset(&child));
}

fn element() -> impl Strategy<Value = PathElement> {
    prop_oneof![
        "[a-c]{1,2}".prop_map(|name| PathElement::field(&name)),
        (0_i64..3, "[xy<]").prop_map(|(port, name)| PathElement::key(vec![
            ("port".into(), json!(port)),
            ("name".into(), json!(name))
        ])),
        prop_oneof![
            any::<bool>().prop_map(Value::from),
            (0_i64..4).prop_map(Value::from),
            "[a\"]".prop_map(Value::from)
        ]
        .prop_map(|value| PathElement::Value(value.into())),
        (0_i64..3).prop_map(PathElement::Index),
    ]
}

fn any_set() -> impl Strategy<Value = FieldSet> {
    prop::collection::vec(prop::collection::vec(element(), 1..4), 0..12).prop_map(|paths| {
        let mut set = FieldSet::new();
        for path in &paths {
            set.insert(path);
        }
        set
    })
}

proptest! {
    #[test]
    fn sets_survive_json(set in any_set()) {
        prop_assert_eq!(&FieldSet::from_fields_v1(&set.to_fields_v1()).unwrap(), &set);
        let text: Value = serde_json::from_str(&set.to_fields_v1_text()).unwrap();
        prop_assert_eq!(&FieldSet::from_fields_v1(&text).unwrap(), &set);
    }

    #[test]
    fn algebra_agrees_with_membership(left in any_set(), right in any_set()) {
        let union = left.union(&right);
        for path in union.paths() {
            let (in_left, in_right) = (left.has(&path), right.has(&path));
            prop_assert!(in_left || in_right);
            prop_assert_eq!(left.intersection(&right).has(&path), in_left && in_right);
            prop_assert_eq!(left.difference(&right).has(&path), in_left && !in_right);
        }
        prop_assert_eq!(union.len(), left.len() + right.difference(&left).len());
        prop_assert_eq!(left.intersects(&right), !left.intersection(&right).is_empty());
        prop_assert_eq!(left.is_subset(&right), left.difference(&right).is_empty());
    }
}
