//! Storage classes: which one a claim or volume is of, and which is the default.

use std::cmp::Reverse;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;

use super::{annotation, name_of};

/// Annotation for the class from before the field existed.
const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
/// On a class: it is the default.
const DEFAULT: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

/// Returns the class that a claim names, possibly the empty one. `None` if the claim leaves it to the default.
pub fn named_by(claim: &PersistentVolumeClaim) -> Option<&str> {
    let field = || claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref());
    annotation(&claim.metadata, OLD_CLASS).or_else(field)
}

/// The class of a claim, empty if none.
pub fn of_claim(claim: &PersistentVolumeClaim) -> &str {
    named_by(claim).unwrap_or_default()
}

/// The class of a volume, empty if none.
pub fn of_volume(volume: &PersistentVolume) -> &str {
    let field = || volume.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref());
    annotation(&volume.metadata, OLD_CLASS).or_else(field).unwrap_or_default()
}

/// The class with this name.
pub fn find<'a>(classes: &'a [Arc<StorageClass>], name: &str) -> Option<&'a StorageClass> {
    classes.iter().map(|class| &**class).find(|class| name_of(&class.metadata) == name)
}

/// Whether volumes of the class are found only for a pod that is about to get a node.
pub fn is_delayed(class: &StorageClass) -> bool {
    class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer")
}

/// Whether the claim's volume is found only for a pod that is about to get a node.
pub fn delays_binding(claim: &PersistentVolumeClaim, classes: &[Arc<StorageClass>]) -> bool {
    find(classes, of_claim(claim)).is_some_and(is_delayed)
}

/// The newest default class; of equally old ones the first by name.
pub fn default_of(classes: &[Arc<StorageClass>]) -> Option<&str> {
    let is_default = |class: &&Arc<StorageClass>| {
        DEFAULT.iter().any(|name| annotation(&class.metadata, name) == Some("true"))
    };
    let newest_first = |class: &&Arc<StorageClass>| {
        let created = class.metadata.creation_timestamp.as_ref().map(|time| time.0);
        (Reverse(created), class.metadata.name.clone())
    };
    classes.iter().filter(is_default).min_by_key(newest_first).map(|class| name_of(&class.metadata))
}
