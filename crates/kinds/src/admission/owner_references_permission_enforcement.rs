//! OwnerReferencesPermissionEnforcement: who sets owners may delete the object, and who lets an object block the deletion
//! of its owner may finalize the owner.

use serde_json::Value;
use setpoint_api::status::Status;

use super::request::{Cluster, Request, Right};
use crate::access::{items, text, truth};

const OWNERS: &str = "metadata.ownerReferences";

/// Refuses changed owners by a user without the rights.
pub(super) fn validate(
    request: &Request<'_>,
    cluster: &dyn Cluster,
    object: &Value,
) -> Result<Vec<String>, Status> {
    let (new, old) = (items(object, OWNERS), request.old.map_or(&[][..], |old| items(old, OWNERS)));
    // Old kubelets corrupt the owners in the status of pods, and the strategy ignores them there.
    if new == old || request.is_for_part("", "pods", "status") {
        return Ok(Vec::new());
    }
    let delete = Right {
        verb: "delete",
        group: request.group,
        version: request.version,
        resource: request.resource,
        subresource: request.subresource,
        namespace: request.namespace,
        name: request.name,
    };
    if !request.creates() && !cluster.allows(&delete) {
        return Err(request.forbidden("cannot set an ownerRef on a resource you can't delete: , <nil>"));
    }
    let blocks = |owner: &&Value| truth(owner, "blockOwnerDeletion");
    let blocked = |uid: &str| old.iter().filter(blocks).any(|owner| text(owner, "uid") == uid);
    let blocking: Vec<&Value> =
        new.iter().filter(blocks).filter(|owner| !blocked(text(owner, "uid"))).collect();
    let finalize = Right { verb: "update", subresource: "finalizers", version: "*", ..Right::default() };
    let finalize_all = Right { group: "*", resource: "*", name: "*", ..finalize };
    if blocking.is_empty() || cluster.allows(&finalize_all) {
        return Ok(Vec::new());
    }
    for owner in blocking {
        may_finalize(request, cluster, owner)?;
    }
    Ok(Vec::new())
}

fn may_finalize(request: &Request<'_>, cluster: &dyn Cluster, owner: &Value) -> Result<(), Status> {
    let (api_version, kind) = (text(owner, "apiVersion"), text(owner, "kind"));
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let resources = cluster.resources_of(group, version, kind);
    if resources.is_empty() {
        return Err(request.forbidden(&format!(
            "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion {api_version} Kind \
             {kind}: no matches for kind \"{kind}\" in version \"{api_version}\""
        )));
    }
    for (resource, is_namespaced) in &resources {
        let finalize = Right {
            verb: "update",
            group,
            version,
            resource,
            subresource: "finalizers",
            namespace: if *is_namespaced { request.namespace } else { "" },
            name: text(owner, "name"),
        };
        if !cluster.allows(&finalize) {
            return Err(request.forbidden(
                "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: , \
                 <nil>",
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{Objects, with_request};
    use super::*;

    fn owned(uid: &str, blocks: Value) -> Value {
        json!({ "metadata": { "name": "x", "ownerReferences": [
            { "apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": uid, "blockOwnerDeletion": blocks }] } })
    }

    #[test]
    fn owners_are_set_by_users_with_the_rights() {
        let bare = json!({ "metadata": { "name": "x" } });
        let delete = "delete pods x";
        let finalize = "update deployments/finalizers d";
        for (rights, old, new, may) in [
            (vec![], None, owned("1", json!(false)), true),
            (vec![], None, owned("1", json!(true)), false),
            (vec![finalize], None, owned("1", json!(true)), true),
            (vec!["update */finalizers *"], None, owned("1", json!(true)), true),
            (vec![], Some(bare.clone()), owned("1", Value::Null), false),
            (vec![delete], Some(bare.clone()), owned("1", Value::Null), true),
            (vec![delete], Some(owned("1", json!(false))), owned("1", json!(true)), false),
            (vec![delete, finalize], Some(owned("1", json!(false))), owned("1", json!(true)), true),
            (vec![], Some(owned("1", json!(true))), owned("1", json!(true)), true),
            (vec![], Some(bare.clone()), bare.clone(), true),
        ] {
            let cluster = Objects { allowed: rights.clone(), ..Objects::new("", Vec::new()) };
            let judged = with_request("", "pods", old.as_ref(), |request| validate(request, &cluster, &new));
            assert_eq!(judged.is_ok(), may, "{rights:?} {old:?} {new}");
        }
    }
}
