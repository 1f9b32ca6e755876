//! Fields that the types of one Kubernetes require and those of another leave open: here both read and write alike, so
//! that this library builds with whichever version its user chose.

use std::sync::LazyLock;

use k8s_openapi::api::apps::v1::{
    DaemonSet, DaemonSetSpec, Deployment, DeploymentCondition, DeploymentSpec, ReplicaSet,
    ReplicaSetCondition, ReplicaSetSpec, StatefulSet, StatefulSetSpec,
};
use k8s_openapi::api::core::v1::ReplicationControllerCondition;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};

/// A field of `T`, or of `Option<T>`.
pub trait Field<T>: Sized {
    /// A field with a value.
    fn with(value: T) -> Self;
    /// The value, if there is one.
    fn value(&self) -> Option<&T>;
    /// The value to change, an empty one if there was none.
    fn value_mut(&mut self) -> &mut T
    where
        T: Default;
}

impl<T> Field<T> for T {
    fn with(value: T) -> Self {
        value
    }

    fn value(&self) -> Option<&T> {
        Some(self)
    }

    fn value_mut(&mut self) -> &mut T {
        self
    }
}

impl<T> Field<T> for Option<T> {
    fn with(value: T) -> Self {
        Some(value)
    }

    fn value(&self) -> Option<&T> {
        self.as_ref()
    }

    fn value_mut(&mut self) -> &mut T
    where
        T: Default,
    {
        self.get_or_insert_default()
    }
}

/// A Deployment's spec; one without asks for nothing.
pub fn deployment_spec(deployment: &Deployment) -> &DeploymentSpec {
    static NONE: LazyLock<DeploymentSpec> = LazyLock::new(DeploymentSpec::default);
    deployment.spec.value().unwrap_or(&NONE)
}

/// A ReplicaSet's spec; one without asks for nothing.
pub fn replica_set_spec(set: &ReplicaSet) -> &ReplicaSetSpec {
    static NONE: LazyLock<ReplicaSetSpec> = LazyLock::new(ReplicaSetSpec::default);
    set.spec.value().unwrap_or(&NONE)
}

/// A DaemonSet's spec; one without asks for nothing.
pub fn daemon_set_spec(set: &DaemonSet) -> &DaemonSetSpec {
    static NONE: LazyLock<DaemonSetSpec> = LazyLock::new(DaemonSetSpec::default);
    set.spec.value().unwrap_or(&NONE)
}

/// A StatefulSet's spec; one without asks for nothing.
pub fn stateful_set_spec(set: &StatefulSet) -> &StatefulSetSpec {
    static NONE: LazyLock<StatefulSetSpec> = LazyLock::new(StatefulSetSpec::default);
    set.spec.value().unwrap_or(&NONE)
}

/// A ReplicaSet's spec, to change it.
pub fn replica_set_spec_mut(set: &mut ReplicaSet) -> &mut ReplicaSetSpec {
    set.spec.value_mut()
}

/// A slice's endpoints.
pub fn endpoints(slice: &EndpointSlice) -> &[Endpoint] {
    let endpoints: Option<&Vec<Endpoint>> = slice.endpoints.value();
    endpoints.map(Vec::as_slice).unwrap_or_default()
}

/// A slice's endpoints, to change them.
pub fn endpoints_mut(slice: &mut EndpointSlice) -> &mut Vec<Endpoint> {
    slice.endpoints.value_mut()
}

/// The common fields of the conditions of Deployments, ReplicaSets and ReplicationControllers.
pub trait Condition {
    /// The type.
    fn kind(&self) -> &str;
    /// The status.
    fn value(&self) -> &str;
}

macro_rules! condition {
    ($($kind:ty),*) => {$(
        impl Condition for $kind {
            fn kind(&self) -> &str {
                Field::<String>::value(&self.type_).map(String::as_str).unwrap_or_default()
            }

            fn value(&self) -> &str {
                Field::<String>::value(&self.status).map(String::as_str).unwrap_or_default()
            }
        }
    )*};
}

condition!(DeploymentCondition, ReplicaSetCondition, ReplicationControllerCondition);
