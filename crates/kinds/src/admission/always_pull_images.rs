//! AlwaysPullImages: nobody runs an image that only another tenant may pull.

use serde_json::Value;
use setpoint_api::status::{Reason, Status};

use super::request::{Cluster, Request};
use crate::access::{at, items, items_mut, set, text};

const LISTS: [&str; 3] = ["spec.initContainers", "spec.containers", "spec.ephemeralContainers"];

/// Sets the policy of all images.
pub(super) fn mutate(request: &Request<'_>, _: &dyn Cluster, pod: &mut Value) -> Result<(), Status> {
    if !is_concerned(request, pod) {
        return Ok(());
    }
    for list in LISTS {
        for container in items_mut(pod, list) {
            set(container, "imagePullPolicy", "Always".into());
        }
    }
    for volume in items_mut(pod, "spec.volumes") {
        if !at(volume, "image").is_null() {
            set(volume, "image.pullPolicy", "Always".into());
        }
    }
    Ok(())
}

/// Refuses a pod whose policy a webhook has changed.
pub(super) fn validate(request: &Request<'_>, _: &dyn Cluster, pod: &Value) -> Result<Vec<String>, Status> {
    let mut wrong = Vec::new();
    let mut check = |list: &str, index: usize, field: &str, owner: &Value| {
        let policy = text(owner, field);
        if policy != "Always" {
            wrong.push(format!(
                "{list}[{index}].{field}: Unsupported value: \"{policy}\": supported values: \"Always\""
            ));
        }
    };
    for list in LISTS {
        items(pod, list)
            .iter()
            .enumerate()
            .for_each(|(index, one)| check(list, index, "imagePullPolicy", one));
    }
    for (index, volume) in items(pod, "spec.volumes").iter().enumerate() {
        if !at(volume, "image").is_null() {
            check("spec.volumes", index, "image.pullPolicy", volume);
        }
    }
    if wrong.is_empty() || !is_concerned(request, pod) {
        return Ok(Vec::new());
    }
    // kube-apiserver returns a list of errors here, which becomes a 500.
    let errors: Vec<String> = wrong.iter().map(|why| request.forbidden(why).message).collect();
    let message = if errors.len() == 1 { errors.concat() } else { format!("[{}]", errors.join(", ")) };
    Err(Status::failure(500, Reason::Unknown, message))
}

/// Whether a pod is new or gets an image that it did not have.
fn is_concerned(request: &Request<'_>, pod: &Value) -> bool {
    let images = |pod: &Value| -> Vec<String> {
        let containers = LISTS.iter().flat_map(|list| items(pod, list));
        containers.map(|container| text(container, "image").to_owned()).collect()
    };
    let known = request.old.map(images);
    request.is_for("", "pods")
        && known.is_none_or(|known| images(pod).iter().any(|image| !known.contains(image)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{Objects, with_request};
    use super::*;

    #[test]
    fn new_images_are_always_pulled() {
        let pod = |image: &str, policy: &str| {
            json!({ "spec": { "containers": [{ "image": image, "imagePullPolicy": policy }],
            "volumes": [{ "image": { "pullPolicy": policy } }, { "emptyDir": {} }] } })
        };
        let cluster = Objects::new("", Vec::new());
        for (old, image, expected) in
            [(None, "a", "Always"), (Some("a"), "a", "Never"), (Some("a"), "b", "Always")]
        {
            let (old, mut new) = (old.map(|old| pod(old, "Never")), pod(image, "Never"));
            with_request("", "pods", old.as_ref(), |request| {
                assert_eq!(validate(request, &cluster, &new).is_ok(), expected == "Never");
                mutate(request, &cluster, &mut new).unwrap();
                assert_eq!(validate(request, &cluster, &new), Ok(Vec::new()));
            });
            assert_eq!(new["spec"]["containers"][0]["imagePullPolicy"], expected);
            assert_eq!(new["spec"]["volumes"][0]["image"]["pullPolicy"], expected);
            assert_eq!(new["spec"]["volumes"][1], json!({ "emptyDir": {} }));
        }
    }
}
