//! Impersonation: each mode of KEP-5284 with both halves of its rights, and with either half missing.
//!
//! The rules and words are those of Kubernetes 1.37, `endpoints/filters/impersonation`.

use http::{HeaderValue, Request};
use serde_json::{Value, json};
use setpoint_apiserver::{Caller, UserInfo};

use crate::cluster::{Answer, Cluster, MAPS, body, start};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const ACCESS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// A rule: verb, API group, resource, and names if not all are meant.
type Rule<'a> = (&'a str, &'a str, &'a str, &'a [&'a str]);

impl Cluster {
    /// Lets a user do what the rules say, and nothing else.
    async fn grant(&self, user: &str, rules: &[Rule<'_>]) {
        let rules: Vec<Value> = rules
            .iter()
            .map(|(verb, group, resource, names)| {
                json!({"verbs": [verb], "apiGroups": [group], "resources": [resource], "resourceNames": names})
            })
            .collect();
        let name = user.replace(':', "-");
        let role = json!({"metadata": {"name": name}, "rules": rules});
        let path = format!("{RBAC}/clusterroles");
        if self.post(&path, &role).await.code == 409 {
            self.put(&format!("{path}/{name}"), &role).await.expect(200);
        }
        let subject = json!({"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"});
        let binding = json!({"metadata": {"name": name}, "subjects": [subject],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}});
        self.post(&format!("{RBAC}/clusterrolebindings"), &binding).await;
    }

    /// Asks who it is, on somebody's behalf.
    async fn whoami(&self, requestor: &UserInfo, headers: &[(&str, &str)]) -> Answer {
        let mut request = Request::post(REVIEWS).header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        let review = json!({"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"});
        let request = request.body(body(review.to_string())).unwrap();
        self.send_as(Caller::Trusted(requestor.clone()), request).await
    }
}

fn user(name: &str) -> UserInfo {
    let groups: [&str; 0] = [];
    UserInfo::new(name, groups)
}

/// An account whose token says that its pod runs on a node.
fn agent(node: &str) -> UserInfo {
    let mut user = UserInfo::service_account("default", "agent");
    user.extra.insert("authentication.kubernetes.io/node-name".into(), vec![node.into()]);
    user
}

const AUTHN: &str = "authentication.k8s.io";
const TARGET: &str = "selfsubjectreviews";

struct Case<'a> {
    requestor: UserInfo,
    headers: &'a [(&'a str, &'a str)],
    /// The right on the target.
    on: Rule<'a>,
    /// The rights on the parts of the identity.
    identity: &'a [Rule<'a>],
    name: &'a str,
    groups: &'a [&'a str],
}

fn cases() -> Vec<Case<'static>> {
    vec![
        Case {
            requestor: agent("n1"),
            headers: &[("impersonate-user", "system:node:n1")],
            on: ("impersonate-on:associated-node:create", AUTHN, TARGET, &[]),
            identity: &[("impersonate:associated-node", AUTHN, "nodes", &["*"])],
            name: "system:node:n1",
            groups: &["system:nodes", "system:authenticated"],
        },
        Case {
            requestor: user("carol"),
            headers: &[("impersonate-user", "system:node:n2")],
            on: ("impersonate-on:arbitrary-node:create", AUTHN, TARGET, &[]),
            identity: &[("impersonate:arbitrary-node", AUTHN, "nodes", &["n2"])],
            name: "system:node:n2",
            groups: &["system:nodes", "system:authenticated"],
        },
        Case {
            requestor: user("carol"),
            headers: &[("impersonate-user", "system:serviceaccount:default:robot")],
            on: ("impersonate-on:serviceaccount:create", AUTHN, TARGET, &[]),
            identity: &[("impersonate:serviceaccount", AUTHN, "serviceaccounts", &["robot"])],
            name: "system:serviceaccount:default:robot",
            groups: &["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"],
        },
        Case {
            requestor: user("carol"),
            headers: &[
                ("impersonate-user", "José"),
                ("impersonate-uid", "ü7"),
                ("impersonate-group", "entwicklung-ä"),
                ("impersonate-extra-acme.com%2fteam", "größe"),
            ],
            on: ("impersonate-on:user-info:create", AUTHN, TARGET, &[]),
            identity: &[
                ("impersonate:user-info", AUTHN, "users", &["José"]),
                ("impersonate:user-info", AUTHN, "uids", &["ü7"]),
                ("impersonate:user-info", AUTHN, "groups", &["entwicklung-ä"]),
                ("impersonate:user-info", AUTHN, "userextras/acme.com/team", &["größe"]),
            ],
            name: "José",
            groups: &["entwicklung-ä", "system:authenticated"],
        },
    ]
}

#[tokio::test]
async fn a_constrained_mode_needs_both_halves() {
    let cluster = start().await;
    for Case { requestor, headers, on, identity, name, groups } in cases() {
        let mut all = vec![on];
        all.extend(identity);
        cluster.grant(&requestor.name, &all).await;
        let answer = cluster.whoami(&requestor, headers).await.expect(201);
        let info = &answer["status"]["userInfo"];
        assert_eq!((&info["username"], &info["groups"]), (&json!(name), &json!(groups)));
        for missing in 0..all.len() {
            let mut fewer = all.clone();
            fewer.remove(missing);
            cluster.grant(&requestor.name, &fewer).await;
            let refused = cluster.whoami(&requestor, headers).await.expect(403);
            let message = refused["message"].as_str().unwrap();
            let refused_verb = format!("cannot {} resource", all[missing].0);
            assert!(message.contains(&refused_verb), "{name} without {missing}: {message}");
        }
        // Every verb on the target is the first half only.
        cluster.grant(&requestor.name, &[("*", "*", TARGET, &[])]).await;
        cluster.whoami(&requestor, headers).await.expect(403);
    }
}

#[tokio::test]
async fn the_legacy_verb_alone_suffices() {
    let cluster = start().await;
    let carol = user("carol");
    let headers = [
        ("impersonate-user", "bob"),
        ("impersonate-uid", "7"),
        ("impersonate-group", "system:masters"),
        ("impersonate-extra-team", "x"),
    ];
    let rules: [Rule<'_>; 4] = [
        ("impersonate", "", "users", &["bob"]),
        ("impersonate", AUTHN, "uids", &["7"]),
        ("impersonate", "", "groups", &["system:masters"]),
        ("impersonate", AUTHN, "userextras/team", &["x"]),
    ];
    cluster.grant("carol", &rules).await;
    let answer = cluster.whoami(&carol, &headers).await.expect(201);
    assert_eq!(answer["status"]["userInfo"]["username"], "bob");
    for missing in 0..rules.len() {
        let mut fewer = rules.to_vec();
        fewer.remove(missing);
        cluster.grant("carol", &fewer).await;
        let refused = cluster.whoami(&carol, &headers).await.expect(403);
        // The first mode's refusal is the answer, not the last one's.
        let message = "selfsubjectreviews.authentication.k8s.io is forbidden: User \"carol\" cannot \
                       impersonate-on:user-info:create resource \"selfsubjectreviews\" in API group \
                       \"authentication.k8s.io\" at the cluster scope";
        assert_eq!(refused["message"], message);
    }
}

#[tokio::test]
async fn constrained_modes_have_bounds_of_their_own() {
    let cluster = start().await;
    let carol = user("carol");
    cluster
        .grant(
            "carol",
            &[
                ("impersonate-on:user-info:create", "*", "*", &[]),
                ("impersonate-on:arbitrary-node:create", "*", "*", &[]),
                ("impersonate-on:associated-node:create", "*", "*", &[]),
                ("impersonate:user-info", AUTHN, "*", &[]),
                ("impersonate:associated-node", AUTHN, "*", &[]),
            ],
        )
        .await;
    let bob = ("impersonate-user", "bob");
    cluster.whoami(&carol, &[bob]).await.expect(201);
    let refused = async |headers: &[(&str, &str)], text: &str| {
        let answer = cluster.whoami(&carol, headers).await.expect(403);
        let message = answer["message"].as_str().unwrap();
        assert!(message.ends_with(text), "{message}");
    };
    refused(
        &[bob, ("impersonate-group", "system:masters")],
        "groups.authentication.k8s.io \"system:masters\" is forbidden: User \"carol\" cannot impersonate:user-info \
         resource \"groups\" in API group \"authentication.k8s.io\" at the cluster scope: impersonating the \
         system:masters group is not allowed",
    )
    .await;
    refused(&[bob, ("impersonate-group", "")], "impersonating the empty string group is not allowed").await;
    refused(
        &[bob, ("impersonate-extra-team", "x")],
        "impersonating an invalid key in extra is not allowed: extra.key: Invalid value: \"team\": must be a \
         domain-prefixed path (such as \"acme.io/foo\")",
    )
    .await;
    refused(
        &[bob, ("impersonate-extra-acme.io%2f%41", "x")],
        "impersonating a non-lowercase key in extra is not allowed: \"acme.io/A\"",
    )
    .await;
    // Only an account can be associated with a node, and only with its own.
    refused(
        &[("impersonate-user", "system:node:n1")],
        "cannot impersonate:arbitrary-node resource \"nodes\" in API group \
         \"authentication.k8s.io\" at the cluster scope",
    )
    .await;
    // With a group, a node or an account is for the legacy verb alone.
    let group = ("impersonate-group", "dev");
    refused(
        &[("impersonate-user", "system:node:n1"), group],
        "cannot impersonate resource \"users\" in API group \"\" at the cluster scope",
    )
    .await;
    refused(
        &[("impersonate-user", "system:serviceaccount:default:robot"), group],
        "cannot impersonate resource \"serviceaccounts\" in API group \"\" in the namespace \"default\"",
    )
    .await;
}

#[tokio::test]
async fn an_agent_takes_on_its_own_node_only() {
    let cluster = start().await;
    let name = "system:serviceaccount:default:agent";
    let rules: [Rule<'_>; 2] = [
        ("impersonate-on:associated-node:create", AUTHN, TARGET, &[]),
        ("impersonate:associated-node", AUTHN, "nodes", &["*"]),
    ];
    cluster.grant(name, &rules).await;
    let own = [("impersonate-user", "system:node:n1")];
    cluster.whoami(&agent("n1"), &own).await.expect(201);
    cluster.whoami(&agent("n2"), &own).await.expect(403);
    cluster.whoami(&UserInfo::service_account("default", "agent"), &own).await.expect(403);
}

/// Many groups need one right on all of them, or one on each.
#[tokio::test]
async fn many_groups_are_asked_for_at_once() {
    let cluster = start().await;
    let carol = user("carol");
    let rules = |groups: &'static [&'static str]| -> [Rule<'static>; 3] {
        [
            ("impersonate-on:user-info:create", AUTHN, TARGET, &[]),
            ("impersonate:user-info", AUTHN, "users", &["bob"]),
            ("impersonate:user-info", AUTHN, "groups", groups),
        ]
    };
    let mut headers = vec![("impersonate-user", "bob")];
    headers.extend(["a", "b", "c", "d"].map(|group| ("impersonate-group", group)));
    for (groups, few, many) in
        [(&["*"] as &[&str], 403, 201), (&["a", "b", "c", "d"], 201, 201), (&["a", "b", "c"], 201, 403)]
    {
        cluster.grant("carol", &rules(groups)).await;
        cluster.whoami(&carol, &headers[..4]).await.expect(few);
        cluster.whoami(&carol, &headers).await.expect(many);
    }
}

/// Everything behind authentication sees the impersonated user: reviews, admission and the escalation checks.
#[tokio::test]
async fn checks_are_about_the_impersonated_user() {
    let cluster = start().await;
    cluster
        .grant(
            "bob",
            &[("create", "rbac.authorization.k8s.io", "clusterroles", &[]), ("create", "*", "*", &[])],
        )
        .await;
    let as_bob = async |path: &str, object: Value| {
        let request = Request::post(path).header("impersonate-user", "bob");
        let request = request.header("content-type", "application/json");
        cluster.send(request.body(body(object.to_string())).unwrap()).await
    };
    let attributes = json!({"verb": "delete", "resource": "configmaps", "namespace": "default"});
    let access = as_bob(ACCESS, json!({"spec": {"resourceAttributes": attributes}})).await.expect(201);
    assert_eq!(access["status"]["allowed"], false);
    let role = json!({"metadata": {"name": "more"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["delete"]}]});
    let refused = as_bob(&format!("{RBAC}/clusterroles"), role).await.expect(403);
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("user \"bob\" (groups=[\"system:authenticated\"])"), "{message}");
}

#[tokio::test]
async fn a_name_outside_ascii_is_not_absent() {
    let cluster = start().await;
    let get = |name: &[u8]| {
        let name = HeaderValue::from_bytes(name).unwrap();
        Request::get(MAPS).header("impersonate-user", name).body(body("")).unwrap()
    };
    let refused = cluster.send(get("José".as_bytes())).await.expect(403);
    assert!(refused["message"].as_str().unwrap().contains("User \"José\" cannot list"), "{refused}");
    // No rule can name such bytes.
    cluster.send(get(b"Jos\xe9")).await.expect(400);
}
