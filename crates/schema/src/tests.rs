use serde_json::json;

use super::*;

fn structure(schema: &Schema) -> &Struct {
    match &schema.shape {
        Shape::Struct(fields) => fields,
        other => panic!("not a struct: {other:?}"),
    }
}

#[test]
fn every_type_decodes_and_refers_to_types_that_exist() {
    let table = builtin();
    for id in 0..table.type_count() {
        let ty = table.type_at(id);
        assert!(ty.go.is_some());
        let refers: Vec<TypeRef> = match &ty.shape {
            Shape::Struct(fields) => {
                assert!(
                    fields.fields.is_sorted_by(|a, b| a.name < b.name),
                    "{:?} is searched by halving",
                    ty.go
                );
                fields.fields.iter().map(|field| field.ty.clone()).collect()
            }
            Shape::Map { value, .. } => vec![value.clone()],
            Shape::List { item, .. } => vec![item.clone()],
            Shape::Any | Shape::Scalar(_) => Vec::new(),
        };
        for reference in refers {
            assert!(matches!(reference, TypeRef::Builtin(id) if id < table.type_count()));
        }
    }
}

#[test]
fn every_served_resource_has_a_type_and_a_list_type() {
    let table = builtin();
    assert_eq!(table.resources().len(), 72);
    for resource in table.resources() {
        let (group, version) = (resource.group, resource.version);
        assert!(table.kind(group, version, resource.kind).is_some(), "{resource:?}");
        if resource.verbs.contains(&"list") {
            let list = format!("{}List", resource.kind);
            assert!(table.kind(group, version, &list).is_some(), "{resource:?}");
        }
        for sub in &resource.subresources {
            let (group, version) = sub.group_version.unwrap_or((group, version));
            assert!(table.kind(group, version, sub.kind).is_some(), "{sub:?}");
        }
    }
}

#[test]
fn groups_stand_in_discovery_order_and_prefer_their_first_version() {
    let groups = builtin().groups();
    let names: Vec<&str> = groups.iter().map(|group| group.name).collect();
    assert_eq!(names[..4], ["", "apiregistration.k8s.io", "apps", "events.k8s.io"]);
    let autoscaling = groups.iter().find(|group| group.name == "autoscaling").unwrap();
    assert_eq!(autoscaling.versions, ["v2", "v1"]);
    assert!(
        groups.iter().flat_map(|group| &group.versions).all(|v| !v.contains("alpha") && !v.contains("beta"))
    );
}

#[test]
fn a_resource_has_its_subresources() {
    let deployments = builtin().resource("apps", "v1", "deployments").unwrap();
    assert_eq!(deployments.short_names, ["deploy"]);
    assert_eq!(deployments.storage_version_hash, Some("8aSe+NMegvE="));
    let names: Vec<&str> = deployments.subresources.iter().map(|sub| sub.name).collect();
    assert_eq!(names, ["scale", "status"]);
    assert_eq!(deployments.subresources[0].group_version, Some(("autoscaling", "v1")));
    assert!(!builtin().resource("", "v1", "nodes").unwrap().namespaced);
}

#[test]
fn a_field_has_what_the_sources_say() {
    let pod = builtin().schema("", "v1", "Pod").unwrap();
    let containers = pod.child("spec").and_then(|spec| spec.child("containers")).unwrap();
    let Shape::List { item, kind } = &containers.shape else { panic!("{containers:?}") };
    assert_eq!(*kind, ListKind::Map(vec!["name".into()]));
    let container = item.get();
    assert_eq!(container.name.as_deref(), Some("io.k8s.api.core.v1.Container"));
    let ports = structure(container).field("ports").unwrap();
    assert_eq!(ports.patch.merge_key.as_deref(), Some("containerPort"));
    let Shape::List { item, kind } = &ports.ty.get().shape else { panic!() };
    assert_eq!(*kind, ListKind::Map(vec!["containerPort".into(), "protocol".into()]));
    let protocol = structure(item.get()).field("protocol").unwrap();
    assert_eq!(protocol.default, Some(json!("TCP")));
    assert_eq!(protocol.ty.get().go.as_deref(), Some("v1.Protocol"));
    let created = pod.child("metadata").unwrap();
    assert_eq!(structure(&created).field("creationTimestamp").unwrap().omit, Omit::Zero);
    let volume = builtin().schema("", "v1", "Pod").unwrap().child("spec").unwrap().child("volumes").unwrap();
    let Shape::List { item, .. } = &volume.shape else { panic!() };
    assert_eq!(structure(item.get()).field("emptyDir").unwrap().proto, Some(ProtoField { path: [2, 2, 0] }));
}

#[test]
fn a_field_may_merge_otherwise_than_its_type() {
    let event = builtin().schema("", "v1", "Event").unwrap();
    assert!(structure(&event.child("involvedObject").unwrap()).atomic);
    let volume = builtin().schema("", "v1", "PersistentVolume").unwrap();
    let claim = volume.child("spec").and_then(|spec| spec.child("claimRef")).unwrap();
    assert_eq!(claim.name.as_deref(), Some("io.k8s.api.core.v1.ObjectReference"));
    assert!(!structure(&claim).atomic);
}

#[test]
fn meta_kinds_are_found_in_every_group() {
    for (group, version, kind) in [
        ("", "v1", "Status"),
        ("apps", "v1", "DeleteOptions"),
        ("example.com", "v1", "WatchEvent"),
        ("meta.k8s.io", "v1", "Table"),
        ("meta.k8s.io", "v1", "PartialObjectMetadataList"),
        ("autoscaling", "v1", "Scale"),
        ("authentication.k8s.io", "v1", "TokenRequest"),
        ("policy", "v1beta1", "Eviction"),
        ("admission.k8s.io", "v1", "AdmissionReview"),
        ("apiextensions.k8s.io", "v1", "ConversionReview"),
        ("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList"),
    ] {
        assert!(builtin().kind(group, version, kind).is_some(), "{group}/{version} {kind}");
    }
    assert!(builtin().kind("apps", "v1", "Deploymen").is_none());
}

#[test]
fn fields_are_found_by_their_names_whatever_came_before() {
    let naive = |name: &str| {
        (0..8).fold(0u64, |sum, at| sum << 8 | name.as_bytes().get(at).map_or(0, |b| u64::from(*b)))
    };
    for id in 0..builtin().type_count() {
        let Shape::Struct(fields) = &builtin().type_at(id).shape else { continue };
        for (at, field) in fields.fields.iter().enumerate() {
            assert_eq!(prefix(&field.name), naive(&field.name), "{}", field.name);
            for from in 0..=fields.fields.len() {
                assert_eq!(fields.index_from(field.name.as_bytes(), from), Some(at), "{} {from}", field.name);
                let other = format!("{}x", field.name);
                assert_eq!(fields.index_from(other.as_bytes(), from), fields.index(&other), "{other} {from}");
            }
        }
    }
}
