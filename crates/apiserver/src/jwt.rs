//! Service-account tokens: signed with ES256, verified with ES256 and RS256.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair,
    RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey,
};
use serde::{Deserialize, Serialize};
use setpoint_store::Snapshot;

use crate::key;

/// Keys of service-account tokens.
#[derive(Clone)]
pub struct ServiceAccountKeys {
    /// `iss` of the tokens.
    pub issuer: String,
    /// The key that signs. Without one the token subresource answers 404 and pods get no token volumes.
    pub signing: Option<SigningKey>,
    /// Keys that also verify, besides the public half of the signing key.
    pub verifying: Vec<VerifyingKey>,
}

impl Default for ServiceAccountKeys {
    fn default() -> Self {
        ServiceAccountKeys {
            issuer: "https://kubernetes.default.svc.cluster.local".to_owned(),
            signing: None,
            verifying: Vec::new(),
        }
    }
}

/// The reason why a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// Not a P-256 private key in PKCS#8 or SEC 1.
    #[error("the signing key is not an ECDSA P-256 private key: {0}")]
    Signing(String),
    /// Neither an RSA nor a P-256 public key.
    #[error("the verifying key is neither an RSA nor an ECDSA P-256 key: {0}")]
    Verifying(String),
}

/// Signs tokens.
#[derive(Clone)]
pub struct SigningKey {
    pair: Arc<EcdsaKeyPair>,
    id: Arc<str>,
}

impl SigningKey {
    /// From a PKCS#8 document.
    pub fn from_pkcs8(der: &[u8]) -> Result<Self, KeyError> {
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &SystemRandom::new())
            .map_err(|error| KeyError::Signing(error.to_string()))?;
        let id = key_id(&point_spki(pair.public_key().as_ref()));
        Ok(SigningKey { pair: Arc::new(pair), id: id.into() })
    }

    /// A new key as a PKCS#8 document.
    pub fn generate_pkcs8() -> Result<Vec<u8>, KeyError> {
        EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
            .map(|document| document.as_ref().to_vec())
            .map_err(|error| KeyError::Signing(error.to_string()))
    }

    /// From PEM: `PRIVATE KEY` (PKCS#8) or `EC PRIVATE KEY` (SEC 1).
    pub fn from_pem(pem: &str) -> Result<Self, KeyError> {
        use rustls_pki_types::PrivateKeyDer;
        use rustls_pki_types::pem::PemObject;
        let der = PrivateKeyDer::from_pem_slice(pem.as_bytes())
            .map_err(|error| KeyError::Signing(error.to_string()))?;
        match der {
            PrivateKeyDer::Pkcs8(der) => SigningKey::from_pkcs8(der.secret_pkcs8_der()),
            PrivateKeyDer::Sec1(der) => SigningKey::from_pkcs8(&sec1_to_pkcs8(der.secret_sec1_der())),
            _ => Err(KeyError::Signing("an RSA key can only verify here".to_owned())),
        }
    }

    /// The public half.
    pub fn verifying(&self) -> VerifyingKey {
        let point = self.pair.public_key().as_ref().to_vec();
        VerifyingKey { id: self.id.clone(), algorithm: Algorithm::Es256, bytes: point.into() }
    }

    fn sign(&self, text: &str) -> Option<String> {
        let signature = self.pair.sign(&SystemRandom::new(), text.as_bytes()).ok()?;
        Some(URL_SAFE_NO_PAD.encode(signature))
    }
}

/// Wraps a SEC 1 key of P-256 as PKCS#8, the only form that the crypto library reads.
fn sec1_to_pkcs8(sec1: &[u8]) -> Vec<u8> {
    const ALGORITHM: [u8; 21] = [
        0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
        0x3d, 0x03, 0x01, 0x07,
    ];
    let stripped = strip_sec1_parameters(sec1);
    let mut body = vec![0x02, 0x01, 0x00];
    body.extend_from_slice(&ALGORITHM);
    body.extend(der(0x04, &stripped));
    der(0x30, &body)
}

/// Drops the curve parameters of a SEC 1 key: PKCS#8 names the curve outside, and a strict reader wants it once.
fn strip_sec1_parameters(sec1: &[u8]) -> Vec<u8> {
    const NAMED_CURVE: [u8; 12] = [0xa0, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
    let at = sec1.windows(NAMED_CURVE.len()).position(|window| window == NAMED_CURVE);
    let (Some(at), Some(header)) = (at, der_header(sec1)) else { return sec1.to_vec() };
    let mut content = sec1[header..at].to_vec();
    content.extend_from_slice(&sec1[at + NAMED_CURVE.len()..]);
    der(0x30, &content)
}

fn der_header(bytes: &[u8]) -> Option<usize> {
    let length = *bytes.get(1)?;
    Some(if length < 0x80 { 2 } else { 2 + usize::from(length & 0x7f) })
}

fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    match content.len() {
        short @ 0..=0x7f => out.push(u8::try_from(short).expect("below 128")),
        medium @ 0x80..=0xff => out.extend([0x81, u8::try_from(medium).expect("below 256")]),
        long => out.extend([0x82, (long >> 8) as u8, (long & 0xff) as u8]),
    }
    out.extend_from_slice(content);
    out
}

/// SubjectPublicKeyInfo of a P-256 point.
fn point_spki(point: &[u8]) -> Vec<u8> {
    let mut spki = vec![
        0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
        0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
    ];
    spki.extend_from_slice(point);
    spki
}

/// Kubernetes' key id: the digest of the public key's SubjectPublicKeyInfo.
fn key_id(spki: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(ring::digest::digest(&ring::digest::SHA256, spki))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    Es256,
    Rs256,
}

/// Checks tokens.
#[derive(Clone, Debug)]
pub struct VerifyingKey {
    id: Arc<str>,
    algorithm: Algorithm,
    /// A point (ES256) or an RSAPublicKey (RS256).
    bytes: Arc<[u8]>,
}

impl VerifyingKey {
    /// From PEM: a public key, a certificate that carries one, or a private key whose public half is meant.
    pub fn from_pem(pem: &str) -> Result<Self, KeyError> {
        use rustls_pki_types::pem::PemObject;
        use rustls_pki_types::{CertificateDer, PrivateKeyDer, SubjectPublicKeyInfoDer};
        if let Ok(spki) = SubjectPublicKeyInfoDer::from_pem_slice(pem.as_bytes()) {
            return VerifyingKey::from_spki(spki.as_ref());
        }
        if let Ok(certificate) = CertificateDer::from_pem_slice(pem.as_bytes()) {
            let (_, certificate) = x509_parser::parse_x509_certificate(&certificate)
                .map_err(|error| KeyError::Verifying(error.to_string()))?;
            return VerifyingKey::from_spki(certificate.tbs_certificate.subject_pki.raw);
        }
        if let Ok(key) = SigningKey::from_pem(pem) {
            return Ok(key.verifying());
        }
        let private = PrivateKeyDer::from_pem_slice(pem.as_bytes())
            .map_err(|error| KeyError::Verifying(error.to_string()))?;
        let pair = match &private {
            PrivateKeyDer::Pkcs1(der) => ring::rsa::KeyPair::from_der(der.secret_pkcs1_der()),
            PrivateKeyDer::Pkcs8(der) => ring::rsa::KeyPair::from_pkcs8(der.secret_pkcs8_der()),
            _ => return Err(KeyError::Verifying("an unknown private key".to_owned())),
        };
        let pair = pair.map_err(|error| KeyError::Verifying(error.to_string()))?;
        let bytes: Arc<[u8]> = pair.public().as_ref().into();
        Ok(VerifyingKey { id: "".into(), algorithm: Algorithm::Rs256, bytes })
    }

    fn from_spki(spki: &[u8]) -> Result<Self, KeyError> {
        use x509_parser::prelude::FromDer;
        use x509_parser::x509::SubjectPublicKeyInfo;
        let (_, parsed) =
            SubjectPublicKeyInfo::from_der(spki).map_err(|error| KeyError::Verifying(error.to_string()))?;
        let bytes: Arc<[u8]> = parsed.subject_public_key.data.as_ref().into();
        let algorithm = match parsed.algorithm.algorithm.to_id_string().as_str() {
            "1.2.840.10045.2.1" => Algorithm::Es256,
            "1.2.840.113549.1.1.1" => Algorithm::Rs256,
            other => return Err(KeyError::Verifying(other.to_owned())),
        };
        Ok(VerifyingKey { id: key_id(spki).into(), algorithm, bytes })
    }

    fn verify(&self, algorithm: &str, text: &[u8], signature: &[u8]) -> bool {
        match (self.algorithm, algorithm) {
            (Algorithm::Es256, "ES256") => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &self.bytes).verify(text, signature).is_ok()
            }
            (Algorithm::Rs256, "RS256") => UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &self.bytes)
                .verify(text, signature)
                .is_ok(),
            _ => false,
        }
    }

    /// The key as `/openid/v1/jwks` publishes it. RSA keys are not published.
    pub fn jwk(&self) -> Option<serde_json::Value> {
        (self.algorithm == Algorithm::Es256 && self.bytes.len() == 65).then(|| {
            serde_json::json!({"use": "sig", "kty": "EC", "kid": &*self.id, "crv": "P-256", "alg": "ES256",
                "x": URL_SAFE_NO_PAD.encode(&self.bytes[1..33]),
                "y": URL_SAFE_NO_PAD.encode(&self.bytes[33..65])})
        })
    }
}

/// The tolerated difference between clocks, in seconds. Every time that a token depends on gets this leeway.
const LEEWAY: i64 = 60;

/// A name and uid inside the claims.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Ref {
    /// The name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The uid; empty for the node of a pod that does not exist (any more).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

/// The `kubernetes.io` claim.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Bound {
    /// The namespace of the account.
    #[serde(default)]
    pub namespace: String,
    /// The node of the pod. Without a pod, the token dies with this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Ref>,
    /// The token dies with this pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Ref>,
    /// The token dies with this secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Ref>,
    /// The account.
    #[serde(default)]
    pub serviceaccount: Ref,
    /// The webhook configuration for which the token was made. Tokens of this server have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validatingwebhookconfiguration: Option<Ref>,
    /// Likewise, for a mutating webhook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutatingwebhookconfiguration: Option<Ref>,
}

/// The claims of a token.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Claims {
    /// Audiences.
    pub aud: Vec<String>,
    /// Expiry, seconds.
    pub exp: i64,
    /// Issue time, seconds.
    pub iat: i64,
    /// Issuer.
    pub iss: String,
    /// The token's own id.
    #[serde(default)]
    pub jti: String,
    /// The objects to which the token is bound.
    #[serde(rename = "kubernetes.io", default)]
    pub kubernetes: Bound,
    /// Not valid before, seconds.
    #[serde(default)]
    pub nbf: i64,
    /// `system:serviceaccount:NAMESPACE:NAME`.
    pub sub: String,
}

impl Claims {
    /// Whether the account, and the pod, Secret or node of the token, are still the same objects, and were not
    /// deleted longer ago than the leeway.
    pub fn still_bound(&self, snapshot: &Snapshot, now: Timestamp) -> bool {
        let bound = &self.kubernetes;
        let lives = |resource: &str, namespace: &str, object: &Ref| {
            let stored = snapshot.get(&key::object("", resource, namespace, &object.name));
            stored.is_some_and(|entry| {
                let meta = crate::entry::meta(&entry);
                meta.uid == object.uid && !was_deleted(meta.deletion_timestamp.as_deref(), now)
            })
        };
        // The token of a pod names the pod's node for information only.
        let node = bound.node.as_ref().filter(|_| bound.pod.is_none());
        lives("serviceaccounts", &bound.namespace, &bound.serviceaccount)
            && bound.pod.as_ref().is_none_or(|pod| lives("pods", &bound.namespace, pod))
            && bound.secret.as_ref().is_none_or(|secret| lives("secrets", &bound.namespace, secret))
            && node.is_none_or(|node| lives("nodes", "", node))
            && bound.validatingwebhookconfiguration.is_none()
            && bound.mutatingwebhookconfiguration.is_none()
    }
}

/// Whether a deletion is longer ago than the leeway. A time that cannot be read counts as long ago.
fn was_deleted(at: Option<&str>, now: Timestamp) -> bool {
    let Some(at) = at else { return false };
    let at = at.parse::<Timestamp>().map(Timestamp::as_millisecond).unwrap_or(i64::MIN);
    at < now.as_millisecond() - LEEWAY * 1000
}

#[derive(Serialize, Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
}

/// Makes a token. `None` if the key library fails.
pub fn sign(key: &SigningKey, claims: &impl Serialize) -> Option<String> {
    let header = Header { alg: "ES256".to_owned(), kid: Some(key.id.to_string()) };
    let header = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&header).ok()?);
    let claims = URL_SAFE_NO_PAD.encode(serde_json::to_vec(claims).ok()?);
    let text = format!("{header}.{claims}");
    let signature = key.sign(&text)?;
    Some(format!("{text}.{signature}"))
}

/// The payload of a token that one of our keys signed.
pub(super) fn payload(keys: &ServiceAccountKeys, token: &str) -> Option<Vec<u8>> {
    let (text, signature) = token.rsplit_once('.')?;
    let (header, claims) = text.split_once('.')?;
    let header: Header = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).ok()?).ok()?;
    let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
    let own = keys.signing.as_ref().map(SigningKey::verifying);
    let known = own.iter().chain(&keys.verifying);
    let mut candidates = known.filter(|key| key.verify(&header.alg, text.as_bytes(), &signature));
    candidates.next()?;
    URL_SAFE_NO_PAD.decode(claims).ok()
}

/// The claims of a signed payload, if this server issued it and its times are valid within the leeway.
pub(super) fn valid(keys: &ServiceAccountKeys, payload: &[u8], now: Timestamp) -> Option<Claims> {
    let claims: Claims = serde_json::from_slice(payload).ok()?;
    let (now, leeway) = (now.as_millisecond(), LEEWAY * 1000);
    let at = |seconds: i64| seconds.saturating_mul(1000);
    let holds =
        now - leeway <= at(claims.exp) && at(claims.nbf) <= now + leeway && at(claims.iat) <= now + leeway;
    (holds && claims.iss == keys.issuer).then_some(claims)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verify(keys: &ServiceAccountKeys, token: &str, now: Timestamp) -> Option<Claims> {
        valid(keys, &payload(keys, token)?, now)
    }

    fn keys() -> ServiceAccountKeys {
        let der = SigningKey::generate_pkcs8().unwrap();
        let signing = Some(SigningKey::from_pkcs8(&der).unwrap());
        ServiceAccountKeys { issuer: "us".into(), signing, verifying: Vec::new() }
    }

    fn claims() -> Claims {
        Claims { aud: vec!["us".into()], exp: 200, iat: 100, iss: "us".into(), nbf: 100, ..Claims::default() }
    }

    #[test]
    fn a_token_lives_between_its_times() {
        let keys = keys();
        let token = sign(keys.signing.as_ref().unwrap(), &claims()).unwrap();
        let at = |second| verify(&keys, &token, Timestamp::from_second(second).unwrap()).is_some();
        // A minute of leeway, as go-jose's `Validate` gives.
        assert_eq!([at(39), at(40), at(260), at(261)], [false, true, true, false]);
        let later = Claims { iat: 170, ..claims() };
        let token = sign(keys.signing.as_ref().unwrap(), &later).unwrap();
        let at = |second| verify(&keys, &token, Timestamp::from_second(second).unwrap()).is_some();
        assert_eq!([at(109), at(110)], [false, true]);
    }

    #[test]
    fn a_changed_token_and_a_foreign_key_are_refused() {
        let keys = keys();
        let now = Timestamp::from_second(150).unwrap();
        let token = sign(keys.signing.as_ref().unwrap(), &claims()).unwrap();
        let forged = Claims { sub: "root".into(), ..claims() };
        let forged = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&forged).unwrap());
        let parts: Vec<&str> = token.split('.').collect();
        assert!(verify(&keys, &format!("{}.{forged}.{}", parts[0], parts[2]), now).is_none());
        assert!(verify(&self::keys(), &token, now).is_none());
        assert!(verify(&keys, "garbage", now).is_none());
    }

    /// envtest passes the accounts' key as a certificate.
    #[test]
    fn a_certificate_stands_for_its_public_key() {
        let now = Timestamp::from_second(150).unwrap();
        let authority = crate::pki::Authority::generate(now).unwrap();
        let identity = authority.identity();
        let signing = SigningKey::from_pem(&identity.key).unwrap();
        let token = sign(&signing, &claims()).unwrap();
        let verifying = vec![VerifyingKey::from_pem(&identity.certificate).unwrap()];
        let keys = ServiceAccountKeys { issuer: "us".into(), signing: None, verifying };
        assert!(verify(&keys, &token, now).is_some());
    }
}
