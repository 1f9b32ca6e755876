//! The seeded bugs. Each is named after what it does; the comment names a bug like it.

/// A seeded bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bug {
    /// The absence of the first Secret guards the creation of both. (K8SPXC-896, K8SPSMDB-578)
    FirstSecretGuardsBoth = 1,
    /// The note of the size is written before the thing. (rabbitmq-782)
    NoteBeforeThing = 2,
    /// The config is written first and the mark that it needs a restart second. (nifikop-49)
    ConfigBeforeMark = 3,
    /// Two status writes, of which the second depends on the first having been made in this pass. (nifikop-79)
    TwoStatusWrites = 4,
    /// The phase is in memory and is persisted after the effect. (casskop-370)
    PhaseInMemory = 5,
    /// A StatefulSet is deleted and created for a change, and the decision is not persisted. (K8SPXC-979)
    DeleteThenCreate = 6,
    /// Step 2 of a label is skipped if step 1 is seen. (K8SSAND-1362)
    LabelSteps = 7,
    /// A child with a generated name, whose name is kept in the status.
    GeneratedName = 8,
    /// A counter is incremented, then stored.
    CounterThenNote = 9,
    /// The finalizer deletes claims by label, whatever their uid. (K8SSAND-559, casskop-316, zookeeper-312)
    ClaimsByLabel = 10,
    /// The companion of a claim that is seen terminating is deleted by name. (Instaclustr cassandra-407)
    TerminatingByName = 11,
    /// Everything that the spec does not ask for is deleted by name. (K8SPXC-725, K8SPSMDB-433, yugabyte-35)
    DisabledByName = 12,
    /// Another size, in either direction, deletes the StatefulSet. (rabbitmq-653)
    OtherSizeDeletes = 13,
    /// The budget is deleted and created on any difference. (casskop-321)
    BudgetAnew = 14,
    /// Secrets whose owner is not in the cache are garbage. (ECK-5249)
    OwnGarbage = 15,
    /// Claims beyond the replicas of the status are deleted by name. (zookeeper-314)
    OrphansByStatus = 16,
    /// Children are counted in an unguarded cache and made with random names. (kubernetes-129795, kuberay-715)
    CountedInCache = 17,
    /// A child is made again because the cache lags behind its creation. (cluster-api-13649)
    LaggingCache = 18,
    /// A claim is deleted only if its pod is seen terminating. (Instaclustr cassandra-398)
    SeenTerminating = 19,
    /// Claims follow the difference between two events. (casskop-342, K8SPXC-918, rabbitmq-758)
    EventDifference = 20,
    /// The memory of the process says whether a store is new. (zookeeper-453)
    FirstSeen = 21,
    /// The repair of one child is guarded by the state of another one.
    GuardedByOther = 22,
    /// The whole status is merged from the cached copy. (kcp-3926)
    WholeStatus = 23,
    /// A conflict on the status is swallowed. (Flux)
    SwallowedConflict = 24,
    /// The own status write is filtered with everything before it. (java-operator-sdk-3398)
    OwnEventFiltered = 25,
    /// An update without a resourceVersion.
    BlindUpdate = 26,
    /// Children are ensured before the deletion is looked at. (zookeeper-410, K8SPSMDB-590)
    ChildrenBeforeDeletion = 27,
    /// The finalizer is added after the first child.
    LateFinalizer = 28,
    /// One child has no owner.
    NoOwner = 29,
    /// The deletion waits for a child that goes only after it.
    DeletionWaitsForItself = 30,
    /// The first object of a list is taken for the own one. (Instaclustr cassandra-400)
    FirstOfList = 31,
    /// A counter in the reconciler is shared by all objects. (zookeeper-103)
    SharedCounter = 32,
    /// Each pass writes a timestamp. (Stackable nifi-868)
    Timestamp = 33,
    /// A claim that is being deleted is deleted again. (cass-operator-417)
    DeletesAgain = 34,
    /// Labels are only ever added. (cassandra-330, minio-2038)
    LabelsOnlyAdded = 35,
    /// The monitor is created and never deleted. (knative-1157)
    MonitorStays = 36,
    /// The size is not passed on. (redis-287)
    NotPassedOn = 37,
    /// Only a ready StatefulSet is updated. (TiDB-4946, cass-operator-334, CloudNativePG-3541)
    OnlyReady = 38,
    /// An optional field is unwrapped. (cockroachdb-918, redis-283)
    Unwrap = 39,
    /// The phase of a rollover is deduced from the first of two Secrets. (Strimzi-8402)
    HalfRollover = 40,
}

impl Bug {
    /// Returns the bug with a number.
    pub fn numbered(number: u8) -> Option<Bug> {
        Bug::ALL.into_iter().find(|bug| *bug as u8 == number)
    }

    /// All bugs.
    pub const ALL: [Bug; 40] = [
        Bug::FirstSecretGuardsBoth,
        Bug::NoteBeforeThing,
        Bug::ConfigBeforeMark,
        Bug::TwoStatusWrites,
        Bug::PhaseInMemory,
        Bug::DeleteThenCreate,
        Bug::LabelSteps,
        Bug::GeneratedName,
        Bug::CounterThenNote,
        Bug::ClaimsByLabel,
        Bug::TerminatingByName,
        Bug::DisabledByName,
        Bug::OtherSizeDeletes,
        Bug::BudgetAnew,
        Bug::OwnGarbage,
        Bug::OrphansByStatus,
        Bug::CountedInCache,
        Bug::LaggingCache,
        Bug::SeenTerminating,
        Bug::EventDifference,
        Bug::FirstSeen,
        Bug::GuardedByOther,
        Bug::WholeStatus,
        Bug::SwallowedConflict,
        Bug::OwnEventFiltered,
        Bug::BlindUpdate,
        Bug::ChildrenBeforeDeletion,
        Bug::LateFinalizer,
        Bug::NoOwner,
        Bug::DeletionWaitsForItself,
        Bug::FirstOfList,
        Bug::SharedCounter,
        Bug::Timestamp,
        Bug::DeletesAgain,
        Bug::LabelsOnlyAdded,
        Bug::MonitorStays,
        Bug::NotPassedOn,
        Bug::OnlyReady,
        Bug::Unwrap,
        Bug::HalfRollover,
    ];

    /// Returns whether the operator begins with what the server's cache has, as most clients of other libraries do.
    pub fn starts_late(self) -> bool {
        matches!(
            self,
            Bug::ClaimsByLabel
                | Bug::TerminatingByName
                | Bug::DisabledByName
                | Bug::OtherSizeDeletes
                | Bug::BudgetAnew
                | Bug::OwnGarbage
                | Bug::OrphansByStatus
        )
    }
}
