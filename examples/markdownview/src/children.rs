//! The three children of a MarkdownView, as they should be.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::ResourceExt;
use serde_json::{Value, json};
use setpoint::client::{controller_reference, set_controller_reference};
use setpoint::{Context, Error, Key};

use crate::NAME;
use crate::types::MarkdownView;

/// The name of the ConfigMap.
pub fn config_map_name(view: &MarkdownView) -> String {
    format!("markdowns-{}", view.name_any())
}

/// The name of the Deployment and of the Service.
pub fn viewer_name(view: &MarkdownView) -> String {
    format!("viewer-{}", view.name_any())
}

/// Brings all three to what the view asks for.
pub async fn reconcile(ctx: &Context, key: &Key, view: &MarkdownView) -> Result<(), Error> {
    let mut named = ConfigMap::default();
    named.metadata.name = Some(config_map_name(view));
    named.metadata.namespace = view.namespace();
    let files = |config: &mut ConfigMap| {
        // The whole map, not key by key: a file that left the view leaves the ConfigMap.
        config.data = Some(view.spec.markdowns.clone());
        Ok(set_controller_reference(view, config)?)
    };
    let operation = ctx.client().create_or_update(named, files).await?.1;
    tracing::info!(object = %key, ?operation, "reconciled the config map");
    ctx.client().apply_partial::<Deployment>(&deployment(view)?).await?;
    tracing::info!(object = %key, "reconciled the deployment");
    ctx.client().apply_partial::<Service>(&service(view)?).await?;
    tracing::info!(object = %key, "reconciled the service");
    Ok(())
}

fn labels(view: &MarkdownView) -> Value {
    json!({
        "app.kubernetes.io/name": "mdbook", "app.kubernetes.io/instance": view.name_any(),
        "app.kubernetes.io/created-by": NAME,
    })
}

fn metadata(view: &MarkdownView) -> Result<Value, Error> {
    Ok(json!({
        "name": viewer_name(view), "namespace": view.namespace(), "labels": labels(view),
        "ownerReferences": [controller_reference(view)?],
    }))
}

fn deployment(view: &MarkdownView) -> Result<Value, Error> {
    let probe = json!({"httpGet": {"path": "/", "port": "http", "scheme": "HTTP"}});
    Ok(json!({
        "metadata": metadata(view)?,
        "spec": {
            "replicas": view.spec.replicas,
            "selector": {"matchLabels": labels(view)},
            "template": {"metadata": {"labels": labels(view)}, "spec": {
                "containers": [{
                    "name": "mdbook", "image": view.spec.viewer_image, "imagePullPolicy": "IfNotPresent",
                    "command": ["mdbook"],
                    "args": ["serve", "--hostname", "0.0.0.0"],
                    "volumeMounts": [{"name": "markdowns", "mountPath": "/book/src"}],
                    "ports": [{"name": "http", "protocol": "TCP", "containerPort": 3000}],
                    "livenessProbe": probe,
                    "readinessProbe": probe,
                }],
                "volumes": [{"name": "markdowns", "configMap": {"name": config_map_name(view)}}],
            }},
        },
    }))
}

fn service(view: &MarkdownView) -> Result<Value, Error> {
    Ok(json!({
        "metadata": metadata(view)?,
        "spec": {
            "selector": labels(view), "type": "ClusterIP",
            "ports": [{"protocol": "TCP", "port": 80, "targetPort": 3000}],
        },
    }))
}
