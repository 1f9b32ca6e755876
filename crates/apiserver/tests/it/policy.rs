//! The roles and bindings that a server begins with, and what it does about them when it starts again.

use serde_json::{Value, json};

use crate::cluster::{Cluster, MERGE, start, start_with, version};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

async fn restarted(cluster: &Cluster) -> Cluster {
    let store = cluster.server.store().clone();
    start_with(|options| options.store = store).await
}

impl Cluster {
    async fn rbac(&self, path: &str) -> Value {
        self.get(&format!("{RBAC}/{path}")).await.expect(200)
    }

    async fn merge(&self, path: &str, patch: Value) {
        self.patch(&format!("{RBAC}/{path}"), MERGE, &patch).await.expect(200);
    }
}

#[tokio::test]
async fn a_new_cluster_has_the_roles_of_kube_apiserver() {
    let cluster = start().await;
    for (path, count) in
        [("clusterroles", 73), ("clusterrolebindings", 54), ("roles", 7), ("rolebindings", 7)]
    {
        assert_eq!(cluster.rbac(path).await["items"].as_array().unwrap().len(), count, "{path}");
    }
    let mut role = cluster.rbac("clusterroles/edit").await;
    let metadata = role["metadata"].as_object_mut().unwrap();
    for field in ["uid", "resourceVersion", "creationTimestamp"] {
        assert_ne!(metadata.remove(field), None);
    }
    // As kube-apiserver 1.37 answers, but for who and when.
    let expected = json!({"kind": "ClusterRole", "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": {"name": "edit",
            "labels": {"kubernetes.io/bootstrapping": "rbac-defaults",
                "rbac.authorization.k8s.io/aggregate-to-admin": "true"},
            "annotations": {AUTOUPDATE: "true"},
            "managedFields": [{"manager": "kube-apiserver", "operation": "Update",
                "apiVersion": "rbac.authorization.k8s.io/v1", "time": "2027-01-15T08:00:00Z",
                "fieldsType": "FieldsV1",
                "fieldsV1": {"f:aggregationRule": {".": {}, "f:clusterRoleSelectors": {}},
                    "f:metadata": {
                        "f:annotations": {".": {}, "f:rbac.authorization.kubernetes.io/autoupdate": {}},
                        "f:labels": {".": {}, "f:kubernetes.io/bootstrapping": {},
                            "f:rbac.authorization.k8s.io/aggregate-to-admin": {}}}}}]},
        "rules": null,
        "aggregationRule": {"clusterRoleSelectors":
            [{"matchLabels": {"rbac.authorization.k8s.io/aggregate-to-edit": "true"}}]}});
    assert_eq!(role, expected);
}

#[tokio::test]
async fn a_new_cluster_says_which_addresses_services_get() {
    let cluster = start().await;
    let range = cluster.get("/apis/networking.k8s.io/v1/servicecidrs/kubernetes").await.expect(200);
    let service = cluster.get("/api/v1/namespaces/default/services/kubernetes").await.expect(200);
    assert_eq!(range["spec"]["cidrs"], json!(["10.96.0.0/16"]));
    assert_eq!(service["spec"]["clusterIP"], "10.96.0.1");
    assert_eq!(range["status"]["conditions"][0]["status"], "True");
}

#[tokio::test]
async fn a_server_that_starts_again_writes_only_what_is_missing() {
    let cluster = start().await;
    let before = cluster.server.store().revision();
    let again = restarted(&cluster).await;
    assert_eq!(again.server.store().revision(), before);

    again.delete(&format!("{RBAC}/clusterroles/system:discovery")).await.expect(200);
    let own = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]});
    again.merge("clusterroles/system:basic-user", json!({"rules": [own]})).await;
    let protected = json!({"metadata": {"annotations": {AUTOUPDATE: "false"}}, "rules": []});
    again.merge("clusterroles/system:kube-dns", protected).await;
    let kept = version(&again.rbac("clusterroles/system:heapster").await);

    let last = restarted(&again).await;
    last.rbac("clusterroles/system:discovery").await;
    let basic = last.rbac("clusterroles/system:basic-user").await;
    assert_eq!(basic["rules"].as_array().unwrap().len(), 4);
    assert_eq!(basic["rules"][0], own);
    let managers: Vec<&Value> = basic["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| &entry["manager"])
        .collect();
    assert!(managers.contains(&&json!("kube-apiserver")), "{managers:?}");
    assert_eq!(last.rbac("clusterroles/system:kube-dns").await["rules"], Value::Null);
    assert_eq!(version(&last.rbac("clusterroles/system:heapster").await), kept);
}

#[tokio::test]
async fn a_binding_that_leads_elsewhere_is_made_again() {
    let cluster = start().await;
    let path = format!("{RBAC}/clusterrolebindings/system:monitoring");
    cluster.delete(&path).await.expect(200);
    let other = json!({"metadata": {"name": "system:monitoring"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:discovery"},
        "subjects": [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "mine"}]});
    let other = cluster.post(&format!("{RBAC}/clusterrolebindings"), &other).await.expect(201);
    let again = restarted(&cluster).await;
    let binding = again.get(&path).await.expect(200);
    assert_ne!(binding["metadata"]["uid"], other["metadata"]["uid"]);
    assert_eq!(binding["roleRef"]["name"], "system:monitoring");
    assert_eq!(binding["subjects"][0]["name"], "system:monitoring");
}
