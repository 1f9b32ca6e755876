//! Lives that a schema makes.

use serde_json::{Value, json};
use setpoint_cluster::{Controllers, Options};
use setpoint_prove::{Oracle, Prove, program, prove};

/// A definition whose mode the server checks by a rule.
fn definition() -> Value {
    let rules = json!([{"rule": "self.mode != 'b'", "message": "b is not to be had"}]);
    let spec = json!({
        "type": "object", "x-kubernetes-validations": rules,
        "properties": {
            "mode": {"type": "string", "enum": ["a", "b"]},
            "count": {"type": "integer", "maximum": 3},
        },
    });
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.org"},
        "spec": {
            "group": "example.org", "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    })
}

fn life() -> Prove {
    let idle = program("idle", vec![definition()], |_| std::future::pending::<Result<(), String>>());
    let sample = json!({
        "apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": "a"},
        "spec": {"mode": "a", "count": 1},
    });
    let bare = |options: &mut Options| {
        options.controllers = Controllers::None;
        options.nodes.count = 0;
    };
    prove(idle).cluster(bare).every_property(sample).unwrap()
}

#[test]
fn the_server_chooses_the_values_and_an_idle_program_has_no_effect() {
    let report = life().run().unwrap();
    // There and back for the count, up and down; the server refuses the other mode; then away, again and away.
    assert_eq!(report.steps, 1 + 2 * 2 + 3, "{report}");
    assert!(report.findings.is_empty(), "{report}");
    let effect = report.advisories.iter().find(|advisory| advisory.oracle == Oracle::Effect);
    assert!(effect.is_some_and(|advisory| advisory.place.contains("spec.count")), "{report}");
}
