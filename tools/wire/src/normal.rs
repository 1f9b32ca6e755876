//! Normalisation: what no two servers can have in common becomes a token, numbered in order of appearance, so that
//! equal stays equal (an unchanged resourceVersion is seen as unchanged). Nothing is dropped; the orders that are
//! changed are those of apply conflicts and of the rules in a review of rules, which are random in Go.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use setpoint_api::random::SUFFIX_ALPHABET;

/// The kind of value at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    Uid,
    Version,
    /// The version of a whole list or of a bookmark: other writers move it, so it is not numbered.
    AnyVersion,
    Time,
    Address,
    Port,
    Continue,
    /// A name, generated when `generateName` stands beside it.
    Name,
    /// Free text that may repeat the above.
    Text,
    /// The field names of a fields-v1 set may hold uids.
    Keys,
    /// A value that differs at every start: a token, the address of the server.
    Secret,
}

/// The one list of places: the last segments of a path, `*` for any element of a list.
const PLACES: &[(&str, Holds)] = &[
    ("metadata.uid", Holds::Uid),
    ("ownerReferences.*.uid", Holds::Uid),
    ("involvedObject.uid", Holds::Uid),
    ("details.uid", Holds::Uid),
    ("boundObjectRef.uid", Holds::Uid),
    ("metadata.resourceVersion", Holds::Version),
    ("involvedObject.resourceVersion", Holds::Version),
    ("metadata.creationTimestamp", Holds::Time),
    ("metadata.deletionTimestamp", Holds::Time),
    ("managedFields.*.time", Holds::Time),
    ("conditions.*.lastTransitionTime", Holds::Time),
    ("status.lastPhaseTransitionTime", Holds::Time),
    ("status.expirationTimestamp", Holds::Time),
    ("serverAddressByClientCIDRs.*.serverAddress", Holds::Secret),
    ("spec.clusterIP", Holds::Address),
    ("spec.clusterIPs.*", Holds::Address),
    ("spec.ports.*.nodePort", Holds::Port),
    ("spec.healthCheckNodePort", Holds::Port),
    ("metadata.continue", Holds::Continue),
    ("metadata.name", Holds::Name),
    ("details.name", Holds::Text),
    ("message", Holds::Text),
    ("rows.*.cells.*", Holds::Text),
    ("fieldsV1", Holds::Keys),
    ("status.token", Holds::Secret),
    ("user.extra.authentication.kubernetes.io/credential-id.*", Holds::Secret),
];

/// The tokens of one scenario.
#[derive(Debug, Default)]
pub struct Normaliser {
    uids: BTreeMap<String, String>,
    versions: BTreeMap<String, String>,
    addresses: BTreeMap<String, String>,
    ports: BTreeMap<String, String>,
    names: BTreeMap<String, String>,
    /// Beginnings of names that the server was asked to complete.
    bases: Vec<String>,
}

fn token(map: &mut BTreeMap<String, String>, value: &str, word: &str) -> String {
    let next = map.len() + 1;
    map.entry(value.to_owned()).or_insert_with(|| format!("<{word} {next}>")).clone()
}

impl Normaliser {
    /// Takes note of a name that the server will complete, which a refusal tells without `generateName` beside it.
    pub fn will_generate(&mut self, sent: &str) {
        let Some((_, rest)) = sent.split_once("generateName\"") else { return };
        let base = rest.trim_start_matches([':', ' ']).trim_start_matches('"').split('"').next();
        self.bases.extend(base.filter(|base| !base.is_empty()).map(str::to_owned));
    }

    /// The name in the details of a refusal.
    fn refused(&mut self, name: &str) {
        let completes = |base: &&String| {
            let suffix = name.strip_prefix(base.as_str());
            suffix.is_some_and(|suffix| {
                suffix.len() == 5 && suffix.bytes().all(|byte| SUFFIX_ALPHABET.contains(&byte))
            })
        };
        if let Some(base) = self.bases.iter().find(completes).cloned() {
            let next = self.names.len() + 1;
            self.names.entry(name.to_owned()).or_insert_with(|| format!("{base}<suffix {next}>"));
        }
    }

    /// One document: an object, a list, a Status, a Table, or one event of a watch.
    pub fn document(&mut self, value: &mut Value) {
        self.walk(value, &mut Vec::new());
    }

    fn walk(&mut self, value: &mut Value, path: &mut Vec<String>) {
        let holds = PLACES.iter().find(|(place, _)| ends_with(path, place)).map(|(_, holds)| *holds);
        if let Some(holds) = holds {
            self.replace(value, holds, path);
        }
        match value {
            Value::Object(map) => self.object(map, path),
            Value::Array(items) => {
                for item in items {
                    path.push("*".to_owned());
                    self.walk(item, path);
                    path.pop();
                }
            }
            _ => {}
        }
    }

    fn object(&mut self, map: &mut Map<String, Value>, path: &mut Vec<String>) {
        if let Some(Value::Array(causes)) = map.get_mut("causes") {
            sort_conflicts(causes);
        }
        for name in ["resourceRules", "nonResourceRules"] {
            if let Some(Value::Array(rules)) = map.get_mut(name) {
                rules.sort_by_key(Value::to_string);
            }
        }
        let generated = self.generated(map);
        if let Some(Value::String(name)) = map.get("details").and_then(|details| details.get("name")) {
            self.refused(&name.clone());
        }
        let whole = map.contains_key("items") || map.contains_key("rows") || is_bookmark(map);
        if whole
            && let Some(version) = map.get_mut("metadata").and_then(|meta| meta.get_mut("resourceVersion"))
        {
            replace_whole(version, Holds::AnyVersion);
        }
        if map.get("type").and_then(Value::as_str) == Some("BOOKMARK")
            && let Some(version) =
                map.get_mut("object").and_then(|o| o.pointer_mut("/metadata/resourceVersion"))
        {
            replace_whole(version, Holds::AnyVersion);
        }
        if let Some(name) = generated {
            map.insert("name".to_owned(), Value::String(name));
        }
        // Names and uids first, so that texts elsewhere in the document can refer to them.
        let mut order: Vec<String> = map.keys().cloned().collect();
        order.sort_by_key(|name| {
            (!matches!(name.as_str(), "metadata" | "spec" | "columnDefinitions"), name.clone())
        });
        for name in order {
            let item = map.get_mut(&name).expect("a key of this map");
            path.push(name);
            self.walk(item, path);
            path.pop();
        }
    }

    fn generated(&mut self, map: &Map<String, Value>) -> Option<String> {
        let base = map.get("generateName")?.as_str()?;
        let name = map.get("name")?.as_str()?;
        let suffix = name.strip_prefix(base)?;
        if suffix.len() != 5 {
            return None;
        }
        let next = self.names.len() + 1;
        Some(self.names.entry(name.to_owned()).or_insert_with(|| format!("{base}<suffix {next}>")).clone())
    }

    fn replace(&mut self, value: &mut Value, holds: Holds, path: &[String]) {
        if holds == Holds::Keys {
            self.keys(value);
            return;
        }
        if holds == Holds::Port {
            if let Some(port) = value.as_u64().filter(|port| (30000..=32999).contains(port)) {
                *value = Value::String(token(&mut self.ports, &port.to_string(), "port"));
            }
            return;
        }
        let Some(text) = value.as_str() else { return };
        let new = match holds {
            Holds::Uid if is_uid(text) => token(&mut self.uids, text, "uid"),
            Holds::Version if is_number(text) => token(&mut self.versions, text, "version"),
            Holds::Address if text.starts_with("10.96.") => token(&mut self.addresses, text, "address"),
            Holds::Time | Holds::Continue | Holds::Secret => {
                replace_whole(value, holds);
                return;
            }
            Holds::Text if path.last().is_some_and(|last| last == "*") => self.cell(text),
            Holds::Text => self.text(text),
            _ => return,
        };
        *value = Value::String(new);
    }

    /// A free text: uids, generated names, and versions in the phrases that quote them.
    pub fn text(&mut self, text: &str) -> String {
        let mut new = replace_uids(text, &mut self.uids);
        for (name, token) in &self.names {
            new = new.replace(name, token);
        }
        for phrase in ["current: ", "too old resource version: ", "precondition (", "record ("] {
            new = replace_number_after(&new, phrase);
        }
        // The last one: a map as Go prints it.
        let phrases =
            ["duplicate nodePort: {TCP ", "duplicate nodePort: {UDP ", "Duplicate value: ", " nodePort:"];
        for phrase in phrases {
            new = replace_port_after(&new, phrase, &mut self.ports);
        }
        // A patch that makes no object is answered with the whole object as text.
        if new.contains("managedFields\\\"") {
            for (value, token) in self.addresses.iter().chain(&self.ports) {
                new = new.replace(value, token);
            }
            new = replace_times(&new);
            for phrase in ["\\\"resourceVersion\\\":\\\"", "resourceVersion\\\\\\\":\\\\\\\""] {
                new = replace_number_after(&new, phrase);
            }
        }
        if new.contains("too old resource version: ") {
            new = replace_number_after(&new, " (");
        }
        new
    }

    /// A cell of a table: ages, allocated addresses and ports, generated names.
    fn cell(&self, text: &str) -> String {
        if is_age(text) {
            return "<age>".to_owned();
        }
        let mut new = text.to_owned();
        for map in [&self.addresses, &self.ports, &self.names] {
            for (value, token) in map {
                new = new.replace(value, token);
            }
        }
        new
    }

    fn keys(&mut self, value: &mut Value) {
        let Value::Object(map) = value else { return };
        for (key, mut inner) in std::mem::take(map) {
            self.keys(&mut inner);
            map.insert(replace_uids(&key, &mut self.uids), inner);
        }
    }
}

/// kube-apiserver walks a Go map of managers here: its order is another one at every run.
fn sort_conflicts(causes: &mut [Value]) {
    if causes.iter().all(|cause| cause["reason"] == "FieldManagerConflict") {
        causes.sort_by_key(|cause| (cause["message"].to_string(), cause["field"].to_string()));
    }
}

fn is_bookmark(map: &Map<String, Value>) -> bool {
    let metadata = map.get("metadata").and_then(Value::as_object);
    metadata.is_some_and(|metadata| {
        metadata.contains_key("resourceVersion")
            && !metadata.contains_key("name")
            && !map.contains_key("object")
    })
}

fn replace_whole(value: &mut Value, holds: Holds) {
    let Some(text) = value.as_str() else { return };
    let word = match holds {
        Holds::AnyVersion if is_number(text) => "<version>",
        Holds::Time if is_time(text) => "<time>",
        Holds::Continue if !text.is_empty() => "<continue>",
        Holds::Secret if !text.is_empty() => "<other at every start>",
        _ => return,
    };
    *value = Value::String(word.to_owned());
}

fn ends_with(path: &[String], place: &str) -> bool {
    // Only the last place contains dots in a segment; comparing the joined tail covers it.
    let joined = path.join(".");
    joined == place || (joined.ends_with(place) && joined[..joined.len() - place.len()].ends_with('.'))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_uid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
        })
}

/// `2026-01-02T03:04:05Z`, whole seconds, as Kubernetes writes times.
fn is_time(text: &str) -> bool {
    text.len() == 20
        && text.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            10 => byte == b'T',
            13 | 16 => byte == b':',
            19 => byte == b'Z',
            _ => byte.is_ascii_digit(),
        })
}

fn is_age(text: &str) -> bool {
    text.strip_suffix('s').is_some_and(|seconds| seconds.len() <= 3 && is_number(seconds))
}

fn replace_uids(text: &str, uids: &mut BTreeMap<String, String>) -> String {
    let mut new = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(head) = rest.get(..36)
            && is_uid(head)
        {
            new += &token(uids, head, "uid");
            rest = &rest[36..];
        } else {
            let first = rest.chars().next().expect("not empty");
            new.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    new
}

/// Every time within a text.
fn replace_times(text: &str) -> String {
    let mut new = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        match rest.get(..20) {
            Some(time) if is_time(time) => {
                new += "<time>";
                rest = &rest[20..];
            }
            _ => {
                new.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    new
}

fn replace_number_after(text: &str, phrase: &str) -> String {
    let Some(at) = text.find(phrase).map(|at| at + phrase.len()) else { return text.to_owned() };
    let digits = text[at..].bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return text.to_owned();
    }
    format!("{}<version>{}", &text[..at], &text[at + digits..])
}

/// Every drawn port that follows the phrase.
fn replace_port_after(text: &str, phrase: &str, ports: &mut BTreeMap<String, String>) -> String {
    let mut parts = text.split(phrase);
    let mut new = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = part.split_at(digits);
        new += phrase;
        match number.parse::<u32>() {
            Ok(port) if (30000..=32999).contains(&port) => new += &token(ports, number, "port"),
            _ => new += number,
        }
        new += rest;
    }
    new
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn equal_stays_equal() {
        let mut normal = Normaliser::default();
        let uid = "0a1b2c3d-0000-4000-8000-00000000000a";
        let mut one = json!({"metadata": {"name": "a", "uid": uid, "resourceVersion": "7"}});
        let mut two = json!({"metadata": {"name": "a", "resourceVersion": "8",
            "ownerReferences": [{"uid": uid}]}, "data": {"uid": "7"}});
        normal.document(&mut one);
        normal.document(&mut two);
        assert_eq!(one["metadata"]["uid"], "<uid 1>");
        assert_eq!(two["metadata"]["ownerReferences"][0]["uid"], "<uid 1>");
        assert_eq!(one["metadata"]["resourceVersion"], "<version 1>");
        assert_eq!(two["metadata"]["resourceVersion"], "<version 2>");
        assert_eq!(two["data"]["uid"], "7");
    }

    #[test]
    fn a_time_that_is_no_time_is_kept() {
        let mut value = json!({"metadata": {"name": "a", "creationTimestamp": "2026-01-02T03:04:05.1Z"}});
        Normaliser::default().document(&mut value);
        assert_eq!(value["metadata"]["creationTimestamp"], "2026-01-02T03:04:05.1Z");
    }
}
