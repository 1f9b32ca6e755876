//! The keys of one cluster. The store keeps them, so they survive a restart and a fork.

use bytes::Bytes;
use jiff::Timestamp;
use setpoint_apiserver::jwt::{KeyError, SigningKey};
use setpoint_apiserver::pki::{Authority, Identity, PkiError};
use setpoint_store::{FIRST_REVISION, Store, WriteError};

const AUTHORITY_CERTIFICATE: &str = "ca.crt";
const AUTHORITY_KEY: &str = "ca.key";
const SERVICE_ACCOUNT_KEY: &str = "sa.key";

/// The keys and certificates of one cluster.
pub struct Credentials {
    /// Signs the certificates of the server, of nodes and of the administrator.
    pub authority: Authority,
    /// Signs service-account tokens.
    pub service_accounts: SigningKey,
}

/// The reason why a cluster has no credentials.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// The authority could not be created or read.
    #[error(transparent)]
    Authority(#[from] PkiError),
    /// The key of service-account tokens could not be created or read.
    #[error("service-account key: {0}")]
    ServiceAccounts(#[from] KeyError),
    /// A key is missing although the cluster has data. A new key would make every kubeconfig and token worthless.
    #[error("the data directory has objects, but its file blob-{0} is missing: put it back")]
    Missing(&'static str),
    /// The keys could not be stored.
    #[error("keeping the cluster's keys: {0}")]
    Keep(#[from] WriteError),
}

impl Credentials {
    /// Returns the store's keys, or creates and stores new ones.
    pub async fn of(store: &Store, now: Timestamp) -> Result<Credentials, CredentialsError> {
        let text = |name: &str| store.blob(name).and_then(|bytes| String::from_utf8(bytes.to_vec()).ok());
        if let (Some(certificate), Some(key), Some(signing)) =
            (text(AUTHORITY_CERTIFICATE), text(AUTHORITY_KEY), store.blob(SERVICE_ACCOUNT_KEY))
        {
            let authority = Authority::from_pem(Identity { certificate, key })?;
            return Ok(Credentials { authority, service_accounts: SigningKey::from_pkcs8(&signing)? });
        }
        let names = [AUTHORITY_CERTIFICATE, AUTHORITY_KEY, SERVICE_ACCOUNT_KEY];
        let missing = names.into_iter().find(|name| store.blob(name).is_none());
        if let Some(missing) = missing.filter(|_| store.revision() > FIRST_REVISION) {
            return Err(CredentialsError::Missing(missing));
        }
        let authority = Authority::generate(now)?;
        let signing = SigningKey::generate_pkcs8()?;
        let identity = authority.identity();
        store.put_blob(AUTHORITY_CERTIFICATE, Bytes::from(identity.certificate.clone())).await?;
        store.put_blob(AUTHORITY_KEY, Bytes::from(identity.key.clone())).await?;
        store.put_blob(SERVICE_ACCOUNT_KEY, Bytes::from(signing.clone())).await?;
        Ok(Credentials { authority, service_accounts: SigningKey::from_pkcs8(&signing)? })
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[tokio::test]
    async fn keys_are_made_for_a_new_cluster_only() {
        let store = Store::memory(setpoint_store::Options::default());
        // The state after a crash between the first blob and the second.
        store.put_blob(AUTHORITY_CERTIFICATE, Bytes::from_static(b"of another key")).await.unwrap();
        let made = Credentials::of(&store, Timestamp::UNIX_EPOCH).await.unwrap();
        let kept = Credentials::of(&store, Timestamp::UNIX_EPOCH).await.unwrap();
        assert_eq!(made.authority.identity().certificate, kept.authority.identity().certificate);

        let used = Store::memory(setpoint_store::Options::default());
        let write = used.transact(|_, txn| {
            txn.put("/registry/configmaps/default/a", "{}");
            Ok::<_, Infallible>(())
        });
        write.await.unwrap();
        let refused = Credentials::of(&used, Timestamp::UNIX_EPOCH).await;
        assert!(matches!(refused, Err(CredentialsError::Missing("ca.crt"))));
    }
}
