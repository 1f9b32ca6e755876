//! A serving certificate with its key and its authority.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::prelude::{FromDer, X509Certificate};

/// How far the clock of an API server may be behind the one of the operator; less for a certificate that ends soon.
const SKEW: Duration = Duration::from_secs(60 * 60);

/// Why a certificate could not be made or used.
#[derive(Debug, thiserror::Error)]
pub(in crate::webhook) enum PairError {
    #[error("certificate: {0}")]
    Make(#[from] rcgen::Error),
    #[error("PEM: {0}")]
    Pem(#[from] rustls_pki_types::pem::Error),
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    #[error("client authority: {0}")]
    ClientAuthority(#[from] rustls::server::VerifierBuilderError),
    #[error("there is no certificate in the PEM")]
    Empty,
    #[error("the certificate does not parse")]
    Unparsable,
}

/// A serving certificate, its key, and the authority that signed it, all PEM. The authority signed nothing else, and
/// its key is gone: what is trusted is this one certificate.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) authority: String,
    pub(super) certificate: String,
    pub(super) key: String,
    pub(super) valid: Validity,
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pair").field("valid", &self.valid).finish_non_exhaustive()
    }
}

/// The time in which a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Validity {
    pub(super) from: Timestamp,
    pub(super) until: Timestamp,
}

impl Validity {
    /// The validity of the first certificate of a PEM text.
    pub(super) fn of(pem: &str) -> Result<Self, PairError> {
        let first = CertificateDer::pem_slice_iter(pem.as_bytes()).next().ok_or(PairError::Empty)??;
        let (_, parsed) = X509Certificate::from_der(&first).map_err(|_| PairError::Unparsable)?;
        let time = |seconds| Timestamp::from_second(seconds).map_err(|_| PairError::Unparsable);
        let validity = parsed.validity();
        Ok(Validity {
            from: time(validity.not_before.timestamp())?,
            until: time(validity.not_after.timestamp())?,
        })
    }

    /// The moment after which a new certificate is made: two thirds of the time are over.
    pub(super) fn renewal(&self) -> Timestamp {
        self.after_part(2, 3)
    }

    /// The moment after which nothing is waited for any more.
    pub(super) fn last_moment(&self) -> Timestamp {
        self.after_part(11, 12)
    }

    fn after_part(&self, part: i64, of: i64) -> Timestamp {
        let whole = self.until.as_second() - self.from.as_second();
        Timestamp::from_second(self.from.as_second() + whole / of * part).unwrap_or(self.until)
    }
}

impl Pair {
    /// Makes a pair for these names, valid from now on.
    pub(super) fn make(names: Vec<String>, now: Timestamp, validity: Duration) -> Result<Self, PairError> {
        let authority_key = KeyPair::generate()?;
        let mut authority = parameters(Vec::new(), "setpoint-webhooks-ca", now, validity)?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let authority_certificate = authority.self_signed(&authority_key)?.pem();
        let issuer = Issuer::new(authority, authority_key);
        let key = KeyPair::generate()?;
        let common_name = names.first().cloned().unwrap_or_default();
        let mut serving = parameters(names, &common_name, now, validity)?;
        serving.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        serving.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        serving.use_authority_key_identifier_extension = true;
        let certificate = serving.signed_by(&key, &issuer)?.pem();
        Pair::read(authority_certificate, certificate, key.serialize_pem())
    }

    /// Reads a pair that was kept.
    pub(super) fn read(authority: String, certificate: String, key: String) -> Result<Self, PairError> {
        let valid = Validity::of(&certificate)?;
        Validity::of(&authority)?;
        let pair = Pair { authority, certificate, key, valid };
        server_config(&pair.certificate, &pair.key, None)?;
        Ok(pair)
    }
}

fn parameters(
    names: Vec<String>,
    common_name: &str,
    now: Timestamp,
    validity: Duration,
) -> Result<CertificateParams, PairError> {
    let mut params = CertificateParams::new(names)?;
    let mut name = DistinguishedName::new();
    // A common name has 64 characters at most; the names that count are the alternative ones.
    name.push(DnType::CommonName, common_name.chars().take(64).collect::<String>());
    params.distinguished_name = name;
    let seconds = Duration::from_secs(u64::try_from(now.as_second()).unwrap_or(0));
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = epoch + seconds.saturating_sub(SKEW.min(validity / 10));
    params.not_after = epoch + seconds.saturating_add(validity);
    Ok(params)
}

/// TLS with this certificate, for HTTP/2 and HTTP/1.1. With an authority for clients, only their certificates are let in.
/// The provider is this one, whatever the process has installed.
pub(in crate::webhook) fn server_config(
    certificate: &str,
    key: &str,
    client_authority: Option<&str>,
) -> Result<Arc<ServerConfig>, PairError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let builder = match client_authority {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = rustls::RootCertStore::empty();
            for root in CertificateDer::pem_slice_iter(authority.as_bytes()) {
                roots.add(root?)?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let chain = CertificateDer::pem_slice_iter(certificate.as_bytes()).collect::<Result<Vec<_>, _>>()?;
    if chain.is_empty() {
        return Err(PairError::Empty);
    }
    let mut config = builder.with_single_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes())?)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
