//! The resources of a pod: the sum of its containers, or its hungriest moment of initialisation if that is more.

use serde_json::Value;

use super::{Amounts, add, amounts, at_least, is_huge_pages};
use crate::access::{at, entries, items, text};

/// Which of a container's two maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The amounts that are reserved for it.
    Requests,
    /// The amounts that it gets at most.
    Limits,
}

impl Side {
    fn field(self) -> &'static str {
        match self {
            Side::Requests => "requests",
            Side::Limits => "limits",
        }
    }

    /// This map of `resources`.
    pub(crate) fn of(self, resources: &Value) -> Amounts {
        amounts(at(resources, self.field()))
    }
}

/// Whether the pod as a whole names an amount that counts instead of its containers'.
pub fn has_own_resources(pod: &Value) -> bool {
    let lists = ["spec.resources.requests", "spec.resources.limits"];
    lists.iter().any(|list| entries(pod, list).any(|(name, _)| is_of_pods(name)))
}

/// Resources that a pod as a whole may name.
fn is_of_pods(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || is_huge_pages(name)
}

/// Returns the amounts of the pod's spec without overhead. LimitRanges check these.
pub fn of_spec(pod: &Value, side: Side) -> Amounts {
    let mut total = of_containers(pod, |container| side.of(at(container, "resources")));
    let own = side.of(at(pod, "spec.resources"));
    total.extend(own.into_iter().filter(|(name, _)| matches!(&**name, "cpu" | "memory")));
    total
}

/// Returns the amounts that the pod takes, with overhead: those of its spec or those that its node has given it,
/// whichever is more.
pub fn of_pod(pod: &Value, side: Side) -> Amounts {
    let infeasible = is_resize_infeasible(pod);
    let given = |amounts: Option<Amounts>, container: &Value| {
        let asked = || if infeasible { Amounts::new() } else { side.of(at(container, "resources")) };
        amounts.unwrap_or_else(asked)
    };
    let mut total = Amounts::new();
    if !infeasible {
        total = of_containers(pod, |container| side.of(at(container, "resources")));
    }
    let actual = of_containers(pod, |container| {
        let status = status_of(pod, text(container, "name"));
        let running = has(status, &format!("resources.{}", side.field()));
        let running = running.or_else(|| allocated(status).filter(|_| side == Side::Requests));
        given(running, container)
    });
    at_least(&mut total, &actual);
    if side == Side::Requests {
        let promised =
            |container: &Value| given(allocated(status_of(pod, text(container, "name"))), container);
        at_least(&mut total, &of_containers(pod, promised));
    }
    // The request of the pod as a whole replaces those of its containers.
    let own = side.of(at(pod, "spec.resources"));
    total.extend(own.into_iter().filter(|(name, _)| is_of_pods(name)));
    add_overhead(&mut total, pod, side);
    total
}

fn add_overhead(total: &mut Amounts, pod: &Value, side: Side) {
    for (name, amount) in amounts(at(pod, "spec.overhead")) {
        match side {
            Side::Requests => add(total, &Amounts::from([(name, amount)])),
            // A resource without a limit has none with overhead either.
            Side::Limits => {
                if let Some(limit) = total.get_mut(&name).filter(|limit| !limit.is_zero()) {
                    *limit = *limit + amount;
                }
            }
        }
    }
}

fn has(value: &Value, path: &str) -> Option<Amounts> {
    Some(at(value, path)).filter(|map| !map.is_null()).map(amounts)
}

fn allocated(status: &Value) -> Option<Amounts> {
    has(status, "allocatedResources")
}

fn status_of<'p>(pod: &'p Value, name: &str) -> &'p Value {
    let lists = ["status.containerStatuses", "status.initContainerStatuses"];
    let mut all = lists.iter().flat_map(|list| items(pod, list));
    all.find(|status| text(status, "name") == name).unwrap_or(&Value::Null)
}

fn is_resize_infeasible(pod: &Value) -> bool {
    let mut conditions = items(pod, "status.conditions").iter();
    let pending = conditions.find(|condition| text(condition, "type") == "PodResizePending");
    pending.is_some_and(|condition| text(condition, "reason") == "Infeasible")
}

/// Containers together; while one initialises, the sidecars before it run beside it.
fn of_containers(pod: &Value, of: impl Fn(&Value) -> Amounts) -> Amounts {
    let mut total = Amounts::new();
    for container in items(pod, "spec.containers") {
        add(&mut total, &of(container));
    }
    let mut sidecars = Amounts::new();
    let mut initialising = Amounts::new();
    for container in items(pod, "spec.initContainers") {
        let mut present = of(container);
        if text(container, "restartPolicy") == "Always" {
            add(&mut total, &present);
            add(&mut sidecars, &present);
            present.clone_from(&sidecars);
        } else {
            add(&mut present, &sidecars);
        }
        at_least(&mut initialising, &present);
    }
    at_least(&mut total, &initialising);
    total
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(amounts: &Amounts) -> String {
        let parts: Vec<String> = amounts.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
        parts.join(" ")
    }

    fn container(name: &str, cpu: &str) -> Value {
        json!({"name": name, "resources": {"requests": {"cpu": cpu}}})
    }

    #[test]
    fn a_pod_asks_for_its_containers_or_its_hungriest_moment() {
        let mut sidecar = container("s", "200m");
        sidecar["restartPolicy"] = json!("Always");
        let pod = json!({"spec": {"containers": [container("a", "100m"), container("b", "300m")],
            "initContainers": [container("i", "550m"), sidecar, container("j", "500m")]}});
        assert_eq!(shown(&of_pod(&pod, Side::Requests)), "cpu=700m");
        assert_eq!(shown(&of_spec(&pod, Side::Requests)), "cpu=700m");
        assert_eq!(shown(&of_pod(&pod, Side::Limits)), "");
    }

    #[test]
    fn amounts_of_the_whole_pod_replace_the_sums_and_overhead_comes_on_top() {
        let pod = json!({"spec": {"containers": [container("a", "100m")], "overhead": {"cpu": "10m"},
            "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "hugepages-2Mi": "4Mi"}}}});
        assert!(has_own_resources(&pod));
        assert_eq!(shown(&of_pod(&pod, Side::Requests)), "cpu=1010m");
        assert_eq!(shown(&of_pod(&pod, Side::Limits)), "cpu=2010m hugepages-2Mi=4Mi");
        assert_eq!(shown(&of_spec(&pod, Side::Limits)), "cpu=2");
    }

    #[test]
    fn what_a_node_has_given_counts_until_it_is_taken_back() {
        let mut pod = json!({"spec": {"containers": [container("a", "100m")]}, "status": {"containerStatuses": [
            {"name": "a", "allocatedResources": {"cpu": "200m"}, "resources": {"requests": {"cpu": "300m"}}}]}});
        assert_eq!(shown(&of_pod(&pod, Side::Requests)), "cpu=300m");
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("1");
        assert_eq!(shown(&of_pod(&pod, Side::Requests)), "cpu=1");
        pod["status"]["conditions"] = json!([{"type": "PodResizePending", "reason": "Infeasible"}]);
        assert_eq!(shown(&of_pod(&pod, Side::Requests)), "cpu=300m");
    }
}
