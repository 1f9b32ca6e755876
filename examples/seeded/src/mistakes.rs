//! The bugs that need more than a condition.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::PostParams;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use setpoint::client::Patch;
use setpoint::{Action, Error};

use crate::bug::Bug;
use crate::pass::Pass;
use crate::status::write;
use crate::types::StoreStatus;

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
    if !pass.has(Bug::DeleteThenCreate) {
        return Ok(false);
    }
    match pass.client().get::<StatefulSet>(pass.key("")).await? {
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
        Some(Bug::LabelSteps) => return label_steps(pass).await,
        Some(Bug::CounterThenNote) => return count(pass, &before).await,
        _ => return Ok(None),
    }
    Ok(Some(Action::done()))
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
