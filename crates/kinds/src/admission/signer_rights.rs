//! The right to act for a signer of certificates.

use super::request::{Cluster, Right};

/// Whether the user may use a verb on a signer, or on all signers of its domain.
pub(super) fn allows(cluster: &dyn Cluster, verb: &str, signer: &str) -> bool {
    let domain = signer.split('/').next().unwrap_or_default();
    let signers =
        Right { verb, group: "certificates.k8s.io", version: "*", resource: "signers", ..Right::default() };
    let may = |name: &str| cluster.allows(&Right { name, ..signers });
    may(signer) || may(&format!("{domain}/*"))
}
