//! The containers of a pod, and the words for several of them.

use serde_json::Value;

use crate::access::{items, text};

/// All containers: init, usual, ephemeral.
pub(super) fn all(pod: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["spec.initContainers", "spec.containers", "spec.ephemeralContainers"];
    lists.into_iter().flat_map(|list| items(pod, list))
}

/// The names of the containers with some property.
pub(super) fn with<'p>(pod: &'p Value, has: impl FnMut(&&'p Value) -> bool) -> Vec<&'p str> {
    all(pod).filter(has).map(|container| text(container, "name")).collect()
}

/// `container "a"` or `containers "a", "b"`.
pub(super) fn named(names: &[&str]) -> String {
    format!("{} {}", plural("container", names.len()), quoted(names))
}

/// The pod and the containers that set a value, as `pod and container "a"`; `None` if nobody does.
pub(super) fn setters(pod_sets: bool, containers: &[&str]) -> Option<String> {
    let of_pod = pod_sets.then(|| "pod".to_owned());
    let of_containers = (!containers.is_empty()).then(|| named(containers));
    let setters: Vec<String> = of_pod.into_iter().chain(of_containers).collect();
    (!setters.is_empty()).then(|| setters.join(" and "))
}

/// `"a", "b"`, without escapes.
pub(super) fn quoted<T: AsRef<str>>(names: &[T]) -> String {
    names.iter().map(|name| format!("\"{}\"", name.as_ref())).collect::<Vec<_>>().join(", ")
}

/// The word with an `s`, unless there is one.
pub(super) fn plural(word: &str, count: usize) -> String {
    if count == 1 { word.to_owned() } else { format!("{word}s") }
}

/// The values, sorted, each once.
pub(super) fn sorted<'v>(values: impl IntoIterator<Item = &'v str>) -> Vec<&'v str> {
    let mut values: Vec<&str> = values.into_iter().collect();
    values.sort_unstable();
    values.dedup();
    values
}
