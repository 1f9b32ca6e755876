//! The attack catalogue, `testdata/attacks/*.yaml`: one file for each item of the review that began it.
//!
//! A case is a scenario with a purpose: somebody with few rights wants something, and what must be true afterwards
//! stands beside the requests. `cargo xtask e2e attacks` plays it on both servers. Cases that need plain requests only
//! are also recorded in `testdata/wire` and replayed in process.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::scenario::{Must, Scenario, Step, Until};

/// One file: the cases of one item.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// The number of the item.
    pub item: u8,
    /// The subject of the item.
    pub about: String,
    pub cases: Vec<Case>,
    /// The name of the file, without its ending.
    #[serde(skip)]
    pub stem: String,
}

/// One attack.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Names the case, its namespace (`w-ID`) and its recording.
    pub id: String,
    /// The attacker's aim.
    pub wants: String,
    /// How the case is played.
    #[serde(default)]
    pub place: Place,
    /// The rights of the user `mallory`, a service account of the case's namespace. None, if nothing is said.
    #[serde(default)]
    pub rights: Rights,
    /// The administrator's preparations.
    #[serde(default)]
    pub setup: Vec<Step>,
    /// The attack itself.
    #[serde(default)]
    pub attack: Vec<Step>,
    /// The administrator's look at the stored state afterwards.
    #[serde(default)]
    pub after: Vec<Step>,
    /// Bounds beside the attack, for attacks on availability.
    #[serde(default)]
    pub load: Option<Load>,
    /// Flags of a start of kube-apiserver, for [`Place::Start`].
    #[serde(default)]
    pub flags: Vec<String>,
    /// The facts that must hold, for cases whose steps are code.
    #[serde(default)]
    pub must: Option<String>,
    /// Why the two servers' answers differ here on purpose.
    #[serde(default)]
    pub differs: Option<String>,
}

/// How a case is played.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// Recorded, replayed in process, and played on both servers.
    #[default]
    Wire,
    /// Played on both servers over TLS only: it needs certificates, or its bodies are large.
    Tls,
    /// Played on a `setpoint up` with process pods. There is no real counterpart.
    Node,
    /// Starts kube-apiserver with `flags`: both must refuse, or both must start and answer the attack alike.
    Start,
    /// Bytes on a socket, in code of `tools/attacks`, on both servers.
    Code,
    /// The same on ours only.
    Ours,
}

/// Rules of RBAC.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rights {
    /// In the namespace of the case.
    #[serde(default)]
    pub here: Vec<Value>,
    /// In the whole cluster.
    #[serde(default)]
    pub cluster: Vec<Value>,
}

/// Bounds that hold while the steps of an attack are sent.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// How often each step is sent at once.
    #[serde(default = "one")]
    pub parallel: usize,
    /// Seconds within which a quiet user's get and `/readyz` are answered, at every moment.
    pub quiet_seconds: u64,
    /// Resident memory of the server, in MiB, that it never exceeds.
    pub memory_mib: u64,
}

fn one() -> usize {
    1
}

/// The user with the rights of a case.
pub const ATTACKER: &str = "mallory";

impl Case {
    /// The requests of a case, in order. A step has what must be true of its answer.
    pub fn scenario(&self) -> Scenario {
        let rights = self.rights_of_mallory();
        let all = rights.into_iter().chain(self.setup.clone()).chain(self.attack.clone());
        let mut steps: Vec<Step> = all.chain(self.after.clone()).collect();
        for step in &mut steps {
            if step.user.as_deref() == Some(ATTACKER) {
                step.user = Some("anonymous".to_owned());
                step.headers.insert("authorization".to_owned(), "Bearer {{mallory}}".to_owned());
            }
        }
        Scenario { name: self.id.clone(), steps }
    }

    /// Which steps of the scenario are the attack.
    pub fn attack_steps(&self) -> std::ops::Range<usize> {
        let begin = self.rights_of_mallory().len() + self.setup.len();
        begin..begin + self.attack.len()
    }

    fn is_mallory_there(&self) -> bool {
        let steps = self.setup.iter().chain(&self.attack).chain(&self.after);
        let mut texts = steps.map(|step| serde_json::to_string(step).unwrap_or_default());
        texts.any(|text| text.contains(ATTACKER))
    }

    /// Makes the attacker and waits until its rights count: kube-apiserver reads them from a cache.
    fn rights_of_mallory(&self) -> Vec<Step> {
        if !self.is_mallory_there() {
            return Vec::new();
        }
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ATTACKER}});
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let accounts = "/api/v1/namespaces/{{ns}}/serviceaccounts";
        let mut token = Step::with(format!("POST {accounts}/{ATTACKER}/token"), request);
        token.capture.insert(ATTACKER.to_owned(), "/status/token".to_owned());
        let mut steps = vec![Step::with(format!("POST {accounts}"), account), token];
        for (rules, kind, name) in
            [(&self.rights.here, "Role", "rights"), (&self.rights.cluster, "ClusterRole", "{{ns}}-rights")]
        {
            if !rules.is_empty() {
                steps.extend(grant(kind, name, rules));
            }
        }
        steps
    }
}

const RBAC: &str = "rbac.authorization.k8s.io";

/// A role, its binding to the attacker, and the wait for its first rule.
fn grant(kind: &str, name: &str, rules: &[Value]) -> Vec<Step> {
    let version = format!("{RBAC}/v1");
    let inside = kind == "Role";
    let folder = if inside { "/namespaces/{{ns}}/roles" } else { "/clusterroles" };
    let bindings = if inside { "/namespaces/{{ns}}/rolebindings" } else { "/clusterrolebindings" };
    let role = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "rules": rules});
    let binding = json!({"apiVersion": version, "kind": format!("{kind}Binding"), "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "namespace": "{{ns}}", "name": ATTACKER}]});
    let mut wait = Step::with(
        "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": attributes(rules.first(), inside)}),
    );
    wait.user = Some(ATTACKER.to_owned());
    let equals = Some(Value::Bool(true));
    wait.until = Some(Until { status: 201, pointer: Some("/status/allowed".to_owned()), equals });
    let path = |rest: &str| format!("POST /apis/{version}{rest}");
    vec![Step::with(path(folder), role), Step::with(path(bindings), binding), wait]
}

/// The attributes of a request that the rule allows.
fn attributes(rule: Option<&Value>, inside: bool) -> Value {
    let first = |field: &str, instead: &str| {
        let value = rule.and_then(|rule| rule[field][0].as_str()).filter(|value| *value != "*");
        value.unwrap_or(instead).to_owned()
    };
    let verb = first("verbs", "get");
    if rule.is_some_and(|rule| rule["nonResourceURLs"].is_array()) {
        return json!({"nonResourceAttributes": {"path": first("nonResourceURLs", "/x"), "verb": verb}});
    }
    let resource = first("resources", "pods");
    let (resource, subresource) = resource.split_once('/').unwrap_or((&resource, ""));
    let mut attributes = json!({"verb": verb, "group": first("apiGroups", ""), "resource": resource,
        "subresource": subresource, "name": first("resourceNames", "")});
    if inside {
        attributes["namespace"] = json!("{{ns}}");
    }
    json!({"resourceAttributes": attributes})
}

/// `testdata/attacks` of this repository.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/attacks")
}

/// Reads the catalogue, in the order of its files.
pub fn load() -> Result<Vec<Item>> {
    let mut files: Vec<_> = std::fs::read_dir(folder())?.collect::<Result<_, _>>()?;
    files.sort_by_key(std::fs::DirEntry::file_name);
    let mut items = Vec::new();
    for file in files {
        let path = file.path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let read = || -> Result<Item> {
            let value: Value = serde_saphyr::from_str(&std::fs::read_to_string(&path)?)?;
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            Ok(Item { stem, ..serde_json::from_value(value)? })
        };
        items.push(read().with_context(|| path.display().to_string())?);
    }
    Ok(items)
}

/// The cases that are recorded, as files of scenarios: `attack-01-impersonation`.
pub fn recorded() -> Result<Vec<(String, Vec<Scenario>)>> {
    let files = load()?.into_iter().map(|item| {
        let cases = item.cases.iter().filter(|case| case.place == Place::Wire);
        (format!("attack-{}", item.stem), cases.map(Case::scenario).collect::<Vec<_>>())
    });
    Ok(files.filter(|(_, scenarios)| !scenarios.is_empty()).collect())
}

impl Must {
    /// Says what is not true of an answer.
    pub fn broken(&self, status: u16, body: &Value) -> Option<String> {
        let text = body.to_string();
        if !self.status.is_empty() && !self.status.contains(&status) {
            let message = body["message"].as_str().unwrap_or_default();
            return Some(format!("status {status}, not {:?} {message}", self.status));
        }
        if let Some(reason) = &self.reason
            && body["reason"].as_str() != Some(reason)
        {
            return Some(format!("reason {}, not {reason}", body["reason"]));
        }
        if let Some(missing) = self.has.iter().find(|part| !text.contains(part.as_str())) {
            return Some(format!(
                "no {missing:?} in the answer: {}",
                text.chars().take(400).collect::<String>()
            ));
        }
        self.lacks
            .iter()
            .find(|part| text.contains(part.as_str()))
            .map(|found| format!("{found:?} in the answer"))
    }
}
