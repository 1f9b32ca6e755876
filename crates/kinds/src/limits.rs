//! LimitRanges: what they give to pods that ask for nothing, and what they refuse, in kube-apiserver's words.

use serde_json::Value;

use crate::access::{at, items, items_mut, object, set, text};
use crate::resources::{Amounts, Side, amounts, of_spec, to_json};
use setpoint_api::quantity::Quantity;

/// The annotation that lists the defaults a pod was given.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// The lists of a pod's containers, and how one of them is called.
const CONTAINERS: [(&str, &str); 2] =
    [("spec.containers", "container"), ("spec.initContainers", "init container")];

/// Gives the containers of a pod the requests and limits that they lack.
pub fn fill(range: &Value, pod: &mut Value) {
    let (mut requests, mut limits) = (Amounts::new(), Amounts::new());
    for limit in items(range, "spec.limits").iter().filter(|limit| text(limit, "type") == "Container") {
        requests.extend(amounts(at(limit, "defaultRequest")));
        limits.extend(amounts(at(limit, "default")));
    }
    let mut notes = Vec::new();
    for (list, what) in CONTAINERS {
        for container in items_mut(pod, list) {
            let limited = fill_side(container, "resources.limits", &limits);
            let requested = fill_side(container, "resources.requests", &requests);
            let name = text(container, "name");
            for (given, side) in [(requested, "request"), (limited, "limit")] {
                if !given.is_empty() {
                    notes.push(format!("{} {side} for {what} {name}", given.join(", ")));
                }
            }
        }
    }
    if !notes.is_empty() {
        let note = format!("LimitRanger plugin set: {}", notes.join("; "));
        object(pod, "metadata.annotations").insert(ANNOTATION.to_owned(), note.into());
    }
}

/// The names of what was added.
fn fill_side<'d>(container: &mut Value, path: &str, defaults: &'d Amounts) -> Vec<&'d str> {
    let mut all = amounts(at(container, path));
    let missing = |name: &&String| !all.contains_key(*name);
    let given: Vec<&str> = defaults.keys().filter(missing).map(String::as_str).collect();
    if !given.is_empty() {
        all.extend(given.iter().map(|name| ((*name).to_owned(), defaults[*name])));
        set(container, path, to_json(&all));
    }
    given
}

/// Returns the amounts of a pod that the range does not allow, as text. `None` if it allows all.
pub fn refuse_pod(range: &Value, pod: &Value) -> Option<String> {
    let mut wrong = Vec::new();
    for limit in items(range, "spec.limits") {
        match text(limit, "type") {
            "Container" => {
                for container in CONTAINERS.iter().flat_map(|(list, _)| items(pod, list)) {
                    let resources = at(container, "resources");
                    check(&mut wrong, limit, &Side::Requests.of(resources), &Side::Limits.of(resources));
                }
            }
            "Pod" => check(&mut wrong, limit, &of_spec(pod, Side::Requests), &of_spec(pod, Side::Limits)),
            _ => {}
        }
    }
    together(wrong)
}

/// Returns the amounts of a claim that the range does not allow, as text. `None` if it allows all.
pub fn refuse_claim(range: &Value, claim: &Value) -> Option<String> {
    let mut wrong = Vec::new();
    let requests = Side::Requests.of(at(claim, "spec.resources"));
    let limits = items(range, "spec.limits").iter();
    for limit in limits.filter(|limit| text(limit, "type") == "PersistentVolumeClaim") {
        for (name, least) in amounts(at(limit, "min")) {
            let asked = Requested::new(limit, &name, &requests, &Amounts::new());
            wrong.extend(asked.below(least));
        }
        for (name, most) in amounts(at(limit, "max")) {
            let asked = Requested::new(limit, &name, &requests, &Amounts::new());
            wrong.extend(asked.request_above(most));
        }
    }
    together(wrong)
}

/// Several complaints as Go joins them: each once.
fn together(wrong: Vec<String>) -> Option<String> {
    let mut once: Vec<String> = Vec::new();
    for one in wrong {
        if !once.contains(&one) {
            once.push(one);
        }
    }
    match once.len() {
        0 => None,
        1 => once.pop(),
        _ => Some(format!("[{}]", once.join(", "))),
    }
}

fn check(wrong: &mut Vec<String>, limit: &Value, requests: &Amounts, limits: &Amounts) {
    for (name, least) in amounts(at(limit, "min")) {
        wrong.extend(Requested::new(limit, &name, requests, limits).below(least));
    }
    for (name, most) in amounts(at(limit, "max")) {
        wrong.extend(Requested::new(limit, &name, requests, limits).above(most));
    }
    for (name, ratio) in amounts(at(limit, "maxLimitRequestRatio")) {
        wrong.extend(Requested::new(limit, &name, requests, limits).apart(ratio));
    }
}

/// The amounts asked for of one resource.
struct Requested<'a> {
    kind: &'a str,
    name: &'a str,
    request: Option<Quantity>,
    limit: Option<Quantity>,
}

impl<'a> Requested<'a> {
    fn new(range: &'a Value, name: &'a str, requests: &Amounts, limits: &Amounts) -> Self {
        let (request, limit) = (requests.get(name).copied(), limits.get(name).copied());
        Requested { kind: text(range, "type"), name, request, limit }
    }

    /// Request, limit and bound as whole numbers of one precision.
    fn numbers(&self, bound: Quantity) -> [i64; 3] {
        let none = Quantity::whole(0);
        let all = [self.request.unwrap_or(none), self.limit.unwrap_or(none), bound];
        let fits = all.iter().all(|amount| is_exact(*amount));
        all.map(|amount| if fits { amount.milli_value() } else { amount.value() })
    }

    fn below(&self, least: Quantity) -> Option<String> {
        let [asked, limited, bound] = self.numbers(least);
        let rule = format!("minimum {} usage per {} is {least}", self.name, self.kind);
        match (self.request, self.limit) {
            (None, _) => Some(format!("{rule}.  No request is specified")),
            (Some(request), _) if asked < bound => Some(format!("{rule}, but request is {request}")),
            (_, Some(limit)) if limited < bound => Some(format!("{rule}, but limit is {limit}")),
            _ => None,
        }
    }

    fn above(&self, most: Quantity) -> Option<String> {
        let [asked, limited, bound] = self.numbers(most);
        let rule = format!("maximum {} usage per {} is {most}", self.name, self.kind);
        match (self.request, self.limit) {
            (_, None) => Some(format!("{rule}.  No limit is specified")),
            (_, Some(limit)) if limited > bound => Some(format!("{rule}, but limit is {limit}")),
            (Some(request), _) if asked > bound => Some(format!("{rule}, but request is {request}")),
            _ => None,
        }
    }

    fn request_above(&self, most: Quantity) -> Option<String> {
        let [asked, _, bound] = self.numbers(most);
        let rule = format!("maximum {} usage per {} is {most}", self.name, self.kind);
        match self.request {
            None => Some(format!("{rule}.  No request is specified")),
            Some(request) if asked > bound => Some(format!("{rule}, but request is {request}")),
            Some(_) => None,
        }
    }

    fn apart(&self, most: Quantity) -> Option<String> {
        let [asked, limited, _] = self.numbers(most);
        let rule = format!("{} max limit to request ratio per {} is {most}", self.name, self.kind);
        if self.request.is_none() || asked == 0 {
            return Some(format!("{rule}, but no request is specified or request is 0"));
        }
        if self.limit.is_none() || limited == 0 {
            return Some(format!("{rule}, but no limit is specified or limit is 0"));
        }
        let ratio = limited as f64 / asked as f64;
        let exceeded = if is_exact(most) {
            ratio * 1000.0 > most.milli_value() as f64
        } else {
            ratio > most.value() as f64
        };
        exceeded.then(|| format!("{rule}, but provided ratio is {ratio:.6}"))
    }
}

/// Whether an amount can be told in thousandths.
pub(crate) fn is_exact(amount: Quantity) -> bool {
    amount.value() <= i64::MAX / 1000
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn range(limits: Value) -> Value {
        json!({"metadata": {"name": "r"}, "spec": {"limits": limits}})
    }

    #[test]
    fn containers_get_what_they_lack_and_it_is_noted() {
        let range = range(json!([{"type": "Container", "default": {"cpu": "500m", "memory": "64Mi"},
            "defaultRequest": {"cpu": "100m"}}]));
        let mut pod = json!({"metadata": {"name": "p"}, "spec": {
            "containers": [{"name": "a", "resources": {"limits": {"memory": "1Gi"}}}, {"name": "b", "resources":
                {"limits": {"cpu": "1", "memory": "1"}, "requests": {"cpu": "1"}}}],
            "initContainers": [{"name": "i"}]}});
        fill(&range, &mut pod);
        assert_eq!(
            pod["spec"]["containers"][0]["resources"],
            json!({"limits": {"cpu": "500m", "memory": "1Gi"}, "requests": {"cpu": "100m"}})
        );
        assert_eq!(
            pod["metadata"]["annotations"][ANNOTATION],
            "LimitRanger plugin set: cpu request for container a; cpu limit for container a; \
             cpu request for init container i; cpu, memory limit for init container i"
        );
        let before = pod.clone();
        fill(&range, &mut pod);
        assert_eq!(pod, before);
    }

    fn refused(limit: Value, resources: Value) -> Option<String> {
        let pod = json!({"spec": {"containers": [{"name": "c", "resources": resources}]}});
        refuse_pod(&range(json!([limit])), &pod)
    }

    #[test]
    fn bounds_are_told_in_the_words_of_the_real_server() {
        let one = |side: &str, cpu: &str| json!({side: {"cpu": cpu}});
        let both =
            |request: &str, limit: &str| json!({"requests": {"cpu": request}, "limits": {"cpu": limit}});
        let least = json!({"type": "Container", "min": {"cpu": "100m"}});
        let most = json!({"type": "Pod", "max": {"cpu": "1"}});
        let ratio = json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}});
        for (limit, resources, expected) in [
            (&least, json!({}), "minimum cpu usage per Container is 100m.  No request is specified"),
            (&least, one("requests", "50m"), "minimum cpu usage per Container is 100m, but request is 50m"),
            (&least, both("100m", "50m"), "minimum cpu usage per Container is 100m, but limit is 50m"),
            (&most, json!({}), "maximum cpu usage per Pod is 1.  No limit is specified"),
            (&most, both("1", "1500m"), "maximum cpu usage per Pod is 1, but limit is 1500m"),
            (&most, both("2", "1"), "maximum cpu usage per Pod is 1, but request is 2"),
            (
                &ratio,
                both("1", "3"),
                "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
            ),
            (
                &ratio,
                one("limits", "3"),
                "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0",
            ),
        ] {
            assert_eq!(refused(limit.clone(), resources.clone()).as_deref(), Some(expected), "{resources}");
        }
        assert_eq!(refused(least, both("100m", "100m")), None);
        assert_eq!(refused(most, both("1", "1")), None);
        assert_eq!(refused(ratio, both("1", "2")), None);
    }

    #[test]
    fn several_complaints_are_joined_and_equal_ones_told_once() {
        let limit = json!({"type": "Container", "min": {"cpu": "1"}, "max": {"cpu": "2"}});
        let pod = json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}});
        assert_eq!(
            refuse_pod(&range(json!([limit])), &pod).unwrap(),
            "[minimum cpu usage per Container is 1.  No request is specified, \
             maximum cpu usage per Container is 2.  No limit is specified]"
        );
    }

    #[test]
    fn claims_are_judged_by_their_requests() {
        let limit =
            json!({"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}});
        let refused = |storage: &str| {
            let claim = json!({"spec": {"resources": {"requests": {"storage": storage}}}});
            refuse_claim(&range(json!([limit])), &claim)
        };
        assert_eq!(refused("1Gi"), None);
        assert_eq!(
            refused("512Mi").unwrap(),
            "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 512Mi"
        );
        assert_eq!(
            refused("3Gi").unwrap(),
            "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"
        );
    }
}
