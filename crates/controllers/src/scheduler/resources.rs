//! Amounts of resources: what pods ask for, what nodes have.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::object::quantity;

/// Assumed use, for the comparison of nodes, of a container without requests.
const DEFAULT_CPU_MILLIS: i64 = 100;
const DEFAULT_MEMORY_BYTES: i64 = 200 * 1024 * 1024;

/// Amounts by resource. The three that nearly every node has are fields: they are compared for every pod and node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resources {
    pub cpu_millis: i64,
    pub memory: i64,
    pub ephemeral_storage: i64,
    /// Extended resources, huge pages and the like.
    pub other: BTreeMap<String, i64>,
}

impl Resources {
    /// Reads a resource list.
    pub fn from_list(list: Option<&BTreeMap<String, Quantity>>) -> Self {
        let mut all = Resources::default();
        for (name, quantity) in list.into_iter().flatten() {
            match name.as_str() {
                "cpu" => all.cpu_millis = quantity::millis(&quantity.0),
                "memory" => all.memory = quantity::units(&quantity.0),
                "ephemeral-storage" => all.ephemeral_storage = quantity::units(&quantity.0),
                "pods" => {}
                _ => {
                    all.other.insert(name.clone(), quantity::units(&quantity.0));
                }
            }
        }
        all
    }

    fn combine(&mut self, other: &Resources, with: impl Fn(i64, i64) -> i64) {
        self.cpu_millis = with(self.cpu_millis, other.cpu_millis);
        self.memory = with(self.memory, other.memory);
        self.ephemeral_storage = with(self.ephemeral_storage, other.ephemeral_storage);
        for (name, amount) in &other.other {
            let mine = self.other.entry(name.clone()).or_default();
            *mine = with(*mine, *amount);
        }
    }

    pub fn add(&mut self, other: &Resources) {
        self.combine(other, i64::saturating_add);
    }

    pub fn subtract(&mut self, other: &Resources) {
        self.combine(other, i64::saturating_sub);
    }

    fn at_least(&mut self, other: &Resources) {
        self.combine(other, i64::max);
    }
}

fn requests(container: &Container) -> Resources {
    Resources::from_list(container.resources.as_ref().and_then(|resources| resources.requests.as_ref()))
}

/// Returns a pod's requests: the sum of its containers, or its largest init container if that is more.
pub fn of_pod(spec: &PodSpec) -> Resources {
    let mut total = Resources::default();
    for container in &spec.containers {
        total.add(&requests(container));
    }
    let mut sidecars = Resources::default();
    let mut initialising = Resources::default();
    for container in spec.init_containers.iter().flatten() {
        let mut present = requests(container);
        if container.restart_policy.as_deref() == Some("Always") {
            total.add(&present);
            sidecars.add(&present);
            present = sidecars.clone();
        } else {
            present.add(&sidecars);
        }
        initialising.at_least(&present);
    }
    total.at_least(&initialising);
    apply_pod_level(spec, &mut total);
    total.add(&Resources::from_list(spec.overhead.as_ref()));
    total
}

/// Requests of the pod as a whole replace the sums.
fn apply_pod_level(spec: &PodSpec, total: &mut Resources) {
    let Some(list) = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref()) else {
        return;
    };
    let whole = Resources::from_list(Some(list));
    if list.contains_key("cpu") {
        total.cpu_millis = whole.cpu_millis;
    }
    if list.contains_key("memory") {
        total.memory = whole.memory;
    }
    total.other.extend(whole.other);
}

/// CPU and memory for comparing nodes: containers that ask for nothing still weigh something.
pub fn weight_of_pod(spec: &PodSpec, asked: &Resources) -> (i64, i64) {
    let idle = |name: &str| {
        let silent = |container: &&Container| {
            let list = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
            !list.is_some_and(|list| list.contains_key(name))
        };
        i64::try_from(spec.containers.iter().filter(silent).count()).unwrap_or(0)
    };
    (
        asked.cpu_millis + idle("cpu") * DEFAULT_CPU_MILLIS,
        asked.memory + idle("memory") * DEFAULT_MEMORY_BYTES,
    )
}
