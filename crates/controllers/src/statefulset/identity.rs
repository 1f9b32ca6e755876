//! The identity of a StatefulSet's pod: its name, ordinal, labels and claims.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, PodTemplateSpec, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::revision::Version;
use crate::children::claim::controller_reference;
use crate::object::field::{Field, stateful_set_spec};
use crate::object::selector::Labels;

const POD_NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";
/// Label with a pod's revision.
pub const REVISION_LABEL: &str = "controller-revision-hash";

/// The ordinals that a StatefulSet wants.
pub fn ordinals(set: &StatefulSet) -> std::ops::Range<i64> {
    let spec = stateful_set_spec(set);
    let start = spec.ordinals.as_ref().and_then(|ordinals| ordinals.start).unwrap_or(0).into();
    start..start + i64::from(spec.replicas.unwrap_or(1))
}

/// Splits a pod's name into its StatefulSet's name and its ordinal. The ordinal is `None` if it is not a number.
fn parse(pod_name: &str) -> Option<(&str, Option<i64>)> {
    let (parent, digits) = pod_name.rsplit_once('-')?;
    let numeric = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    numeric.then(|| (parent, digits.parse::<i32>().ok().map(i64::from)))
}

/// Whether a pod's name is one of this StatefulSet's.
pub fn is_member(set: &StatefulSet, pod: &Pod) -> bool {
    let parent = pod.metadata.name.as_deref().and_then(parse).map(|(parent, _)| parent);
    parent == Some(name_of(&set.metadata))
}

/// A pod's ordinal.
pub fn ordinal(pod: &Pod) -> Option<i64> {
    pod.metadata.name.as_deref().and_then(parse)?.1
}

/// The revision that a pod is of, empty if it does not say.
pub fn revision(pod: &Pod) -> &str {
    label(pod, REVISION_LABEL).unwrap_or_default()
}

fn label<'a>(pod: &'a Pod, key: &str) -> Option<&'a str> {
    pod.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

/// An object's name.
pub fn name_of(metadata: &ObjectMeta) -> &str {
    metadata.name.as_deref().unwrap_or_default()
}

/// A new pod of this ordinal and revision.
pub fn new_pod(set: &StatefulSet, version: &Version, ordinal: i64) -> Pod {
    let name = format!("{}-{ordinal}", name_of(&set.metadata));
    let PodTemplateSpec { metadata, spec } = version.template.clone();
    let template = metadata.unwrap_or_default();
    let mut pod = Pod {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            generate_name: Some(format!("{}-", name_of(&set.metadata))),
            namespace: set.metadata.namespace.clone(),
            labels: template.labels,
            annotations: template.annotations,
            finalizers: template.finalizers,
            owner_references: Some(vec![controller_reference("apps/v1", "StatefulSet", &set.metadata)]),
            ..Default::default()
        },
        spec,
        status: None,
    };
    let spec = pod.spec.get_or_insert_default();
    spec.hostname = Some(name);
    spec.subdomain = stateful_set_spec(set).service_name.clone().filter(|name| !name.is_empty());
    pod.metadata.labels.get_or_insert_default().insert(REVISION_LABEL.to_owned(), version.name.clone());
    identify(&mut pod, ordinal);
    mount(set, &mut pod, ordinal);
    pod
}

/// Whether a pod carries the labels of its identity.
pub fn is_identified(set: &StatefulSet, pod: &Pod) -> bool {
    let name = name_of(&pod.metadata);
    let expected = ordinal(pod).map(|ordinal| format!("{}-{ordinal}", name_of(&set.metadata)));
    expected.as_deref() == Some(name) && label(pod, POD_NAME_LABEL) == Some(name)
}

/// Sets the identity labels of a pod.
pub fn identify(pod: &mut Pod, ordinal: i64) {
    let name = name_of(&pod.metadata).to_owned();
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(POD_NAME_LABEL.to_owned(), name);
    labels.insert(POD_INDEX_LABEL.to_owned(), ordinal.to_string());
}

/// The claims of a pod: the name of the volume, and the claim to create where there is none.
pub fn claims(set: &StatefulSet, ordinal: i64) -> Vec<(String, PersistentVolumeClaim)> {
    let spec = stateful_set_spec(set);
    let templates = spec.volume_claim_templates.iter().flatten();
    let selected: Labels = spec.selector.match_labels.clone().unwrap_or_default();
    let claim = |template: &PersistentVolumeClaim| {
        let volume = name_of(&template.metadata).to_owned();
        let mut claim = template.clone();
        claim.metadata.name = Some(format!("{volume}-{}-{ordinal}", name_of(&set.metadata)));
        claim.metadata.namespace = set.metadata.namespace.clone();
        claim.metadata.labels.get_or_insert_default().extend(selected.clone());
        claim.status = None;
        (volume, claim)
    };
    templates.map(claim).collect()
}

/// Whether a pod has the volumes of its claims.
pub fn is_mounted(set: &StatefulSet, pod: &Pod, ordinal: i64) -> bool {
    claims(set, ordinal).iter().all(|(volume, claim)| {
        let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
        let mut named = volumes.filter(|found| found.name == *volume);
        let source = named.next().and_then(|found| found.persistent_volume_claim.as_ref());
        source
            .is_some_and(|source| Field::<String>::value(&source.claim_name) == claim.metadata.name.as_ref())
    })
}

/// Sets the volumes of a pod's claims, and replaces volumes of the same names.
pub fn mount(set: &StatefulSet, pod: &mut Pod, ordinal: i64) {
    let claims = claims(set, ordinal);
    let spec = pod.spec.get_or_insert_default();
    let own = spec.volumes.take().unwrap_or_default();
    let mut volumes: Vec<Volume> = Vec::with_capacity(claims.len() + own.len());
    volumes.extend(claims.iter().map(|(volume, claim)| Volume {
        name: volume.clone(),
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name: Field::with(claim.metadata.name.clone().unwrap_or_default()),
            read_only: None,
        }),
        ..Default::default()
    }));
    volumes.extend(own.into_iter().filter(|volume| claims.iter().all(|(name, _)| *name != volume.name)));
    spec.volumes = (!volumes.is_empty()).then_some(volumes);
}
