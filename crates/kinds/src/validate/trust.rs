//! ClusterTrustBundles and PodCertificateRequests.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::public_key::PublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

use super::certificates::signer;
use super::check::Causes;
use super::meta::IMMUTABLE;
use super::pem::{PemBlock, pem_blocks};
use crate::access::{at, entries, int, items, text};
use crate::strategy::semantically_equal;
use setpoint_api::cause::{BadValue, Cause, Path};
use setpoint_api::name::{self, NameRule};

const MOST_BUNDLE_BYTES: usize = 1024 * 1024;
const MOST_UID_BYTES: usize = 128;
const MOST_REQUEST_BYTES: usize = 10 * 1024;
const HOUR: i64 = 60 * 60;

/// Checks the name of a bundle: the name of its signer is its beginning.
pub(super) fn bundle_name(object: &Value, name: &str, prefix: bool) -> Vec<String> {
    bundle_name_of(text(object, "spec.signerName"), name, prefix)
}

/// Checks the name of a bundle of this signer; an empty one is none.
pub(super) fn bundle_name_of(signer: &str, name: &str, prefix: bool) -> Vec<String> {
    if signer.is_empty() {
        if name.contains(':') {
            return vec!["ClusterTrustBundle without signer name must not have \":\" in its name".to_owned()];
        }
        return NameRule::Subdomain.check(name, prefix);
    }
    let required = format!("{}:", signer.replace('/', ":"));
    match name.strip_prefix(&required) {
        Some(rest) => NameRule::Subdomain.check(rest, prefix),
        None => {
            vec![format!("ClusterTrustBundle for signerName {signer} must be named with prefix {required}")]
        }
    }
}

pub(super) fn bundle(causes: &mut Causes, object: &Value) {
    bundle_signer(causes, object);
    anchors(causes, text(object, "spec.trustBundle"), &Path::new("spec.trustBundle"));
}

fn bundle_signer(causes: &mut Causes, object: &Value) {
    let name = text(object, "spec.signerName");
    if !name.is_empty() {
        signer(causes, name, &Path::new("spec.signerName"));
    }
}

pub(super) fn bundle_update(causes: &mut Causes, new: &Value, old: &Value) {
    let name = text(new, "metadata.name");
    causes.wrong(&Path::new("metadata.name"), name, &bundle_name(new, name, false));
    bundle_signer(causes, new);
    if at(new, "spec.trustBundle") != at(old, "spec.trustBundle") {
        anchors(causes, text(new, "spec.trustBundle"), &Path::new("spec.trustBundle"));
    }
    causes.immutable(new, old, "spec.signerName", text(new, "spec.signerName"));
}

fn anchors(causes: &mut Causes, bundle: &str, path: &Path) {
    if bundle.len() > MOST_BUNDLE_BYTES {
        return causes.push(Cause::too_long(path, MOST_BUNDLE_BYTES));
    }
    let blocks = pem_blocks(bundle);
    let mut wrong: Vec<String> = blocks
        .iter()
        .enumerate()
        .filter_map(|(index, block)| Some(format!("entry {index} {}", wrong_anchor(block)?)))
        .collect();
    if wrong.is_empty() && blocks.is_empty() {
        wrong.push("at least one trust anchor must be provided".to_owned());
    } else if wrong.is_empty() {
        wrong = doubled(&blocks);
    }
    for one in wrong {
        causes.invalid(path, "<value omitted>", &one);
    }
}

fn wrong_anchor(block: &PemBlock) -> Option<String> {
    if block.kind != "CERTIFICATE" {
        return Some(format!("has bad block type: {}", block.kind));
    }
    if block.has_headers {
        return Some("has PEM block headers".to_owned());
    }
    match X509Certificate::from_der(&block.bytes) {
        Ok(([], certificate)) => (!certificate.is_ca()).then(|| "does not have the CA bit set".to_owned()),
        _ => Some("does not parse as X.509".to_owned()),
    }
}

/// The anchors that stand in a bundle more than once, each with its positions.
fn doubled(blocks: &[PemBlock]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (first, block) in blocks.iter().enumerate() {
        let same = |other: &PemBlock| other.bytes == block.bytes;
        if blocks[..first].iter().any(same) {
            continue;
        }
        let places: Vec<String> = blocks
            .iter()
            .enumerate()
            .filter(|(_, other)| same(other))
            .map(|(index, _)| index.to_string())
            .collect();
        if places.len() > 1 {
            wrong.push(format!("duplicate trust anchor (indices [{}])", places.join(" ")));
        }
    }
    wrong
}

pub(super) fn pod_certificate(causes: &mut Causes, object: &Value) {
    let (path, spec) = (Path::new("spec"), at(object, "spec"));
    let signer_name = text(spec, "signerName");
    signer(causes, signer_name, &path.child("signerName"));
    for (key, _) in entries(spec, "unverifiedUserAnnotations") {
        domain_prefixed(causes, &key.to_lowercase(), &path.child("unverifiedUserAnnotations"));
    }
    for (name_field, uid_field) in
        [("podName", "podUID"), ("serviceAccountName", "serviceAccountUID"), ("nodeName", "nodeUID")]
    {
        let (name, uid) = (text(spec, name_field), text(spec, uid_field));
        causes.wrong(&path.child(name_field), name, &name::dns1123_subdomain(name));
        if uid.is_empty() {
            causes.invalid(&path.child(uid_field), uid, "must not be empty");
        }
        if uid.len() > MOST_UID_BYTES {
            causes.push(Cause::too_long(&path.child(uid_field), MOST_UID_BYTES));
        }
    }
    let at_life = path.child("maxExpirationSeconds");
    let Some(life) = int(spec, "maxExpirationSeconds") else {
        return causes.required(&at_life, "must be set");
    };
    let is_kubernetes = signer_name
        .split('/')
        .next()
        .is_some_and(|domain| domain == "kubernetes.io" || domain.ends_with(".kubernetes.io"));
    let most = if is_kubernetes { 24 * HOUR } else { 91 * 24 * HOUR };
    if !(HOUR..=most).contains(&life) {
        causes.invalid(&at_life, life, &format!("must be in the range [{HOUR}, {most}]"));
    }
    stub_request(causes, spec, &path);
}

/// A key with a prefix that is a domain.
fn domain_prefixed(causes: &mut Causes, key: &str, path: &Path) {
    let wrong = name::qualified_name(key);
    if wrong.is_empty() && !key.contains('/') {
        causes.invalid(path, key, "must be a domain-prefixed key (such as \"acme.io/foo\")");
    }
    causes.wrong(path, key, &wrong);
}

/// The request for the certificate, which only says for which key it is.
fn stub_request(causes: &mut Causes, spec: &Value, path: &Path) {
    let request = STANDARD.decode(text(spec, "stubPKCS10Request")).unwrap_or_default();
    if request.is_empty() {
        let detail = "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set";
        return causes.push(Cause::invalid_unshown(path, detail));
    }
    let path = path.child("stubPKCS10Request");
    if request.len() > MOST_REQUEST_BYTES {
        return causes.push(Cause::too_long(&path, MOST_REQUEST_BYTES));
    }
    match X509CertificationRequest::from_der(&request) {
        Ok(([], parsed)) => {
            public_key(causes, &parsed.certification_request_info.subject_pki, &path);
        }
        _ => causes.push(Cause::invalid_unshown(&path, "must be a valid PKCS#10 CSR")),
    }
}

fn public_key(causes: &mut Causes, info: &SubjectPublicKeyInfo<'_>, path: &Path) {
    match info.parsed() {
        Ok(PublicKey::EC(point)) if ![256, 384, 528].contains(&point.key_size()) => {
            let detail = "elliptic public keys must use curve P256, P384, or P521";
            causes.invalid(path, format!("curve P-{}", point.key_size()), detail);
        }
        Ok(PublicKey::RSA(rsa)) if ![3072, 4096].contains(&rsa.key_size()) => {
            let shown = format!("{}-bit modulus", rsa.key_size());
            causes.invalid(path, shown, "RSA keys must have modulus size 3072 or 4096");
        }
        _ => {}
    }
}

pub(super) fn pod_certificate_update(causes: &mut Causes, new: &Value, old: &Value) {
    if !semantically_equal(at(new, "spec"), at(old, "spec")) {
        causes.invalid(&Path::new("spec"), BadValue::raw(at(new, "spec").to_string()), IMMUTABLE);
    }
}

/// A signer issues, denies or fails a request, once.
pub(super) fn pod_certificate_status(causes: &mut Causes, new: &Value, old: &Value) {
    const ENDS: [&str; 3] = ["Issued", "Denied", "Failed"];
    let path = Path::new("status.conditions");
    let conditions = items(new, "status.conditions");
    for (index, condition) in conditions.iter().enumerate() {
        // The real server's path has a dot before the index.
        let path = path.child(&format!("[{index}]"));
        let (kind, status) = (text(condition, "type"), text(condition, "status"));
        if !ENDS.contains(&kind) {
            causes.push(Cause::not_supported(&path.child("type"), kind, &ENDS));
            continue;
        }
        if conditions[..index].iter().any(|earlier| ENDS.contains(&text(earlier, "type"))) {
            let detail = "There may be at most one condition with type \"Issued\", \"Denied\", or \"Failed\"";
            causes.invalid(&path.child("type"), kind, detail);
        }
        causes.one_of(&path.child("status"), status, &["True"]);
    }
    if !causes.0.is_empty() {
        return;
    }
    let ended = |object: &Value, ends: &[&str]| {
        let conditions = items(object, "status.conditions");
        conditions.iter().any(|one| ends.contains(&text(one, "type")) && text(one, "status") == "True")
    };
    let same = semantically_equal(at(new, "status"), at(old, "status"));
    let only_conditions = at(new, "status")
        .as_object()
        .is_none_or(|status| status.iter().all(|(field, value)| field == "conditions" || value.is_null()));
    let detail = if ended(old, &ENDS) {
        (!same).then_some("immutable after PodCertificateRequest is issued, denied, or failed")
    } else if ended(new, &["Denied", "Failed"]) {
        let detail =
            "non-condition status fields must be empty when denying or failing the PodCertificateRequest";
        (!only_conditions).then_some(detail)
    } else if ended(new, &["Issued"]) {
        None
    } else {
        (!same).then_some("status is immutable unless transitioning to \"Issued\", \"Denied\", or \"Failed\"")
    };
    if let Some(detail) = detail {
        causes.push(Cause::invalid_unshown(&Path::new("status"), detail));
    }
}
