//! What every cluster has from its first moment: namespaces, the Service `kubernetes`, roles.

use serde_json::{Value, json};
use setpoint_api::{clock, defaults};
use setpoint_store::{Snapshot, Txn};

use crate::object::{self, Encoded};
use crate::options::Options;
use crate::registry::key;
use crate::server::StartError;

const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Writes what is missing, in one transaction.
pub(crate) async fn run(options: &Options) -> Result<(), StartError> {
    let mut objects = places(options);
    objects.extend(policies(options));
    write(options, objects).await
}

/// Brings back the namespaces and the Service if somebody deleted them.
pub(crate) async fn restore(options: &Options) -> Result<(), StartError> {
    let keys = NAMESPACES.map(|name| key::object("", "namespaces", "", name));
    let service = key::object("", "services", "default", "kubernetes");
    let snapshot = options.store.snapshot();
    if keys.iter().chain([&service]).all(|key| snapshot.get(key).is_some()) {
        return Ok(());
    }
    write(options, places(options)).await
}

async fn write(options: &Options, objects: Vec<(Vec<u8>, Value)>) -> Result<(), StartError> {
    let decide = |snapshot: &Snapshot, txn: &mut Txn| -> Result<(), std::convert::Infallible> {
        for (key, object) in &objects {
            if snapshot.get(key).is_none() {
                let encoded = Encoded::new(object);
                txn.put_with(key.clone(), move |revision| encoded.at(revision));
            }
        }
        Ok(())
    };
    options.store.transact(decide).await.map(|_| ()).map_err(|error| StartError::Bootstrap(error.to_string()))
}

fn places(options: &Options) -> Vec<(Vec<u8>, Value)> {
    let mut objects = Vec::new();
    for name in NAMESPACES {
        let mut namespace = json!({"kind": "Namespace", "apiVersion": "v1",
            "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
            "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
        system_fields(options, &mut namespace);
        objects.push((key::object("", "namespaces", "", name), namespace));
    }
    objects.push((key::object("", "services", "default", "kubernetes"), service(options)));
    objects
}

fn policies(options: &Options) -> Vec<(Vec<u8>, Value)> {
    let mut objects = Vec::new();
    for (plural, mut object) in crate::auth::roles::bootstrap() {
        system_fields(options, &mut object);
        let key = key::object("rbac.authorization.k8s.io", plural, "", object::name(&object));
        objects.push((key, object));
    }
    for (name, value, text) in PRIORITIES {
        let mut class = json!({"kind": "PriorityClass", "apiVersion": "scheduling.k8s.io/v1",
            "metadata": {"name": name, "generation": 1}, "value": value, "description": text,
            "preemptionPolicy": "PreemptLowerPriority"});
        system_fields(options, &mut class);
        objects.push((key::object("scheduling.k8s.io", "priorityclasses", "", name), class));
    }
    objects
}

const PRIORITIES: [(&str, i64, &str); 2] = [
    (
        "system-cluster-critical",
        2_000_000_000,
        "System pods that the cluster cannot do without, on whatever node.",
    ),
    ("system-node-critical", 2_000_001_000, "System pods that their node cannot do without."),
];

pub(crate) fn system_fields(options: &Options, object: &mut Value) {
    let metadata = object::metadata_mut(object);
    metadata.insert("uid".into(), json!(options.random.uid()));
    metadata.insert("creationTimestamp".into(), json!(clock::rfc3339_seconds(options.clock.now())));
}

fn service(options: &Options) -> Value {
    let address = crate::admission::service::ranges(options).first_ip().to_string();
    let port = options.advertise.map_or(6443, |address| address.port());
    let mut service = json!({"kind": "Service", "apiVersion": "v1",
        "metadata": {"name": "kubernetes", "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {"clusterIP": address, "clusterIPs": [address], "type": "ClusterIP",
            "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None",
            "internalTrafficPolicy": "Cluster",
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": port}]},
        "status": {"loadBalancer": {}}});
    let kind = setpoint_api::kind::GroupVersionKind {
        group: String::new(),
        version: "v1".into(),
        kind: "Service".into(),
    };
    defaults::apply(&kind, &mut service);
    system_fields(options, &mut service);
    service
}
