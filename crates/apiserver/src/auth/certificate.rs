//! Client certificates: whom the authority of clients and the authority of the front proxy vouch for.

use std::sync::{Arc, Mutex};

use rustls_pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::options::Options;
use crate::pki::{ServingTls, Signer};
use crate::user::UserInfo;

/// The certificate that a client showed in its handshake. The handshake proves the key; the requests decide about the
/// rest.
pub struct ClientCertificate {
    chain: Vec<CertificateDer<'static>>,
    tls: ServingTls,
    /// The last verdict and its second. A certificate may expire while its connection lives, so it is verified again
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

    /// Whether an authority vouches for the certificate, so that its connection counts as authenticated.
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
            Some(true) => certificate_user(&self.chain[0]),
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

/// The element of a subject that is the user's uid, by an OID of Kubernetes' own.
const UID: &str = "1.3.6.1.4.1.57683.2";

/// Reads the user of a certificate: the last CN is the name, every O a group. Without a CN it names nobody, and with
/// several uids it is refused.
fn certificate_user(der: &[u8]) -> Proof<UserInfo> {
    let Some(name) = common_name(der).filter(|name| !name.is_empty()) else { return Proof::NoOpinion };
    let Ok((_, certificate)) = X509Certificate::from_der(der) else { return Proof::NoOpinion };
    let subject = certificate.subject();
    let groups = subject.iter_organization();
    let groups = groups.filter_map(|group| group.as_str().ok()).map(str::to_owned).collect();
    let uids = subject.iter_attributes().filter(|part| part.attr_type().to_id_string() == UID);
    let uids: Vec<&str> = uids.map(|part| part.as_str().unwrap_or("")).collect();
    let uid = match uids.as_slice() {
        [] => String::new(),
        [one] if !one.is_empty() => (*one).to_owned(),
        _ => return Proof::Refused,
    };
    let mut user = UserInfo { name, uid, groups, ..UserInfo::default() }.authenticated();
    let fingerprint = ring::digest::digest(&ring::digest::SHA256, der);
    user.extra.insert(
        "authentication.kubernetes.io/credential-id".to_owned(),
        vec![format!("X509SHA256={}", hex(fingerprint.as_ref()))],
    );
    Proof::Proven(user)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use rcgen::DnType;

    use super::*;

    fn read(parts: &[(DnType, &str)]) -> Proof<UserInfo> {
        let mut parameters = rcgen::CertificateParams::default();
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, value) in parts {
            parameters.distinguished_name.push(kind.clone(), *value);
        }
        let key = rcgen::KeyPair::generate().unwrap();
        certificate_user(parameters.self_signed(&key).unwrap().der())
    }

    fn uid() -> DnType {
        DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2])
    }

    /// As Go's `pkix.Name` reads a subject: each CN replaces the one before it.
    #[test]
    fn the_last_of_several_names_counts() {
        // The library keeps one element of each type; spelled as an OID it is another type to it.
        let second = DnType::CustomDnType(vec![2, 5, 4, 3]);
        let Proof::Proven(user) = read(&[
            (DnType::CommonName, "first"),
            (DnType::OrganizationName, "dev"),
            (second, "last"),
            (uid(), "7"),
        ]) else {
            panic!("not read")
        };
        assert_eq!((&*user.name, &*user.uid), ("last", "7"));
        assert_eq!(user.groups, ["dev", "system:authenticated"]);
    }

    /// As kube-apiserver's `parseUIDFromCert` does.
    #[test]
    fn a_certificate_without_a_name_is_nobodys_and_an_empty_uid_is_refused() {
        assert!(matches!(read(&[(DnType::OrganizationName, "dev")]), Proof::NoOpinion));
        assert!(matches!(read(&[(DnType::CommonName, "a"), (uid(), "")]), Proof::Refused));
    }
}
