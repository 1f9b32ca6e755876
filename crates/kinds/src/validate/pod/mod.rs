//! Pods and pod templates.

mod status;
mod update;
mod spec;
mod container;
mod volume;
mod env;
mod affinity;
mod probe;
mod restart;
mod host;
mod resources;
mod claims;
mod security;
mod windows;

use serde_json::Value;

use super::check::Causes;
use super::meta;
use crate::access::{at, int, items, text};
use setpoint_api::cause::Path;

pub(super) use affinity::node_selector;
pub(super) use resources::{
    container_resource, integer_resource, may_overcommit, quota_resource, requirements, resource_name,
};
pub(super) use security::{effect, tolerations};
pub(super) use spec::spec;
pub(super) use status::update_status;
pub(super) use update::{ephemeral_containers, resize, update};
pub(super) use volume::{access_modes, claim_spec, host_path};

/// A new pod, but for its metadata.
pub(super) fn create(causes: &mut Causes, pod: &Value) {
    whole(causes, pod);
    let path = Path::new("spec");
    if !items(pod, "spec.ephemeralContainers").is_empty() {
        causes.forbidden(&path.child("ephemeralContainers"), "cannot be set on create");
    }
    if !text(pod, "spec.nodeName").is_empty() && !items(pod, "spec.schedulingGates").is_empty() {
        let detail = "cannot be set until all schedulingGates have been cleared";
        causes.forbidden(&path.child("nodeName"), detail);
    }
}

/// Checks the rules that hold for pods and not for templates.
fn whole(causes: &mut Causes, pod: &Value) {
    let path = Path::new("spec");
    let pod_spec = at(pod, "spec");
    spec(causes, pod_spec, text(pod, "metadata.name"), &path);
    security::annotations(causes, at(pod, "metadata.annotations"), &Path::new("metadata.annotations"));
    if text(pod_spec, "serviceAccountName").is_empty() {
        for (index, volume) in items(pod_spec, "volumes").iter().enumerate() {
            for (source, projection) in items(volume, "projected.sources").iter().enumerate() {
                if !at(projection, "serviceAccountToken").is_null() {
                    let path = path.child("volumes").index(index).child("projected.sources").index(source);
                    let detail = "must not be specified when serviceAccountName is not set";
                    causes.forbidden(&path.child("serviceAccountToken"), detail);
                }
            }
        }
    }
    let grace = "terminationGracePeriodSeconds";
    causes.non_negative(&path.child(grace), int(pod_spec, grace));
    for list in ["containers", "initContainers"] {
        for (index, container) in items(pod_spec, list).iter().enumerate() {
            let image = text(container, "image");
            if image.trim() != image {
                let path = path.child(list).index(index).child("image");
                causes.invalid(&path, image, "must not have leading or trailing whitespace");
            }
        }
    }
}

/// A pod template.
pub(super) fn template(causes: &mut Causes, template: &Value, path: &Path) {
    causes.extend(meta::labels(at(template, "metadata.labels"), &path.child("labels")));
    causes.extend(meta::annotations(at(template, "metadata.annotations"), &path.child("annotations")));
    security::annotations(causes, at(template, "metadata.annotations"), &path.child("annotations"));
    spec(causes, at(template, "spec"), "", &path.child("spec"));
    if !items(template, "spec.ephemeralContainers").is_empty() {
        let detail = "ephemeral containers not allowed in pod template";
        causes.forbidden(&path.child("spec.ephemeralContainers"), detail);
    }
}
