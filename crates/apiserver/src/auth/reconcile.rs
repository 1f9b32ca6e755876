//! Reconciliation of the bootstrap roles and bindings when the server starts. The server adds missing rules and
//! subjects, and keeps those that users added. It leaves an object alone whose annotation turns this off.

use serde_json::{Map, Value, json};

use super::authz;
use super::covers;
use super::policy::{AUTOUPDATE, Row};
use crate::object;

/// The action for a stored object.
#[derive(Debug, PartialEq)]
pub(crate) enum Outcome {
    /// Keep the object.
    Keep,
    /// Replace the object by this one.
    Update(Value),
    /// Delete and create the binding: it names another role, which no update can change.
    Recreate,
}

/// Compares a stored object with the object of the table.
pub(crate) fn reconcile(row: &Row<'_>, stored: &Value) -> Outcome {
    if stored.pointer("/metadata/annotations").and_then(|all| all.get(AUTOUPDATE)) == Some(&json!("false")) {
        return Outcome::Keep;
    }
    let expected = row.value();
    if expected.get("roleRef") != stored.get("roleRef") {
        return Outcome::Recreate;
    }
    let mut new = stored.clone();
    for field in ["annotations", "labels"] {
        add_texts(object::metadata_mut(&mut new), field, &expected["metadata"][field]);
    }
    if row.kind().ends_with("Binding") {
        append(&mut new, "/subjects", "subjects", absent(&expected["subjects"], &stored["subjects"]));
    } else {
        append(&mut new, "/rules", "rules", missing_rules(&expected, stored));
        add_selectors(&mut new, &expected);
    }
    if new == *stored { Outcome::Keep } else { Outcome::Update(new) }
}

/// Adds the missing entries of a map. Entries that exist keep their values.
fn add_texts(metadata: &mut Map<String, Value>, field: &str, expected: &Value) {
    let present = metadata.entry(field).or_insert_with(|| json!({}));
    let Value::Object(present) = present else { return };
    for (name, text) in expected.as_object().into_iter().flatten() {
        present.entry(name).or_insert_with(|| text.clone());
    }
}

fn append(object: &mut Value, pointer: &str, field: &str, more: Vec<Value>) {
    if more.is_empty() {
        return;
    }
    match object.pointer_mut(pointer) {
        Some(Value::Array(items)) => items.extend(more),
        _ => object[field] = Value::Array(more),
    }
}

fn absent(expected: &Value, present: &Value) -> Vec<Value> {
    let none = Vec::new();
    let present = present.as_array().unwrap_or(&none);
    expected.as_array().into_iter().flatten().filter(|item| !present.contains(item)).cloned().collect()
}

fn missing_rules(expected: &Value, stored: &Value) -> Vec<Value> {
    let (Ok(expected), Ok(stored)) = (authz::rules_of(expected), authz::rules_of(stored)) else {
        return Vec::new();
    };
    let missing = covers::missing(&stored, &expected).unwrap_or_default();
    missing.into_iter().map(covers::Single::to_rule).collect()
}

fn add_selectors(new: &mut Value, expected: &Value) {
    let Some(wanted) = expected.get("aggregationRule") else {
        new.as_object_mut().and_then(|fields| fields.remove("aggregationRule"));
        return;
    };
    match new.get("aggregationRule") {
        Some(Value::Object(_)) => {
            let more =
                absent(&wanted["clusterRoleSelectors"], &new["aggregationRule"]["clusterRoleSelectors"]);
            append(&mut new["aggregationRule"], "/clusterRoleSelectors", "clusterRoleSelectors", more);
        }
        _ => new["aggregationRule"] = wanted.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::policy::rows;
    use super::*;

    /// The table's row of that kind and name, and the object that is stored for it at first.
    fn row(kind: &str, name: &str) -> (Row<'static>, Value) {
        let row =
            rows().into_iter().find(|row| row.kind() == kind && row.value()["metadata"]["name"] == name);
        let row = row.unwrap();
        let stored = serde_json::from_slice(&row.encoded("2026-01-01T00:00:00Z", "u").at(1)).unwrap();
        (row, stored)
    }

    fn updated(row: &Row<'_>, stored: &Value) -> Value {
        match reconcile(row, stored) {
            Outcome::Update(new) => new,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_stored_as_it_was_made_stays() {
        for row in rows() {
            let stored: Value =
                serde_json::from_slice(&row.encoded("2026-01-01T00:00:00Z", "u").at(1)).unwrap();
            assert_eq!(reconcile(&row, &stored), Outcome::Keep);
        }
    }

    #[test]
    fn missing_permissions_come_back_one_by_one_and_others_stay() {
        let (row, mut stored) = row("ClusterRole", "system:basic-user");
        let own = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]});
        stored["rules"] = json!([own]);
        stored["metadata"]["labels"] = json!({"kubernetes.io/bootstrapping": "mine"});
        let new = updated(&row, &stored);
        assert_eq!(new["metadata"]["labels"]["kubernetes.io/bootstrapping"], "mine");
        let single = |group: &str, resource: &str| json!({"apiGroups": [group], "resources": [resource], "verbs": ["create"]});
        let authorization = "authorization.k8s.io";
        assert_eq!(
            new["rules"],
            json!([
                own,
                single(authorization, "selfsubjectaccessreviews"),
                single(authorization, "selfsubjectrulesreviews"),
                single("authentication.k8s.io", "selfsubjectreviews"),
            ])
        );
        assert_eq!(reconcile(&row, &new), Outcome::Keep);
    }

    #[test]
    fn who_looks_after_an_object_is_left_alone() {
        let (row, mut stored) = row("ClusterRole", "system:basic-user");
        stored["rules"] = json!([]);
        stored["metadata"]["annotations"][AUTOUPDATE] = json!("false");
        assert_eq!(reconcile(&row, &stored), Outcome::Keep);
    }

    #[test]
    fn bindings_get_their_subjects_back_and_one_that_leads_elsewhere_is_made_again() {
        let (row, stored) = row("ClusterRoleBinding", "system:discovery");
        let other = json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "eve"});
        let mut emptied = stored.clone();
        emptied["subjects"] = json!([other]);
        let new = updated(&row, &emptied);
        assert_eq!(new["subjects"], json!([other, stored["subjects"][0]]));
        let mut elsewhere = stored.clone();
        elsewhere["roleRef"]["name"] = json!("cluster-admin");
        assert_eq!(reconcile(&row, &elsewhere), Outcome::Recreate);
    }

    #[test]
    fn selectors_come_back_and_gathered_rules_stay() {
        let (row, stored) = row("ClusterRole", "view");
        let mut changed = stored.clone();
        let own = json!({"matchLabels": {"a": "b"}});
        changed["aggregationRule"]["clusterRoleSelectors"] = json!([own]);
        changed["rules"] = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
        let new = updated(&row, &changed);
        let selectors = &stored["aggregationRule"]["clusterRoleSelectors"];
        assert_eq!(new["aggregationRule"]["clusterRoleSelectors"], json!([own, selectors[0]]));
        assert_eq!(new["rules"], changed["rules"]);
        // The table does not aggregate this role.
        let (row, mut stored) = self::row("ClusterRole", "system:discovery");
        stored["aggregationRule"] = json!({"clusterRoleSelectors": [own]});
        assert_eq!(updated(&row, &stored).get("aggregationRule"), None);
    }
}
