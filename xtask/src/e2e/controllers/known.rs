//! The differences that may be, each with its reason. Those that timing makes come and go.

/// A part of the line that tells the difference, and why it may be.
const KNOWN: &[(&str, &str)] = &[
    (
        "recreate.deployments[0].status.conditions",
        "when kube-controller-manager's status write conflicts after it made the new ReplicaSet, Progressing goes on \
         naming the old one; ours writes it together with the sums",
    ),
    (
        "Service Warning ClusterIPNotAllocated ipallocator-repair-controller",
        "kube-apiserver's repair loop meets a Service whose address is not recorded yet; ours allocates in the same \
         transaction",
    ),
];

/// Whether a difference from the real cluster is meant.
pub fn is_known(line: &str) -> bool {
    KNOWN.iter().any(|(text, _)| line.contains(text))
}
