//! The bootstrap roles and bindings: those of kube-apiserver 1.37, in `policy.json`, one a line. `cargo xtask wire
//! policy` asks a fresh kube-apiserver for them again.
//!
//! There are many of them, and a cluster should be ready in a millisecond. Their stored text is therefore put
//! together from the lines without parsing the rules, and compared as text with the objects in the store.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::authz::RBAC;
use crate::key;
use crate::object::Encoded;

/// The field manager of these objects.
const MANAGER: &str = "kube-apiserver";
/// The annotation that says whether the server undoes changes when it starts.
pub(super) const AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

const AGGREGATION: &str = "aggregationRule";

/// A role or binding of the table.
#[derive(Deserialize)]
pub(crate) struct Row<'a> {
    kind: &'a str,
    #[serde(default)]
    namespace: &'a str,
    name: &'a str,
    #[serde(borrow)]
    labels: BTreeMap<&'a str, &'a str>,
    /// All fields but metadata.
    #[serde(borrow)]
    fields: BTreeMap<&'a str, &'a RawValue>,
}

/// The table.
pub(crate) fn rows() -> Vec<Row<'static>> {
    serde_json::from_str(include_str!("policy.json")).expect("a test reads the same table")
}

impl Row<'_> {
    /// The key under which the object is stored.
    pub(crate) fn key(&self) -> Vec<u8> {
        key::object(RBAC, self.plural(), self.namespace, self.name)
    }

    pub(crate) fn kind(&self) -> &str {
        self.kind
    }

    pub(crate) fn plural(&self) -> &'static str {
        match self.kind {
            "ClusterRole" => "clusterroles",
            "ClusterRoleBinding" => "clusterrolebindings",
            "Role" => "roles",
            _ => "rolebindings",
        }
    }

    /// The stored form of a new object: the same bytes as from [`Encoded::new`].
    pub(crate) fn encoded(&self, time: &str, uid: &str) -> Encoded {
        // Capacity for all of the text: `after` is appended when the revision is known.
        let tail = self.fields.values().map(|text| text.get().len() + 32).sum::<usize>();
        let mut before = String::with_capacity(1024 + tail);
        self.head(&mut before);
        extend(&mut before, &[time, "\","]);
        self.labels(&mut before);
        extend(
            &mut before,
            &[
                ",\"managedFields\":[{\"apiVersion\":\"",
                RBAC,
                "/v1\",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":",
            ],
        );
        self.owned(&mut before);
        extend(
            &mut before,
            &[
                ",\"manager\":\"",
                MANAGER,
                "\",\"operation\":\"Update\",\"time\":\"",
                time,
                "\"}],\"name\":\"",
                self.name,
            ],
        );
        if !self.namespace.is_empty() {
            extend(&mut before, &["\",\"namespace\":\"", self.namespace]);
        }
        before.push_str("\",\"resourceVersion\":\"");
        let mut after = String::with_capacity(64 + tail);
        extend(&mut after, &["\",\"uid\":\"", uid]);
        self.tail(&mut after);
        Encoded::from_parts(before, after)
    }

    /// The object as a value, without the fields that the server adds.
    pub(super) fn value(&self) -> Value {
        let stored = self.encoded("", "").at(0);
        let mut value: Value = serde_json::from_slice(&stored).expect("the table's lines are JSON");
        let metadata = crate::object::metadata_mut(&mut value);
        for field in ["creationTimestamp", "managedFields", "resourceVersion", "uid"] {
            metadata.remove(field);
        }
        value
    }

    /// Whether a stored object has the table's text. An equal object in another form does not pass.
    pub(crate) fn is_stored_as(&self, stored: &[u8]) -> bool {
        let text = |write: &dyn Fn(&mut String)| {
            let mut text = String::with_capacity(1024);
            write(&mut text);
            text
        };
        stored.ends_with(text(&|out| self.tail(out)).as_bytes())
            && stored.starts_with(text(&|out| self.head(out)).as_bytes())
            && memchr::memmem::find(stored, text(&|out| self.labels(out)).as_bytes()).is_some()
    }

    /// The text before the creation time.
    fn head(&self, out: &mut String) {
        extend(
            out,
            &[
                "{\"kind\":\"",
                self.kind,
                "\",\"apiVersion\":\"",
                RBAC,
                "/v1\",\"metadata\":{\"annotations\":{\"",
                AUTOUPDATE,
                "\":\"true\"},\"creationTimestamp\":\"",
            ],
        );
    }

    fn labels(&self, out: &mut String) {
        let mut between = "\"labels\":{\"";
        for (name, value) in &self.labels {
            extend(out, &[between, name, "\":\"", value, "\""]);
            between = ",\"";
        }
        out.push('}');
    }

    /// The text after the uid.
    fn tail(&self, out: &mut String) {
        out.push_str("\"}");
        for (name, text) in &self.fields {
            extend(out, &[",\"", name, "\":", text.get()]);
        }
        out.push_str("}\n");
    }

    /// The fields that the manager owns.
    fn owned(&self, out: &mut String) {
        out.push('{');
        // The one field that is no list, and the only one before metadata.
        if self.fields.contains_key(AGGREGATION) {
            out.push_str("\"f:aggregationRule\":{\".\":{},\"f:clusterRoleSelectors\":{}},");
        }
        extend(
            out,
            &[
                "\"f:metadata\":{\"f:annotations\":{\".\":{},\"f:",
                AUTOUPDATE,
                "\":{}},\"f:labels\":{\".\":{}",
            ],
        );
        for name in self.labels.keys() {
            extend(out, &[",\"f:", name, "\":{}"]);
        }
        out.push_str("}}");
        for (name, text) in &self.fields {
            if *name != AGGREGATION && text.get() != "null" {
                extend(out, &[",\"f:", name, "\":{}"]);
            }
        }
        out.push('}');
    }
}

fn extend(out: &mut String, parts: &[&str]) {
    parts.iter().for_each(|part| out.push_str(part));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_row_is_what_any_other_write_would_store() {
        for row in rows() {
            let text = row.encoded("2026-01-01T00:00:00Z", "u").at(7);
            let value: Value = serde_json::from_slice(&text).unwrap();
            assert_eq!(Encoded::new(&value).at(7), text);
            assert!(row.is_stored_as(&text), "{}", row.name);
        }
    }

    #[test]
    fn what_somebody_changed_is_not_taken_for_the_tables() {
        let rows = rows();
        let row = rows.iter().find(|row| row.name == "edit").unwrap();
        let text = row.encoded("2026-01-01T00:00:00Z", "u").at(7);
        let value: Value = serde_json::from_slice(&text).unwrap();
        for (pointer, other) in [
            ("/metadata/labels", serde_json::json!({})),
            ("/metadata/annotations", serde_json::json!({AUTOUPDATE: "false"})),
            ("/aggregationRule/clusterRoleSelectors", serde_json::json!([])),
            ("/rules", serde_json::json!([])),
        ] {
            let mut changed = value.clone();
            *changed.pointer_mut(pointer).unwrap() = other;
            assert!(!row.is_stored_as(&Encoded::new(&changed).at(8)), "{pointer}");
        }
    }

    #[test]
    fn every_binding_of_the_table_names_a_role_of_it() {
        let rows = rows();
        for row in rows.iter().filter(|row| row.kind.ends_with("Binding")) {
            let value = row.value();
            let found = rows.iter().any(|role| {
                let (kind, name) = (&value["roleRef"]["kind"], &value["roleRef"]["name"]);
                kind == role.kind
                    && name == role.name
                    && (role.namespace.is_empty() || role.namespace == row.namespace)
            });
            assert!(found, "{}", row.name);
        }
    }
}
