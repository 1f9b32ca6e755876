//! Authentication and authorization.

use http::Request;
use serde_json::{Value, json};
use setpoint_apiserver::{Caller, UserInfo};

use crate::cluster::{Answer, Cluster, MAPS, body, map, start};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

impl Cluster {
    async fn get_with(&self, path: &str, token: Option<&str>) -> Answer {
        let mut request = Request::get(path);
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        self.send_as(Caller::Anonymous, request.body(body("")).unwrap()).await
    }
}

#[tokio::test]
async fn strangers_see_health_and_little_else() {
    let cluster = start().await;
    assert_eq!(cluster.get_with("/healthz", None).await.code, 200);
    assert_eq!(cluster.get_with("/version", None).await.code, 200);
    let refused = cluster.get_with(MAPS, None).await.expect(403);
    let message = "configmaps is forbidden: User \"system:anonymous\" cannot list resource \"configmaps\" in API \
                   group \"\" in the namespace \"default\"";
    assert_eq!(refused["message"], message);
    assert_eq!(cluster.get_with(MAPS, Some("wrong")).await.code, 401);
    let path = cluster.get_with("/metrics", Some("alice")).await.expect(403);
    assert_eq!(path["message"], "forbidden: User \"alice\" cannot get path \"/metrics\"");
}

/// As kube-apiserver's `bearertoken` and `websocket` authenticators read them.
#[tokio::test]
async fn credentials_that_are_sent_are_never_absent() {
    let cluster = start().await;
    let code = async |headers: &[(&str, &[u8])]| {
        let mut request = Request::get("/api");
        for (name, value) in headers {
            request = request.header(*name, http::HeaderValue::from_bytes(value).unwrap());
        }
        cluster.send_as(Caller::Anonymous, request.body(body("")).unwrap()).await.code
    };
    let auth = "authorization";
    let [anonymous, unknown, known] = [403, 401, 200];
    for (headers, expected) in [
        (vec![], anonymous),
        (vec![(auth, b"Bearer alice" as &[u8])], known),
        (vec![(auth, b"bearer alice and more")], known),
        (vec![(auth, "Bearer José".as_bytes())], unknown),
        (vec![(auth, b"Bearer Jos\xe9")], unknown),
        (vec![(auth, b"Bearer alice"), (auth, b"Bearer wrong")], known),
        (vec![(auth, b"Bearer wrong"), (auth, b"Bearer alice")], unknown),
        (vec![(auth, b"Basic alice")], anonymous),
    ] {
        assert_eq!(code(&headers).await, expected, "{headers:?}");
    }
    let offered = |protocols: &'static [u8]| {
        [
            ("connection", b"Upgrade" as &[u8]),
            ("upgrade", b"websocket"),
            ("sec-websocket-protocol", protocols),
        ]
    };
    for (protocols, expected) in [
        (b"v5.channel.k8s.io" as &[u8], anonymous),
        (b"base64url.bearer.authorization.k8s.io.YWxpY2U, v5.channel.k8s.io", known),
        (b"base64url.bearer.authorization.k8s.io.YWxpY2U", unknown),
        (b"base64url.bearer.authorization.k8s.io.d3Jvbmc, v5.channel.k8s.io", unknown),
        (b"base64url.bearer.authorization.k8s.io.%, v5.channel.k8s.io", unknown),
        (b"base64url.bearer.authorization.k8s.io.YWxpY2U, a\xe9", known),
    ] {
        assert_eq!(code(&offered(protocols)).await, expected, "{}", String::from_utf8_lossy(protocols));
    }
}

#[tokio::test]
async fn a_media_type_outside_ascii_is_not_absent() {
    let cluster = start().await;
    let send = async |headers: &[(&str, &[u8])]| {
        let mut request = Request::post(MAPS);
        for (name, value) in headers {
            request = request.header(*name, http::HeaderValue::from_bytes(value).unwrap());
        }
        cluster.send(request.body(body(map("a", json!({})).to_string())).unwrap()).await.code
    };
    assert_eq!(send(&[("content-type", "application/ü".as_bytes())]).await, 415);
    assert_eq!(send(&[("content-type", b"application/\xfc")]).await, 415);
    assert_eq!(send(&[("accept", "text/ü".as_bytes())]).await, 406);
    // The first value counts.
    assert_eq!(send(&[("accept", b"text/html"), ("accept", b"application/json")]).await, 406);
    assert_eq!(send(&[("accept", b"application/json"), ("accept", b"text/html")]).await, 201);
}

#[tokio::test]
async fn roles_and_bindings_take_effect_at_once() {
    let cluster = start().await;
    assert_eq!(cluster.get_with(MAPS, Some("alice")).await.code, 403);
    let role = json!({"metadata": {"name": "reader"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}]});
    cluster.post(&format!("{RBAC}/namespaces/default/roles"), &role).await.expect(201);
    let binding = json!({"metadata": {"name": "readers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "Group", "name": "dev", "apiGroup": "rbac.authorization.k8s.io"}]});
    cluster.post(&format!("{RBAC}/namespaces/default/rolebindings"), &binding).await.expect(201);
    assert_eq!(cluster.get_with(MAPS, Some("alice")).await.code, 200);
    assert_eq!(cluster.get_with("/api/v1/namespaces/kube-system/configmaps", Some("alice")).await.code, 403);
    let review = json!({"spec": {"user": "alice", "groups": ["dev"], "resourceAttributes":
        {"namespace": "default", "verb": "list", "resource": "configmaps"}}});
    let review =
        cluster.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", &review).await.expect(201);
    assert_eq!(review["status"]["allowed"], true);
    cluster.delete(&format!("{RBAC}/namespaces/default/rolebindings/readers")).await.expect(200);
    assert_eq!(cluster.get_with(MAPS, Some("alice")).await.code, 403);
}

#[tokio::test]
async fn an_apply_that_creates_needs_the_right_to_create() {
    let cluster = start().await;
    let role = |verbs: &[&str]| {
        json!({"metadata": {"name": "patcher"},
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}]})
    };
    let roles = format!("{RBAC}/namespaces/default/roles");
    cluster.post(&roles, &role(&["patch"])).await.expect(201);
    let binding = json!({"metadata": {"name": "patchers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "patcher"},
        "subjects": [{"kind": "User", "name": "bob", "apiGroup": "rbac.authorization.k8s.io"}]});
    cluster.post(&format!("{RBAC}/namespaces/default/rolebindings"), &binding).await.expect(201);
    let apply = async || {
        let config =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "b"}});
        let request = Request::patch(format!("{MAPS}/m?fieldManager=bob"))
            .header("content-type", "application/apply-patch+yaml")
            .body(body(config.to_string()))
            .unwrap();
        let groups: [&str; 0] = [];
        cluster.send_as(Caller::Trusted(UserInfo::new("bob", groups)), request).await
    };
    let refused = apply().await.expect(403);
    let message = "configmaps \"m\" is forbidden: User \"bob\" cannot create resource \"configmaps\" in API group \
                   \"\" in the namespace \"default\"";
    assert_eq!(refused["message"], message);
    cluster.put(&format!("{roles}/patcher"), &role(&["patch", "create"])).await.expect(200);
    assert_eq!(apply().await.code, 201);
}

#[tokio::test]
async fn a_service_accounts_token_lives_as_long_as_it_and_its_account() {
    let cluster = start().await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    cluster.post(accounts, &json!({"metadata": {"name": "robot"}})).await.expect(201);
    let request = json!({"spec": {"expirationSeconds": 600}});
    let issued = cluster.post(&format!("{accounts}/robot/token"), &request).await.expect(201);
    let token = issued["status"]["token"].as_str().unwrap();
    let refused = cluster.get_with(MAPS, Some(token)).await.expect(403);
    let who = refused["message"].as_str().unwrap();
    assert!(who.contains("User \"system:serviceaccount:default:robot\""), "{who}");
    let review = json!({"spec": {"token": token}});
    let reviewed = cluster.post("/apis/authentication.k8s.io/v1/tokenreviews", &review).await.expect(201);
    assert_eq!(reviewed["status"]["authenticated"], true);
    // Its ten minutes, and the minute that clocks may be apart.
    cluster.now.fetch_add(661, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(cluster.get_with(MAPS, Some(token)).await.code, 401);
    let issued = cluster.post(&format!("{accounts}/robot/token"), &request).await.expect(201);
    let token = issued["status"]["token"].as_str().unwrap();
    assert_eq!(cluster.get_with(MAPS, Some(token)).await.code, 403);
    cluster.delete(&format!("{accounts}/robot")).await.expect(200);
    assert_eq!(cluster.get_with(MAPS, Some(token)).await.code, 401);
}

#[tokio::test]
async fn impersonation_needs_the_right_and_takes_effect() {
    let cluster = start().await;
    let request = |headers: &[(&str, &str)]| {
        let mut request = Request::get(MAPS);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(body("")).unwrap()
    };
    let as_bob = cluster.send(request(&[("impersonate-user", "bob")])).await.expect(403);
    assert!(as_bob["message"].as_str().unwrap().contains("User \"bob\""));
    let masters = [("impersonate-user", "bob"), ("impersonate-group", "system:masters")];
    assert_eq!(cluster.send(request(&masters)).await.code, 200);
    let alice = Caller::Trusted(UserInfo::new("alice", ["dev"]));
    assert_eq!(cluster.send_as(alice, request(&masters)).await.code, 403);
    let review = json!({"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"});
    let me = cluster.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &review).await.expect(201);
    assert_eq!(me["status"]["userInfo"]["username"], "admin");
}

/// `*` on the target also holds `impersonate-on:…`, which is only half of a constrained mode.
#[tokio::test]
async fn every_verb_on_the_target_does_not_let_one_impersonate() {
    let cluster = start().await;
    let role = json!({"metadata": {"name": "all"},
        "rules": [{"apiGroups": ["*"], "resources": ["configmaps"], "verbs": ["*"]}]});
    cluster.post(&format!("{RBAC}/clusterroles"), &role).await.expect(201);
    let binding = json!({"metadata": {"name": "all"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "all"},
        "subjects": [{"kind": "User", "name": "mallory", "apiGroup": "rbac.authorization.k8s.io"}]});
    cluster.post(&format!("{RBAC}/clusterrolebindings"), &binding).await.expect(201);
    for headers in [
        vec![("impersonate-user", "bob")],
        vec![("impersonate-user", "bob"), ("impersonate-group", "system:masters")],
        vec![("impersonate-user", "system:serviceaccount:default:builder")],
        vec![("impersonate-user", "system:node:n1"), ("impersonate-group", "system:nodes")],
    ] {
        let mut request = Request::get(MAPS);
        for (name, value) in &headers {
            request = request.header(*name, *value);
        }
        let groups: [&str; 0] = [];
        let mallory = Caller::Trusted(UserInfo::new("mallory", groups));
        let answer = cluster.send_as(mallory, request.body(body("")).unwrap()).await.expect(403);
        let message = answer["message"].as_str().unwrap();
        assert!(message.contains("User \"mallory\" cannot impersonate"), "{message}");
    }
}

#[tokio::test]
async fn pods_get_a_token_volume_when_the_account_is_admitted() {
    let cluster =
        crate::cluster::start_with(|options| options.admission = setpoint_apiserver::Admission::default())
            .await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let refused = cluster.post(pods, &pod).await.expect(403);
    assert!(refused["message"].as_str().unwrap().contains("serviceaccount \"default\" not found"));
    let account = json!({"metadata": {"name": "default"}});
    cluster.post("/api/v1/namespaces/default/serviceaccounts", &account).await.expect(201);
    let created: Value = cluster.post(pods, &pod).await.expect(201);
    assert_eq!(created["spec"]["serviceAccountName"], "default");
    let mount = &created["spec"]["containers"][0]["volumeMounts"][0];
    assert_eq!(mount["mountPath"], "/var/run/secrets/kubernetes.io/serviceaccount");
    assert_eq!(mount["name"], created["spec"]["volumes"][0]["name"]);
    cluster.post(MAPS, &map("a", json!({}))).await.expect(201);
}

/// A token as kube-controller-manager puts it into a Secret, and the Secret.
async fn token_in_secret(cluster: &Cluster) -> (String, Value) {
    let account = json!({"metadata": {"name": "builder"}});
    let account = cluster.post("/api/v1/namespaces/default/serviceaccounts", &account).await.expect(201);
    let claims = json!({"iss": "kubernetes/serviceaccount", "sub": "system:serviceaccount:default:builder",
        "kubernetes.io/serviceaccount/namespace": "default", "kubernetes.io/serviceaccount/secret.name": "tok",
        "kubernetes.io/serviceaccount/service-account.name": "builder",
        "kubernetes.io/serviceaccount/service-account.uid": account["metadata"]["uid"]});
    let key = cluster.server.options().service_accounts.signing.clone().unwrap();
    let token = setpoint_apiserver::jwt::sign(&key, &claims).unwrap();
    let secret = json!({"metadata": {"name": "tok",
            "annotations": {"kubernetes.io/service-account.name": "builder"}},
        "type": "kubernetes.io/service-account-token", "stringData": {"token": token}});
    let secret = cluster.post("/api/v1/namespaces/default/secrets", &secret).await.expect(201);
    (token, secret)
}

const SECRET: &str = "/api/v1/namespaces/default/secrets/tok";

#[tokio::test]
async fn a_token_in_a_secret_is_its_accounts_and_its_use_is_noted() {
    let cluster = start().await;
    let (token, _) = token_in_secret(&cluster).await;
    let refused = cluster.get_with(MAPS, Some(&token)).await.expect(403);
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("User \"system:serviceaccount:default:builder\" cannot list"), "{message}");
    let noted = cluster.get(SECRET).await.expect(200);
    assert_eq!(noted["metadata"]["labels"], json!({"kubernetes.io/legacy-token-last-used": "2027-01-15"}));
    let owners = noted["metadata"]["managedFields"].as_array().unwrap();
    assert!(owners.iter().any(|owner| owner["manager"] == "kube-apiserver"), "{owners:?}");
    // Once a day.
    cluster.get_with(MAPS, Some(&token)).await.expect(403);
    assert_eq!(cluster.get(SECRET).await.expect(200), noted);
    // It is for this server only.
    let review = |audience: &str| json!({"spec": {"token": token, "audiences": [audience]}});
    let path = "/apis/authentication.k8s.io/v1/tokenreviews";
    let own = cluster.server.options().service_accounts.issuer.clone();
    assert_eq!(cluster.post(path, &review(&own)).await.expect(201)["status"]["authenticated"], true);
    let other = cluster.post(path, &review("vault")).await.expect(201);
    assert_eq!(other["status"]["authenticated"], Value::Null);
}

#[tokio::test]
async fn a_token_ends_with_what_it_stands_in() {
    const ACCOUNT: &str = "/api/v1/namespaces/default/serviceaccounts/builder";
    let merge = |patch: Value| (SECRET, patch);
    for (path, patch) in [
        merge(json!({"data": {"token": "b3RoZXI="}})),
        merge(json!({"data": null})),
        merge(json!({"metadata": {"labels": {"kubernetes.io/legacy-token-invalid-since": "2026-01-01"}}})),
        (SECRET, Value::Null),
        (ACCOUNT, Value::Null),
    ] {
        let cluster = start().await;
        let (token, _) = token_in_secret(&cluster).await;
        assert_eq!(cluster.get_with("/api", Some(&token)).await.code, 200);
        if patch.is_null() {
            cluster.delete(path).await.expect(200);
        } else {
            cluster.patch(path, crate::cluster::MERGE, &patch).await.expect(200);
        }
        assert_eq!(cluster.get_with("/api", Some(&token)).await.code, 401, "{path} {patch}");
    }
}
