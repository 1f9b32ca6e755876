//! The trust anchors that the cluster publishes in ClusterTrustBundles, as a file of a volume.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::{ClusterTrustBundleProjection, Pod};
use kube::core::ApiResource;
use serde_json::Value;
use setpoint::{Client, ClientError, Query};
use setpoint_api::selector::LabelSelector;
use x509_parser::pem::Pem;

use super::environment::ReferenceError;

/// Number of letters in a line of a PEM block.
const LINE: usize = 64;

/// Whether a volume of the pod projects trust anchors.
pub fn wants(pod: &Pod) -> bool {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let projected = volumes.filter_map(|volume| volume.projected.as_ref());
    let mut sources = projected.flat_map(|projected| projected.sources.iter().flatten());
    sources.any(|source| source.cluster_trust_bundle.is_some())
}

/// Reads all bundles from the server. A server that does not serve the kind has none.
pub async fn list(client: &Client) -> Result<Vec<Value>, ClientError> {
    let resource = ApiResource {
        group: "certificates.k8s.io".to_owned(),
        version: "v1".to_owned(),
        api_version: "certificates.k8s.io/v1".to_owned(),
        kind: "ClusterTrustBundle".to_owned(),
        plural: "clustertrustbundles".to_owned(),
    };
    match client.live().list_values(&resource, Query::all()).await {
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        listed => listed,
    }
}

/// Returns the anchors that a source of a volume asks for, each once, as PEM.
///
/// # Errors
/// When there is no such bundle and the source is not optional.
pub fn anchors(source: &ClusterTrustBundleProjection, bundles: &[Value]) -> Result<Vec<u8>, ReferenceError> {
    let optional = source.optional == Some(true);
    let found: Vec<&Value> = match (&source.name, &source.signer_name) {
        (Some(name), _) => {
            let named =
                bundles.iter().filter(|bundle| bundle["metadata"]["name"] == **name).collect::<Vec<_>>();
            if named.is_empty() && !optional {
                return Err(ReferenceError::Object { kind: "clustertrustbundle", name: name.clone() });
            }
            named
        }
        (None, Some(signer)) => {
            // No selector selects nothing. An empty selector selects everything.
            let selector =
                source.label_selector.as_ref().and_then(|selector| serde_json::to_value(selector).ok());
            let selector = LabelSelector::from_json(&selector.unwrap_or_default()).ok();
            let selected = |bundle: &&Value| {
                bundle["spec"]["signerName"] == **signer
                    && source.label_selector.is_some()
                    && selector.as_ref().is_some_and(|selector| selector.matches_object(bundle))
            };
            let found: Vec<&Value> = bundles.iter().filter(selected).collect();
            if found.is_empty() && !optional {
                return Err(ReferenceError::NoTrustBundle);
            }
            found
        }
        (None, None) => return Err(ReferenceError::UnnamedTrustBundle),
    };
    let texts = found.iter().filter_map(|bundle| bundle["spec"]["trustBundle"].as_str());
    let anchors: BTreeSet<Vec<u8>> = texts.flat_map(certificates).collect();
    Ok(anchors.iter().map(|anchor| pem(anchor)).collect::<String>().into_bytes())
}

fn certificates(text: &str) -> Vec<Vec<u8>> {
    Pem::iter_from_buffer(text.as_bytes()).filter_map(Result::ok).map(|block| block.contents).collect()
}

fn pem(certificate: &[u8]) -> String {
    let encoded = STANDARD.encode(certificate);
    let mut text = String::from("-----BEGIN CERTIFICATE-----\n");
    let mut rest = encoded.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(LINE));
        text.push_str(line);
        text.push('\n');
        rest = after;
    }
    text + "-----END CERTIFICATE-----\n"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn bundle(name: &str, signer: &str, labels: Value, anchors: &[&[u8]]) -> Value {
        let text: String = anchors.iter().map(|anchor| format!("a comment\n{}", pem(anchor))).collect();
        json!({"metadata": {"name": name, "labels": labels}, "spec": {"signerName": signer, "trustBundle": text}})
    }

    fn read(source: Value, bundles: &[Value]) -> Result<String, String> {
        let source = serde_json::from_value(source).unwrap();
        let found = anchors(&source, bundles);
        found.map(|bytes| String::from_utf8(bytes).unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn anchors_are_chosen_by_name_or_by_signer_and_labels_and_stand_once() {
        let (one, two) = (vec![1; 100], vec![2; 3]);
        let bundles = [
            bundle("plain", "", json!({}), &[&one]),
            bundle("a.b:c:x", "a.b/c", json!({"live": "yes"}), &[&two, &one]),
            bundle("a.b:c:y", "a.b/c", json!({"live": "yes"}), &[&one]),
            bundle("a.b:c:z", "a.b/c", json!({"live": "no"}), &[&[3]]),
        ];
        assert_eq!(read(json!({"name": "plain", "path": "p"}), &bundles).unwrap(), pem(&one));
        let live =
            json!({"signerName": "a.b/c", "path": "p", "labelSelector": {"matchLabels": {"live": "yes"}}});
        assert_eq!(read(live, &bundles).unwrap(), pem(&one) + &pem(&two));
        let every = json!({"signerName": "a.b/c", "path": "p", "labelSelector": {}});
        assert_eq!(read(every, &bundles).unwrap(), pem(&one) + &pem(&two) + &pem(&[3]));
        assert!(pem(&one).lines().all(|line| line.len() <= LINE));
    }

    #[test]
    fn a_missing_bundle_is_an_error_unless_it_is_optional() {
        let none = read(json!({"name": "none", "path": "p"}), &[]).unwrap_err();
        assert_eq!(none, "clustertrustbundle \"none\" not found");
        let signer = json!({"signerName": "a.b/c", "path": "p"});
        let bundles = [bundle("a.b:c:x", "a.b/c", json!({}), &[&[1]])];
        let none = read(signer, &bundles).unwrap_err();
        assert_eq!(none, "combination of signerName and labelSelector matched zero ClusterTrustBundles");
        assert_eq!(read(json!({"name": "none", "path": "p", "optional": true}), &[]).unwrap(), "");
    }
}
