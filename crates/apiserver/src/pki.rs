//! The cluster's own certificate authority: serving certificates, client certificates, TLS configuration.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType,
};
use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{ClientConfig, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use setpoint_serving::AnyClient;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Why certificates could not be made or used.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// Making or parsing a certificate.
    #[error("certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// PEM that is not.
    #[error("PEM: {0}")]
    Pem(#[from] rustls_pki_types::pem::Error),
    /// TLS does not take it.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// The client authority does not take it.
    #[error("client authority: {0}")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
    /// A bundle of authorities that is empty.
    #[error("the bundle of authorities has no certificate in it")]
    NoAuthority,
    /// A name that no certificate can carry.
    #[error("{0:?} is not a DNS name")]
    Name(String),
}

/// A certificate and its private key, both PEM.
#[derive(Clone)]
pub struct Identity {
    /// The certificate, leaf first.
    pub certificate: String,
    /// The private key: SEC 1 for a certificate that an [`Authority`] signed, PKCS#8 for its own.
    pub key: String,
}

/// A certificate authority (ECDSA P-256).
pub struct Authority {
    identity: Identity,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// A new self-signed authority, valid for ten years from `now`.
    pub fn generate(now: Timestamp) -> Result<Self, PkiError> {
        let key = KeyPair::generate()?;
        let mut params = parameters("setpoint-ca", &[], now);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let certificate = params.self_signed(&key)?;
        let identity = Identity { certificate: certificate.pem(), key: key.serialize_pem() };
        Ok(Authority { identity, issuer: Issuer::new(params, key) })
    }

    /// An authority that was kept.
    pub fn from_pem(identity: Identity) -> Result<Self, PkiError> {
        let key = KeyPair::from_pem(&identity.key)?;
        let issuer = Issuer::from_ca_cert_pem(&identity.certificate, key)?;
        Ok(Authority { identity, issuer })
    }

    /// The authority's own certificate and key.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// A serving certificate for these names and addresses and the Service `kubernetes`.
    pub fn serving(
        &self,
        names: &[String],
        addresses: &[IpAddr],
        now: Timestamp,
    ) -> Result<Identity, PkiError> {
        let mut params = parameters("kube-apiserver", &[], now);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let own = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
        let full = "kubernetes.default.svc.cluster.local";
        for name in own.into_iter().chain([full]).chain(names.iter().map(String::as_str)) {
            let name = name.to_owned();
            params
                .subject_alt_names
                .push(SanType::DnsName(name.clone().try_into().map_err(|_| PkiError::Name(name))?));
        }
        params.subject_alt_names.extend(addresses.iter().map(|address| SanType::IpAddress(*address)));
        self.issue(params)
    }

    /// A client certificate: `user` is its CN, `groups` (two at most) its Os.
    pub fn client(&self, user: &str, groups: &[&str], now: Timestamp) -> Result<Identity, PkiError> {
        let mut params = parameters(user, groups, now);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(params)
    }

    fn issue(&self, mut params: CertificateParams) -> Result<Identity, PkiError> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Identity { certificate: certificate.pem(), key: sec1_pem(&key) })
    }
}

/// The PEM of a P-256 key as SEC 1 (`EC PRIVATE KEY`), the form that kubeadm, kind and openssl write. Some Java clients
/// read no elliptic key in PKCS#8.
fn sec1_pem(key: &KeyPair) -> String {
    /// Version 1, and the header of a secret of 32 bytes.
    const SECRET: [u8; 5] = [0x02, 0x01, 0x01, 0x04, 0x20];
    /// The parameters: the curve's name. The header of the public key, a point of 65 bytes.
    const CURVE_AND_POINT: [u8; 17] = [
        0xa0, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0xa1, 0x44, 0x03, 0x42, 0x00,
    ];
    let pkcs8 = key.serialized_der();
    let at = pkcs8.windows(SECRET.len()).position(|window| window == SECRET);
    let secret = at.and_then(|at| pkcs8.get(at + SECRET.len()..at + SECRET.len() + 32));
    let point = key.public_key_raw();
    let (Some(secret), 65) = (secret, point.len()) else { return key.serialize_pem() };
    let length = SECRET.len() + secret.len() + CURVE_AND_POINT.len() + point.len();
    let mut der = vec![0x30, u8::try_from(length).expect("a P-256 key has 119 bytes")];
    der.extend([&SECRET[..], secret, &CURVE_AND_POINT, point].concat());
    let text = STANDARD.encode(&der);
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    format!("-----BEGIN EC PRIVATE KEY-----\n{}\n-----END EC PRIVATE KEY-----\n", lines.join("\n"))
}

fn parameters(common_name: &str, organizations: &[&str], now: Timestamp) -> CertificateParams {
    const DAY: i64 = 86_400;
    let mut params = CertificateParams::default();
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    // The library keeps one entry per type; the second group goes by the same object identifier.
    for (at, organization) in organizations.iter().enumerate() {
        let kind = if at == 0 { DnType::OrganizationName } else { DnType::CustomDnType(vec![2, 5, 4, 10]) };
        name.push(kind, *organization);
    }
    params.distinguished_name = name;
    let day = |offset: i64| {
        let date = Timestamp::from_second(now.as_second() + offset * DAY).unwrap_or(now);
        let date = date.to_zoned(jiff::tz::TimeZone::UTC).date();
        (i32::from(date.year()), date.month().unsigned_abs(), date.day().unsigned_abs())
    };
    let (from, until) = (day(-1), day(3650));
    params.not_before = rcgen::date_time_ymd(from.0, from.1, from.2);
    params.not_after = rcgen::date_time_ymd(until.0, until.1, until.2);
    params
}

/// TLS for serving, and who vouches for clients.
#[derive(Clone)]
pub struct ServingTls {
    pub(crate) config: Arc<ServerConfig>,
    clients: Option<Arc<[Root]>>,
    front_proxy: Option<Arc<[Root]>>,
    /// The authority of clients, as PEM.
    pub(crate) client_ca: Option<Arc<str>>,
}

/// An authority that signs certificates of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signer {
    /// Its certificates name users.
    Clients,
    /// Its certificates let a proxy name users.
    FrontProxy,
}

impl ServingTls {
    /// HTTP/2 and HTTP/1.1; client certificates of `client_ca` and of `front_proxy_ca` are asked for, not demanded.
    pub fn new(
        serving: &Identity,
        client_ca: Option<&str>,
        front_proxy_ca: Option<&str>,
    ) -> Result<ServingTls, PkiError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let read = |bundle: Option<&str>| bundle.map(|bundle| roots(bundle, &provider)).transpose();
        let (clients, front_proxy) = (read(client_ca)?, read(front_proxy_ca)?);
        // A client chooses its certificate by the authorities that the handshake names, so it must name both.
        let both: Vec<CertificateDer<'_>> = [client_ca, front_proxy_ca]
            .into_iter()
            .flatten()
            .flat_map(|bundle| CertificateDer::pem_slice_iter(bundle.as_bytes()))
            .collect::<Result<_, _>>()?;
        let both = match clients.is_some() || front_proxy.is_some() {
            true => Some(client_verifier(both, &provider)?),
            false => None,
        };
        let builder =
            ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
        let builder = match both {
            None => builder.with_no_client_auth(),
            Some(both) => builder.with_client_cert_verifier(Arc::new(AnyClient(both))),
        };
        let chain =
            CertificateDer::pem_slice_iter(serving.certificate.as_bytes()).collect::<Result<Vec<_>, _>>()?;
        let key = PrivateKeyDer::from_pem_slice(serving.key.as_bytes())?;
        let mut config = builder.with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(ServingTls {
            config: Arc::new(config),
            clients,
            front_proxy,
            client_ca: client_ca.map(Into::into),
        })
    }

    /// Whether an authority vouches at `now` for the certificate that came with a handshake; `None` if there is no such
    /// authority.
    pub(crate) fn vouches_for(
        &self,
        signer: Signer,
        chain: &[CertificateDer<'_>],
        now: Timestamp,
    ) -> Option<bool> {
        let roots = match signer {
            Signer::Clients => self.clients.as_ref()?,
            Signer::FrontProxy => self.front_proxy.as_ref()?,
        };
        let Some((leaf, between)) = chain.split_first() else { return Some(false) };
        let seconds = u64::try_from(now.as_second()).unwrap_or(0);
        let then = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let mut valid = roots.iter().filter(|root| root.valid.contains(&now.as_second()));
        Some(valid.any(|root| root.verifier.verify_client_cert(leaf, between, then).is_ok()))
    }
}

/// A certificate of an authority and what verifies in its name.
struct Root {
    verifier: Arc<dyn ClientCertVerifier>,
    /// The seconds in which it is valid. rustls does not look at a root's dates, and Go does.
    valid: RangeInclusive<i64>,
}

fn roots(bundle: &str, provider: &Arc<CryptoProvider>) -> Result<Arc<[Root]>, PkiError> {
    let certificates = CertificateDer::pem_slice_iter(bundle.as_bytes()).collect::<Result<Vec<_>, _>>()?;
    if certificates.is_empty() {
        return Err(PkiError::NoAuthority);
    }
    let root = |certificate: CertificateDer<'static>| {
        let parsed = X509Certificate::from_der(&certificate);
        let (_, parsed) = parsed.map_err(|_| rustls::Error::from(rustls::CertificateError::BadEncoding))?;
        let (from, until) = (parsed.validity().not_before, parsed.validity().not_after);
        let valid = from.timestamp()..=until.timestamp();
        Ok(Root { verifier: client_verifier(vec![certificate.clone()], provider)?, valid })
    };
    certificates.into_iter().map(root).collect()
}

/// Whether two bundles (PEM) have a certificate in common.
pub fn share_a_certificate(one: &str, other: &str) -> Result<bool, PkiError> {
    let read = |bundle: &str| -> Result<Vec<_>, _> {
        CertificateDer::pem_slice_iter(bundle.as_bytes())
            .map(|one| one.map(CertificateDer::into_owned))
            .collect()
    };
    let (one, other): (Vec<_>, Vec<_>) = (read(one)?, read(other)?);
    Ok(one.iter().any(|certificate| other.contains(certificate)))
}

fn client_verifier(
    authorities: Vec<CertificateDer<'_>>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, PkiError> {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in authorities {
        roots.add(certificate)?;
    }
    Ok(WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .allow_unauthenticated()
        .build()?)
}

/// TLS towards nodes: the server shows `client`, and takes whatever certificate the node has, as kube-apiserver does
/// unless it is told of an authority for kubelets: nodes sign theirs themselves.
pub fn kubelet_client_config(client: &Identity) -> Result<Arc<ClientConfig>, PkiError> {
    let chain =
        CertificateDer::pem_slice_iter(client.certificate.as_bytes()).collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(client.key.as_bytes())?;
    Ok(Arc::new(setpoint_serving::any_server()?.with_client_auth_cert(chain, key)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_issued_certificates_are_sec1_and_belong_to_them() {
        let authority = Authority::generate(Timestamp::UNIX_EPOCH).unwrap();
        let client = authority.client("alice", &["dev"], Timestamp::UNIX_EPOCH).unwrap();
        assert!(client.key.starts_with("-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEI"), "{}", client.key);
        assert!(client.key.lines().all(|line| line.len() <= 64));
        // rustls compares the key with the certificate.
        kubelet_client_config(&client).unwrap();
        let read = crate::jwt::SigningKey::from_pem(&client.key).unwrap();
        let certified = crate::jwt::VerifyingKey::from_pem(&client.certificate).unwrap();
        assert_eq!(format!("{certified:?}"), format!("{:?}", read.verifying()));
        assert!(authority.identity().key.starts_with("-----BEGIN PRIVATE KEY-----"));
    }
}
