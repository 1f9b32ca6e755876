use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::*;
use crate::{Codec, Scalar, Shape, read_value};

mod made;

struct Vector {
    kind: String,
    json: Value,
    pb: Vec<u8>,
}

fn vectors(name: &str) -> Vec<Vector> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/protobuf").join(name);
    let text = std::fs::read_to_string(path).unwrap();
    let parse = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        Vector {
            kind: line["kind"].as_str().unwrap().to_owned(),
            json: line["json"].take(),
            pb: STANDARD.decode(line["pb"].as_str().unwrap()).unwrap(),
        }
    };
    text.lines().map(parse).collect()
}

/// Reads the bytes that Go wrote as Go prints them, and writes them again, `exactly`: byte for byte. (A pointer to a
/// zero time is `null` in JSON, as no pointer is, and comes back as none.)
fn agrees_with_go(name: &str, least: usize, exactly: bool) {
    let vectors = vectors(name);
    assert!(vectors.len() >= least, "{} vectors", vectors.len());
    for vector in vectors {
        let decoded = decode(&vector.pb).unwrap_or_else(|error| panic!("{}: {error}", vector.kind));
        assert_eq!(decoded, vector.json, "{}", vector.kind);
        reads_as_its_json(&vector.pb, decoded.clone());
        let schema = schema_of(decoded["apiVersion"].as_str().unwrap(), decoded["kind"].as_str().unwrap());
        let read = read_value(vector.json, schema.unwrap()).unwrap().value;
        let encoded = encode(&read).unwrap_or_else(|error| panic!("{}: {error}", vector.kind));
        assert_eq!(decode(&encoded).unwrap(), read, "{}", vector.kind);
        let text = read.to_string();
        let transcoded =
            transcode(text.as_bytes(), read["apiVersion"].as_str().unwrap(), read["kind"].as_str().unwrap());
        assert_eq!(STANDARD.encode(transcoded.unwrap()), STANDARD.encode(&encoded), "{}", vector.kind);
        if exactly {
            assert_eq!(read, decoded, "{}", vector.kind);
            assert_eq!(STANDARD.encode(&encoded), STANDARD.encode(vector.pb), "{}", vector.kind);
        }
    }
}

/// A body in protobuf is taken as its JSON would be, without going through it.
fn reads_as_its_json(bytes: &[u8], decoded: Value) {
    let kind = decoded["kind"].to_string();
    let schema = schema_of(decoded["apiVersion"].as_str().unwrap(), decoded["kind"].as_str().unwrap());
    let read = read_value(decoded, schema.unwrap()).unwrap_or_else(|error| panic!("{kind}: {error}"));
    assert_eq!(read.strict, [], "{kind}");
    assert_eq!(decode_as(bytes, "", "").unwrap(), read.value, "{kind}");
}

#[test]
fn zero_objects_of_every_kind_agree_with_go() {
    agrees_with_go("zero.jsonl", 165, true);
}

#[test]
fn pointers_to_zero_values_of_every_kind_agree_with_go() {
    agrees_with_go("pointers.jsonl", 165, false);
}

#[test]
fn full_objects_of_every_kind_agree_with_go() {
    agrees_with_go("full.jsonl", 95, true);
}

#[test]
fn a_list_of_encoded_items_is_the_encoded_list() {
    let items = [
        json!({"metadata": {"name": "a"}, "data": {"x": "1"}}),
        json!({"metadata": {"name": "b"}, "immutable": true}),
    ];
    let list = json!({"apiVersion": "v1", "kind": "ConfigMapList", "metadata": {"resourceVersion": "7"}, "items": items});
    let schema = schema_of("v1", "ConfigMap").unwrap();
    let messages = items.each_ref().map(|item| encode_message(item, schema).unwrap());
    let joined =
        encode_list("v1", "ConfigMapList", &list["metadata"], messages.iter().map(Vec::as_slice)).unwrap();
    assert_eq!(joined, encode(&list).unwrap());
    assert_eq!(decode(&joined).unwrap(), list);
}

#[test]
fn a_watch_frame_is_a_length_and_an_event() {
    let object =
        encode(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})).unwrap();
    let frame = watch_frame("ADDED", &object);
    let (length, event) = frame.split_at(4);
    assert_eq!(u32::from_be_bytes(length.try_into().unwrap()) as usize, event.len());
    let event = decode_message(event, schema_of("v1", "WatchEvent").unwrap()).unwrap();
    assert_eq!(event["type"], json!("ADDED"));
    assert_eq!(event["object"]["metadata"], json!({"name": "a"}));
}

#[test]
fn what_is_no_envelope_is_refused() {
    assert_eq!(decode(b""), Err(DecodeError::Empty));
    assert_eq!(decode(b"{}"), Err(DecodeError::Prefix));
    assert_eq!(decode(b"k8s\0"), Err(DecodeError::EmptyBody));
    assert_eq!(decode_as(&seal("", "", b""), "v1", "ConfigMap").unwrap()["kind"], json!("ConfigMap"));
    let unknown = decode(&seal("example.com/v1", "Foo", b"")).unwrap_err();
    assert!(matches!(unknown, DecodeError::Kind { .. }), "{unknown}");
    let table = decode(&seal("meta.k8s.io/v1", "Table", b"")).unwrap_err();
    assert!(matches!(table, DecodeError::NoForm(_)), "{table}");
}

#[test]
fn nesting_is_bounded() {
    let mut schema = json!({"type": "object"});
    for _ in 0..100 {
        schema = json!({"not": schema});
    }
    let crd = |schema: &Value| {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}})
    };
    assert!(decode(&encode(&crd(&schema)).unwrap()).is_ok());
    for _ in 0..100 {
        schema = json!({"not": schema});
    }
    assert_eq!(decode(&encode(&crd(&schema)).unwrap()), Err(DecodeError::Depth));
}

/// Random bytes, and vectors with bytes changed, cut or doubled, end in an error or an object, never in a panic.
#[test]
fn broken_bytes_never_panic() {
    let vectors = vectors("full.jsonl");
    let mut random = made::Draw(0x5eed);
    for _ in 0..20 {
        for vector in &vectors {
            let mut bytes = vector.pb.clone();
            for _ in 0..random.below(4) + 1 {
                let at = random.below(bytes.len());
                match random.below(4) {
                    0 => bytes[at] = random.below(256) as u8,
                    1 => bytes.truncate(at.max(5)),
                    2 => bytes.extend_from_within(at..),
                    _ => bytes[at] ^= 1 << random.below(8),
                }
            }
            if let Ok(value) = decode(&bytes) {
                assert_eq!(value["kind"].as_str(), open(&bytes).ok().map(|e| e.kind).as_deref());
                reads_as_its_json(&bytes, value);
            }
        }
    }
    for _ in 0..2000 {
        let bytes: Vec<u8> = (0..random.below(64)).map(|_| random.below(256) as u8).collect();
        let message = seal("v1", "Pod", &bytes);
        if let Ok(value) = decode(&message) {
            assert!(value.is_object());
        }
    }
}

/// Every object of every kind survives JSON → protobuf → JSON.
#[test]
fn made_objects_of_every_kind_survive_the_round_trip() {
    let mut kinds = 0;
    for (group, version, kind) in builtin().kinds() {
        let schema = builtin().kind(group, version, kind).unwrap();
        // A watch event is no object: it has no kind of its own.
        if schema.codec == Codec::JsonOnly || kind == "WatchEvent" {
            continue;
        }
        kinds += 1;
        for seed in 0..20 {
            let mut object = made::object(schema, &mut made::Draw(seed * 977 + kinds));
            object["apiVersion"] =
                if group.is_empty() { json!(version) } else { json!(format!("{group}/{version}")) };
            object["kind"] = json!(kind);
            let read = read_value(object, schema).unwrap_or_else(|error| panic!("{kind} {seed}: {error}"));
            assert_eq!(read.strict, [], "{kind} {seed}");
            let encoded = encode(&read.value).unwrap();
            let text = read.value.to_string();
            assert_eq!(
                transcode(text.as_bytes(), read.value["apiVersion"].as_str().unwrap(), kind).unwrap(),
                encoded,
                "{kind} {seed}"
            );
            let round = decode(&encoded).unwrap();
            assert_eq!(round, made::without_empty(read.value, schema), "{kind} {seed}");
        }
    }
    assert!(kinds > 160);
}
