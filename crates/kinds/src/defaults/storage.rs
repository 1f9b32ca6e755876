//! Storage: volumes, classes, drivers.

use super::Lit::{Bool, Text};
use super::Rule;
use super::volume::{AZURE_DISK, HOST_PATH, ISCSI, RBD, SCALE_IO};

pub(super) fn rules(kind: &str) -> &'static [Rule] {
    match kind {
        "StorageClass" => &[
            Rule::Absent("provisioner", Text("")),
            Rule::Absent("reclaimPolicy", Text("Delete")),
            Rule::Absent("volumeBindingMode", Text("Immediate")),
        ],
        "CSIDriver" => CSI_DRIVER,
        "CSINode" => &[Rule::Struct("spec", &[Rule::Shown("drivers")]), Rule::Struct("status", &[])],
        "CSIStorageCapacity" => &[Rule::Amount("capacity"), Rule::Amount("maximumVolumeSize")],
        "VolumeAttachment" => {
            &[Rule::Struct("spec", &[]), Rule::Struct("status", &[Rule::Absent("attached", Bool(false))])]
        }
        _ => &[],
    }
}

pub(super) const PERSISTENT_VOLUME: &[Rule] = &[
    Rule::Struct(
        "spec",
        &[
            Rule::Resources("capacity"),
            Rule::Zero("persistentVolumeReclaimPolicy", Text("Retain")),
            Rule::Absent("volumeMode", Text("Filesystem")),
            Rule::Pointer("hostPath", HOST_PATH),
            Rule::Pointer("iscsi", ISCSI),
            Rule::Pointer("rbd", RBD),
            Rule::Pointer("azureDisk", AZURE_DISK),
            Rule::Pointer("scaleIO", SCALE_IO),
        ],
    ),
    Rule::Struct("status", &[Rule::Zero("phase", Text("Pending"))]),
];

const CSI_DRIVER: &[Rule] = &[Rule::Struct(
    "spec",
    &[
        Rule::Absent("attachRequired", Bool(true)),
        Rule::Absent("podInfoOnMount", Bool(false)),
        Rule::Absent("storageCapacity", Bool(false)),
        Rule::Absent("fsGroupPolicy", Text("ReadWriteOnceWithFSType")),
        Rule::Call(lifecycle_modes),
        Rule::Absent("requiresRepublish", Bool(false)),
        Rule::Absent("seLinuxMount", Bool(false)),
        Rule::Absent("preventPodSchedulingIfMissing", Bool(false)),
    ],
)];

fn lifecycle_modes(spec: &mut serde_json::Map<String, serde_json::Value>) {
    let modes = spec.entry("volumeLifecycleModes").or_insert_with(|| serde_json::json!(["Persistent"]));
    if modes.as_array().is_none_or(Vec::is_empty) {
        *modes = serde_json::json!(["Persistent"]);
    }
}
