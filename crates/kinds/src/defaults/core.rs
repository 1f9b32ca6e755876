//! The core group.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::Lit::{Int, Object, Text};
use super::pod::{POD, POD_TEMPLATE_SPEC};
use super::storage::PERSISTENT_VOLUME;
use super::volume::CLAIM_SPEC;
use super::{Rule, is_zero, text};

pub(super) fn rules(kind: &str) -> &'static [Rule] {
    match kind {
        "Pod" => POD,
        "PodTemplate" => &[Rule::Struct("template", POD_TEMPLATE_SPEC)],
        "ReplicationController" => REPLICATION_CONTROLLER,
        "Service" => SERVICE,
        "Secret" => &[Rule::Call(string_data), Rule::Zero("type", Text("Opaque"))],
        "PersistentVolume" => PERSISTENT_VOLUME,
        "PersistentVolumeClaim" => PERSISTENT_VOLUME_CLAIM,
        "Endpoints" => {
            &[Rule::List("subsets", &[Rule::List("ports", &[Rule::Zero("protocol", Text("TCP"))])])]
        }
        "Namespace" => NAMESPACE,
        "Node" => NODE,
        "LimitRange" => LIMIT_RANGE,
        "ResourceQuota" => RESOURCE_QUOTA,
        "Event" => EVENT,
        _ => &[],
    }
}

const REPLICATION_CONTROLLER: &[Rule] = &[
    Rule::Struct("spec", &[Rule::Absent("replicas", Int(1)), Rule::Pointer("template", POD_TEMPLATE_SPEC)]),
    Rule::Call(labels_from_template),
    Rule::Struct("status", &[Rule::Absent("replicas", Int(0))]),
];

const PERSISTENT_VOLUME_CLAIM: &[Rule] = &[
    Rule::Struct("spec", CLAIM_SPEC),
    Rule::Struct(
        "status",
        &[
            Rule::Zero("phase", Text("Pending")),
            Rule::Resources("capacity"),
            Rule::Resources("allocatedResources"),
        ],
    ),
];

const NAMESPACE: &[Rule] = &[
    Rule::Call(name_label),
    Rule::Struct("spec", &[]),
    Rule::Struct("status", &[Rule::Zero("phase", Text("Active"))]),
];

const NODE: &[Rule] = &[
    Rule::Struct("spec", &[Rule::Call(pod_cidrs)]),
    Rule::Struct(
        "status",
        &[
            Rule::Resources("capacity"),
            Rule::List("conditions", &[Rule::Shown("lastHeartbeatTime"), Rule::Shown("lastTransitionTime")]),
            Rule::List("images", &[Rule::Shown("names")]),
            Rule::Call(allocatable),
            Rule::Resources("allocatable"),
            Rule::Struct(
                "daemonEndpoints",
                &[Rule::Struct("kubeletEndpoint", &[Rule::Absent("Port", Int(0))])],
            ),
            Rule::Struct(
                "nodeInfo",
                &[
                    Rule::Absent("machineID", Text("")),
                    Rule::Absent("systemUUID", Text("")),
                    Rule::Absent("bootID", Text("")),
                    Rule::Absent("kernelVersion", Text("")),
                    Rule::Absent("osImage", Text("")),
                    Rule::Absent("containerRuntimeVersion", Text("")),
                    Rule::Absent("kubeletVersion", Text("")),
                    Rule::Absent("kubeProxyVersion", Text("")),
                    Rule::Absent("operatingSystem", Text("")),
                    Rule::Absent("architecture", Text("")),
                ],
            ),
        ],
    ),
];

const LIMIT_RANGE: &[Rule] = &[Rule::Struct(
    "spec",
    &[
        Rule::Shown("limits"),
        Rule::List(
            "limits",
            &[
                Rule::Call(limit_range_item),
                Rule::Resources("max"),
                Rule::Resources("min"),
                Rule::Resources("default"),
                Rule::Resources("defaultRequest"),
                Rule::Resources("maxLimitRequestRatio"),
            ],
        ),
    ],
)];

const RESOURCE_QUOTA: &[Rule] = &[
    Rule::Struct("spec", &[Rule::Resources("hard")]),
    Rule::Struct("status", &[Rule::Resources("hard"), Rule::Resources("used")]),
];

/// Fields that an event always shows.
const EVENT: &[Rule] = &[
    Rule::Struct("involvedObject", &[]),
    Rule::Struct("source", &[]),
    Rule::Absent("reportingComponent", Text("")),
    Rule::Absent("reportingInstance", Text("")),
    Rule::Shown("eventTime"),
    Rule::Shown("firstTimestamp"),
    Rule::Shown("lastTimestamp"),
];

const SERVICE: &[Rule] = &[
    Rule::Struct(
        "spec",
        &[
            Rule::Zero("sessionAffinity", Text("None")),
            Rule::Call(session_affinity),
            Rule::Zero("type", Text("ClusterIP")),
            Rule::List("ports", &[Rule::Zero("protocol", Text("TCP")), Rule::Call(target_port)]),
            Rule::Call(traffic_policies),
        ],
    ),
    Rule::Struct("status", &[Rule::Absent("loadBalancer", Object)]),
    Rule::Call(ip_mode),
];

/// The readable form of a secret becomes data.
fn string_data(secret: &mut Map<String, Value>) {
    let Some(Value::Object(readable)) = secret.remove("stringData") else { return };
    if readable.is_empty() {
        return;
    }
    let data = secret.entry("data").or_insert(Value::Null);
    if data.is_null() {
        *data = json!({});
    }
    if let Value::Object(data) = data {
        for (key, value) in readable {
            let bytes = value.as_str().unwrap_or_default();
            data.insert(key, STANDARD.encode(bytes).into());
        }
    }
}

fn labels_from_template(controller: &mut Map<String, Value>) {
    let Some(Value::Object(spec)) = controller.get_mut("spec") else { return };
    let labels = spec.get("template").map(|template| crate::access::at(template, "metadata.labels").clone());
    let Some(Value::Object(labels)) = labels.filter(|labels| labels.is_object()) else { return };
    if spec.get("selector").and_then(Value::as_object).is_none_or(Map::is_empty) {
        spec.insert("selector".to_owned(), Value::Object(labels.clone()));
    }
    if let Some(Value::Object(metadata)) = controller.get_mut("metadata")
        && metadata.get("labels").and_then(Value::as_object).is_none_or(Map::is_empty)
    {
        metadata.insert("labels".to_owned(), Value::Object(labels));
    }
}

/// Every namespace can be selected by its name.
fn name_label(namespace: &mut Map<String, Value>) {
    let Some(Value::Object(metadata)) = namespace.get_mut("metadata") else { return };
    let name = text(metadata, "name").to_owned();
    if name.is_empty() {
        return;
    }
    let labels = metadata.entry("labels").or_insert(Value::Null);
    if labels.is_null() {
        *labels = json!({});
    }
    if let Value::Object(labels) = labels {
        labels.insert("kubernetes.io/metadata.name".to_owned(), name.into());
    }
}

/// The one network and the list of networks agree; the one wins.
fn pod_cidrs(spec: &mut Map<String, Value>) {
    let one = text(spec, "podCIDR").to_owned();
    let first = spec.get("podCIDRs").and_then(|cidrs| cidrs.get(0)).and_then(Value::as_str);
    let first = first.unwrap_or_default().to_owned();
    if one.is_empty() && !first.is_empty() {
        spec.insert("podCIDR".to_owned(), first.into());
    } else if !one.is_empty() && one != first {
        spec.insert("podCIDRs".to_owned(), json!([one]));
    }
}

fn allocatable(status: &mut Map<String, Value>) {
    if status.get("allocatable").is_none_or(Value::is_null)
        && let Some(capacity) = status.get("capacity").filter(|capacity| !capacity.is_null()).cloned()
    {
        status.insert("allocatable".to_owned(), capacity);
    }
}

fn limit_range_item(item: &mut Map<String, Value>) {
    if text(item, "type") != "Container" {
        return;
    }
    for (target, source) in [("default", "max"), ("defaultRequest", "default"), ("defaultRequest", "min")] {
        let Some(Value::Object(amounts)) = item.get(source).cloned() else { continue };
        let target = item.entry(target).or_insert(Value::Null);
        if target.is_null() {
            *target = json!({});
        }
        if let Value::Object(target) = target {
            for (name, amount) in amounts {
                target.entry(name).or_insert(amount);
            }
        }
    }
}

fn session_affinity(spec: &mut Map<String, Value>) {
    match text(spec, "sessionAffinity") {
        "None" => {
            spec.remove("sessionAffinityConfig");
        }
        "ClientIP" => {
            let given = spec
                .get("sessionAffinityConfig")
                .map_or(&Value::Null, |config| crate::access::at(config, "clientIP.timeoutSeconds"));
            if given.is_null() {
                let config = json!({"clientIP": {"timeoutSeconds": 10800}});
                spec.insert("sessionAffinityConfig".to_owned(), config);
            }
        }
        _ => {}
    }
}

fn target_port(port: &mut Map<String, Value>) {
    let target = port.get("targetPort").unwrap_or(&Value::Null);
    if is_zero(target) {
        let number = port.get("port").cloned().unwrap_or(json!(0));
        port.insert("targetPort".to_owned(), number);
    }
}

fn traffic_policies(spec: &mut Map<String, Value>) {
    let kind = text(spec, "type").to_owned();
    let outside = matches!(&*kind, "LoadBalancer" | "NodePort")
        || (kind == "ClusterIP" && spec.get("externalIPs").is_some_and(|ips| ips.get(0).is_some()));
    if outside && text(spec, "externalTrafficPolicy").is_empty() {
        spec.insert("externalTrafficPolicy".to_owned(), "Cluster".into());
    }
    let absent = |spec: &Map<String, Value>, field: &str| spec.get(field).is_none_or(Value::is_null);
    if matches!(&*kind, "LoadBalancer" | "NodePort" | "ClusterIP") && absent(spec, "internalTrafficPolicy") {
        spec.insert("internalTrafficPolicy".to_owned(), "Cluster".into());
    }
    if kind == "LoadBalancer" && absent(spec, "allocateLoadBalancerNodePorts") {
        spec.insert("allocateLoadBalancerNodePorts".to_owned(), true.into());
    }
}

fn ip_mode(service: &mut Map<String, Value>) {
    if service.get("spec").and_then(|spec| spec.get("type")).and_then(Value::as_str) != Some("LoadBalancer") {
        return;
    }
    let Some(status) = service.get_mut("status") else { return };
    for ingress in crate::access::items_mut(status, "loadBalancer.ingress") {
        let Value::Object(ingress) = ingress else { continue };
        if !text(ingress, "ip").is_empty() {
            ingress.entry("ipMode").or_insert("VIP".into());
        }
    }
}
