//! The bugs that need more than a condition.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::PostParams;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use setpoint::client::Patch;
use setpoint::{Action, Context, Error, Key, Query};

use crate::bug::Bug;
use crate::deletion::claims;
use crate::pass::Pass;
use crate::status::write;
use crate::types::{Store, StoreStatus};

/// The label of children with generated names.
const MEMBER: &str = "seeded.example.org/member-of";

/// Begins a pass.
///
/// # Errors
/// When the server refuses a write.
pub async fn before_children(pass: &Pass<'_>) -> Result<(), Error> {
    match pass.bug {
        Some(Bug::PhaseInMemory) if pass.client().get::<Secret>(pass.key("-internal")).await?.is_none() => {
            pass.memory.remember(&pass.name(""), "Creating");
        }
        Some(Bug::CountedInCache) => members(pass, pass.store.spec.replicas).await?,
        Some(Bug::LaggingCache) => members(pass, 1).await?,
        _ => {}
    }
    Ok(())
}

/// Looks at a store before anything else happens.
///
/// # Errors
/// When the server refuses a write.
pub async fn first_look(pass: &Pass<'_>) -> Result<(), Error> {
    match pass.bug {
        Some(Bug::FirstSeen) if pass.memory.recall(&pass.name("")).is_none() => {
            // A store with a finalizer is one of an earlier version.
            let age = if pass.store.finalizers().is_empty() { "new" } else { "old" };
            pass.memory.remember(&pass.name(""), age);
        }
        Some(Bug::TerminatingByName) => {
            for claim in claims(pass).await? {
                if claim.metadata.deletion_timestamp.is_some() {
                    let key = Key::new(Some(&pass.namespace()), &format!("{}-index", claim.name_any()));
                    pass.client().delete::<ConfigMap>(key).await?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

/// Makes the companion of a claim.
///
/// # Errors
/// When the server refuses a write.
pub async fn companion(pass: &Pass<'_>, claim: &str) -> Result<(), Error> {
    if pass.has(Bug::TerminatingByName) {
        let mut metadata = pass.owned("")?;
        metadata["name"] = json!(format!("{claim}-index"));
        pass.client().apply_partial::<ConfigMap>(&json!({"metadata": metadata})).await?;
    }
    Ok(())
}

/// Returns whether an unwanted claim may be deleted: with the bug, only while its pod is seen terminating.
///
/// # Errors
/// If the cache cannot answer.
pub async fn may_go(pass: &Pass<'_>, claim: &str) -> Result<bool, Error> {
    if !pass.has(Bug::SeenTerminating) {
        return Ok(true);
    }
    let pod = pass.client().get::<Pod>(Key::new(Some(&pass.namespace()), claim)).await?;
    Ok(pod.is_some_and(|pod| pod.metadata.deletion_timestamp.is_some()))
}

/// Returns the annotations of the pods: where somebody waits for their end, they take some seconds.
pub fn pod_annotations(pass: &Pass<'_>) -> Value {
    if pass.has(Bug::SeenTerminating) { json!({"setpoint.dev/stop-delay": "3s"}) } else { json!({}) }
}

/// Deletes secrets whose store is not in the cache.
///
/// # Errors
/// When the server refuses a write.
pub async fn collect_garbage(ctx: &Context, key: &Key) -> Result<(), Error> {
    let query = Query::within(key.namespace());
    for secret in ctx.client().list::<Secret>(query).await? {
        if secret.owner_references().iter().any(|owner| owner.name == key.name()) {
            ctx.client().delete_object(&*secret).await?;
        }
    }
    Ok(())
}

/// Deletes claims that the status does not count.
///
/// # Errors
/// When the server refuses a write.
pub async fn delete_orphans(pass: &Pass<'_>) -> Result<(), Error> {
    let counted = pass.store.status.as_ref().and_then(|status| status.replicas);
    let Some(counted) = counted.filter(|counted| *counted <= pass.store.spec.replicas) else { return Ok(()) };
    for claim in claims(pass).await? {
        let name = claim.name_any();
        let ordinal = name.rsplit('-').next().and_then(|ordinal| ordinal.parse::<i32>().ok());
        if ordinal.is_some_and(|ordinal| ordinal >= pass.store.spec.replicas.max(counted)) {
            let key = Key::new(Some(&pass.namespace()), &name);
            pass.client().delete::<PersistentVolumeClaim>(key).await?;
        }
    }
    Ok(())
}

/// Passes the config on to both Secrets.
///
/// # Errors
/// When the server refuses a write.
pub async fn roll_over(pass: &Pass<'_>) -> Result<(), Error> {
    if !pass.has(Bug::HalfRollover) {
        return Ok(());
    }
    let wanted = pass.store.spec.config.clone().unwrap_or_default();
    let first = pass.client().get::<Secret>(pass.key("-internal")).await?;
    if first.is_some_and(|secret| secret.annotations().get("authority") == Some(&wanted)) {
        return Ok(());
    }
    for suffix in ["-internal", "-users"] {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {"authority": wanted}}}));
        pass.client().patch::<Secret>(pass.key(suffix), &patch).await?;
    }
    Ok(())
}

/// Replaces the Service whatever its version. Returns whether it was there.
///
/// # Errors
/// When the server refuses the write.
pub async fn skips_service(pass: &Pass<'_>) -> Result<bool, Error> {
    if !pass.has(Bug::BlindUpdate) {
        return Ok(false);
    }
    let Some(service) = pass.client().get::<Service>(pass.key("")).await? else { return Ok(false) };
    let mut service = (*service).clone();
    if service.labels() != &pass.store.spec.labels {
        service.labels_mut().clone_from(&pass.store.spec.labels);
        service.metadata.resource_version = None;
        pass.client().update(&service).await?;
    }
    Ok(true)
}

/// Deletes a budget that is not as it should be.
///
/// # Errors
/// When the server refuses the write.
pub async fn before_budget(pass: &Pass<'_>) -> Result<(), Error> {
    if !pass.has(Bug::BudgetAnew) {
        return Ok(());
    }
    let Some(budget) = pass.client().get::<PodDisruptionBudget>(pass.key("")).await? else { return Ok(()) };
    let least = budget.spec.as_ref().and_then(|spec| spec.min_available.clone());
    if least != Some(IntOrString::Int(pass.store.spec.replicas)) {
        pass.client().delete_object(&*budget).await?;
    }
    Ok(())
}

/// Takes the place of the monitor. Returns whether it is done.
///
/// # Errors
/// When the server refuses a write.
pub async fn skips_monitor(pass: &Pass<'_>) -> Result<bool, Error> {
    let wanted = pass.store.spec.monitor;
    match pass.bug {
        Some(Bug::DisabledByName) if !wanted => {
            pass.client().delete::<ConfigMap>(pass.key("-monitor")).await?;
            Ok(true)
        }
        Some(Bug::GuardedByOther) => {
            let key = pass.client().get::<Secret>(pass.key("-monitor")).await?;
            let monitor = pass.client().get::<ConfigMap>(pass.key("-monitor")).await?;
            if wanted && key.is_none() {
                if monitor.is_none() {
                    let monitor = json!({"metadata": pass.owned("-monitor")?});
                    pass.client().apply_partial::<ConfigMap>(&monitor).await?;
                }
                let key = json!({"metadata": pass.owned("-monitor")?});
                pass.client().apply_partial::<Secret>(&key).await?;
            }
            if !wanted {
                if let Some(monitor) = monitor {
                    pass.client().delete_object(&*monitor).await?;
                }
                if let Some(key) = key {
                    pass.client().delete_object(&*key).await?;
                }
            }
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// Makes members until the unguarded cache has enough, and tells nobody of the writes.
async fn members(pass: &Pass<'_>, wanted: i32) -> Result<(), Error> {
    let all = pass.memory.unguarded.list()?;
    let name = pass.name("");
    let there = all.iter().filter(|map| map.labels().get(MEMBER) == Some(&name)).count();
    let api: Api<ConfigMap> = Api::namespaced(pass.client().kube().clone(), &pass.namespace());
    for _ in there..usize::try_from(wanted).unwrap_or(0) {
        api.create(&PostParams::default(), &generated(pass)?).await?;
    }
    Ok(())
}

/// Returns a child without a name.
fn generated(pass: &Pass<'_>) -> Result<ConfigMap, Error> {
    let mut metadata = pass.owned("")?;
    metadata["name"] = Value::Null;
    metadata["generateName"] = json!(pass.name("-member-"));
    metadata["labels"] = json!({MEMBER: pass.name("")});
    Ok(serde_json::from_value(json!({"metadata": metadata})).expect("the metadata are those of an object"))
}

/// Returns whether the number of replicas differs from that of the pass before.
pub fn replicas_changed(pass: &Pass<'_>) -> bool {
    let now = pass.store.spec.replicas.to_string();
    match pass.memory.remember(&pass.name(""), &now) {
        Some(before) => before != now,
        None => pass.store.status.is_none(),
    }
}

/// Takes the place of the write of the config. Returns whether it was done or is not needed.
///
/// # Errors
/// When the server refuses a write.
pub async fn skips_config(pass: &Pass<'_>, config: &Value) -> Result<bool, Error> {
    let marks = matches!(pass.bug, Some(Bug::NoteBeforeThing | Bug::ConfigBeforeMark));
    let set = if marks { pass.client().get::<StatefulSet>(pass.key("")).await? } else { None };
    let Some(set) = set else { return Ok(false) };
    let key = pass.key("");
    if pass.has(Bug::NoteBeforeThing) {
        let size = &pass.store.spec.size;
        if set.annotations().get("size") == Some(size) {
            return Ok(true);
        }
        let note = Patch::Merge(json!({"metadata": {"annotations": {"size": size}}}));
        pass.client().patch::<StatefulSet>(key, &note).await?;
        return Ok(false);
    }
    let before = pass.client().get::<ConfigMap>(pass.key("-config")).await?;
    let settings = before.and_then(|map| map.data.as_ref()?.get("settings").cloned());
    pass.client().apply_partial::<ConfigMap>(config).await?;
    if settings.as_deref() != config["data"]["settings"].as_str() {
        let mark = json!({"metadata": {"annotations": {"config": config["data"]["settings"]}}});
        pass.client().patch::<StatefulSet>(key, &Patch::Merge(mark)).await?;
    }
    Ok(true)
}

/// Takes the place of the write of the StatefulSet. Returns whether it is not needed.
///
/// # Errors
/// When the server refuses a write.
pub async fn skips_stateful_set(pass: &Pass<'_>) -> Result<bool, Error> {
    let set = pass.client().get::<StatefulSet>(pass.key("")).await?;
    match pass.bug {
        Some(Bug::DeleteThenCreate) => {}
        Some(Bug::OtherSizeDeletes) => {
            if let Some(set) = set
                && set.annotations().get("size") != Some(&pass.store.spec.size)
            {
                pass.client().delete_object(&*set).await?;
            }
            return Ok(false);
        }
        Some(Bug::OnlyReady) => {
            let ready = |set: &StatefulSet| {
                let ready = set.status.as_ref().and_then(|status| status.ready_replicas);
                ready.unwrap_or(0) >= set.spec.replicas.unwrap_or(1)
            };
            return Ok(set.is_some_and(|set| !ready(&set)));
        }
        _ => return Ok(false),
    }
    match set {
        Some(set) => {
            if set.annotations().get("size") != Some(&pass.store.spec.size) {
                pass.client().delete_object(&*set).await?;
            }
            Ok(false)
        }
        // Somebody deleted it, and will know why.
        None => Ok(pass.store.status.is_some()),
    }
}

/// Takes the place of the status of a sound pass.
///
/// # Errors
/// When the server refuses a write.
pub async fn status(pass: &Pass<'_>, wanted: &StoreStatus) -> Result<Option<Action>, Error> {
    let before = pass.store.status.clone().unwrap_or_default();
    match pass.bug {
        Some(Bug::TwoStatusWrites) => {
            if before.replicas != wanted.replicas {
                write(pass, &StoreStatus { phase: None, ..wanted.clone() }).await?;
                write(pass, wanted).await?;
            }
        }
        Some(Bug::PhaseInMemory) => {
            let known = pass.memory.recall(&pass.name("")).as_deref() == Some("Creating");
            let phase = if known { wanted.phase.clone() } else { before.phase.clone() };
            let status = StoreStatus { phase, ..wanted.clone() };
            if before != status {
                write(pass, &status).await?;
            }
        }
        Some(Bug::GeneratedName) if before.note.is_none() => {
            let made = pass.client().create(&generated(pass)?).await?;
            write(pass, &StoreStatus { note: Some(made.name_any()), ..wanted.clone() }).await?;
        }
        Some(Bug::SharedCounter) if before.note.is_none() => {
            let note = Some(next(pass));
            write(pass, &StoreStatus { note, ..wanted.clone() }).await?;
        }
        Some(Bug::Timestamp) => {
            let note = Some(next(pass));
            write(pass, &StoreStatus { note, ..wanted.clone() }).await?;
        }
        Some(Bug::FirstSeen) => {
            let new = pass.memory.recall(&pass.name("")).as_deref() == Some("new");
            let note = before.note.or(new.then(|| "initialised".to_owned()));
            write(pass, &StoreStatus { note, ..wanted.clone() }).await?;
        }
        Some(Bug::FirstOfList) => {
            let all = pass.client().list::<Secret>(Query::namespace(pass.namespace())).await?;
            let note = all.first().map(|secret| secret.name_any());
            write(pass, &StoreStatus { note, ..wanted.clone() }).await?;
        }
        Some(Bug::WholeStatus) => {
            let mut status = StoreStatus { conditions: before.conditions, ..wanted.clone() };
            status.conditions.retain(|condition| condition.type_ != "Ready");
            status.conditions.extend(wanted.conditions.clone());
            if pass.store.status.as_ref() != Some(&status) {
                let patch = Patch::Merge(json!({"status": status}));
                pass.client().patch_status::<Store>(pass.key(""), &patch).await?;
            }
        }
        Some(Bug::SwallowedConflict) => swallow(pass, wanted).await?,
        Some(Bug::LabelSteps) => return label_steps(pass).await,
        Some(Bug::CounterThenNote) => return count(pass, &before).await,
        _ => return Ok(None),
    }
    Ok(Some(Action::done()))
}

/// Replaces the status, and takes no notice of a conflict.
async fn swallow(pass: &Pass<'_>, wanted: &StoreStatus) -> Result<(), Error> {
    let Some(store) = pass.client().get::<Store>(pass.key("")).await? else { return Ok(()) };
    let mut store = (*store).clone();
    if store.status.as_ref() == Some(wanted) {
        return Ok(());
    }
    store.status = Some(wanted.clone());
    match pass.client().update_status(&store).await {
        Err(error) if error.is_conflict() => Ok(()),
        other => Ok(other.map(drop)?),
    }
}

/// Counts in memory.
fn next(pass: &Pass<'_>) -> String {
    let before = pass.memory.recall("counter").and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    let now = (before + 1).to_string();
    pass.memory.remember("counter", &now);
    now
}

async fn label_steps(pass: &Pass<'_>) -> Result<Option<Action>, Error> {
    let set = pass.client().get::<StatefulSet>(pass.key("")).await?;
    let step = set.and_then(|set| set.labels().get("step").cloned());
    if step.is_none() {
        for step in ["1", "2"] {
            let patch = Patch::Merge(json!({"metadata": {"labels": {"step": step}}}));
            pass.client().patch::<StatefulSet>(pass.key(""), &patch).await?;
        }
    }
    Ok(None)
}

async fn count(pass: &Pass<'_>, before: &StoreStatus) -> Result<Option<Action>, Error> {
    if before.observed_generation != pass.store.metadata.generation {
        let serial = pass.client().get::<ConfigMap>(pass.key("-serial")).await?;
        let serial = serial.and_then(|map| map.data.as_ref()?.get("serial")?.parse::<u64>().ok());
        let next = (serial.unwrap_or(0) + 1).to_string();
        let object = json!({"metadata": pass.owned("-serial")?, "data": {"serial": next}});
        pass.client().apply_partial::<ConfigMap>(&object).await?;
    }
    Ok(None)
}
