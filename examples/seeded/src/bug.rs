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
    /// Children are counted in an unguarded cache and made with random names. (kubernetes-129795, kuberay-715)
    CountedInCache = 17,
    /// A child is made again because the cache lags behind its creation. (cluster-api-13649)
    LaggingCache = 18,
    /// Claims follow the difference between two events. (casskop-342, K8SPXC-918, rabbitmq-758)
    EventDifference = 20,
    /// The own status write is filtered with everything before it. (java-operator-sdk-3398)
    OwnEventFiltered = 25,
    /// Children are ensured before the deletion is looked at. (zookeeper-410, K8SPSMDB-590)
    ChildrenBeforeDeletion = 27,
    /// The finalizer is added after the first child.
    LateFinalizer = 28,
    /// One child has no owner.
    NoOwner = 29,
    /// The deletion waits for a child that goes only after it.
    DeletionWaitsForItself = 30,
    /// A counter in the reconciler is shared by all objects. (zookeeper-103)
    SharedCounter = 32,
    /// Each pass writes a timestamp. (Stackable nifi-868)
    Timestamp = 33,
    /// Labels are only ever added. (cassandra-330, minio-2038)
    LabelsOnlyAdded = 35,
    /// The monitor is created and never deleted. (knative-1157)
    MonitorStays = 36,
    /// An optional field is unwrapped. (cockroachdb-918, redis-283)
    Unwrap = 39,
}

impl Bug {
    /// All bugs.
    pub const ALL: [Bug; 22] = [
        Bug::FirstSecretGuardsBoth,
        Bug::NoteBeforeThing,
        Bug::ConfigBeforeMark,
        Bug::TwoStatusWrites,
        Bug::PhaseInMemory,
        Bug::DeleteThenCreate,
        Bug::LabelSteps,
        Bug::GeneratedName,
        Bug::CounterThenNote,
        Bug::CountedInCache,
        Bug::LaggingCache,
        Bug::EventDifference,
        Bug::OwnEventFiltered,
        Bug::ChildrenBeforeDeletion,
        Bug::LateFinalizer,
        Bug::NoOwner,
        Bug::DeletionWaitsForItself,
        Bug::SharedCounter,
        Bug::Timestamp,
        Bug::LabelsOnlyAdded,
        Bug::MonitorStays,
        Bug::Unwrap,
    ];
}
