//! Volumes of pods, and the sources that persistent volumes share with them.

use serde_json::{Map, Value, json};

use super::Lit::{Bool, Int, Text};
use super::container::{FIELD_REF, RESOURCE_FIELD_REF, pull_policy};
use super::{Rule, text};

const DOWNWARD_ITEM: &[Rule] =
    &[Rule::Pointer("fieldRef", FIELD_REF), Rule::Pointer("resourceFieldRef", RESOURCE_FIELD_REF)];

const MODE: &[Rule] = &[Rule::Absent("defaultMode", Int(0o644))];

const DOWNWARD: &[Rule] = &[Rule::Absent("defaultMode", Int(0o644)), Rule::List("items", DOWNWARD_ITEM)];

const PROJECTION: &[Rule] = &[
    Rule::Pointer("downwardAPI", &[Rule::List("items", DOWNWARD_ITEM)]),
    Rule::Pointer("serviceAccountToken", &[Rule::Absent("expirationSeconds", Int(3600))]),
];

const PROJECTED: &[Rule] =
    &[Rule::Absent("defaultMode", Int(0o644)), Rule::Shown("sources"), Rule::List("sources", PROJECTION)];

/// The group of what a claim is filled from is always shown.
const DATA_SOURCE: &[Rule] = &[Rule::Shown("apiGroup")];

pub(super) const CLAIM_SPEC: &[Rule] = &[
    Rule::Absent("volumeMode", Text("Filesystem")),
    Rule::Struct("resources", super::container::RESOURCES),
    Rule::Pointer("dataSource", DATA_SOURCE),
    Rule::Pointer("dataSourceRef", DATA_SOURCE),
];

const CLAIM_TEMPLATE: &[Rule] = &[Rule::Struct("metadata", &[]), Rule::Struct("spec", CLAIM_SPEC)];

/// Sources that volumes and persistent volumes have in common.
pub(super) const HOST_PATH: &[Rule] = &[Rule::Absent("type", Text(""))];
pub(super) const ISCSI: &[Rule] = &[Rule::Zero("iscsiInterface", Text("default"))];
pub(super) const RBD: &[Rule] = &[
    Rule::Zero("pool", Text("rbd")),
    Rule::Zero("user", Text("admin")),
    Rule::Zero("keyring", Text("/etc/ceph/keyring")),
];
pub(super) const AZURE_DISK: &[Rule] = &[
    Rule::Absent("cachingMode", Text("ReadWrite")),
    Rule::Absent("fsType", Text("ext4")),
    Rule::Absent("readOnly", Bool(false)),
    Rule::Absent("kind", Text("Shared")),
];
pub(super) const SCALE_IO: &[Rule] =
    &[Rule::Zero("storageMode", Text("ThinProvisioned")), Rule::Zero("fsType", Text("xfs"))];

pub(super) const VOLUME: &[Rule] = &[
    Rule::Call(empty_dir),
    Rule::Pointer("emptyDir", &[Rule::Amount("sizeLimit")]),
    Rule::Pointer("hostPath", HOST_PATH),
    Rule::Pointer("secret", MODE),
    Rule::Pointer("configMap", MODE),
    Rule::Pointer("downwardAPI", DOWNWARD),
    Rule::Pointer("projected", PROJECTED),
    Rule::Pointer("ephemeral", &[Rule::Pointer("volumeClaimTemplate", CLAIM_TEMPLATE)]),
    Rule::Pointer("image", &[Rule::Call(image)]),
    Rule::Pointer("iscsi", ISCSI),
    Rule::Pointer("rbd", RBD),
    Rule::Pointer("azureDisk", AZURE_DISK),
    Rule::Pointer("scaleIO", SCALE_IO),
];

fn empty_dir(volume: &mut Map<String, Value>) {
    if volume.iter().all(|(name, value)| name == "name" || value.is_null()) {
        volume.insert("emptyDir".to_owned(), json!({}));
    }
}

fn image(source: &mut Map<String, Value>) {
    if text(source, "pullPolicy").is_empty() {
        let policy = pull_policy(text(source, "reference"));
        source.insert("pullPolicy".to_owned(), policy.into());
    }
}
