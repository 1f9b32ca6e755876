//! The children of a store.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Secret, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use serde_json::json;
use setpoint::Error;

use crate::bug::Bug;
use crate::deletion::claims;
use crate::mistakes;
use crate::pass::Pass;

/// Makes all children as the store asks for them.
///
/// # Errors
/// When the server refuses a write.
pub async fn ensure(pass: &Pass<'_>) -> Result<(), Error> {
    mistakes::before_children(pass).await?;
    secrets(pass).await?;
    config(pass).await?;
    service(pass).await?;
    stateful_set(pass).await?;
    budget(pass).await?;
    if !pass.has(Bug::EventDifference) || mistakes::replicas_changed(pass) {
        make_claims(pass).await?;
    }
    monitor(pass).await
}

async fn secrets(pass: &Pass<'_>) -> Result<(), Error> {
    let first_missing = pass.client().get::<Secret>(pass.key("-internal")).await?.is_none();
    for suffix in ["-internal", "-users"] {
        let missing = match pass.has(Bug::FirstSecretGuardsBoth) {
            true => first_missing,
            false => pass.client().get::<Secret>(pass.key(suffix)).await?.is_none(),
        };
        if missing {
            let secret = json!({"metadata": pass.owned(suffix)?, "stringData": {"user": pass.name("")}});
            pass.client().apply_partial::<Secret>(&secret).await?;
        }
    }
    mistakes::roll_over(pass).await
}

async fn config(pass: &Pass<'_>) -> Result<(), Error> {
    let settings = match (&pass.store.spec.config, pass.has(Bug::Unwrap)) {
        (Some(config), _) => config.clone(),
        (None, false) => "default".to_owned(),
        (None, true) => panic!("called `Option::unwrap()` on a `None` value"),
    };
    let config = json!({
        "metadata": pass.owned("-config")?,
        "data": {"settings": settings, "size": passed_on(pass)},
    });
    if mistakes::skips_config(pass, &config).await? {
        return Ok(());
    }
    pass.client().apply_partial::<ConfigMap>(&config).await?;
    Ok(())
}

/// Returns the size as the children get it.
fn passed_on<'a>(pass: &'a Pass<'_>) -> &'a str {
    if pass.has(Bug::NotPassedOn) { "10Gi" } else { &pass.store.spec.size }
}

async fn service(pass: &Pass<'_>) -> Result<(), Error> {
    if mistakes::skips_service(pass).await? {
        return Ok(());
    }
    let mut metadata = pass.owned("")?;
    let mut labels = pass.store.spec.labels.clone();
    if pass.has(Bug::LabelsOnlyAdded) {
        let before = pass.client().get::<Service>(pass.key("")).await?;
        for (name, value) in before.iter().flat_map(|service| service.labels()) {
            labels.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
    metadata["labels"] = json!(labels);
    if pass.has(Bug::NoOwner) {
        metadata["ownerReferences"] = json!([]);
    }
    let spec = json!({"selector": {"store": pass.name("")}, "ports": [{"port": 80}]});
    pass.client().apply_partial::<Service>(&json!({"metadata": metadata, "spec": spec})).await?;
    Ok(())
}

/// Applies the StatefulSet.
async fn stateful_set(pass: &Pass<'_>) -> Result<(), Error> {
    if mistakes::skips_stateful_set(pass).await? {
        return Ok(());
    }
    let mut metadata = pass.owned("")?;
    let spec = &pass.store.spec;
    metadata["annotations"] = json!({"size": passed_on(pass)});
    if !pass.has(Bug::ConfigBeforeMark) {
        metadata["annotations"]["config"] = json!(spec.config.clone().unwrap_or_default());
    }
    let labels = json!({"store": pass.name("")});
    let container = json!({"name": "main", "image": "store"});
    // Pods of a broken config find no node.
    let broken = spec.config.as_deref() == Some("broken");
    let selector = if broken { json!({"store": "nowhere"}) } else { json!({}) };
    let pod = json!({"labels": labels, "annotations": mistakes::pod_annotations(pass)});
    let object = json!({
        "metadata": metadata,
        "spec": {
            "serviceName": pass.name(""),
            "replicas": spec.replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": pod, "spec": {
                "containers": [container], "nodeSelector": selector,
            }},
        },
    });
    pass.client().apply_partial::<StatefulSet>(&object).await?;
    Ok(())
}

/// Applies the disruption budget.
async fn budget(pass: &Pass<'_>) -> Result<(), Error> {
    mistakes::before_budget(pass).await?;
    let budget = json!({
        "metadata": pass.owned("")?,
        "spec": {
            "minAvailable": pass.store.spec.replicas,
            "selector": {"matchLabels": {"store": pass.name("")}},
        },
    });
    pass.client().apply_partial::<PodDisruptionBudget>(&budget).await?;
    Ok(())
}

/// Makes missing claims, and deletes those of replicas that are not wanted.
async fn make_claims(pass: &Pass<'_>) -> Result<(), Error> {
    let wanted = usize::try_from(pass.store.spec.replicas).unwrap_or(0);
    let names: Vec<String> = (0..wanted).map(|ordinal| pass.name(&format!("-{ordinal}"))).collect();
    for name in &names {
        let claim = json!({
            "metadata": {
                "name": name, "namespace": pass.namespace(), "labels": {"store": pass.name("")},
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "",
                "resources": {"requests": {"storage": "1Gi"}},
            },
        });
        pass.client().apply_partial::<PersistentVolumeClaim>(&claim).await?;
        mistakes::companion(pass, name).await?;
    }
    if pass.has(Bug::OrphansByStatus) {
        return mistakes::delete_orphans(pass).await;
    }
    for claim in claims(pass).await? {
        let ends = claim.metadata.deletion_timestamp.is_some();
        let unwanted = !ends && !names.contains(&claim.name_any());
        if unwanted && mistakes::may_go(pass, &claim.name_any()).await? && pass.is_current().await? {
            pass.client().delete_object(&*claim).await?;
        }
    }
    Ok(())
}

async fn monitor(pass: &Pass<'_>) -> Result<(), Error> {
    if mistakes::skips_monitor(pass).await? {
        return Ok(());
    }
    if pass.store.spec.monitor {
        let monitor = json!({"metadata": pass.owned("-monitor")?, "data": {"target": pass.name("")}});
        pass.client().apply_partial::<ConfigMap>(&monitor).await?;
    } else if !pass.has(Bug::MonitorStays)
        && let Some(monitor) = pass.client().get::<ConfigMap>(pass.key("-monitor")).await?
        && pass.is_current().await?
    {
        pass.client().delete_object(&*monitor).await?;
    }
    Ok(())
}
