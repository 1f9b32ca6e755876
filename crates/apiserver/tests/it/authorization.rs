//! The chain of authorizers, as `--authorization-mode` orders it.

use http::Request;
use serde_json::{Value, json};
use setpoint_apiserver::Authorization::{self, AlwaysAllow, AlwaysDeny, Node, Rbac};
use setpoint_apiserver::{Caller, UserInfo};

use crate::cluster::{Answer, Cluster, MAPS, body, start_with};

async fn cluster(chain: &[Authorization]) -> Cluster {
    start_with(|options| options.authorization = chain.to_vec()).await
}

impl Cluster {
    async fn list_as(&self, name: &str, groups: &[&str]) -> Answer {
        let caller = Caller::Trusted(UserInfo::new(name, groups.iter().copied()));
        self.send_as(caller, Request::get(MAPS).body(body("")).unwrap()).await
    }

    async fn post_as(&self, name: &str, path: &str, object: &Value) -> Answer {
        let caller = Caller::Trusted(UserInfo::new(name, ["dev"]));
        let request = Request::post(path).header("content-type", "application/json");
        self.send_as(caller, request.body(body(object.to_string())).unwrap()).await
    }

    /// Lets everybody in `dev` read ConfigMaps.
    async fn let_in(&self) {
        let binding = json!({"metadata": {"name": "readers"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "Group", "name": "dev", "apiGroup": "rbac.authorization.k8s.io"}]});
        let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
        self.post(path, &binding).await.expect(201);
    }
}

/// Replays kube-apiserver 1.37 with `--authorization-mode=AlwaysDeny`: members of `system:masters` are allowed before
/// the chain is asked, and the refusal gives the authorizer's reason.
#[tokio::test]
async fn always_deny_refuses_everybody_but_masters() {
    let cluster = cluster(&[AlwaysDeny]).await;
    cluster.let_in().await;
    let refused = cluster.list_as("alice", &["dev"]).await.expect(403);
    let message = "configmaps is forbidden: User \"alice\" cannot list resource \"configmaps\" in API group \"\" in \
                   the namespace \"default\": alwaysdeny: Everything is forbidden.";
    assert_eq!(refused["message"], message);
    assert_eq!(cluster.list_as("root", &["system:masters"]).await.code, 200);
    let strange = cluster.send_as(Caller::Anonymous, Request::get("/healthz").body(body("")).unwrap()).await;
    let message = "forbidden: User \"system:anonymous\" cannot get path \"/healthz\": alwaysdeny: Everything is forbidden.";
    assert_eq!(strange.expect(403)["message"], message);
    let review = json!({"spec": {"user": "alice", "groups": ["dev"], "resourceAttributes":
        {"namespace": "default", "verb": "list", "resource": "configmaps"}}});
    let reviewed =
        cluster.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", &review).await.expect(201);
    let expected = json!({"allowed": false, "reason": "alwaysdeny: Everything is forbidden."});
    assert_eq!(reviewed["status"], expected);
}

#[tokio::test]
async fn an_authorizer_without_an_opinion_leaves_the_decision_to_the_next() {
    for chain in [&[Node, Rbac][..], &[AlwaysDeny, Rbac], &[Rbac, AlwaysDeny]] {
        let cluster = cluster(chain).await;
        assert_eq!(cluster.list_as("alice", &["dev"]).await.code, 403, "{chain:?}");
        cluster.let_in().await;
        assert_eq!(cluster.list_as("alice", &["dev"]).await.code, 200, "{chain:?}");
    }
    assert_eq!(cluster(&[AlwaysDeny, AlwaysAllow]).await.list_as("alice", &["dev"]).await.code, 200);
}

#[tokio::test]
async fn without_rbac_in_the_chain_bindings_grant_nothing() {
    for chain in [&[][..], &[Node], &[AlwaysDeny]] {
        let cluster = cluster(chain).await;
        cluster.let_in().await;
        assert_eq!(cluster.list_as("alice", &["dev"]).await.code, 403, "{chain:?}");
        let node = cluster.list_as("system:node:a", &["system:nodes"]).await;
        assert_eq!(node.code, 403, "{chain:?}");
    }
}

/// As kube-apiserver resets `--anonymous-auth` beside AlwaysAllow: otherwise whoever reaches the port may do everything.
#[tokio::test]
async fn always_allow_admits_nobody_who_is_anonymous() {
    for chain in [&[AlwaysAllow][..], &[Rbac, AlwaysAllow]] {
        let cluster = cluster(chain).await;
        for path in [MAPS, "/healthz"] {
            let strange =
                cluster.send_as(Caller::Anonymous, Request::get(path).body(body("")).unwrap()).await;
            assert_eq!(strange.code, 401, "{chain:?} {path}");
        }
        let known = Request::get(MAPS).header("authorization", "Bearer alice").body(body("")).unwrap();
        assert_eq!(cluster.send_as(Caller::Anonymous, known).await.code, 200, "{chain:?}");
    }
}

#[tokio::test]
async fn rules_are_those_of_the_chain() {
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let review = json!({"spec": {"namespace": "default"}});
    let everything = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
    let allowed = cluster(&[AlwaysAllow]).await.post_as("alice", path, &review).await.expect(201);
    assert_eq!(allowed["status"]["resourceRules"], everything);
    assert_eq!(allowed["status"]["nonResourceRules"], json!([{"verbs": ["*"], "nonResourceURLs": ["*"]}]));
    // The administrator's rules are those of a binding, which only RBAC reads.
    let bound = cluster(&[Rbac]).await.post(path, &review).await.expect(201);
    assert_eq!(bound["status"]["resourceRules"][0], everything[0]);
    assert_eq!(
        bound["status"]["resourceRules"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|rule| **rule == everything[0])
            .count(),
        1
    );
    let none = cluster(&[AlwaysDeny]).await.post(path, &review).await.expect(201);
    assert_eq!(none["status"], json!({"resourceRules": [], "nonResourceRules": [], "incomplete": false}));
}
