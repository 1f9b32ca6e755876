//! Certificates of attackers and of everybody else, by two authorities that the servers trust and one that they do not.
//!
//! A user is written as its certificate: `CN=alice,O=dev`. A word before a colon changes the rest: `proxy:` signs with
//! the authority of the front proxy, `stranger:` with an unknown one, `expired:` ended yesterday, `early:` begins
//! tomorrow, `server:` is for servers, `short:` ends after a few seconds.

use std::net::Ipv4Addr;

use anyhow::{Context, Result, bail};
use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, SanType,
};
use setpoint_wire::tls::Pair;

/// Life of a `short:` certificate.
pub const SHORT: SignedDuration = SignedDuration::from_secs(4);

struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn generate(name: &str) -> Result<Authority> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key)?.pem();
        Ok(Authority { certificate, issuer: Issuer::new(params, key) })
    }
}

/// The authorities.
pub struct Certificates {
    clients: Authority,
    proxies: Authority,
    strangers: Authority,
}

impl Certificates {
    pub fn generate() -> Result<Certificates> {
        Ok(Certificates {
            clients: Authority::generate("clients")?,
            proxies: Authority::generate("proxies")?,
            strangers: Authority::generate("strangers")?,
        })
    }

    /// PEM for `--client-ca-file`.
    pub fn clients(&self) -> &str {
        &self.clients.certificate
    }

    /// PEM for `--requestheader-client-ca-file`.
    pub fn proxies(&self) -> &str {
        &self.proxies.certificate
    }

    /// Issues the certificate of a user.
    pub fn issue(&self, user: &str) -> Result<Pair> {
        let named = match user {
            "admin" => "CN=admin,O=system:masters",
            "alice" => "CN=alice,O=dev",
            "quiet" => "CN=quiet",
            other => other,
        };
        let (kind, subject) = match named.split_once(':') {
            Some((kind, subject)) if !kind.contains('=') => (kind, subject),
            _ => ("", named),
        };
        let now = Timestamp::now();
        let (mut begins, mut ends) =
            (now - SignedDuration::from_hours(48), now + SignedDuration::from_hours(24));
        let mut purpose = ExtendedKeyUsagePurpose::ClientAuth;
        let mut authority = &self.clients;
        let mut names = Vec::new();
        match kind {
            "" => {}
            "proxy" => authority = &self.proxies,
            "stranger" => authority = &self.strangers,
            "expired" => ends = now - SignedDuration::from_hours(24),
            "early" => begins = now + SignedDuration::from_hours(12),
            "server" => {
                purpose = ExtendedKeyUsagePurpose::ServerAuth;
                names.push(SanType::IpAddress(Ipv4Addr::LOCALHOST.into()));
            }
            "short" => ends = now + SHORT,
            other => bail!("no kind of certificate {other:?}"),
        }
        let mut params = CertificateParams::default();
        params.distinguished_name = subject_of(subject)?;
        params.subject_alt_names = names;
        params.extended_key_usages = vec![purpose];
        // rcgen's type of a time has no public name: it is counted from one of its own.
        let epoch = rcgen::date_time_ymd(1970, 1, 1);
        params.not_before = epoch + std::time::Duration::from_secs(begins.as_second().unsigned_abs());
        params.not_after = epoch + std::time::Duration::from_secs(ends.as_second().unsigned_abs());
        let key = KeyPair::generate()?;
        Ok(Pair { certificate: params.signed_by(&key, &authority.issuer)?.pem(), key: key.serialize_pem() })
    }
}

/// The attributes in their order. rcgen keeps one value of each type: a second one goes by its number.
fn subject_of(text: &str) -> Result<DistinguishedName> {
    let mut name = DistinguishedName::new();
    let mut seen: Vec<&str> = Vec::new();
    for part in text.split(',') {
        let (attribute, value) = part.split_once('=').with_context(|| format!("{part:?} is no attribute"))?;
        let number = match attribute {
            "CN" => vec![2, 5, 4, 3],
            "O" => vec![2, 5, 4, 10],
            other => bail!("no attribute {other:?}"),
        };
        let kind = match (attribute, seen.contains(&attribute)) {
            ("CN", false) => DnType::CommonName,
            (_, false) => DnType::OrganizationName,
            (_, true) => DnType::CustomDnType(number),
        };
        seen.push(attribute);
        name.push(kind, value);
    }
    Ok(name)
}
