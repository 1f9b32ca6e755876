//! Roles and bindings that every cluster begins with.

use serde_json::{Value, json};

const API: &str = "rbac.authorization.k8s.io/v1";

fn role(name: &str, rules: Value) -> (&'static str, Value) {
    let role = json!({"kind": "ClusterRole", "apiVersion": API, "metadata": metadata(name), "rules": rules});
    ("clusterroles", role)
}

fn binding(name: &str, groups: &[&str]) -> (&'static str, Value) {
    let subjects: Vec<Value> = groups
        .iter()
        .map(|group| json!({"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": group}))
        .collect();
    let binding = json!({"kind": "ClusterRoleBinding", "apiVersion": API, "metadata": metadata(name),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": subjects});
    ("clusterrolebindings", binding)
}

fn metadata(name: &str) -> Value {
    json!({"name": name, "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"}})
}

const READ: [&str; 3] = ["get", "list", "watch"];
const WRITE: [&str; 5] = ["create", "delete", "deletecollection", "patch", "update"];

/// What namespaces' admins, editors and viewers deal with, by group.
const CONTENT: [(&str, &[&str]); 9] = [
    (
        "",
        &[
            "configmaps",
            "endpoints",
            "events",
            "persistentvolumeclaims",
            "pods",
            "replicationcontrollers",
            "services",
        ],
    ),
    (
        "",
        &[
            "pods/log",
            "pods/status",
            "services/status",
            "persistentvolumeclaims/status",
            "replicationcontrollers/scale",
            "replicationcontrollers/status",
            "serviceaccounts",
            "namespaces",
            "bindings",
            "limitranges",
            "resourcequotas",
        ],
    ),
    (
        "apps",
        &[
            "controllerrevisions",
            "daemonsets",
            "daemonsets/status",
            "deployments",
            "deployments/scale",
            "deployments/status",
            "replicasets",
            "replicasets/scale",
            "replicasets/status",
            "statefulsets",
            "statefulsets/scale",
            "statefulsets/status",
        ],
    ),
    ("autoscaling", &["horizontalpodautoscalers", "horizontalpodautoscalers/status"]),
    ("batch", &["cronjobs", "cronjobs/status", "jobs", "jobs/status"]),
    ("discovery.k8s.io", &["endpointslices"]),
    ("networking.k8s.io", &["ingresses", "ingresses/status", "networkpolicies"]),
    ("policy", &["poddisruptionbudgets", "poddisruptionbudgets/status"]),
    ("events.k8s.io", &["events"]),
];

/// Rules of `view`, `edit` and `admin`.
fn content(writes: bool, secrets: bool, roles: bool) -> Value {
    let every = [&READ[..], &WRITE[..]].concat();
    let mut rules: Vec<Value> = CONTENT
        .iter()
        .map(|(group, resources)| json!({"apiGroups": [group], "resources": resources, "verbs": READ}))
        .collect();
    if writes {
        for (group, resources) in CONTENT {
            let own: Vec<&&str> = resources
                .iter()
                .filter(|resource| {
                    !resource.contains("status")
                        && ![
                            "pods/log",
                            "namespaces",
                            "bindings",
                            "limitranges",
                            "resourcequotas",
                            "controllerrevisions",
                        ]
                        .contains(resource)
                })
                .collect();
            if !own.is_empty() {
                rules.push(json!({"apiGroups": [group], "resources": own, "verbs": WRITE}));
            }
        }
        rules.push(json!({"apiGroups": [""], "resources": ["pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "services/proxy"], "verbs": ["get", "create", "delete", "deletecollection", "patch", "update", "list", "watch"]}));
        rules.push(json!({"apiGroups": [""], "resources": ["pods/eviction", "serviceaccounts/token"], "verbs": ["create"]}));
        rules.push(json!({"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["impersonate"]}));
        rules.push(json!({"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": every}));
    }
    if secrets {
        rules.push(json!({"apiGroups": [""], "resources": ["secrets"], "verbs": every}));
    }
    if roles {
        rules.push(json!({"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["rolebindings", "roles"], "verbs": every}));
        rules.push(json!({"apiGroups": ["authorization.k8s.io"], "resources": ["localsubjectaccessreviews"], "verbs": ["create"]}));
    }
    Value::Array(rules)
}

/// Roles and bindings, each with its resource.
pub(crate) fn bootstrap() -> Vec<(&'static str, Value)> {
    let discovery = json!([{"nonResourceURLs": ["/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez",
        "/openapi", "/openapi/*", "/readyz", "/version", "/version/"], "verbs": ["get"]}]);
    let basic = json!([
        {"apiGroups": ["authorization.k8s.io"], "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
            "verbs": ["create"]},
        {"apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"], "verbs": ["create"]}]);
    let public = json!([{"nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"], "verbs": ["get"]}]);
    let issuer = json!([{"nonResourceURLs": ["/.well-known/openid-configuration", "/.well-known/openid-configuration/",
        "/openid/v1/jwks", "/openid/v1/jwks/"], "verbs": ["get"]}]);
    let all = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["*"], "verbs": ["*"]}]);
    let monitoring = json!([{"nonResourceURLs": ["/healthz", "/healthz/*", "/livez", "/livez/*", "/metrics",
        "/metrics/slis", "/readyz", "/readyz/*"], "verbs": ["get"]}]);
    vec![
        role("cluster-admin", all),
        role("system:discovery", discovery),
        role("system:basic-user", basic),
        role("system:public-info-viewer", public),
        role("system:service-account-issuer-discovery", issuer),
        role("system:monitoring", monitoring),
        role("admin", content(true, true, true)),
        role("edit", content(true, true, false)),
        role("view", content(false, false, false)),
        binding("cluster-admin", &["system:masters"]),
        binding("system:discovery", &["system:authenticated"]),
        binding("system:basic-user", &["system:authenticated"]),
        binding("system:public-info-viewer", &["system:authenticated", "system:unauthenticated"]),
        binding("system:service-account-issuer-discovery", &["system:serviceaccounts"]),
        binding("system:monitoring", &["system:monitoring"]),
    ]
}
