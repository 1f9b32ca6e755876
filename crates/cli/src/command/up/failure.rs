//! The way out for a cluster that did not start.

use std::io::ErrorKind;
use std::path::Path;

use setpoint_cluster::ClusterError;
use setpoint_store::OpenError;

use crate::holder;

/// Names the folder or the port, the process that holds it, and the way out.
pub fn explain(error: ClusterError, data: Option<&Path>) -> anyhow::Error {
    let by = |holder: Option<String>| holder.map_or("another process".to_owned(), |holder| holder);
    match (error, data) {
        (ClusterError::Listen { address, source }, _) if source.kind() == ErrorKind::AddrInUse => {
            let (port, holder) = (address.port(), by(holder::of_port(address.port())));
            anyhow::anyhow!(
                "port {port} of {} is in use by {holder}; choose another one with --port, or a free one with --port 0",
                address.ip()
            )
        }
        (ClusterError::Open(OpenError::Locked), Some(data)) => {
            let holder = by(holder::of_lock(&data.join("lock")));
            anyhow::anyhow!(
                "the data folder {} is in use by {holder}; stop it, or choose another --data-dir",
                data.display()
            )
        }
        (error @ (ClusterError::Open(_) | ClusterError::Folder(_)), Some(data)) => {
            anyhow::Error::from(error).context(format!("cannot open the data folder {}", data.display()))
        }
        (error, _) => error.into(),
    }
}
