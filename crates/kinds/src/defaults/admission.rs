//! Webhook configurations and admission policies.

use super::Lit::{Int, Object, Text};
use super::Rule;

pub(super) fn rules(kind: &str) -> &'static [Rule] {
    match kind {
        "ValidatingWebhookConfiguration" => &[Rule::List("webhooks", WEBHOOK)],
        "MutatingWebhookConfiguration" => &[
            Rule::List("webhooks", WEBHOOK),
            Rule::List("webhooks", &[Rule::Absent("reinvocationPolicy", Text("Never"))]),
        ],
        "ValidatingAdmissionPolicy" => &[Rule::Struct("spec", POLICY_SPEC), Rule::Struct("status", &[])],
        "MutatingAdmissionPolicy" => &[Rule::Struct("spec", POLICY_SPEC)],
        "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding" => {
            &[Rule::Struct("spec", &[Rule::Pointer("matchResources", MATCH_RESOURCES)])]
        }
        _ => &[],
    }
}

const RULE: &[Rule] = &[Rule::Absent("scope", Text("*"))];

pub(super) const CLIENT_CONFIG: &[Rule] = &[Rule::Pointer("service", &[Rule::Absent("port", Int(443))])];

const WEBHOOK: &[Rule] = &[
    Rule::Absent("failurePolicy", Text("Fail")),
    Rule::Absent("matchPolicy", Text("Equivalent")),
    Rule::Absent("namespaceSelector", Object),
    Rule::Absent("objectSelector", Object),
    Rule::Absent("timeoutSeconds", Int(10)),
    Rule::Struct("clientConfig", CLIENT_CONFIG),
    Rule::List("rules", RULE),
];

const MATCH_RESOURCES: &[Rule] = &[
    Rule::Absent("matchPolicy", Text("Equivalent")),
    Rule::Absent("namespaceSelector", Object),
    Rule::Absent("objectSelector", Object),
    Rule::List("resourceRules", RULE),
    Rule::List("excludeResourceRules", RULE),
];

const POLICY_SPEC: &[Rule] =
    &[Rule::Absent("failurePolicy", Text("Fail")), Rule::Pointer("matchConstraints", MATCH_RESOURCES)];
