//! TLS settings of clients.

use std::sync::Arc;

use anyhow::Result;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

/// A certificate and its key, as PEM.
#[derive(Clone, Debug)]
pub struct Pair {
    pub certificate: String,
    pub key: String,
}

/// TLS settings with these roots, and a client certificate if there is one.
pub fn client_config(
    authority: &[u8],
    pair: Option<&Pair>,
    protocols: &[&[u8]],
) -> Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authority) {
        roots.add(certificate?)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let mut config = match pair {
        None => builder.with_no_client_auth(),
        Some(pair) => {
            let chain: Result<Vec<_>, _> =
                CertificateDer::pem_slice_iter(pair.certificate.as_bytes()).collect();
            builder.with_client_auth_cert(chain?, PrivateKeyDer::from_pem_slice(pair.key.as_bytes())?)?
        }
    };
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(Arc::new(config))
}
