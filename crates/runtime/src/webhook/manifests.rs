//! The objects that lead the API server to the webhooks, derived from what was registered.

use serde_json::{Value, json};

use super::options::{Certificates, FailurePolicy};
use super::{Hook, Webhooks};

/// The port of the webhook server in the Deployment of [`Webhooks::install`].
pub const WEBHOOK_PORT: u16 = 9443;

pub(super) const GROUP: &str = "admissionregistration.k8s.io";
pub(super) const VALIDATING: &str = "ValidatingWebhookConfiguration";
pub(super) const MUTATING: &str = "MutatingWebhookConfiguration";

impl Webhooks {
    /// Adds the webhooks to an operator's manifests, those of
    /// [`Installation`](crate::manifests::Installation::manifests) and its definitions.
    ///
    /// - A definition whose versions are converted gets its conversion stanza.
    /// - The Deployment gets the port, and the flag `--webhook-bind-address`.
    /// - The roles get the rights that the certificates need: on one Secret, on the configurations and definitions by
    ///   name.
    /// - The Service and the configurations are added before the Deployment.
    ///
    /// The configurations and stanzas have no `caBundle`: the operator writes it.
    pub fn install(&self, mut manifests: Vec<Value>) -> Vec<Value> {
        let mut labels = json!({"app.kubernetes.io/name": self.service.name});
        for object in &mut manifests {
            match object["kind"].as_str() {
                Some("CustomResourceDefinition") => self.add_conversion(object),
                Some("Deployment") => {
                    labels = object["spec"]["selector"]["matchLabels"].clone();
                    add_port(object);
                }
                Some("ClusterRole") => add_rules(object, self.cluster_rules()),
                Some("Role") => add_rules(object, self.namespace_rules()),
                _ => {}
            }
        }
        let deployment = manifests.iter().position(|object| object["kind"] == "Deployment");
        let mut added = vec![self.service_object(&labels)];
        added.extend(self.configurations());
        let at = deployment.unwrap_or(manifests.len());
        manifests.splice(at..at, added);
        manifests
    }

    /// The configurations alone, without `caBundle`.
    pub fn configurations(&self) -> Vec<Value> {
        let of = |mutating: bool| self.hooks.iter().filter(move |hook| hook.mutating == mutating);
        let configuration = |kind: &str, mutating: bool| {
            let webhooks: Vec<Value> = of(mutating).map(|hook| self.webhook(hook)).collect();
            json!({
                "apiVersion": format!("{GROUP}/v1"), "kind": kind,
                "metadata": {"name": self.service.name}, "webhooks": webhooks,
            })
        };
        let both = [(MUTATING, true), (VALIDATING, false)];
        let used = both.into_iter().filter(|(_, mutating)| of(*mutating).next().is_some());
        used.map(|(kind, mutating)| configuration(kind, mutating)).collect()
    }

    /// Adds the conversion stanza to a definition whose versions are converted here. Leaves other objects alone.
    pub fn add_conversion(&self, definition: &mut Value) {
        let converted =
            self.conversions.iter().find(|converted| definition["metadata"]["name"] == *converted.definition);
        let Some(converted) = converted else { return };
        definition["spec"]["conversion"] = json!({
            "strategy": "Webhook",
            "webhook": {
                "clientConfig": self.client_config(&converted.path), "conversionReviewVersions": ["v1"],
            },
        });
    }

    fn webhook(&self, hook: &Hook) -> Value {
        let options = &hook.options;
        let resource = match &options.subresource {
            None => hook.resource.plural.clone(),
            Some(subresource) => format!("{}/{subresource}", hook.resource.plural),
        };
        let operations: Vec<&str> = options.operations.iter().map(|operation| operation.as_str()).collect();
        let mut webhook = json!({
            "name": hook.name,
            "clientConfig": self.client_config(&hook.path),
            "rules": [{
                "apiGroups": [hook.resource.group], "apiVersions": [hook.resource.version],
                "operations": operations, "resources": [resource],
                "scope": if hook.namespaced { "Namespaced" } else { "Cluster" },
            }],
            "failurePolicy": match options.failure_policy {
                FailurePolicy::Fail => "Fail",
                FailurePolicy::Ignore => "Ignore",
            },
            "matchPolicy": "Equivalent",
            "sideEffects": if options.side_effects { "NoneOnDryRun" } else { "None" },
            "timeoutSeconds": options.timeout.as_secs(),
            "admissionReviewVersions": ["v1"],
        });
        if hook.mutating && options.reinvoke {
            webhook["reinvocationPolicy"] = json!("IfNeeded");
        }
        let selectors = [
            ("namespaceSelector", &options.namespace_selector),
            ("objectSelector", &options.object_selector),
        ];
        for (field, selector) in selectors {
            if let Some(selector) = selector {
                webhook[field] = serde_json::to_value(selector).unwrap_or_default();
            }
        }
        if !options.match_conditions.is_empty() {
            let conditions = options.match_conditions.iter();
            let conditions =
                conditions.map(|(name, expression)| json!({"name": name, "expression": expression}));
            webhook["matchConditions"] = conditions.collect();
        }
        webhook
    }

    fn client_config(&self, path: &str) -> Value {
        json!({"service": {
            "namespace": self.service.namespace, "name": self.service.name, "path": path, "port": 443,
        }})
    }

    fn service_object(&self, selector: &Value) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": self.service.name, "namespace": self.service.namespace},
            "spec": {
                "selector": selector,
                "ports": [{"name": "webhooks", "port": 443, "targetPort": "webhooks", "protocol": "TCP"}],
            },
        })
    }

    /// `caBundle` is written into objects of these names only.
    fn cluster_rules(&self) -> Vec<Value> {
        if !matches!(self.options.certificates, Certificates::Managed) {
            return Vec::new();
        }
        let by_name = |group: &str, resource: &str, names: Vec<&str>| {
            json!({
                "apiGroups": [group], "resources": [resource], "resourceNames": names,
                "verbs": ["get", "patch"],
            })
        };
        let mut rules = Vec::new();
        for configuration in self.configurations() {
            let kind = configuration["kind"].as_str().unwrap_or_default().to_lowercase();
            rules.push(by_name(GROUP, &format!("{kind}s"), vec![&self.service.name]));
        }
        let definitions: Vec<&str> =
            self.conversions.iter().map(|converted| converted.definition.as_str()).collect();
        if !definitions.is_empty() {
            rules.push(by_name("apiextensions.k8s.io", "customresourcedefinitions", definitions));
        }
        rules
    }

    /// RBAC cannot name an object that does not exist yet, so `create` has a rule of its own.
    fn namespace_rules(&self) -> Vec<Value> {
        if !matches!(self.options.certificates, Certificates::Managed) {
            return Vec::new();
        }
        vec![
            json!({
                "apiGroups": [""], "resources": ["secrets"], "resourceNames": [self.secret_name()],
                "verbs": ["get", "update"],
            }),
            json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]}),
        ]
    }

    /// The Secret with the certificates.
    pub(super) fn secret_name(&self) -> String {
        self.options.secret.clone().unwrap_or_else(|| format!("{}-certificates", self.service.name))
    }
}

fn add_rules(role: &mut Value, rules: Vec<Value>) {
    if let Some(own) = role["rules"].as_array_mut() {
        own.extend(rules);
    }
}

fn add_port(deployment: &mut Value) {
    let container = &mut deployment["spec"]["template"]["spec"]["containers"][0];
    let mut add = |field: &str, item: Value| match container[field].as_array_mut() {
        Some(items) => items.push(item),
        None => container[field] = json!([item]),
    };
    add("args", json!(format!("--webhook-bind-address=0.0.0.0:{WEBHOOK_PORT}")));
    add("ports", json!({"name": "webhooks", "containerPort": WEBHOOK_PORT}));
}
