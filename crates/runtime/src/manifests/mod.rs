//! The objects that an operator needs in a cluster: its definition, its identity, its rights, its Deployment.

mod rights;

use serde::Deserialize;
use serde_json::{Value, json};

pub use rights::{Answered, Right, Rights};

/// Describes how an operator is installed in a cluster; [`Installation::manifests`] returns the objects to apply.
///
/// ```
/// use setpoint::manifests::{Installation, Rule};
///
/// let installation = Installation {
///     name: "cafe".into(),
///     namespace: "cafe-system".into(),
///     image: "example.com/cafe:1".into(),
///     command: vec!["cafe".into()],
///     args: vec!["--leader-elect".into()],
///     rules: vec![Rule::new("example.com", &["cafes"], &["get", "list", "watch"])],
/// };
/// let kinds: Vec<_> = installation.manifests().iter().map(|object| object["kind"].clone()).collect();
/// assert_eq!(kinds.first().unwrap(), "Namespace");
/// assert_eq!(kinds.last().unwrap(), "Deployment");
/// ```
#[derive(Clone, Debug)]
pub struct Installation {
    /// The name of everything that is made.
    pub name: String,
    /// The namespace that it runs in; made too.
    pub namespace: String,
    /// Its image.
    pub image: String,
    /// The program in the image.
    pub command: Vec<String>,
    /// The program's arguments.
    pub args: Vec<String>,
    /// Its rights in every namespace, with those for events about its objects if it records some. The rights that the
    /// election in its own namespace needs are added.
    pub rules: Vec<Rule>,
}

/// One RBAC rule.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "PolicyRule")]
pub struct Rule {
    /// The API group; empty for the core one.
    pub group: String,
    /// Resources and subresources.
    pub resources: Vec<String>,
    /// Verbs.
    pub verbs: Vec<String>,
}

impl Rule {
    /// A rule for some resources of one group.
    pub fn new(group: &str, resources: &[&str], verbs: &[&str]) -> Self {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Rule { group: group.to_owned(), resources: owned(resources), verbs: owned(verbs) }
    }

    /// Reads a list of rules in YAML, as a ClusterRole has them under `rules`: of a file beside the code that a test keeps
    /// true.
    ///
    /// ```
    /// use setpoint::manifests::Rule;
    ///
    /// let rules = Rule::parse("- apiGroups: [apps]\n  resources: [deployments]\n  verbs: [list, watch]").unwrap();
    /// assert_eq!(rules, [Rule::new("apps", &["deployments"], &["list", "watch"])]);
    /// ```
    ///
    /// # Errors
    /// When the text is no such list, or a rule has several groups or none.
    pub fn parse(yaml: &str) -> Result<Vec<Rule>, RuleError> {
        serde_saphyr::from_str(yaml).map_err(|error| RuleError(error.to_string()))
    }

    /// Writes rules as [`Rule::parse`] reads them.
    pub fn print(rules: &[Rule]) -> String {
        rules.iter().map(Rule::to_yaml).collect()
    }

    fn to_yaml(&self) -> String {
        let list = |words: &[String]| words.join(", ");
        let group = if self.group.is_empty() { "\"\"" } else { &self.group };
        let (resources, verbs) = (list(&self.resources), list(&self.verbs));
        format!("- apiGroups: [{group}]\n  resources: [{resources}]\n  verbs: [{verbs}]\n")
    }

    fn to_value(&self) -> Value {
        json!({"apiGroups": [self.group], "resources": self.resources, "verbs": self.verbs})
    }
}

/// A text that is no list of rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no list of RBAC rules: {0}")]
pub struct RuleError(String);

/// A rule as RBAC writes it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PolicyRule {
    api_groups: Vec<String>,
    resources: Vec<String>,
    verbs: Vec<String>,
}

impl TryFrom<PolicyRule> for Rule {
    type Error = &'static str;

    fn try_from(rule: PolicyRule) -> Result<Self, Self::Error> {
        let PolicyRule { api_groups, resources, verbs } = rule;
        match <[String; 1]>::try_from(api_groups) {
            Ok([group]) => Ok(Rule { group, resources, verbs }),
            Err(_) => Err("a rule names one API group"),
        }
    }
}

/// The port of the health endpoint in [`Installation::manifests`]' Deployment.
pub const HEALTH_PORT: u16 = 8081;

impl Installation {
    /// Namespace, ServiceAccount, ClusterRole and Role with their bindings, Deployment, in an order that can be
    /// applied.
    pub fn manifests(&self) -> Vec<Value> {
        let rules: Vec<Value> = self.rules.iter().map(Rule::to_value).collect();
        let rbac = "rbac.authorization.k8s.io";
        let election: Vec<Value> = self.election_rules().iter().map(Rule::to_value).collect();
        let subjects = json!([{"kind": "ServiceAccount", "name": self.name, "namespace": self.namespace}]);
        vec![
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}),
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": self.metadata()}),
            json!({
                "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole",
                "metadata": {"name": self.name}, "rules": rules,
            }),
            json!({
                "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding",
                "metadata": {"name": self.name},
                "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": self.name},
                "subjects": subjects,
            }),
            json!({
                "apiVersion": format!("{rbac}/v1"), "kind": "Role",
                "metadata": self.metadata(), "rules": election,
            }),
            json!({
                "apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding",
                "metadata": self.metadata(),
                "roleRef": {"apiGroup": rbac, "kind": "Role", "name": self.name},
                "subjects": subjects,
            }),
            self.deployment(),
        ]
    }

    /// The lease, and the events that tell who leads, unless events are allowed everywhere.
    fn election_rules(&self) -> Vec<Rule> {
        let leases = Rule::new("coordination.k8s.io", &["leases"], &["get", "create", "update"]);
        let events = Rule::new("events.k8s.io", &["events"], &["create"]);
        let everywhere = self.rules.iter().any(|rule| {
            rule.group == events.group
                && rule.resources.contains(&events.resources[0])
                && rule.verbs.contains(&events.verbs[0])
        });
        if everywhere { vec![leases] } else { vec![leases, events] }
    }

    fn metadata(&self) -> Value {
        json!({"name": self.name, "namespace": self.namespace})
    }

    fn deployment(&self) -> Value {
        let labels = json!({"app.kubernetes.io/name": self.name});
        let probe = |path: &str| json!({"httpGet": {"path": path, "port": "health"}, "periodSeconds": 5});
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": self.name, "namespace": self.namespace, "labels": labels},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {
                        "serviceAccountName": self.name,
                        "containers": [{
                            "name": "operator",
                            "image": self.image,
                            "command": self.command,
                            "args": self.args,
                            "ports": [{"name": "health", "containerPort": HEALTH_PORT}],
                            "livenessProbe": probe("/healthz"),
                            "readinessProbe": probe("/readyz"),
                            "securityContext": {
                                "allowPrivilegeEscalation": false,
                                "capabilities": {"drop": ["ALL"]},
                                "runAsNonRoot": true,
                            },
                        }],
                    },
                },
            },
        })
    }
}
