//! Nobody grants what they do not hold.

use http::Request;
use serde_json::{Value, json};
use setpoint_apiserver::{Caller, UserInfo};

use crate::cluster::{Answer, Cluster, MERGE, body, start};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const ROLES: &str = "/namespaces/default/roles";

fn caller(name: &str) -> Caller {
    let groups: &[&str] = match name {
        "admin" => &["system:masters"],
        "bob" => &["dev", "ops"],
        _ => &[],
    };
    Caller::Trusted(UserInfo::new(name, groups.iter().copied()))
}

impl Cluster {
    async fn ask(&self, user: &str, method: &str, path: &str, kind: &str, sent: &Value) -> Answer {
        let request = Request::builder().method(method).uri(format!("{RBAC}{path}"));
        let request = request.header("content-type", kind).body(body(sent.to_string())).unwrap();
        self.send_as(caller(user), request).await
    }
}

/// `testdata/escalation.json`: what kube-apiserver 1.37 answered, request by request from an empty cluster.
#[tokio::test]
async fn grants_are_refused_as_kube_apiserver_refuses_them() {
    let recorded: Vec<Value> =
        serde_json::from_str(include_str!("../../../../testdata/escalation.json")).unwrap();
    let cluster = start().await;
    let mut differing = Vec::new();
    for row in &recorded {
        let text = |field: &str| row[field].as_str().unwrap_or("application/json");
        let answer = cluster.ask(text("as"), text("method"), text("path"), text("type"), &row["body"]).await;
        let status = if answer.code < 400 { Value::Null } else { answer.json() };
        if row["code"] != answer.code || row["status"] != status {
            differing.push(format!("{row}\n    {} {status}", answer.code));
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

async fn with_writer() -> Cluster {
    let cluster = start().await;
    let rules = json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"],
        "verbs": ["get", "create", "update", "patch"]}]);
    let role = json!({"metadata": {"name": "writer"}, "rules": rules});
    cluster.post(&format!("{RBAC}/clusterroles"), &role).await.expect(201);
    let binding = json!({"metadata": {"name": "writers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "writer"},
        "subjects": [{"kind": "User", "name": "adm", "apiGroup": "rbac.authorization.k8s.io"}]});
    cluster.post(&format!("{RBAC}/clusterrolebindings"), &binding).await.expect(201);
    cluster
}

#[tokio::test]
async fn a_role_that_is_written_back_as_it_was_read_is_not_looked_at() {
    let cluster = with_writer().await;
    let star = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    let role = json!({"metadata": {"name": "big"}, "rules": star});
    let mut role = cluster.post(&format!("{RBAC}{ROLES}"), &role).await.expect(201);
    let big = format!("{ROLES}/big");
    cluster.ask("adm", "PUT", &big, "application/json", &role).await.expect(200);
    role["metadata"]["annotations"] = json!({"a": ""});
    cluster.ask("adm", "PUT", &big, "application/json", &role).await.expect(403);
    let fewer = json!({"rules": [{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"],
        "verbs": ["get"]}]});
    cluster.ask("adm", "PATCH", &big, MERGE, &fewer).await.expect(200);
}

#[tokio::test]
async fn a_refused_grant_leaves_nothing_behind() {
    let cluster = with_writer().await;
    let before = cluster.server.store().revision();
    let binding = json!({"metadata": {"name": "mine"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "User", "name": "adm", "apiGroup": "rbac.authorization.k8s.io"}]});
    cluster.ask("adm", "POST", "/clusterrolebindings", "application/json", &binding).await.expect(403);
    cluster.ask("adm", "PUT", "/clusterrolebindings/mine", "application/json", &binding).await.expect(403);
    assert_eq!(cluster.server.store().revision(), before);
    let everything = json!({"metadata": {"name": "writer"},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]});
    cluster.ask("adm", "PUT", "/clusterroles/writer", "application/json", &everything).await.expect(403);
    assert_eq!(cluster.server.store().revision(), before);
}

#[tokio::test]
async fn a_server_that_allows_everything_looks_at_no_grants() {
    let allow = setpoint_apiserver::Authorization::AlwaysAllow;
    let cluster = crate::cluster::start_with(|options| options.authorization = vec![allow]).await;
    let role = json!({"metadata": {"name": "big"},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]});
    cluster.ask("adm", "POST", "/clusterroles", "application/json", &role).await.expect(201);
}

/// Each of the roles that namespaces are handed out with holds the lesser ones.
#[tokio::test]
async fn the_admin_of_a_namespace_lets_others_in() {
    let cluster = start().await;
    let bind = async |user: &str, role: &str, subject: &str| {
        let binding = json!({"metadata": {"name": format!("{subject}-{role}")},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "User", "name": subject, "apiGroup": "rbac.authorization.k8s.io"}]});
        let path = "/namespaces/default/rolebindings";
        cluster.ask(user, "POST", path, "application/json", &binding).await.code
    };
    // The roles from which a controller would aggregate `admin`. None runs here.
    let roles = ["system:aggregate-to-admin", "system:aggregate-to-edit", "system:aggregate-to-view"];
    for role in roles {
        assert_eq!(bind("admin", role, "ann").await, 201, "{role}");
    }
    for role in roles {
        assert_eq!(bind("ann", role, "eve").await, 201, "{role}");
    }
    assert_eq!(bind("ann", "cluster-admin", "eve").await, 403);
}
