//! The differences that may be, each with its reason. Those that timing makes come and go.

/// A part of the line that tells the difference, and why it may be.
const KNOWN: &[(&str, &str)] = &[
    (
        "recreate.deployments[0].status.conditions",
        "when kube-controller-manager's status write conflicts after it made the new ReplicaSet, Progressing goes on \
         naming the old one; ours writes it together with the sums",
    ),
    (
        "StatefulSet Warning FailedUpdate statefulset-controller",
        "kube-controller-manager tells of it now and then while claims change hands, and tries again; the end is the \
         same",
    ),
    (
        "stateful-parallel.events.StatefulSet Normal SuccessfulUpdate statefulset-controller",
        "kube-controller-manager gives claims their owners after it made them; if its cache is behind when it looks \
         again, it does so twice and tells of a pod that was updated",
    ),
    (
        "PersistentVolumeClaim Normal WaitForFirstConsumer persistentvolume-controller",
        "a claim that waits for its pod is told whether there is one each time that it is looked at, and goes on at once \
         where it is not looked at before its pod has a node",
    ),
    ("PersistentVolumeClaim Normal WaitForPodScheduled persistentvolume-controller", "the same"),
    (
        "PersistentVolumeClaim Warning ProvisioningFailed persistentvolume-controller",
        "kube-controller-manager tells of a claim that the scheduler wrote to in between, and tries again",
    ),
    (
        "job-fail.events.Pod Warning BackOff kubelet",
        "a container that failed waits to be restarted, unless its Job gives up first",
    ),
    (
        "labels.events.Pod Warning FailedScheduling default-scheduler",
        "the scheduler, ours everywhere, may meet a DaemonSet's pod before it knows the change of the node that the pod \
         was made for; what cannot be scheduled for good is in the pods' conditions",
    ),
    ("taints.events.Pod Warning FailedScheduling default-scheduler", "the same"),
    (
        "stateful.events.Pod Warning FailedScheduling default-scheduler",
        "the scheduler, ours everywhere, may meet a StatefulSet's pod before it knows the claim that was made just before; \
         what cannot be scheduled for good is in the pods' conditions",
    ),
    ("stateful-parallel.events.Pod Warning FailedScheduling default-scheduler", "the same"),
    (
        "taints.events.Pod Normal TaintManagerEviction taint-eviction-controller",
        "a pod on a node with a NoExecute taint is deleted by its DaemonSet's controller and by the one that evicts; \
         whoever comes first tells",
    ),
    (
        "taints.events.DaemonSet Normal SuccessfulDelete daemonset-controller",
        "the same, seen from the other side",
    ),
    (
        "services.events.Endpoints Warning FailedToCreateEndpoint endpoint-controller",
        "kube-controller-manager makes Endpoints once more while its cache does not show those that it made, is refused, \
         and tries again",
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
