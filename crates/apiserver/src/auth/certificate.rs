//! Client certificates: whom the authority of clients and the authority of the front proxy vouch for.

use std::sync::{Arc, Mutex};

use rustls_pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::UserInfo;
use crate::options::Options;
use crate::pki::{ServingTls, Signer};

/// The certificate that a client showed in its handshake. The handshake proves the key; the requests decide about the
/// rest.
pub struct ClientCertificate {
    chain: Vec<CertificateDer<'static>>,
    tls: ServingTls,
    /// What was found at which second. A certificate may expire while its connection lives, so it is verified again
    /// once the clock has moved on; its dates have no finer grain than that.
    found: Mutex<Option<(i64, Arc<Found>)>>,
}

impl std::fmt::Debug for ClientCertificate {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ClientCertificate").finish_non_exhaustive()
    }
}

/// The result of one authenticator.
pub(super) enum Proof<T> {
    /// The authenticator has no authority to ask, or the certificate says nothing to it.
    NoOpinion,
    /// The authority does not vouch for the certificate. Unless another authenticator accepts the request, it is
    /// refused: it does not become anonymous.
    Refused,
    Proven(T),
}

/// The results for one certificate. The two authorities are asked apart: neither vouches for the other's clients.
pub(super) struct Found {
    pub(super) front_proxy: Proof<()>,
    pub(super) user: Proof<UserInfo>,
}

impl ClientCertificate {
    pub(crate) fn new(chain: &[CertificateDer<'_>], tls: ServingTls) -> Self {
        let chain = chain.iter().map(|certificate| certificate.clone().into_owned()).collect();
        ClientCertificate { chain, tls, found: Mutex::new(None) }
    }

    /// Whether an authority vouches for the certificate, so that its connection is no stranger's.
    pub(crate) fn is_known(&self, options: &Options) -> bool {
        let found = self.found(options);
        matches!(found.user, Proof::Proven(_)) || matches!(found.front_proxy, Proof::Proven(()))
    }

    pub(super) fn found(&self, options: &Options) -> Arc<Found> {
        let now = options.clock.now();
        let mut found = self.found.lock().expect("no holder of this lock panics");
        if let Some((at, found)) = &*found
            && *at == now.as_second()
        {
            return found.clone();
        }
        let fresh = Arc::new(Found { front_proxy: self.front_proxy(options), user: self.user(options) });
        *found = Some((now.as_second(), fresh.clone()));
        fresh
    }

    fn front_proxy(&self, options: &Options) -> Proof<()> {
        let Some(proxy) = &options.front_proxy else { return Proof::NoOpinion };
        match self.tls.vouches_for(Signer::FrontProxy, &self.chain, options.clock.now()) {
            None => Proof::NoOpinion,
            Some(true) if proxy.allowed_names.is_empty() => Proof::Proven(()),
            Some(true) => match common_name(&self.chain[0]) {
                Some(name) if proxy.allowed_names.contains(&name) => Proof::Proven(()),
                _ => Proof::Refused,
            },
            Some(false) => Proof::Refused,
        }
    }

    fn user(&self, options: &Options) -> Proof<UserInfo> {
        match self.tls.vouches_for(Signer::Clients, &self.chain, options.clock.now()) {
            None => Proof::NoOpinion,
            Some(true) => certificate_user(&self.chain[0]).map_or(Proof::NoOpinion, Proof::Proven),
            Some(false) => Proof::Refused,
        }
    }
}

/// The last CN of the subject, as Go reads it.
fn common_name(der: &[u8]) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let name = certificate.subject().iter_common_name().last()?.as_str().ok()?;
    Some(name.to_owned())
}

/// Reads the user of a certificate: CN is the name, every O a group. `None` without a CN.
fn certificate_user(der: &[u8]) -> Option<UserInfo> {
    let name = common_name(der).filter(|name| !name.is_empty())?;
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let groups = certificate.subject().iter_organization();
    let groups = groups.filter_map(|group| group.as_str().ok()).map(str::to_owned).collect();
    let mut user = UserInfo { name, groups, ..UserInfo::default() }.authenticated();
    let fingerprint = ring::digest::digest(&ring::digest::SHA256, der);
    user.extra.insert(
        "authentication.kubernetes.io/credential-id".to_owned(),
        vec![format!("X509SHA256={}", hex(fingerprint.as_ref()))],
    );
    Some(user)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
