//! Pods that differ as those of a real cluster do: 24 workload shapes in 50 namespaces, each pod with its own uid,
//! names, addresses, node, times and container ids, each workload with its own image digests, environment and
//! annotations.
//!
//! Pods whose numbers begin at [`OTHERS`] are a second population of the same shapes, in 50 namespaces of its own, with
//! other words for each shape and values that are drawn anew.

use std::fmt::Write as _;
use std::ops::Range;

use setpoint_api::Random;

/// Workload shapes; every one has another set of containers, volumes, probes, variables and annotations.
pub const SHAPES: u64 = 24;
/// Namespaces; pods are spread evenly over them.
pub const NAMESPACES: u64 = 50;
/// Pods of one workload in one namespace.
const REPLICAS: u64 = 25;
/// The number of the first pod of the second population: more than the first ever has, and whole workloads of all shapes.
pub const OTHERS: u64 = NAMESPACES * REPLICAS * SHAPES * 500;
/// Offset of the words of the second population: no shape keeps its word.
const OTHER_WORDS: u64 = 11;

const WORDS: [&str; SHAPES as usize] = [
    "auth",
    "billing",
    "cart",
    "catalog",
    "checkout",
    "email",
    "feed",
    "gateway",
    "image",
    "inventory",
    "ledger",
    "media",
    "notify",
    "order",
    "payment",
    "profile",
    "queue",
    "report",
    "search",
    "session",
    "shipping",
    "stock",
    "token",
    "user",
];

/// The identity of a pod, and the source of its other values. The same in every round.
struct Names {
    shape: u64,
    /// Which population it belongs to.
    population: u64,
    word: &'static str,
    namespace: String,
    hash: String,
    name: String,
    /// Values of this pod alone.
    own: Random,
    /// Values that all pods of its workload share.
    workload: Random,
}

impl Names {
    fn of(number: u64) -> Self {
        let population = number / OTHERS;
        let namespace_number = number % NAMESPACES;
        let workload_number = number / NAMESPACES / REPLICAS;
        let shape = (workload_number + namespace_number * 7) % SHAPES;
        let word = word(shape, population);
        let own = Random::from_seed(number.wrapping_mul(0x9e37_79b9).wrapping_add(7));
        let workload = Random::from_seed(1_000_003 + workload_number * NAMESPACES + namespace_number);
        let hash = workload.suffix(10);
        let name = format!("{word}-{hash}-{}", own.suffix(5));
        let namespace = format!("team-{:02}", namespace_number + population * NAMESPACES);
        Names { shape, population, word, namespace, hash, name, own, workload }
    }
}

fn word(index: u64, population: u64) -> &'static str {
    WORDS[((index + population * OTHER_WORDS) % SHAPES) as usize]
}

/// The numbers of pods in the order of their keys, as a server sends a first state.
pub fn in_key_order(numbers: Range<u64>) -> Vec<u64> {
    let mut ordered: Vec<(String, u64)> = numbers
        .map(|number| {
            let Names { namespace, name, .. } = Names::of(number);
            (format!("{namespace}/{name}"), number)
        })
        .collect();
    ordered.sort_unstable();
    ordered.into_iter().map(|(_, number)| number).collect()
}

/// The key of a pod.
pub fn key(number: u64) -> String {
    let Names { namespace, name, .. } = Names::of(number);
    format!("{namespace}/{name}")
}

/// The JSON of a pod as kube-apiserver writes it. `round` counts its updates: ready time and restarts change.
pub fn pod(number: u64, round: u64, revision: u64) -> String {
    let names = Names::of(number);
    let facts = Facts::of(&names, round);
    let mut json = String::with_capacity(5 * 1024);
    metadata(&mut json, &names, &facts, revision);
    spec(&mut json, &names, &facts);
    status(&mut json, &names, &facts, round);
    json
}

struct Facts {
    time: String,
    ready_time: String,
    token: String,
    node: String,
    ip: String,
    host: u64,
    images: Vec<String>,
    uid: String,
    owner_uid: String,
}

impl Facts {
    fn of(names: &Names, round: u64) -> Self {
        let Names { own, workload, shape, word, namespace, .. } = names;
        let (second, minute) = (own.below(60), own.below(60));
        let time = format!("2026-11-{:02}T{:02}:{minute:02}:{second:02}Z", 1 + own.below(28), own.below(24));
        let ready_time = format!(
            "2026-11-15T{:02}:{:02}:{second:02}Z",
            (own.below(24) + round / 60) % 24,
            (minute + round) % 60
        );
        let images = (0..containers(*shape))
            .map(|index| match index {
                0 => format!("registry.example.com/{namespace}/{word}@sha256:{}", digest(workload)),
                1 => format!("registry.example.com/platform/proxy@sha256:{}", digest(workload)),
                _ => format!("registry.example.com/platform/log-shipper:v2.{}", workload.below(40)),
            })
            .collect();
        Facts {
            time,
            ready_time,
            token: own.suffix(5),
            node: format!("node-{}.zone-{}.example.internal", own.below(500), own.below(3)),
            ip: format!("10.{}.{}.{}", own.below(256), own.below(256), own.below(256)),
            host: own.below(256),
            images,
            uid: own.uid(),
            owner_uid: workload.uid(),
        }
    }
}

fn containers(shape: u64) -> u64 {
    1 + u64::from(shape % 5 == 1) + u64::from(shape % 16 == 5)
}

fn container_name(word: &str, index: u64) -> &str {
    match index {
        0 => word,
        1 => "proxy",
        _ => "log-shipper",
    }
}

macro_rules! add {
    ($json:expr, $($text:tt)*) => {
        write!($json, $($text)*).expect("writing to a String does not fail")
    };
}

fn metadata(json: &mut String, names: &Names, facts: &Facts, revision: u64) {
    let Names { shape, word, namespace, hash, name, workload, .. } = names;
    let Facts { uid, owner_uid, time, .. } = facts;
    add!(
        json,
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{name}","generateName":"{word}-{hash}-","namespace":"{namespace}","uid":"{uid}","resourceVersion":"{revision}","generation":1,"creationTimestamp":"{time}","labels":{{"app":"{word}","app.kubernetes.io/instance":"{word}-{hash}","pod-template-hash":"{hash}","team":"{namespace}""#
    );
    if shape % 4 == 0 {
        add!(json, r#","tier":"tier-{}""#, shape / 4);
    }
    add!(json, r#"}},"annotations":{{"checksum/config":"{}""#, digest(workload));
    if shape % 2 == 0 {
        add!(json, r#","prometheus.io/port":"{}","prometheus.io/scrape":"true""#, 8000 + shape);
    }
    for index in 0..shape % 3 {
        add!(json, r#","example.com/setting-{index}":"{}-{}""#, workload.suffix(8), workload.below(100_000));
    }
    add!(
        json,
        r#"}},"ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"{word}-{hash}","uid":"{owner_uid}","controller":true,"blockOwnerDeletion":true}}],"managedFields":["#
    );
    managed_fields(json, names, facts);
    json.push_str("]},");
}

fn spec(json: &mut String, names: &Names, facts: &Facts) {
    let Names { shape, word, hash, .. } = names;
    let Facts { token, node, .. } = facts;
    json.push_str(r#""spec":{"volumes":["#);
    for index in 0..shape % 3 {
        add!(
            json,
            r#"{{"name":"config-{index}","configMap":{{"name":"{word}-{index}-{hash}","defaultMode":420}}}},"#
        );
    }
    if shape % 5 == 2 {
        json.push_str(r#"{"name":"scratch","emptyDir":{"sizeLimit":"1Gi"}},"#);
    }
    add!(
        json,
        r#"{{"name":"kube-api-access-{token}","projected":{{"sources":[{{"serviceAccountToken":{{"expirationSeconds":3607,"path":"token"}}}},{{"configMap":{{"name":"kube-root-ca.crt","items":[{{"key":"ca.crt","path":"ca.crt"}}]}}}},{{"downwardAPI":{{"items":[]}}}}],"defaultMode":420}}}}],"containers":["#
    );
    for index in 0..containers(*shape) {
        if index > 0 {
            json.push(',');
        }
        container(json, names, facts, index);
    }
    add!(
        json,
        r#"],"restartPolicy":"Always","terminationGracePeriodSeconds":{},"dnsPolicy":"ClusterFirst","serviceAccountName":"{word}","serviceAccount":"{word}","nodeName":"{node}","securityContext":{{"#,
        30 + 15 * (shape % 3)
    );
    if shape % 3 == 0 {
        add!(json, r#""runAsUser":{},"fsGroup":2000,"runAsNonRoot":true"#, 1000 + shape);
    }
    json.push('}');
    if shape % 6 == 1 {
        add!(
            json,
            r#","affinity":{{"podAntiAffinity":{{"preferredDuringSchedulingIgnoredDuringExecution":[{{"weight":100,"podAffinityTerm":{{"labelSelector":{{"matchLabels":{{"app":"{word}"}}}},"topologyKey":"kubernetes.io/hostname"}}}}]}}}}"#
        );
    }
    json.push_str(r#","schedulerName":"default-scheduler","tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}],"priority":0,"enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority"},"#);
}

fn container(json: &mut String, names: &Names, facts: &Facts, index: u64) {
    let Names { shape, word, .. } = names;
    let (name, image, port) =
        (container_name(word, index), &facts.images[index as usize], 8000 + shape + index * 100);
    add!(
        json,
        r#"{{"name":"{name}","image":"{image}","ports":[{{"name":"http","containerPort":{port},"protocol":"TCP"}}],"env":["#
    );
    environment(json, names, index);
    let (cpu, memory) = (50 * (1 + (shape + index) % 8), 64 * (1 + (shape + index) % 6));
    add!(
        json,
        r#"],"resources":{{"limits":{{"cpu":"{cpu}m","memory":"{memory}Mi"}},"requests":{{"cpu":"{cpu}m","memory":"{memory}Mi"}}}},"volumeMounts":["#
    );
    for mount in 0..shape % 3 {
        add!(json, r#"{{"name":"config-{mount}","readOnly":true,"mountPath":"/etc/{word}/{mount}"}},"#);
    }
    add!(
        json,
        r#"{{"name":"kube-api-access-{}","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}}],"#,
        facts.token
    );
    if shape % 3 == 1 && index == 0 {
        add!(
            json,
            r#""livenessProbe":{{"httpGet":{{"path":"/live","port":"http","scheme":"HTTP"}},"initialDelaySeconds":{shape},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3}},"readinessProbe":{{"httpGet":{{"path":"/ready","port":"http","scheme":"HTTP"}},"timeoutSeconds":1,"periodSeconds":5,"successThreshold":1,"failureThreshold":{}}},"#,
            3 + shape % 5
        );
    }
    json.push_str(r#""terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}"#);
}

fn environment(json: &mut String, names: &Names, container: u64) {
    let Names { shape, population, workload, .. } = names;
    let count = if container == 0 { 1 + shape % 6 } else { 1 };
    for index in 0..count {
        if index > 0 {
            json.push(',');
        }
        let word = word(shape + index * 5, *population);
        let upper = word.to_uppercase();
        match index % 3 {
            0 => add!(
                json,
                r#"{{"name":"{upper}_URL","value":"http://{word}.team-{:02}.svc:8080/v{}"}}"#,
                workload.below(NAMESPACES) + population * NAMESPACES,
                workload.below(9)
            ),
            1 => add!(
                json,
                r#"{{"name":"{upper}_KEY","valueFrom":{{"secretKeyRef":{{"name":"{word}-{}","key":"key"}}}}}}"#,
                workload.suffix(6)
            ),
            _ => add!(json, r#"{{"name":"{upper}_LEVEL","value":"{}"}}"#, workload.below(10_000)),
        }
    }
}

fn status(json: &mut String, names: &Names, facts: &Facts, round: u64) {
    let Names { shape, word, own, .. } = names;
    let Facts { time, ready_time, ip, host, .. } = facts;
    json.push_str(r#""status":{"phase":"Running","conditions":["#);
    for (index, (condition, at)) in [
        ("Initialized", time),
        ("Ready", ready_time),
        ("ContainersReady", ready_time),
        ("PodScheduled", time),
    ]
    .into_iter()
    .enumerate()
    {
        let comma = if index > 0 { "," } else { "" };
        add!(
            json,
            r#"{comma}{{"type":"{condition}","status":"True","lastProbeTime":null,"lastTransitionTime":"{at}"}}"#
        );
    }
    add!(
        json,
        r#"],"hostIP":"10.0.{host}.7","podIP":"{ip}","podIPs":[{{"ip":"{ip}"}}],"startTime":"{time}","containerStatuses":["#
    );
    for index in 0..containers(*shape) {
        let comma = if index > 0 { "," } else { "" };
        let (name, image) = (container_name(word, index), &facts.images[index as usize]);
        let restarts = if index == 0 { round } else { 0 };
        add!(
            json,
            r#"{comma}{{"name":"{name}","state":{{"running":{{"startedAt":"{ready_time}"}}}},"lastState":{{}},"ready":true,"restartCount":{restarts},"image":"{image}","imageID":"{image}","containerID":"containerd://{}","started":true}}"#,
            digest(own)
        );
    }
    let class = if shape % 3 == 2 { "Burstable" } else { "Guaranteed" };
    add!(json, r#"],"qosClass":"{class}"}}}}"#);
}

fn managed_fields(json: &mut String, names: &Names, facts: &Facts) {
    let Names { shape, word, .. } = names;
    let Facts { time, ready_time, owner_uid, .. } = facts;
    add!(
        json,
        r#"{{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":"{time}","fieldsType":"FieldsV1","fieldsV1":{{"f:metadata":{{"f:annotations":{{".":{{}},"f:checksum/config":{{}},"f:prometheus.io/port":{{}}}},"f:generateName":{{}},"f:labels":{{".":{{}},"f:app":{{}},"f:app.kubernetes.io/instance":{{}},"f:pod-template-hash":{{}},"f:team":{{}}}},"f:ownerReferences":{{".":{{}},"k:{{\"uid\":\"{owner_uid}\"}}":{{}}}}}},"f:spec":{{"f:containers":{{"#
    );
    for index in 0..containers(*shape) {
        let comma = if index > 0 { "," } else { "" };
        let name = container_name(word, index);
        add!(
            json,
            r#"{comma}"k:{{\"name\":\"{name}\"}}":{{".":{{}},"f:env":{{}},"f:image":{{}},"f:imagePullPolicy":{{}},"f:name":{{}},"f:ports":{{}},"f:resources":{{}},"f:volumeMounts":{{}}}}"#
        );
    }
    json.push_str(r#"},"f:dnsPolicy":{},"f:enableServiceLinks":{},"f:restartPolicy":{},"f:schedulerName":{},"f:serviceAccount":{},"f:terminationGracePeriodSeconds":{},"f:volumes":{".":{}"#);
    for index in 0..shape % 3 {
        add!(
            json,
            r#","k:{{\"name\":\"config-{index}\"}}":{{".":{{}},"f:configMap":{{".":{{}},"f:defaultMode":{{}},"f:name":{{}}}},"f:name":{{}}}}"#
        );
    }
    add!(
        json,
        r#"}}}}}}}},{{"manager":"kubelet","operation":"Update","apiVersion":"v1","time":"{ready_time}","fieldsType":"FieldsV1","fieldsV1":{{"f:status":{{"f:conditions":{{"k:{{\"type\":\"ContainersReady\"}}":{{".":{{}},"f:lastTransitionTime":{{}},"f:status":{{}},"f:type":{{}}}},"k:{{\"type\":\"Ready\"}}":{{".":{{}},"f:lastTransitionTime":{{}},"f:status":{{}},"f:type":{{}}}}}},"f:containerStatuses":{{}},"f:hostIP":{{}},"f:hostIPs":{{}},"f:phase":{{}},"f:podIP":{{}},"f:podIPs":{{".":{{}},"k:{{\"ip\":\"{}\"}}":{{".":{{}},"f:ip":{{}}}}}},"f:startTime":{{}}}}}},"subresource":"status"}}"#,
        facts.ip
    );
}

fn digest(random: &Random) -> String {
    (0..4).map(|_| format!("{:016x}", random.next_u64())).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn pods_are_json_and_differ() {
        let mut keys = BTreeSet::new();
        let mut shapes = BTreeSet::new();
        let mut bytes = 0;
        for number in 0..5_000 {
            let json = pod(number, number % 3, number + 1);
            let value: serde_json::Value =
                serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {json}"));
            bytes += json.len();
            keys.insert(key(number));
            shapes.insert(value["metadata"]["labels"]["app"].as_str().map(str::to_owned));
            assert_eq!(value["metadata"]["resourceVersion"], (number + 1).to_string());
        }
        assert_eq!((keys.len(), shapes.len()), (5_000, SHAPES as usize));
        assert!((4_000..6_000).contains(&(bytes / 5_000)), "{}", bytes / 5_000);
    }

    #[test]
    fn the_other_population_shares_shapes_and_no_values() {
        // Digests and uids.
        let drawn = |first: u64| -> BTreeSet<String> {
            let hexadecimal = |char: char| char.is_ascii_hexdigit() || char == '-';
            let all: Vec<String> = (first..first + 2_500).map(|number| pod(number, 0, 1)).collect();
            let parts = all.iter().flat_map(|json| json.split(|char| !hexadecimal(char)));
            parts.filter(|part| part.len() >= 36).map(str::to_owned).collect()
        };
        let (first, other) = (drawn(0), drawn(OTHERS));
        assert!(first.len() > 5_000 && other.len() > 5_000, "{} and {}", first.len(), other.len());
        assert!(first.is_disjoint(&other));
        let [first, other] = [0, OTHERS].map(Names::of);
        assert_eq!(first.shape, other.shape);
        assert!(first.word != other.word && first.namespace != other.namespace);
    }

    #[test]
    fn an_update_changes_what_a_kubelet_changes() {
        let (before, after) = (pod(7, 0, 1), pod(7, 1, 2));
        assert_eq!(before.split(r#""spec":"#).count(), 2);
        let spec = |json: &str| {
            json.split(r#""spec":"#)
                .nth(1)
                .and_then(|rest| rest.split(r#""status":"#).next().map(str::to_owned))
        };
        assert_eq!(spec(&before), spec(&after));
        assert_ne!(before, after);
    }
}
