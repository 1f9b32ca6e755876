//! Fields that a request cannot own because the server resets them: status on the object itself, everything but
//! status on `/status`.

use std::sync::Arc;

use crate::fieldset::{Entry, FieldSet, PathElement};

/// Which of the fields that a request mentions it may own.
#[derive(Clone, Debug, Default)]
pub enum ResetFields {
    /// All.
    #[default]
    None,
    /// All but these and what lies below them.
    Exclude(FieldSet),
    /// Only what lies below one of these paths.
    Include(Vec<Vec<Step>>),
}

/// One step of an included path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The field of that name.
    Field(Arc<str>),
    /// Anything.
    Any,
}

impl ResetFields {
    /// All but these paths of field names.
    pub fn exclude(paths: &[&[&str]]) -> Self {
        ResetFields::Exclude(FieldSet::of_fields(paths.iter().copied()))
    }

    /// Only these paths; `*` stands for anything.
    pub fn include(paths: &[&[&str]]) -> Self {
        let step = |name: &&str| if *name == "*" { Step::Any } else { Step::Field(Arc::from(*name)) };
        ResetFields::Include(paths.iter().map(|path| path.iter().map(step).collect()).collect())
    }

    /// Returns the fields that kube-apiserver resets on a path. `has_status` says whether the resource
    /// has the status subresource.
    pub fn of(group: &str, resource: &str, subresource: &str, has_status: bool, custom: bool) -> Self {
        const RESET_METADATA: [&str; 16] = [
            "apiservices",
            "compositepodgroups",
            "csinodes",
            "devicetaintrules",
            "evictionrequests",
            "flowschemas",
            "podcertificaterequests",
            "podgroups",
            "prioritylevelconfigurations",
            "resourceclaims",
            "resourcepoolstatusrequests",
            "servicecidrs",
            "storageversionmigrations",
            "storageversions",
            "validatingadmissionpolicies",
            "volumeattachments",
        ];
        match (group, resource, subresource) {
            ("certificates.k8s.io", "certificatesigningrequests", "") => {
                ResetFields::exclude(&[&["spec"], &["status"]])
            }
            ("certificates.k8s.io", "certificatesigningrequests", "status") => {
                ResetFields::exclude(&[&["spec"], &["status", "conditions"]])
            }
            (_, _, "approval") => ResetFields::exclude(&[&["spec"], &["status", "certificate"]]),
            (_, _, "" | "finalize") if has_status => ResetFields::exclude(&[&["status"]]),
            (_, _, "status") if custom => ResetFields::exclude(&[&["metadata"], &["spec"]]),
            (_, resource, "status") if RESET_METADATA.contains(&resource) => {
                ResetFields::exclude(&[&["metadata"], &["spec"]])
            }
            ("apps", "deployments", "status") => ResetFields::exclude(&[&["spec"], &["metadata", "labels"]]),
            ("", "pods", "status") => ResetFields::exclude(&[
                &["spec"],
                &["metadata", "deletionTimestamp"],
                &["metadata", "ownerReferences"],
            ]),
            (_, _, "status") => ResetFields::exclude(&[&["spec"]]),
            (_, _, "ephemeralcontainers") => ResetFields::include(&[&["spec", "ephemeralContainers"]]),
            (_, _, "resize") => ResetFields::include(&[
                &["spec", "resources"],
                &["spec", "containers", "*", "resources"],
                &["spec", "containers", "*", "resizePolicy"],
                &["spec", "initContainers", "*", "resources"],
                &["spec", "initContainers", "*", "resizePolicy"],
            ]),
            _ => ResetFields::None,
        }
    }

    pub(super) fn filter(&self, set: FieldSet) -> FieldSet {
        match self {
            ResetFields::None => set,
            ResetFields::Exclude(reset) if reset.is_empty() => set,
            ResetFields::Exclude(reset) => set.recursive_difference(reset),
            ResetFields::Include(paths) => {
                let paths: Vec<&[Step]> = paths.iter().map(Vec::as_slice).collect();
                include(&set, &paths)
            }
        }
    }
}

fn include(set: &FieldSet, paths: &[&[Step]]) -> FieldSet {
    if paths.iter().any(|path| path.is_empty()) {
        return set.clone();
    }
    let mut out = FieldSet::new();
    for entry in &set.entries {
        let below: Vec<&[Step]> = paths
            .iter()
            .filter(|path| match (&path[0], &entry.element) {
                (Step::Any, _) => true,
                (Step::Field(name), PathElement::Field(own)) => name == own,
                _ => false,
            })
            .map(|path| &path[1..])
            .collect();
        if below.is_empty() {
            continue;
        }
        let children = include(&entry.children, &below);
        if entry.member || !children.is_empty() {
            out.entries.push(Entry { element: entry.element.clone(), member: entry.member, children });
        }
    }
    out
}
