//! TLS towards pods and Services. Nobody says which authority their certificates are of, so none is asked for: as with
//! kube-apiserver, what comes back is as trustworthy as the network of the cluster.

use std::sync::{Arc, LazyLock};

use rustls::{ClientConfig, Error};

use crate::pki::AnyServer;

/// A client that takes any certificate whose key the server holds.
pub fn client_config() -> Result<Arc<ClientConfig>, Error> {
    static CONFIG: LazyLock<Result<Arc<ClientConfig>, Error>> = LazyLock::new(|| {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = Arc::new(AnyServer(provider.signature_verification_algorithms));
        let config = ClientConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions()?.dangerous();
        Ok(Arc::new(config.with_custom_certificate_verifier(verifier).with_no_client_auth()))
    });
    CONFIG.clone()
}
