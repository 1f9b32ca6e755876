//! PersistentVolumeClaims: their number and storage, of all and of each class.

use serde_json::Value;

use super::one;
use crate::access::{at, text};
use crate::resources::{Amounts, amounts};

const COUNT: &str = "count/persistentvolumeclaims";
const NAMES: [&str; 2] = ["persistentvolumeclaims", "requests.storage"];
/// Between the name of a class and what is counted of it.
const CLASS: &str = ".storageclass.storage.k8s.io/";
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

pub(super) fn counts(name: &str) -> bool {
    let of_class = name.rsplit_once(CLASS).is_some_and(|(_, counted)| NAMES.contains(&counted));
    name == COUNT || NAMES.contains(&name) || of_class
}

pub(super) fn usage(claim: &Value) -> Amounts {
    let mut used = Amounts::from([(COUNT.to_owned(), one()), (NAMES[0].to_owned(), one())]);
    let asked = amounts(at(claim, "spec.resources.requests")).get("storage").map(|asked| asked.round_up());
    if let Some(asked) = asked {
        // An expansion that failed may have got more than is asked for now.
        let allocated = amounts(at(claim, "status.allocatedResources")).get("storage").copied();
        let more = allocated.filter(|allocated| *allocated > asked).map(|allocated| allocated.round_up());
        used.insert(NAMES[1].to_owned(), more.unwrap_or(asked));
    }
    let class = class(claim);
    if !class.is_empty() {
        let of_class: Amounts = NAMES
            .iter()
            .filter_map(|name| Some((format!("{class}{CLASS}{name}"), *used.get(*name)?)))
            .collect();
        used.extend(of_class);
    }
    used
}

fn class(claim: &Value) -> &str {
    let annotated = at(claim, "metadata.annotations").get(CLASS_ANNOTATION).and_then(Value::as_str);
    annotated.unwrap_or_else(|| text(claim, "spec.storageClassName"))
}

/// The VolumeAttributesClasses that the claim has or is to have.
pub(super) fn attributes_classes(claim: &Value) -> Vec<&str> {
    let fields = [
        "spec.volumeAttributesClassName",
        "status.currentVolumeAttributesClassName",
        "status.modifyVolumeStatus.targetVolumeAttributesClassName",
    ];
    fields.iter().map(|field| text(claim, field)).filter(|name| !name.is_empty()).collect()
}
