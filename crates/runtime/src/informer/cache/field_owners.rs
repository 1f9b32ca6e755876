//! The field managers of this process, and the field sets that the cache keeps for them.

use std::sync::{Arc, RwLock};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::object::ManagedFields;
use super::scan::{Cursor, Malformed};

/// How many field managers' field sets are kept: each is looked for in every object.
pub const MAX_OWNERS: usize = 64;

/// The field managers that this process applies with: of these, the cache keeps the field sets.
///
/// Clones share one set. Objects that were cached before a manager was added lack its field set until they change.
#[derive(Debug, Clone, Default)]
pub struct FieldOwners(Arc<RwLock<Vec<String>>>);

impl FieldOwners {
    /// Adds a field manager. Beyond [`MAX_OWNERS`] of them none is added: its applies are sent, also where they change
    /// nothing.
    pub fn add(&self, manager: &str) {
        let known = |managers: &[String]| managers.iter().any(|known| known == manager);
        if known(&self.0.read().expect("no holder of this lock panics")) {
            return;
        }
        let mut managers = self.0.write().expect("no holder of this lock panics");
        if managers.len() < MAX_OWNERS && !known(&managers) {
            managers.push(manager.to_owned());
        }
    }

    /// The fields that these managers own by `managed_fields`, as an object's JSON has them.
    pub(super) fn own(&self, managed_fields: &[u8]) -> Result<Vec<ManagedFields>, Malformed> {
        let managers = self.0.read().expect("no holder of this lock panics");
        let mut own = Vec::new();
        if managers.is_empty() {
            return Ok(own);
        }
        Cursor::new(managed_fields).elements(|cursor| {
            let mut entry = *cursor;
            let json = cursor.value()?;
            let mut is_own = false;
            // Most entries are somebody else's, and say so first.
            entry.fields(|cursor, name| {
                if name.raw != b"manager" {
                    cursor.value()?;
                    return Ok(true);
                }
                let manager = cursor.text()?.value();
                is_own = manager.is_some_and(|manager| managers.iter().any(|known| *known == manager));
                Ok(false)
            })?;
            if is_own {
                let entry = serde_json::from_slice::<ManagedFieldsJson<'_>>(json);
                own.push(entry.map_err(|_| cursor.malformed())?.compact());
            }
            Ok(())
        })?;
        Ok(own)
    }
}

/// An entry of `managedFields` as the server writes it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ManagedFieldsJson<'a> {
    #[serde(default)]
    manager: String,
    #[serde(default)]
    operation: String,
    #[serde(default)]
    subresource: String,
    #[serde(default)]
    api_version: String,
    #[serde(borrow, default)]
    fields_v1: Option<&'a RawValue>,
}

impl ManagedFieldsJson<'_> {
    pub(crate) fn compact(self) -> ManagedFields {
        ManagedFields {
            manager: self.manager,
            operation: self.operation,
            subresource: self.subresource,
            api_version: self.api_version,
            fields: self.fields_v1.map_or("{}", RawValue::get).as_bytes().into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_entries_are_found_however_they_are_written() {
        let owners = FieldOwners::default();
        assert_eq!(owners.own(b"[{}]"), Ok(vec![]));
        owners.add("mine");
        owners.add("a \"quoted\" one");
        let own = |json: &str| {
            owners.own(json.as_bytes()).map(|own| {
                let words = |entry: &ManagedFields| {
                    format!("{} {}", entry.manager, String::from_utf8_lossy(&entry.fields))
                };
                own.iter().map(words).collect::<Vec<_>>()
            })
        };
        let other = r#"{"manager":"other","fieldsV1":{"f:manager":{"k:{\"manager\":\"mine\"}":{}}}}"#;
        let first = r#"{"manager":"mine","operation":"Apply","fieldsV1":{"f:a":{}}}"#;
        let last = r#"{ "operation" : "Update", "fieldsV1" : {"f:b":{}}, "manager" : "m\u0069ne" }"#;
        let quoted = r#"{"manager":"a \"quoted\" one"}"#;
        let nameless = r#"{"operation":"Update"}"#;
        assert_eq!(own(&format!("[{other},{nameless}]")), Ok(vec![]));
        assert_eq!(
            own(&format!("[{first},{other}, {last} ,{quoted}]")),
            Ok(vec!["mine {\"f:a\":{}}".into(), "mine {\"f:b\":{}}".into(), "a \"quoted\" one {}".into()])
        );
        for broken in [r#"[{"manager":7}]"#, r#"[{"manager":"mine","operation":1}]"#, "[{", r#"["mine"]"#] {
            assert!(own(broken).is_err(), "{broken}");
        }
    }
}
