//! Certificate signing requests.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::check::Causes;
use super::pem::pem_blocks;
use crate::access::{at, int, items, text};
use setpoint_api::cause::{BadValue, Cause, Path};
use setpoint_api::name;

const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

pub(super) fn request(causes: &mut Causes, object: &Value) {
    let (path, spec) = (Path::new("spec"), at(object, "spec"));
    let encoded = at(spec, "request");
    if !is_pem(encoded.as_str().unwrap_or_default(), "CERTIFICATE REQUEST") {
        let detail = "PEM block type must be CERTIFICATE REQUEST";
        causes.invalid(&path.child("request"), encoded, detail);
    }
    usages(causes, items(spec, "usages"), &path.child("usages"));
    signer(causes, text(spec, "signerName"), &path.child("signerName"));
    if let Some(seconds) = int(spec, "expirationSeconds").filter(|seconds| *seconds < 600) {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        causes.invalid(&path.child("expirationSeconds"), seconds, detail);
    }
    conditions(causes, object);
}

fn is_pem(encoded: &str, kind: &str) -> bool {
    let bytes = STANDARD.decode(encoded).unwrap_or_default();
    String::from_utf8_lossy(&bytes).contains(&format!("-----BEGIN {kind}-----"))
}

fn wrong_certificate(encoded: &str) -> Option<String> {
    if encoded.is_empty() {
        return None;
    }
    let bytes = STANDARD.decode(encoded).unwrap_or_default();
    let blocks = pem_blocks(&String::from_utf8_lossy(&bytes));
    for block in &blocks {
        if block.kind != "CERTIFICATE" {
            return Some(format!("only CERTIFICATE PEM blocks are allowed, found \"{}\"", block.kind));
        }
        if block.has_headers {
            return Some("no PEM block headers are permitted".to_owned());
        }
        if !matches!(X509Certificate::from_der(&block.bytes), Ok(([], _))) {
            return Some("x509: malformed certificate".to_owned());
        }
    }
    blocks.is_empty().then(|| "must contain at least one CERTIFICATE PEM block".to_owned())
}

fn usages(causes: &mut Causes, usages: &[Value], path: &Path) {
    if usages.is_empty() {
        return causes.required(path, "");
    }
    for (index, usage) in usages.iter().enumerate() {
        let path = path.index(index);
        causes.one_of(&path, usage.as_str().unwrap_or_default(), &USAGES);
        if usages[..index].contains(usage) {
            causes.push(Cause::duplicate(&path, usage));
        }
    }
}

/// The name of a signer: a domain, a slash and a path.
pub(super) fn signer(causes: &mut Causes, signer: &str, path: &Path) {
    if signer.is_empty() {
        return causes.required(path, "");
    }
    let Some((domain, rest)) = signer.split_once('/').filter(|(_, rest)| !rest.contains('/')) else {
        let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return causes.invalid(path, signer, detail);
    };
    if !domain.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        causes.invalid(path, domain, detail);
    }
    for wrong in name::dns1123_subdomain(domain) {
        causes.invalid(path, domain, &format!("validating label \"{domain}\": {wrong}"));
    }
    for wrong in name::dns1123_subdomain(rest) {
        causes.invalid(path, rest, &format!("validating label \"{rest}\": {wrong}"));
    }
}

/// The part of a request that a write may change.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// The certificate, and conditions that decide nothing.
    Status,
    /// The decision.
    Approval,
}

/// Checks a change of the status. A decision stays, and so does a certificate.
pub(super) fn status_update(causes: &mut Causes, new: &Value, old: &Value, part: Part) {
    conditions(causes, new);
    let count = |object: &Value, kind: &str| {
        items(object, "status.conditions").iter().filter(|one| text(one, "type") == kind).count()
    };
    let path = Path::new("status.conditions");
    for kind in ["Approved", "Denied", "Failed"] {
        if count(new, kind) < count(old, kind) {
            causes.forbidden(&path, &format!("updates may not remove a condition of type \"{kind}\""));
        }
    }
    for kind in ["Approved", "Denied"] {
        if part == Part::Status && count(new, kind) > count(old, kind) {
            causes.forbidden(&path, &format!("updates may not add a condition of type \"{kind}\""));
        }
    }
    let (is, was) = (text(new, "status.certificate"), text(old, "status.certificate"));
    if is != was && part == Part::Status && !was.is_empty() {
        let detail = "updates may not modify existing certificate content";
        causes.forbidden(&Path::new("status.certificate"), detail);
    }
}

/// Checks the conditions of the status: decided once at most, and only for good.
pub(super) fn conditions(causes: &mut Causes, object: &Value) {
    let path = Path::new("status.conditions");
    let all = items(object, "status.conditions");
    for (index, condition) in all.iter().enumerate() {
        let path = path.index(index);
        let (kind, status) = (text(condition, "type"), text(condition, "status"));
        if kind.is_empty() {
            causes.required(&path.child("type"), "");
        }
        let allowed: &[&str] = match kind {
            "Approved" | "Denied" | "Failed" => &["True"],
            _ => &["False", "True", "Unknown"],
        };
        causes.required_one_of(&path.child("status"), status, allowed);
        if all[..index].iter().any(|earlier| text(earlier, "type") == kind) {
            causes.push(Cause::duplicate(&path.child("type"), kind));
        }
    }
    let has = |kind: &str| all.iter().any(|one| text(one, "type") == kind);
    if has("Approved") && has("Denied") {
        let shown =
            BadValue::from("{conditions[{\"type\": \"Approved\"}], conditions[{\"type\": \"Denied\"}]}");
        let detail = "must specify at most one of: `conditions[{\"type\": \"Approved\"}]`, `conditions[{\"type\": \"Denied\"}]`";
        causes.invalid(&path, shown, detail);
    }
    let certificate = text(object, "status.certificate");
    if let Some(wrong) = wrong_certificate(certificate) {
        causes.invalid(&Path::new("status.certificate"), "<certificate data>", &wrong);
    }
}
