//! One authority for a control plane: the server's certificate, and the one it shows to kubelets.

use std::path::Path;

use anyhow::Result;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair,
};

/// Writes `ca.crt`, `apiserver.{crt,key}`, `kubelet-client.{crt,key}` and `sa.{key,pub}`; gives the authority's PEM.
pub fn write(folder: &Path) -> Result<String> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    params.distinguished_name = name("kubernetes", None);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&key)?.pem();
    std::fs::write(folder.join("ca.crt"), &authority)?;
    let issuer = Issuer::new(params, key);

    let names =
        ["127.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "10.96.0.1"];
    let mut server = CertificateParams::new(names.map(str::to_owned))?;
    server.distinguished_name = name("kube-apiserver", None);
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    pair(folder, "apiserver", &server, &issuer)?;

    let mut kubelet_client = CertificateParams::default();
    kubelet_client.distinguished_name = name("kube-apiserver-kubelet-client", Some("system:masters"));
    kubelet_client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    pair(folder, "kubelet-client", &kubelet_client, &issuer)?;

    let tokens = KeyPair::generate()?;
    std::fs::write(folder.join("sa.key"), tokens.serialize_pem())?;
    std::fs::write(folder.join("sa.pub"), tokens.public_key_pem())?;
    Ok(authority)
}

fn name(common: &str, organization: Option<&str>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common);
    if let Some(organization) = organization {
        name.push(DnType::OrganizationName, organization);
    }
    name
}

fn pair(folder: &Path, file: &str, params: &CertificateParams, issuer: &Issuer<'_, KeyPair>) -> Result<()> {
    let key = KeyPair::generate()?;
    std::fs::write(folder.join(format!("{file}.crt")), params.signed_by(&key, issuer)?.pem())?;
    std::fs::write(folder.join(format!("{file}.key")), key.serialize_pem())?;
    Ok(())
}
