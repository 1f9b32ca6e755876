use serde_json::json;

use super::*;
use crate::{Field, Node, Omit, PatchStrategy, Scalar, Shape, Struct, TypeRef, builtin};

fn read(group: &str, kind: &str, text: &str) -> Result<Read, String> {
    read_json(text.as_bytes(), builtin().kind(group, "v1", kind).unwrap()).map_err(|error| error.to_string())
}

fn strict(group: &str, kind: &str, text: &str) -> Vec<String> {
    read(group, kind, text).unwrap().strict.iter().map(ToString::to_string).collect()
}

fn refused(group: &str, kind: &str, text: &str) -> String {
    read(group, kind, text).unwrap_err()
}

#[test]
fn a_minimal_deployment_gets_what_go_always_writes() {
    let text = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"selector":null,
        "template":{"spec":{"containers":[{"name":"c","ports":[],"env":null}]}}}}"#;
    let read = read("apps", "Deployment", text).unwrap();
    assert_eq!(read.strict, []);
    assert_eq!(
        read.value,
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "d"},
            "spec": {
                "selector": null,
                "strategy": {},
                "template": {
                    "metadata": {},
                    "spec": {"containers": [{"name": "c", "resources": {}}]}
                }
            },
            "status": {}
        })
    );
}

#[test]
fn leaves_come_out_in_their_one_form() {
    let text = r#"{"metadata":{"creationTimestamp":"2026-01-01T01:00:00+01:00","generation":0},
        "spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":0.5,"memory":"1024Mi"}},
        "ports":[{"containerPort":80}],"livenessProbe":{"httpGet":{"port":8080}}}]},
        "status":{"conditions":[{"type":"Ready","status":"True"}]}}"#;
    let value = read("", "Pod", text).unwrap().value;
    assert_eq!(value["metadata"], json!({"creationTimestamp": "2026-01-01T00:00:00Z"}));
    let container = &value["spec"]["containers"][0];
    assert_eq!(container["resources"]["limits"], json!({"cpu": "500m", "memory": "1Gi"}));
    assert_eq!(container["livenessProbe"], json!({"httpGet": {"port": 8080}}));
    let condition =
        json!({"lastProbeTime": null, "lastTransitionTime": null, "status": "True", "type": "Ready"});
    assert_eq!(value["status"]["conditions"][0], condition);
    let secret = read("", "Secret", r#"{"data":{"a":"YQ\n==","b":null}}"#).unwrap().value;
    assert_eq!(secret["data"], json!({"a": "YQ==", "b": null}));
}

#[test]
fn strict_errors_stand_in_document_order_with_their_paths() {
    let text = r#"{"foo":1,"spec":{"replicas":1,"bar":{"x":1},"replicas":2,
        "template":{"spec":{"containers":[{"name":"c"},{"nmae":"d","nmae":"e"}]},
        "metadata":{"labels":{"a":"1","a":"2"}}}}}"#;
    assert_eq!(
        strict("apps", "Deployment", text),
        [
            r#"unknown field "foo""#,
            r#"unknown field "spec.bar""#,
            r#"duplicate field "spec.replicas""#,
            r#"unknown field "spec.template.spec.containers[1].nmae""#,
            r#"duplicate field "spec.template.metadata.labels.a""#,
        ]
    );
    assert_eq!(read("apps", "Deployment", text).unwrap().value["spec"]["replicas"], json!(2));
}

#[test]
fn the_second_struct_of_a_name_is_read_over_the_first() {
    let text = r#"{"spec":{"replicas":3,"paused":true},"spec":{"replicas":0,"template":{}}}"#;
    let value = read("apps", "Deployment", text).unwrap().value;
    assert_eq!((&value["spec"]["replicas"], &value["spec"]["paused"]), (&json!(0), &json!(true)));
}

#[test]
fn wrong_types_are_named_as_go_names_them() {
    for (text, said) in [
        (
            r#"{"spec":{"replicas":"3"}}"#,
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            r#"{"spec":{"replicas":1.5,"paused":"x"}}"#,
            "json: cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            r#"{"spec":{"template":{"spec":{"containers":[{"env":{}}]}}}}"#,
            "json: cannot unmarshal object into Go struct field Container.spec.template.spec.containers.env of type []v1.EnvVar",
        ),
        (
            r#"{"spec":{"template":{"spec":{"volumes":[{"emptyDir":"x"}]}}}}"#,
            "json: cannot unmarshal string into Go struct field Volume.spec.template.spec.volumes.VolumeSource.emptyDir of type v1.EmptyDirVolumeSource",
        ),
        (
            r#"{"metadata":{"labels":{"a":5}}}"#,
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        ("[]", "json: cannot unmarshal array into Go value of type v1.Deployment"),
        (
            r#"{"metadata":{"creationTimestamp":"yesterday"}}"#,
            r#"parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006""#,
        ),
        (
            r#"{"spec":{"template":{"spec":{"containers":[{"resources":{"limits":{"cpu":"x"}}}]}}}}"#,
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (r#"{"spec":{"replicas":"3"},}"#, "invalid character '}' looking for beginning of object key string"),
        (r#"{"spec":{"replicas":3}"#, "unexpected end of JSON input"),
        (r#"{"a":tru}"#, "invalid character '}' in literal true (expecting 'e')"),
        ("{} x", "invalid character 'x' after top-level value"),
    ] {
        assert_eq!(refused("apps", "Deployment", text), said, "{text}");
    }
}

#[test]
fn deep_nesting_is_refused() {
    let text = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(refused("", "Pod", &text).contains("exceeded max depth"));
    let text = format!(r#"{{"x":{}"#, r#"{"x":"#.repeat(100_000));
    assert!(refused("", "Pod", &text).contains("exceeded max depth"));
}

#[test]
fn schemas_of_custom_resources_keep_their_alternatives() {
    let text = r#"{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"type":"object","properties":{
        "a":{"items":{"type":"string","foo":1},"additionalProperties":false},
        "b":{"items":[{"type":"string"}],"default":{"x":1.0},"additionalProperties":{"type":"integer"}}},"bar":1}}}]}}"#;
    let read = read("apiextensions.k8s.io", "CustomResourceDefinition", text).unwrap();
    let props = &read.value["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    assert_eq!(
        *props,
        json!({
            "a": {"items": {"type": "string"}, "additionalProperties": false},
            "b": {"items": [{"type": "string"}], "default": {"x": 1}, "additionalProperties": {"type": "integer"}}
        })
    );
    // Within a type that reads itself nothing is strict.
    let strict: Vec<String> = read.strict.iter().map(ToString::to_string).collect();
    assert_eq!(strict, [r#"unknown field "spec.versions[0].schema.openAPIV3Schema.bar""#]);
}

fn custom(preserve: bool) -> Schema {
    let field = |name: &str, ty: TypeRef| Field {
        name: name.into(),
        ty,
        required: false,
        default: None,
        patch: PatchStrategy::default(),
        proto: None,
        omit: Omit::Empty,
        pointer: false,
    };
    let leaf = |scalar| TypeRef::Inline(Schema::of(Node::new(Shape::Scalar(scalar))));
    let spec = Struct {
        fields: vec![field("size", leaf(Scalar::Int64)), field("text", leaf(Scalar::String))],
        preserve_unknown: preserve,
        ..Struct::default()
    };
    let spec = TypeRef::Inline(Schema::of(Node::new(Shape::Struct(spec))));
    let root = Struct { fields: vec![field("spec", spec)], embedded_resource: true, ..Struct::default() };
    Schema::of(Node::new(Shape::Struct(root)))
}

#[test]
fn custom_types_lose_unknown_fields_and_nothing_else() {
    let text = br#"{"kind":"Foo","spec":{"size":"wrong","text":"","other":null,"size":0},"status":{}}"#;
    let read = read_json(text, &custom(false)).unwrap();
    assert_eq!(read.value, json!({"kind": "Foo", "spec": {"size": 0, "text": ""}}));
    let strict: Vec<String> = read.strict.iter().map(ToString::to_string).collect();
    assert_eq!(
        strict,
        [r#"unknown field "spec.other""#, r#"duplicate field "spec.size""#, r#"unknown field "status""#]
    );
    let read = read_json(text, &custom(true)).unwrap();
    assert_eq!(read.value["spec"], json!({"size": 0, "text": "", "other": null}));
}

#[test]
fn a_value_reads_as_its_text_does() {
    let text = r#"{"foo":1,"spec":{"replicas":3,"template":{"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":0.5}}}]}}}}"#;
    let schema = builtin().kind("apps", "v1", "Deployment").unwrap();
    let from_text = read_json(text.as_bytes(), schema).unwrap();
    assert_eq!(read_value(serde_json::from_str(text).unwrap(), schema).unwrap(), from_text);
    // A value that was read once reads as itself.
    assert_eq!(read_value(from_text.value.clone(), schema).unwrap().value, from_text.value);
}

#[test]
fn base64_is_refused_at_the_byte_that_go_names() {
    for (text, at) in [
        ("a", 0),
        ("ab", 0),
        ("abc", 0),
        ("a===", 1),
        ("ab=c", 2),
        ("abcdef", 4),
        ("a!bc", 1),
        ("ab==x", 4),
        ("YQ==YQ==", 4),
    ] {
        let said = refused("", "Secret", &format!(r#"{{"data":{{"a":"{text}"}}}}"#));
        assert_eq!(said, format!("illegal base64 data at input byte {at}"), "{text}");
    }
    assert_eq!(read("", "Secret", r#"{"data":{"a":"YR=="}}"#).unwrap().value["data"]["a"], json!("YQ=="));
}

#[test]
fn the_kind_is_found_or_go_says_why_not() {
    let found = type_meta(br#"{"spec":{"kind":"no"},"kind":"Pod","apiVersion":"v1"}"#).unwrap();
    assert_eq!(found, TypeMeta { api_version: "v1".to_owned(), kind: "Pod".to_owned() });
    assert_eq!(type_meta(b"{}").unwrap(), TypeMeta::default());
    for (text, said) in [
        (
            r#"{"apiVersion":"apps/v1","kind":"Deployment","a":1} x"#,
            r#"couldn't get version/kind; json parse error: invalid character 'x' after top-level value"#,
        ),
        (
            "[]",
            r#"couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#,
        ),
        (
            r#"{"kind":5}"#,
            "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .kind of type string",
        ),
        ("", "couldn't get version/kind; json parse error: unexpected end of JSON input"),
    ] {
        assert_eq!(type_meta(text.as_bytes()).unwrap_err().to_string(), said);
    }
    assert_eq!(excerpt(b""), "<empty>");
    assert_eq!(excerpt(b"[]"), "5b5d");
    assert_eq!(excerpt(br#"{"kind":5}"#), r#"{"kind":5}"#);
    assert_eq!(
        excerpt(br#"{"apiVersion":"apps/v1","kind":"Deployment"}"#),
        r#"{"apiVersion":"apps/v1","kind" ..."#
    );
}

#[test]
fn duplicates_within_lists_are_read_over_each_other_too() {
    let text =
        r#"{"spec":{"containers":[{"name":"a","image":"x"}],"containers":[{"image":"y","image":null}]}}"#;
    let read = read("", "Pod", text).unwrap();
    assert_eq!(read.value["spec"]["containers"][0], json!({"name": "a", "image": "y", "resources": {}}));
    let secret = r#"{"data":{"a":[97,98]}}"#;
    assert_eq!(self::read("", "Secret", secret).unwrap().value["data"]["a"], json!("YWI="));
    assert_eq!(
        refused("", "Secret", r#"{"data":{"a":[300]}}"#),
        "json: cannot unmarshal number 300 into Go struct field Secret.data of type uint8"
    );
}

/// Text with bytes changed, cut or doubled ends in an error or an object, never in a panic; what is read once reads
/// as itself.
#[test]
fn broken_text_never_panics() {
    let text = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","creationTimestamp":"2026-01-01T00:00:00Z",
        "labels":{"a":"\u00e9\ud83d\ude00"}},"spec":{"containers":[{"name":"c","ports":[{"containerPort":80}],
        "resources":{"limits":{"cpu":"1.5"}},"livenessProbe":{"httpGet":{"port":"http"}}}]}}"#;
    let schema = builtin().kind("", "v1", "Pod").unwrap();
    let mut seed = 0x5eed_u64;
    let mut below = |bound: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((seed >> 33) as usize) % bound
    };
    let (mut read, mut refused) = (0, 0);
    for _ in 0..5000 {
        let mut bytes = text.as_bytes().to_vec();
        for _ in 0..below(3) + 1 {
            let at = below(bytes.len());
            match below(4) {
                0 => bytes[at] = below(256) as u8,
                1 => bytes.truncate(at.max(4)),
                2 => drop(bytes.remove(at)),
                _ => bytes.insert(at, br#"{}[]",:0e-\n"#[below(12)]),
            }
        }
        match read_json(&bytes, schema) {
            Ok(once) => {
                read += 1;
                assert_eq!(read_value(once.value.clone(), schema).unwrap().value, once.value);
            }
            Err(error) => {
                refused += 1;
                assert!(!error.to_string().is_empty());
            }
        }
    }
    assert!(read > 100 && refused > 1000, "{read} read, {refused} refused");
}
