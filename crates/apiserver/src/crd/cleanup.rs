//! The end of a definition: its instances first, then itself.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use setpoint_store::{Event, KeyRange, Snapshot, Txn};

use crate::error::{ApiError, Result};
use crate::key;
use crate::object;
use crate::registry::definition::{GROUP, PLURAL, is_true, set_condition};
use crate::registry::{self, meta};
use crate::server::Server;

const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// A definition that is deleted first waits for its instances.
pub(crate) fn begin_deletion(new: &mut Value, now: Timestamp) {
    if is_true(new, "Terminating") {
        return;
    }
    let metadata = object::metadata_mut(new);
    metadata.remove("deletionGracePeriodSeconds");
    if let Some(generation) = metadata.get("generation").and_then(Value::as_i64) {
        metadata.insert("generation".into(), json!(generation - 1));
    }
    let finalizers = metadata.entry("finalizers").or_insert_with(|| json!([]));
    if let Some(finalizers) = finalizers.as_array_mut()
        && !finalizers.iter().any(|own| own == FINALIZER)
    {
        finalizers.push(json!(FINALIZER));
    }
    let text = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    set_condition(new, now, "Terminating", true, "InstanceDeletionPending", text);
}

/// Goes on with the ends of definitions that a transaction has begun or come nearer to.
pub(crate) async fn cleanup_after(server: &Server, events: &[Arc<Event>]) {
    let prefix = key::resource(GROUP, PLURAL);
    for event in events {
        let definition = match &event.new {
            Some(entry) if event.key.starts_with(&prefix) => {
                meta(entry).deletion_timestamp.is_some().then(|| entry.key.to_vec())
            }
            None if !event.key.starts_with(&prefix) => definition_of(server, &event.key),
            _ => None,
        };
        if let Some(definition) = definition
            && let Err(error) = finish(server, definition).await
        {
            tracing::warn!(%error, "could not delete the instances of a definition; retrying");
        }
    }
}

/// The terminating definition whose instance had that key.
fn definition_of(server: &Server, key: &[u8]) -> Option<Vec<u8>> {
    let (group, plural) = key::custom_of(key)?;
    let definition = key::object(GROUP, PLURAL, "", &format!("{plural}.{group}"));
    let entry = server.store().snapshot().get(&definition)?;
    meta(&entry).deletion_timestamp.is_some().then_some(definition)
}

/// Deletes the instances that can go, and the definition after the last one.
async fn finish(server: &Server, definition: Vec<u8>) -> Result<()> {
    let now = server.options().clock.now();
    let decide = |snapshot: &Snapshot, txn: &mut Txn| -> Result<()> {
        let Some(entry) = snapshot.get(&definition) else { return Ok(()) };
        let mut value = registry::value(&entry);
        if !object::finalizers(&value).contains(&FINALIZER) {
            return Ok(());
        }
        let group = value["spec"]["group"].as_str().unwrap_or("").to_owned();
        let plural = value["spec"]["names"]["plural"].as_str().unwrap_or("").to_owned();
        let instances = KeyRange::prefix(key::custom(&group, &plural));
        let mut waiting = 0;
        for instance in snapshot.range(&instances, None) {
            let mut object = registry::value(instance);
            if object::finalizers(&object).is_empty() {
                txn.delete(instance.key.clone());
                continue;
            }
            waiting += 1;
            if !object::is_terminating(&object) {
                object::begin_deletion(&mut object, 0, now);
                let encoded = object::Encoded::new(&object);
                txn.put_with(instance.key.clone(), move |revision| encoded.at(revision));
            }
        }
        if waiting == 0 {
            remove_finalizer(&mut value);
        } else {
            let text = "CustomResource deletion is in progress";
            set_condition(&mut value, now, "Terminating", true, "InstanceDeletionInProgress", text);
        }
        if object::finalizers(&value).is_empty() {
            txn.delete(definition.clone());
        } else if value != registry::value(&entry) {
            let encoded = object::Encoded::new(&value);
            txn.put_with(definition.clone(), move |revision| encoded.at(revision));
        }
        Ok(())
    };
    let committed = server.store().transact(decide).await.map_err(ApiError::from)?;
    if committed.events.iter().any(|event| event.key == definition && event.new.is_none()) {
        super::names::accept_waiting_names(server).await;
    }
    if !committed.events.is_empty() {
        server.definitions_changed();
    }
    Ok(())
}

fn remove_finalizer(definition: &mut Value) {
    let metadata = object::metadata_mut(definition);
    let Some(finalizers) = metadata.get_mut("finalizers").and_then(Value::as_array_mut) else { return };
    finalizers.retain(|own| own != FINALIZER);
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    }
}
