//! The webhooks and policies that `admissionregistration.k8s.io` objects configure.

mod policy;
pub(crate) mod scope;

pub(crate) use policy::{Action, Binding, ParamRef, Policy, Validation};

use std::sync::{Arc, RwLock};
use std::time::Duration;

use serde_json::Value;
use setpoint_api::cause::{Cause, Path};
use setpoint_kinds::admission::{Configuration as Admission, Plugin};
use setpoint_store::{KeyRange, Snapshot};

use crate::entry;
use crate::key;
use crate::webhook::Webhook;
use scope::Scope;
use setpoint_cel::Condition;

/// The group of the configurations.
pub(crate) const GROUP: &str = "admissionregistration.k8s.io";
/// The timeout of a webhook without `timeoutSeconds`, in seconds.
const DEFAULT_TIMEOUT: u64 = 10;

/// One webhook of a configuration.
#[derive(Debug)]
pub(crate) struct Hook {
    pub(crate) name: String,
    pub(crate) scope: Scope,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) ignores_failures: bool,
    /// Whether the webhook is called again if another changes the object after it (`reinvocationPolicy: IfNeeded`).
    pub(crate) reinvoked: bool,
    pub(crate) takes_dry_runs: bool,
    pub(crate) timeout: Duration,
    pub(crate) review_versions: Vec<String>,
    pub(crate) client: Webhook,
}

impl Hook {
    fn read(hook: &Value) -> Self {
        let text = |field: &str| hook.get(field).and_then(Value::as_str).unwrap_or("");
        let list = |field: &str| hook.get(field).and_then(Value::as_array).into_iter().flatten();
        let timeout = hook.get("timeoutSeconds").and_then(Value::as_u64).unwrap_or(DEFAULT_TIMEOUT);
        Hook {
            name: text("name").to_owned(),
            scope: Scope::of_hook(hook),
            conditions: list("matchConditions")
                .map(|own| Condition::new(own["expression"].as_str().unwrap_or("")))
                .collect(),
            ignores_failures: text("failurePolicy") == "Ignore",
            reinvoked: text("reinvocationPolicy") == "IfNeeded",
            takes_dry_runs: matches!(text("sideEffects"), "None" | "NoneOnDryRun"),
            timeout: Duration::from_secs(timeout),
            review_versions: list("admissionReviewVersions")
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
            client: Webhook::read(&hook["clientConfig"]),
        }
    }
}

/// The errors in the conditions of a configuration. Conditions that the stored configuration has are not checked
/// again.
pub(crate) fn validate(configuration: &Value, old: Option<&Value>) -> Vec<Cause> {
    let list = |value: &Value, field: &str| value[field].as_array().cloned().unwrap_or_default();
    let known: Vec<Value> = old.map(|old| list(old, "webhooks")).unwrap_or_default();
    let known: Vec<Value> = known.iter().flat_map(|hook| list(hook, "matchConditions")).collect();
    let mut causes = Vec::new();
    for (at, hook) in list(configuration, "webhooks").iter().enumerate() {
        for (index, condition) in list(hook, "matchConditions").iter().enumerate() {
            let path =
                Path::new("webhooks").index(at).child("matchConditions").index(index).child("expression");
            let text = condition["expression"].as_str().unwrap_or("");
            if text.trim().is_empty() {
                causes.push(Cause::required(&path, ""));
            } else if !known.iter().any(|known| known["expression"] == text)
                && let Some(fault) = Condition::new(text).fault()
            {
                causes.push(Cause::invalid(&path, text, fault));
            }
        }
    }
    causes
}

/// The error in the name of a new configuration. Some names are reserved for configurations that kube-apiserver reads
/// from files.
pub(crate) fn reserved_name(name: &str) -> Option<Cause> {
    const SUFFIX: &str = ".static.k8s.io";
    let detail = format!(
        "names ending with \"{SUFFIX}\" are reserved for static manifest-based configurations and cannot be managed \
         via the API"
    );
    name.ends_with(SUFFIX).then(|| Cause::invalid(&Path::new("metadata.name"), name, &detail))
}

/// The webhooks at one moment, in the order of their calls.
#[derive(Debug, Default)]
pub(crate) struct Hooks {
    pub(crate) mutating: Vec<Hook>,
    pub(crate) validating: Vec<Hook>,
    /// Policies with a binding. They run before the validating webhooks.
    pub(crate) policies: Vec<Policy>,
    revision: u64,
}

impl Hooks {
    fn read(snapshot: &Snapshot, admission: &Admission) -> Self {
        // Keys are in the order of names, and so are the webhooks.
        let hooks = |plugin: Plugin, plural: &str| -> Vec<Hook> {
            if !admission.is_on(plugin) {
                return Vec::new();
            }
            let range = KeyRange::prefix(key::resource(GROUP, plural));
            let configurations = snapshot.range(&range, None).map(|entry| entry::value(entry));
            let hooks = configurations.flat_map(|mut configuration| match configuration["webhooks"].take() {
                Value::Array(hooks) => hooks,
                _ => Vec::new(),
            });
            hooks.map(|hook| Hook::read(&hook)).collect()
        };
        let has_policies = admission.is_on(Plugin::ValidatingAdmissionPolicy);
        Hooks {
            mutating: hooks(Plugin::MutatingAdmissionWebhook, "mutatingwebhookconfigurations"),
            validating: hooks(Plugin::ValidatingAdmissionWebhook, "validatingwebhookconfigurations"),
            policies: if has_policies { Policy::all(snapshot) } else { Vec::new() },
            revision: snapshot.revision(),
        }
    }

    /// Whether a policy or a validating webhook is configured.
    pub(crate) fn has_validating(&self) -> bool {
        !self.validating.is_empty() || !self.policies.is_empty()
    }

    fn is_empty(&self) -> bool {
        self.mutating.is_empty() && !self.has_validating()
    }
}

/// The webhooks of a server. Every write of a configuration reloads them before the server answers the write.
#[derive(Debug, Default)]
pub(crate) struct Configured(RwLock<Arc<Hooks>>);

impl Configured {
    /// Reads the configurations again. Call after a write to one of them, with a newer snapshot.
    pub(crate) fn reload(&self, snapshot: &Snapshot, admission: &Admission) {
        let mut current = self.0.write().expect("no holder of this lock panics");
        if snapshot.revision() >= current.revision {
            *current = Arc::new(Hooks::read(snapshot, admission));
        }
    }

    /// The current webhooks and policies, or `None` if none is configured.
    pub(crate) fn current(&self) -> Option<Arc<Hooks>> {
        let current = self.0.read().expect("no holder of this lock panics");
        (!current.is_empty()).then(|| current.clone())
    }
}
