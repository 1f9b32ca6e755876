//! The objects that every new cluster has: namespaces, the Service `kubernetes`, roles.

use std::convert::Infallible;

use serde_json::{Value, json};
use setpoint_api::clock;
use setpoint_kinds::defaults;
use setpoint_store::{Snapshot, Txn};

use crate::auth::legacy;
use crate::auth::policy::{self, Row};
use crate::auth::reconcile::{self, Outcome};
use crate::key;
use crate::managed;
use crate::object::{self, Encoded};
use crate::options::Options;

/// The reason why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The objects that every cluster has could not be written.
    #[error("bootstrap: {0}")]
    Bootstrap(String),
}

const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Writes the missing objects in one transaction.
pub(crate) async fn run(options: &Options) -> Result<(), StartError> {
    let mut objects = places(options);
    objects.extend(priorities(options));
    objects.extend(notes(options));
    let class = storage_class(options);
    let rows = policy::rows();
    let decide = |snapshot: &Snapshot, txn: &mut Txn| -> Result<bool, Infallible> {
        // Only once: a user who deletes the class does not want it back.
        if snapshot.get(&key::object("", "namespaces", "", "kube-system")).is_none() {
            put_missing(snapshot, txn, class.as_slice());
        }
        put_missing(snapshot, txn, &objects);
        // `count`, not `any`: every row must be put, also after the first that was deleted.
        Ok(rows.iter().filter(|row| put_row(options, snapshot, txn, row)).count() > 0)
    };
    // A binding that this transaction deletes is created by the next one.
    while commit(options, decide).await? {}
    Ok(())
}

/// Restores the namespaces and the Service if they were deleted.
pub(crate) async fn restore(options: &Options) -> Result<(), StartError> {
    let keys = NAMESPACES.map(|name| key::object("", "namespaces", "", name));
    let service = key::object("", "services", "default", "kubernetes");
    let snapshot = options.store.snapshot();
    if keys.iter().chain([&service]).all(|key| snapshot.get(key).is_some()) {
        return Ok(());
    }
    let objects = places(options);
    commit(options, |snapshot, txn| {
        put_missing(snapshot, txn, &objects);
        Ok(())
    })
    .await
}

async fn commit<T>(
    options: &Options,
    decide: impl FnMut(&Snapshot, &mut Txn) -> Result<T, Infallible>,
) -> Result<T, StartError> {
    let committed = options.store.transact(decide).await;
    committed.map(|done| done.value).map_err(|error| StartError::Bootstrap(error.to_string()))
}

fn put_missing(snapshot: &Snapshot, txn: &mut Txn, objects: &[(Vec<u8>, Value)]) {
    for (key, object) in objects {
        if snapshot.get(key).is_none() {
            let encoded = Encoded::new(object);
            txn.put_with(key.clone(), move |revision| encoded.at(revision));
        }
    }
}

/// Creates a role or binding of the table, or adds its missing parts. Returns whether the object was deleted so that
/// the next transaction creates it again.
fn put_row(options: &Options, snapshot: &Snapshot, txn: &mut Txn, row: &Row<'_>) -> bool {
    let key = row.key();
    let now = options.clock.now();
    let encoded = match snapshot.get(&key) {
        None => row.encoded(&clock::rfc3339_seconds(now), &options.random.uid()),
        Some(entry) if row.is_stored_as(&entry.value) => return false,
        Some(entry) => {
            let stored = crate::registry::value(&entry);
            match reconcile::reconcile(row, &stored) {
                Outcome::Keep => return false,
                Outcome::Recreate => {
                    txn.delete(key);
                    return true;
                }
                Outcome::Update(mut new) => {
                    let kind = managed::builtin_kind("rbac.authorization.k8s.io", row.kind());
                    managed::by_server(&kind, (row.plural(), ""), now, Some(&stored), &mut new);
                    Encoded::new(&new)
                }
            }
        }
    };
    txn.put_with(key, move |revision| encoded.at(revision));
    false
}

fn places(options: &Options) -> Vec<(Vec<u8>, Value)> {
    let mut objects = Vec::new();
    for name in NAMESPACES {
        // As text: tracking the fields needs the schema of the kind, which a start does without.
        let managed = json!([{"manager": "kube-apiserver", "operation": "Update", "apiVersion": "v1",
            "time": clock::rfc3339_seconds(options.clock.now()), "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:kubernetes.io/metadata.name": {}}}}}]);
        let mut namespace = json!({"kind": "Namespace", "apiVersion": "v1",
            "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}, "managedFields": managed},
            "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
        system_fields(options, &mut namespace);
        objects.push((key::object("", "namespaces", "", name), namespace));
    }
    objects.push((key::object("", "services", "default", "kubernetes"), service(options)));
    objects
}

fn priorities(options: &Options) -> Vec<(Vec<u8>, Value)> {
    let mut objects = Vec::new();
    for (name, value, text) in PRIORITIES {
        let mut class = json!({"kind": "PriorityClass", "apiVersion": "scheduling.k8s.io/v1",
            "metadata": {"name": name, "generation": 1}, "value": value, "description": text,
            "preemptionPolicy": "PreemptLowerPriority"});
        system_fields(options, &mut class);
        objects.push((key::object("scheduling.k8s.io", "priorityclasses", "", name), class));
    }
    objects
}

/// The default StorageClass, as in a cluster that kind creates.
fn storage_class(options: &Options) -> Option<(Vec<u8>, Value)> {
    let name = "standard";
    let mut class = json!({"kind": "StorageClass", "apiVersion": "storage.k8s.io/v1",
        "metadata": {"name": name, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": options.storage_provisioner.as_ref()?,
        "reclaimPolicy": "Delete", "volumeBindingMode": "WaitForFirstConsumer"});
    system_fields(options, &mut class);
    Some((key::object("storage.k8s.io", "storageclasses", "", name), class))
}

/// Objects about the server itself: the ServiceCIDR, and the ConfigMap with the day since which the use of tokens in
/// Secrets is tracked.
fn notes(options: &Options) -> [(Vec<u8>, Value); 2] {
    let now = options.clock.now();
    let ranges = crate::admission::service::ranges(options);
    let mut range = json!({"kind": "ServiceCIDR", "apiVersion": "networking.k8s.io/v1",
        "metadata": {"name": "kubernetes"},
        "spec": {"cidrs": [format!("{}/{}", ranges.network, ranges.prefix)]},
        "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "",
            "message": "Kubernetes default Service CIDR is ready",
            "lastTransitionTime": clock::rfc3339_seconds(now)}]}});
    system_fields(options, &mut range);
    let name = "kube-apiserver-legacy-service-account-token-tracking";
    let mut since = json!({"kind": "ConfigMap", "apiVersion": "v1",
        "metadata": {"name": name, "namespace": "kube-system"}, "data": {"since": legacy::day(now)}});
    system_fields(options, &mut since);
    [
        (key::object("networking.k8s.io", "servicecidrs", "", "kubernetes"), range),
        (key::object("", "configmaps", "kube-system", name), since),
    ]
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

#[cfg(test)]
mod tests {
    use setpoint_api::{Clock, Random};
    use setpoint_store::Store;

    use super::*;

    #[test]
    fn the_fields_of_the_namespaces_are_those_that_tracking_finds() {
        let clock = Clock::new(|| jiff::Timestamp::UNIX_EPOCH);
        let options = Options::new(Store::memory(Default::default()), clock, Random::from_seed(1));
        let (_, namespace) = places(&options).swap_remove(0);
        let mut tracked = json!({"kind": "Namespace", "apiVersion": "v1",
            "metadata": {"name": "default", "labels": namespace["metadata"]["labels"]}});
        let kind = managed::builtin_kind("", "Namespace");
        managed::by_server(&kind, ("namespaces", ""), jiff::Timestamp::UNIX_EPOCH, None, &mut tracked);
        assert_eq!(namespace["metadata"]["managedFields"], tracked["metadata"]["managedFields"]);
        assert!(tracked["metadata"]["managedFields"].is_array());
    }
}
