//! Strategies of single kinds beside the common rules.

use serde_json::{Map, Value, json};

use super::{Context, labels, pod, reset_metadata, semantically_equal};
use crate::access::{at, copy, int, is_empty, items, items_mut, object, remove, set, text, truth};
use crate::facts::Facts;
use setpoint_api::clock::rfc3339_seconds;

pub(super) fn create(facts: &Facts, object: &mut Value, context: &Context<'_>) {
    match facts.key() {
        ("", "Pod") => pod::create(object, context),
        ("", "Namespace") => namespace_finalizer(object),
        ("", "PersistentVolume") => {
            let now = rfc3339_seconds(context.now);
            set(object, "status", json!({"phase": "Pending", "lastPhaseTransitionTime": now}));
        }
        ("", "PersistentVolumeClaim") => data_sources(object, &Value::Null),
        ("", "ServiceAccount") => secret_references(object),
        ("batch", "Job") => job_selector(object),
        ("apps", "DaemonSet") => template_generation(object, &Value::Null),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => stored_versions(object),
        ("certificates.k8s.io", "CertificateSigningRequest") => requester(object, context.user),
        ("coordination.k8s.io", "Lease") => drop_coordination(object),
        ("resource.k8s.io", "ResourceSlice") => drop_lists(object),
        _ => {}
    }
}

/// Leases that several candidates coordinate are an alpha feature, which is off.
fn drop_coordination(lease: &mut Value) {
    for field in ["spec.strategy", "spec.preferredHolder"] {
        remove(lease, field);
    }
}

/// Attributes with several values are an alpha feature, which is off.
fn drop_lists(slice: &mut Value) {
    for device in items_mut(slice, "spec.devices") {
        for (_, attribute) in device["attributes"].as_object_mut().into_iter().flatten() {
            for list in ["ints", "bools", "strings", "versions"] {
                remove(attribute, list);
            }
        }
    }
}

pub(super) fn update(facts: &Facts, object: &mut Value, old: &Value, _context: &Context<'_>) {
    match facts.key() {
        ("", "Pod") => pod::update(object, old),
        ("", "Namespace") => {
            copy(object, old, "spec.finalizers");
            name_label(object);
        }
        ("", "PersistentVolumeClaim") => data_sources(object, old),
        ("", "Secret") if text(object, "type").is_empty() => copy(object, old, "type"),
        ("", "ServiceAccount") => secret_references(object),
        ("", "Service") => drop_type_dependent(object, old),
        ("batch", "Job") => job_labels(object),
        ("apps", "DaemonSet") => template_generation(object, old),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => stored_versions(object),
        ("certificates.k8s.io", "CertificateSigningRequest") => copy(object, old, "spec"),
        ("coordination.k8s.io", "Lease") => drop_coordination(object),
        ("resource.k8s.io", "ResourceSlice") => drop_lists(object),
        _ => {}
    }
}

pub(super) fn update_status(facts: &Facts, object: &mut Value, old: &Value, context: &Context<'_>) {
    match facts.key() {
        ("", "Pod") => pod::update_status(object, old),
        ("apps", "Deployment") => copy(object, old, "metadata.labels"),
        ("", "PersistentVolume") => phase_time(object, old, context),
        ("", "Namespace") => name_label(object),
        ("certificates.k8s.io", "CertificateSigningRequest") => {
            keep_decisions(object, old);
            condition_times(object, old, context);
        }
        (
            "admissionregistration.k8s.io" | "networking.k8s.io" | "storage.k8s.io" | "scheduling.k8s.io",
            "ValidatingAdmissionPolicy" | "ServiceCIDR" | "CSINode" | "VolumeAttachment",
        ) => reset_metadata(object, old),
        _ => {}
    }
}

/// `approval` of a certificate request writes conditions only.
pub(super) fn approve(object: &mut Value, old: &Value, context: &Context<'_>) {
    condition_times(object, old, context);
    let conditions = at(object, "status.conditions").clone();
    copy(object, old, "spec");
    copy(object, old, "status");
    set(object, "status.conditions", conditions);
}

fn namespace_finalizer(namespace: &mut Value) {
    let known = items(namespace, "spec.finalizers").iter().any(|one| one == "kubernetes");
    if !known {
        let mut finalizers = items(namespace, "spec.finalizers").to_vec();
        finalizers.push("kubernetes".into());
        set(namespace, "spec.finalizers", Value::Array(finalizers));
    }
    name_label(namespace);
}

fn name_label(namespace: &mut Value) {
    let name = text(namespace, "metadata.name").to_owned();
    labels(namespace).insert("kubernetes.io/metadata.name".to_owned(), name.into());
}

/// The old and the new way to name what a claim is filled from say the same.
fn data_sources(claim: &mut Value, old: &Value) {
    let used = !at(old, "spec.dataSource").is_null() || !at(old, "spec.dataSourceRef").is_null();
    if !used && !text(claim, "spec.dataSourceRef.namespace").is_empty() {
        // A source in another namespace is an alpha feature, which is off.
        remove(claim, "spec.dataSourceRef");
    }
    let source = at(claim, "spec.dataSource");
    let reference = at(claim, "spec.dataSourceRef");
    if !used && reference.is_null() && !source.is_null() {
        let known = matches!(
            (text(source, "kind"), text(source, "apiGroup")),
            ("PersistentVolumeClaim", "") | ("VolumeSnapshot", "snapshot.storage.k8s.io")
        );
        if !known {
            remove(claim, "spec.dataSource");
            return;
        }
    }
    let (source, reference) = (at(claim, "spec.dataSource").clone(), at(claim, "spec.dataSourceRef").clone());
    if reference.is_null() && !source.is_null() {
        set(claim, "spec.dataSourceRef", source);
    } else if source.is_null() && !reference.is_null() && text(&reference, "namespace").is_empty() {
        let mut source = reference;
        remove(&mut source, "namespace");
        set(claim, "spec.dataSource", source);
    }
}

fn secret_references(account: &mut Value) {
    for secret in items_mut(account, "secrets") {
        *secret = json!({"name": text(secret, "name")});
    }
}

/// A job without labels has those of its template.
pub(super) fn job_labels(job: &mut Value) {
    if is_empty(job, "metadata.labels") && !is_empty(job, "spec.template.metadata.labels") {
        let labels = at(job, "spec.template.metadata.labels").clone();
        set(job, "metadata.labels", labels);
    }
}

/// Pods belong to a job by its uid, unless the job says otherwise.
fn job_selector(job: &mut Value) {
    // The real server shares one map of labels between the two, so that what is added to one shows in the
    // other; a job whose template has no labels of its own gets them when it is read back.
    let shared = is_empty(job, "metadata.labels") && !is_empty(job, "spec.template.metadata.labels");
    if !truth(job, "spec.manualSelector") {
        select_by_uid(job);
    }
    if shared {
        job_labels(job);
    }
}

fn select_by_uid(job: &mut Value) {
    let (name, uid) = (text(job, "metadata.name").to_owned(), text(job, "metadata.uid").to_owned());
    let labels = object(job, "spec.template.metadata.labels");
    for (label, value) in [
        ("job-name", &name),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        ("batch.kubernetes.io/controller-uid", &uid),
    ] {
        labels.entry(label).or_insert_with(|| value.clone().into());
    }
    object(job, "spec.selector.matchLabels")
        .entry("batch.kubernetes.io/controller-uid")
        .or_insert_with(|| uid.into());
}

/// A daemon set counts its template's versions in an annotation that stands for an old field.
fn template_generation(set_: &mut Value, old: &Value) {
    const ANNOTATION: &str = "deprecated.daemonset.template.generation";
    let stored = at(old, "metadata.annotations").get(ANNOTATION).and_then(Value::as_str);
    let number = match stored.map(str::parse::<i64>) {
        None => at(set_, "metadata.annotations")
            .get(ANNOTATION)
            .and_then(Value::as_str)
            .and_then(|text| text.parse().ok())
            .filter(|number| *number >= 1 && old.is_null())
            .unwrap_or(1),
        Some(number) => {
            let changed = !semantically_equal(at(set_, "spec.template"), at(old, "spec.template"));
            number.unwrap_or(0) + i64::from(changed)
        }
    };
    object(set_, "metadata.annotations").insert(ANNOTATION.to_owned(), number.to_string().into());
}

fn stored_versions(crd: &mut Value) {
    let stored = items(crd, "spec.versions").iter().find(|version| truth(version, "storage"));
    let Some(name) = stored.map(|version| text(version, "name").to_owned()) else { return };
    let mut versions = items(crd, "status.storedVersions").to_vec();
    if !versions.iter().any(|version| version == &*name) {
        versions.push(name.into());
        set(crd, "status.storedVersions", Value::Array(versions));
    }
}

/// Sets the requester of a certificate to the sender of the request.
fn requester(request: &mut Value, user: &Value) {
    for field in ["username", "uid", "groups", "extra"] {
        match user.get(field).filter(|value| !value.is_null()) {
            Some(value) => set(request, &format!("spec.{field}"), value.clone()),
            None => {
                remove(request, &format!("spec.{field}"));
            }
        }
    }
}

/// A write to the status does not change an approval or denial. One that adds or removes any is refused later.
fn keep_decisions(request: &mut Value, old: &Value) {
    for kind in ["Approved", "Denied"] {
        let is_of_kind = |condition: &&Value| text(condition, "type") == kind;
        let before: Vec<Value> = items(old, "status.conditions").iter().filter(is_of_kind).cloned().collect();
        let conditions = items_mut(request, "status.conditions");
        let mut now: Vec<&mut Value> =
            conditions.iter_mut().filter(|condition| text(condition, "type") == kind).collect();
        if now.len() == before.len() {
            for (condition, before) in now.iter_mut().zip(before) {
                **condition = before;
            }
        }
    }
}

fn condition_times(request: &mut Value, old: &Value, context: &Context<'_>) {
    let now = rfc3339_seconds(context.now);
    let earlier: Vec<Value> = items(old, "status.conditions").to_vec();
    for condition in items_mut(request, "status.conditions") {
        if is_empty(condition, "lastUpdateTime") {
            set(condition, "lastUpdateTime", now.clone().into());
        }
        if is_empty(condition, "lastTransitionTime") {
            let same = earlier.iter().find(|one| {
                text(one, "type") == text(condition, "type")
                    && text(one, "status") == text(condition, "status")
                    && !is_empty(one, "lastTransitionTime")
            });
            let time = same.map_or_else(|| now.clone().into(), |one| at(one, "lastTransitionTime").clone());
            set(condition, "lastTransitionTime", time);
        }
    }
}

/// A volume remembers when its phase changed.
fn phase_time(volume: &mut Value, old: &Value, context: &Context<'_>) {
    let path = "status.lastPhaseTransitionTime";
    let same_phase = text(volume, "status.phase") == text(old, "status.phase");
    let given = at(volume, path).clone();
    if same_phase && given.is_null() {
        copy(volume, old, path);
    } else if !same_phase && (given.is_null() || &given == at(old, path)) {
        set(volume, path, rfc3339_seconds(context.now).into());
    }
}

fn needs_cluster_ip(service: &Value) -> bool {
    text(service, "spec.type") != "ExternalName"
}

fn needs_node_port(service: &Value) -> bool {
    matches!(text(service, "spec.type"), "NodePort" | "LoadBalancer")
}

fn needs_health_port(service: &Value) -> bool {
    text(service, "spec.type") == "LoadBalancer" && text(service, "spec.externalTrafficPolicy") == "Local"
}

fn reached_from_outside(service: &Value) -> bool {
    needs_node_port(service)
        || (text(service, "spec.type") == "ClusterIP" && !items(service, "spec.externalIPs").is_empty())
}

/// Removes the fields that a service's new type does not use, unless the client changed them too.
fn drop_type_dependent(service: &mut Value, old: &Value) {
    let same = |service: &Value, path: &str| semantically_equal(at(service, path), at(old, path));
    if needs_cluster_ip(old) && !needs_cluster_ip(service) {
        if same(service, "spec.clusterIP") && same(service, "spec.clusterIPs") {
            remove(service, "spec.clusterIP");
            remove(service, "spec.clusterIPs");
        }
        for path in ["spec.ipFamilies", "spec.ipFamilyPolicy"] {
            if same(service, path) {
                remove(service, path);
            }
        }
    }
    if needs_node_port(old) && !needs_node_port(service) {
        let ports = |service: &Value| -> Vec<i64> {
            items(service, "spec.ports")
                .iter()
                .filter_map(|port| int(port, "nodePort"))
                .filter(|p| *p != 0)
                .collect()
        };
        let before = ports(old);
        if ports(service).iter().all(|port| before.contains(port)) {
            for port in items_mut(service, "spec.ports") {
                port.as_object_mut().map(|port: &mut Map<String, Value>| port.remove("nodePort"));
            }
        }
    }
    let drop_if_same = [
        (needs_health_port(old) && !needs_health_port(service), "spec.healthCheckNodePort"),
        (is_balanced(old) && !is_balanced(service), "spec.allocateLoadBalancerNodePorts"),
        (is_balanced(old) && !is_balanced(service), "spec.loadBalancerClass"),
        (reached_from_outside(old) && !reached_from_outside(service), "spec.externalTrafficPolicy"),
    ];
    for (applies, path) in drop_if_same {
        if applies && same(service, path) {
            remove(service, path);
        }
    }
    if !is_balanced(service) {
        set(service, "status.loadBalancer", json!({}));
    }
}

fn is_balanced(service: &Value) -> bool {
    text(service, "spec.type") == "LoadBalancer"
}
