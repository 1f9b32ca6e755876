//! The cluster's own certificate authority, and what it signs: the server's certificate, the administrator's,
//! the one with which the API server calls nodes, and the key of service-account tokens.

use std::fmt;
use std::net::IpAddr;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType,
};

/// A certificate and its private key, as PEM.
#[derive(Clone)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// Its key (PKCS #8).
    pub key: String,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// Why a certificate could not be made or read.
#[derive(Debug, thiserror::Error)]
#[error("certificate: {0}")]
pub struct CredentialsError(#[from] rcgen::Error);

/// What proves identities in one cluster; kept across restarts where the cluster has a data folder.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The authority that signs everything below; clients trust it.
    pub authority: Identity,
    /// Signs service-account tokens (ECDSA P-256).
    pub service_account_key: String,
}

impl Credentials {
    /// New keys.
    pub fn generate() -> Result<Self, CredentialsError> {
        let key = KeyPair::generate()?;
        let certificate = authority_params().self_signed(&key)?;
        Ok(Credentials {
            authority: Identity { certificate: certificate.pem(), key: key.serialize_pem() },
            service_account_key: KeyPair::generate()?.serialize_pem(),
        })
    }

    /// A certificate for a server that answers under these addresses and the API server's usual names.
    pub fn server(&self, addresses: &[IpAddr]) -> Result<Identity, CredentialsError> {
        let mut params = leaf_params("kube-apiserver", &[]);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.subject_alt_names = addresses.iter().map(|address| SanType::IpAddress(*address)).collect();
        for name in SERVER_NAMES {
            params.subject_alt_names.push(SanType::DnsName((*name).try_into()?));
        }
        self.sign(&params)
    }

    /// A client certificate: common name is the user, organisations are the groups.
    pub fn client(&self, user: &str, groups: &[&str]) -> Result<Identity, CredentialsError> {
        let mut params = leaf_params(user, groups);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(&params)
    }

    fn sign(&self, params: &CertificateParams) -> Result<Identity, CredentialsError> {
        let issuer = Issuer::new(authority_params(), KeyPair::from_pem(&self.authority.key)?);
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &issuer)?;
        Ok(Identity { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

const SERVER_NAMES: &[&str] = &[
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::CrlSign];
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "setpoint-ca");
    params
}

fn leaf_params(common_name: &str, organisations: &[&str]) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    for organisation in organisations {
        params.distinguished_name.push(DnType::OrganizationName, *organisation);
    }
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    params
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signed_certificate_names_its_user_and_issuer() {
        let credentials = Credentials::generate().unwrap();
        let admin = credentials.client("admin", &["system:masters"]).unwrap();
        let issuer = Issuer::from_ca_cert_pem(
            &credentials.authority.certificate,
            KeyPair::from_pem(&credentials.authority.key).unwrap(),
        );
        assert!(issuer.is_ok());
        assert!(admin.certificate.starts_with("-----BEGIN CERTIFICATE-----"));
        assert_ne!(admin.key, credentials.authority.key);
    }

    #[test]
    fn a_key_is_never_printed() {
        let credentials = Credentials::generate().unwrap();
        let printed = format!("{:?}", credentials.authority);
        assert!(!printed.contains("PRIVATE KEY"), "{printed}");
    }
}
