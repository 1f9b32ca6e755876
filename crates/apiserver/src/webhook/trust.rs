//! The authorities that a caller of webhooks trusts: those of a `caBundle`, or those of this host.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::client::{VerifierBuilderError, WebPkiServerVerifier};
use rustls::server::ParsedCertificate;
use rustls::time_provider::TimeProvider;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use setpoint_api::Clock;
use x509_parser::prelude::{ASN1Time, FromDer, X509Certificate};

/// A `caBundle` that TLS cannot use.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum TrustError {
    #[error(transparent)]
    Pem(#[from] Arc<rustls_pki_types::pem::Error>),
    #[error(transparent)]
    Verifier(#[from] VerifierBuilderError),
    #[error(transparent)]
    Tls(#[from] rustls::Error),
}

/// TLS towards a webhook. An empty authority stands for those of this host.
pub(crate) fn client_config(authority: &[u8], clock: &Clock) -> Result<Arc<ClientConfig>, TrustError> {
    let mut named: Vec<CertificateDer<'static>> = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(authority) {
        named.push(certificate.map_err(Arc::new)?);
    }
    let roots = if authority.is_empty() { SYSTEM.clone() } else { Arc::new(roots(&named)) };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chains = WebPkiServerVerifier::builder_with_provider(roots, provider.clone()).build();
    let verifier = Trust { chains: chains?, named };
    let time = Arc::new(Now(clock.clone()));
    let config = ClientConfig::builder_with_details(provider, time).with_safe_default_protocol_versions();
    let config = config?.dangerous();
    Ok(Arc::new(config.with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth()))
}

/// The authorities that this host trusts, read when the first webhook without a `caBundle` is called.
static SYSTEM: LazyLock<Arc<RootCertStore>> =
    LazyLock::new(|| Arc::new(roots(&rustls_native_certs::load_native_certs().certs)));

fn roots(certificates: &[CertificateDer<'static>]) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates.iter().cloned());
    roots
}

/// A certificate is good if an authority signed it, or if it is itself one of those named: webhooks often sign their own.
#[derive(Debug)]
struct Trust {
    chains: Arc<WebPkiServerVerifier>,
    named: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Trust {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if !self.named.contains(leaf) {
            return self.chains.verify_server_cert(leaf, between, name, ocsp, now);
        }
        let (_, parsed) = X509Certificate::from_der(leaf).map_err(|_| CertificateError::BadEncoding)?;
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let now = ASN1Time::from_timestamp(seconds).map_err(|_| CertificateError::BadEncoding)?;
        if now < parsed.validity().not_before {
            return Err(CertificateError::NotValidYet.into());
        }
        if now > parsed.validity().not_after {
            return Err(CertificateError::Expired.into());
        }
        verify_server_name(&ParsedCertificate::try_from(leaf)?, name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chains.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chains.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}

/// Certificates are as old as the server's clock says.
struct Now(Clock);

impl std::fmt::Debug for Now {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Now")
    }
}

impl TimeProvider for Now {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = u64::try_from(self.0.now().as_second()).ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn trust(pem: &str) -> Trust {
        let named: Vec<_> = CertificateDer::pem_slice_iter(pem.as_bytes()).map(Result::unwrap).collect();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let chains = WebPkiServerVerifier::builder_with_provider(Arc::new(roots(&named)), provider);
        Trust { chains: chains.build().unwrap(), named }
    }

    #[test]
    fn a_certificate_that_signed_itself_is_good_where_it_is_named() {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec!["hook.default.svc".to_owned()]).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        params.not_before = rcgen::date_time_ymd(2027, 1, 1);
        params.not_after = rcgen::date_time_ymd(2028, 1, 1);
        let certificate = params.self_signed(&key).unwrap();
        let (trust, leaf) = (trust(&certificate.pem()), certificate.der().clone());
        let check = |name: &'static str, seconds: i64| {
            let time = Duration::from_secs(u64::try_from(now.as_second() + seconds).unwrap());
            let name = ServerName::try_from(name).unwrap();
            trust.verify_server_cert(&leaf, &[], &name, &[], UnixTime::since_unix_epoch(time)).is_ok()
        };
        assert!(check("hook.default.svc", 0));
        assert!(!check("other.default.svc", 0));
        assert!(!check("hook.default.svc", 400 * 86_400));
        assert!(!check("hook.default.svc", -400 * 86_400));
    }
}
