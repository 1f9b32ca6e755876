//! The kubeconfig of a cluster, for kubectl and every client library.

use std::net::SocketAddr;

use serde_json::{Value, json};

use setpoint_apiserver::pki::Identity;

/// Returns the text of a kubeconfig for one cluster and one user with a client certificate.
///
/// JSON is YAML, but people open this file, so it is in YAML's block form.
pub fn kubeconfig(server: SocketAddr, authority: &str, user: &Identity) -> String {
    to_yaml(&document(server, authority, user))
}

fn document(server: SocketAddr, authority: &str, user: &Identity) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": "setpoint",
            "cluster": {
                "server": format!("https://{server}"),
                "certificate-authority-data": encode(authority),
            },
        }],
        "users": [{
            "name": "admin",
            "user": {
                "client-certificate-data": encode(&user.certificate),
                "client-key-data": encode(&user.key),
            },
        }],
        "contexts": [{ "name": "setpoint", "context": { "cluster": "setpoint", "user": "admin" } }],
        "current-context": "setpoint",
    })
}

fn to_yaml(document: &Value) -> String {
    serde_saphyr::to_string(document).expect("a tree of texts, lists and objects has a YAML form")
}

fn encode(pem: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(pem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kube_reads_what_we_write() {
        let user = Identity { certificate: "cert".into(), key: "key".into() };
        let text = kubeconfig("127.0.0.1:6443".parse().unwrap(), "ca", &user);
        let read = kube::config::Kubeconfig::from_yaml(&text).unwrap();
        assert_eq!(read.current_context.as_deref(), Some("setpoint"));
        let cluster = read.clusters[0].cluster.as_ref().unwrap();
        assert_eq!(cluster.server.as_deref(), Some("https://127.0.0.1:6443"));
        assert_eq!(cluster.certificate_authority_data.as_deref(), Some("Y2E="));
    }
}
