//! Services.

use serde_json::Value;

use crate::access::{at, items, text};

pub(super) fn warnings(service: &Value) -> Vec<String> {
    let spec = at(service, "spec");
    let kind = text(spec, "type");
    let headless = kind == "ClusterIP" && text(spec, "clusterIP") == "None";
    let external_ips = !items(spec, "externalIPs").is_empty();
    let mut warnings = Vec::new();
    if at(service, "metadata.annotations").get("service.kubernetes.io/topology-aware-hints").is_some() {
        let words = "annotation service.kubernetes.io/topology-aware-hints is deprecated, please use \
                     service.kubernetes.io/topology-mode instead";
        warnings.push(words.to_owned());
    }
    if headless {
        if !text(spec, "loadBalancerIP").is_empty() {
            warnings.push("spec.loadBalancerIP is ignored for headless services".to_owned());
        }
        if external_ips {
            warnings.push("spec.externalIPs is ignored for headless services".to_owned());
        }
        if text(spec, "sessionAffinity") != "None" {
            warnings.push("spec.SessionAffinity is ignored for headless services".to_owned());
        }
    }
    if external_ips && !headless && kind != "ExternalName" {
        let words = "spec.externalIPs is deprecated and may no longer be implemented in some clusters";
        warnings.push(words.to_owned());
    }
    if external_ips && kind == "ExternalName" {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if kind != "ExternalName" && !text(spec, "externalName").is_empty() {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if text(spec, "trafficDistribution") == "PreferClose" {
        let words = "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"";
        warnings.push(words.to_owned());
    }
    warnings
}
