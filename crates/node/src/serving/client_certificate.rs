//! Identifies a client by its certificate.
//!
//! As in a kubelet, the handshake takes any certificate ([`AnyClient`](setpoint_serving::AnyClient)), and the authority
//! is checked only afterwards.

use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{Error, RootCertStore};
use rustls_pki_types::{CertificateDer, UnixTime};
use x509_parser::prelude::{FromDer, X509Certificate};

/// The authority whose certificates are trusted.
#[derive(Clone, Debug)]
pub struct ClientAuthority(pub(super) Arc<dyn ClientCertVerifier>);

impl ClientAuthority {
    /// Reads the authority's certificates.
    ///
    /// # Errors
    /// When there is none, or one is not a certificate.
    pub fn new<'a>(
        certificates: impl IntoIterator<Item = CertificateDer<'a>>,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, Error> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates {
            roots.add(certificate.into_owned())?;
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|error| Error::General(format!("client authority: {error}")))?;
        Ok(ClientAuthority(verifier))
    }

    /// Returns the common name of a certificate chain's leaf, or `None` if this authority did not sign it or it is
    /// not valid at that time.
    pub fn common_name(&self, chain: &[CertificateDer<'_>], since_epoch: Duration) -> Option<String> {
        let (leaf, rest) = chain.split_first()?;
        self.0.verify_client_cert(leaf, rest, UnixTime::since_unix_epoch(since_epoch)).ok()?;
        let (_, certificate) = X509Certificate::from_der(leaf).ok()?;
        let name = certificate.subject().iter_common_name().next()?.as_str().ok()?;
        Some(name.to_owned()).filter(|name| !name.is_empty())
    }
}
