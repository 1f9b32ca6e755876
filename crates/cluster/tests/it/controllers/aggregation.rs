//! Roles that are gathered from others.

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::World;

fn role(value: Value) -> ClusterRole {
    serde_json::from_value(value).unwrap()
}

fn rule(resource: &str) -> Value {
    json!([{ "apiGroups": ["example.com"], "resources": [resource], "verbs": ["get"] }])
}

async fn rules(roles: &Api<ClusterRole>, name: &str) -> Vec<PolicyRule> {
    roles.get(name).await.unwrap().rules.unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn admins_edit_and_editors_view_from_the_start() {
    let world = World::start().await;
    let roles: Api<ClusterRole> = Api::all(world.client.clone());
    let (view, edit, admin) = (
        rules(&roles, "system:aggregate-to-view").await,
        rules(&roles, "system:aggregate-to-edit").await,
        rules(&roles, "system:aggregate-to-admin").await,
    );
    // By name, as kube-controller-manager does it: `edit` comes before `system:…`, which comes before `view`.
    let edit = [edit, view.clone()].concat();
    let admin = [edit.clone(), admin].concat();
    for (name, expected) in [("view", view), ("edit", edit), ("admin", admin)] {
        let gathered = async || (rules(&roles, name).await == expected).then_some(());
        world.until(name, gathered).await;
    }
    let managed = roles.get("view").await.unwrap().metadata.managed_fields.unwrap();
    let managed: Vec<Value> = managed.iter().map(|entry| json!(entry)).collect();
    assert_eq!(managed[0]["manager"], "clusterrole-aggregation-controller");
    assert_eq!(managed[0]["operation"], "Apply");
    assert_eq!(managed[0]["fieldsV1"], json!({ "f:rules": {} }));
    assert_eq!(managed[1]["manager"], "kube-apiserver");
}

#[tokio::test(start_paused = true)]
async fn a_label_adds_to_a_role_and_its_end_takes_away() {
    let world = World::start().await;
    let roles: Api<ClusterRole> = Api::all(world.client.clone());
    let selectors = json!([{ "matchLabels": { "to": "all" } }]);
    let all =
        json!({ "metadata": { "name": "all" }, "aggregationRule": { "clusterRoleSelectors": selectors } });
    roles.create(&PostParams::default(), &role(all)).await.unwrap();
    for name in ["one", "two"] {
        let part = json!({ "metadata": { "name": name, "labels": { "to": "all" } }, "rules": rule(name) });
        roles.create(&PostParams::default(), &role(part)).await.unwrap();
    }
    let gathered = async |expected: &[&str]| {
        let rules = rules(&roles, "all").await;
        let names: Vec<String> =
            rules.into_iter().flat_map(|rule| rule.resources.unwrap_or_default()).collect();
        (names == expected).then_some(())
    };
    world.until("both", async || gathered(&["one", "two"]).await).await;
    let more = json!({ "rules": rule("more") });
    roles.patch("one", &PatchParams::default(), &Patch::Merge(&more)).await.unwrap();
    world.until("the changed one", async || gathered(&["more", "two"]).await).await;
    let unlabelled = json!({ "metadata": { "labels": null } });
    roles.patch("one", &PatchParams::default(), &Patch::Merge(&unlabelled)).await.unwrap();
    world.until("the labelled one", async || gathered(&["two"]).await).await;
    // A direct write to the rules is reverted at once.
    let own = json!({ "rules": rule("own") });
    roles.patch("all", &PatchParams::default(), &Patch::Merge(&own)).await.unwrap();
    world.until("what is gathered", async || gathered(&["two"]).await).await;
    roles.delete("two", &DeleteParams::default()).await.unwrap();
    world.until("nothing", async || gathered(&[]).await).await;
}
