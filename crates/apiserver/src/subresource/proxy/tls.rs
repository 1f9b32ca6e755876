//! TLS towards pods and Services. Nobody says which authority their certificates are of, so none is asked for: as with
//! kube-apiserver, what comes back is as trustworthy as the network of the cluster.

use std::sync::{Arc, LazyLock};

use rustls::{ClientConfig, Error};

/// A client that takes any certificate whose key the server holds.
pub fn client_config() -> Result<Arc<ClientConfig>, Error> {
    static CONFIG: LazyLock<Result<Arc<ClientConfig>, Error>> =
        LazyLock::new(|| Ok(Arc::new(setpoint_serving::any_server()?.with_no_client_auth())));
    CONFIG.clone()
}
