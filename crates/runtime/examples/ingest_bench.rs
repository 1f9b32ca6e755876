//! Measures the cache on pods that differ as real ones do: first sync, updates, memory, reads.
//!
//! ```text
//! cargo run --release -p setpoint --example ingest_bench -- 50000
//! ```
//!
//! The server's bytes are written to a file first and read from there, so that making them costs neither time nor
//! memory while the cache is measured. It runs on one thread, and times are that thread's time on a core, so that
//! other work on the machine does not count.
#![allow(clippy::unwrap_used, reason = "a program for developers: it stops where something is amiss")]

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use setpoint::{
    FactoryOptions, InformerFactory, LabelMatcher, ListRequest, ListerWatcher, Random, SharedInformer,
    Target, WatchFailure, WatchRequest, WatchStream,
};
use tokio::sync::Notify;
use tokio::time::Instant;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Bytes that arrive at once, as from a socket.
const CHUNK: usize = 64 * 1024;

/// How often each pod is updated.
const ROUNDS: u64 = 3;

fn main() {
    let count: u64 = std::env::args().nth(1).map_or(50_000, |count| count.parse().unwrap());
    let directory = std::env::temp_dir().join(format!("setpoint-ingest-bench-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let files = Files::write(&directory, count);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(measure(count, &files));
    std::fs::remove_dir_all(&directory).unwrap();
}

struct Files {
    initial: PathBuf,
    updates: PathBuf,
    average: usize,
}

impl Files {
    fn write(directory: &Path, count: u64) -> Self {
        let (initial, updates) = (directory.join("initial"), directory.join("updates"));
        let mut file = BufWriter::new(File::create(&initial).unwrap());
        let mut bytes = 0;
        // Servers send a first state in the order of keys: namespace by namespace, workload by workload.
        let mut ordered: Vec<(String, u64)> =
            (0..count).map(|number| (Names::of(number).key(), number)).collect();
        ordered.sort_unstable();
        for (_, number) in ordered {
            let pod = pod(number, 0, number + 1);
            bytes += pod.len();
            writeln!(file, r#"{{"type":"ADDED","object":{pod}}}"#).unwrap();
        }
        let end =
            r#"{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"#;
        let mark = r#","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
        writeln!(file, r#"{end}"{count}"{mark}"#).unwrap();
        file.flush().unwrap();
        let mut file = BufWriter::new(File::create(&updates).unwrap());
        for step in 0..count * ROUNDS {
            // Not in key order: updates come from all over the cluster.
            let number = (step * 7919) % count;
            let pod = pod(number, 1 + step / count, count + step + 1);
            writeln!(file, r#"{{"type":"MODIFIED","object":{pod}}}"#).unwrap();
        }
        file.flush().unwrap();
        Files { initial, updates, average: bytes / count.max(1) as usize }
    }
}

async fn measure(count: u64, files: &Files) {
    let go = Arc::new(Notify::new());
    let source =
        Arc::new(Replay { initial: files.initial.clone(), updates: files.updates.clone(), go: go.clone() });
    let factory =
        InformerFactory::with_connect(Arc::new(move |_, _| source.clone()), FactoryOptions::default());
    let informer = factory.informer(Target::of::<Pod>());
    println!("pods={count} bytes_each={}", files.average);

    let before = resident();
    let sync = Stopwatch::start();
    informer.start();
    informer.wait_synced().await;
    sync.report("first_sync", count);
    println!("case=memory_at_sync bytes_per_pod={}", per_pod(before, count));

    let compress = Stopwatch::start();
    let mut last = u64::MAX;
    while informer.store().bytes() < last {
        last = informer.store().bytes();
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    compress.report("compress", count);
    println!(
        "case=memory bytes_per_pod={} counted={}",
        per_pod(before, count),
        informer.store().bytes() / count
    );

    let updates = Stopwatch::start();
    go.notify_one();
    for round in 1..=ROUNDS {
        informer.store().wait_until(None, count * (round + 1)).await;
        println!("case=memory_after_round_{round} bytes_per_pod={}", per_pod(before, count));
    }
    updates.report("updates", count * ROUNDS);
    tokio::time::sleep(Duration::from_millis(500)).await;
    let counted = informer.store().bytes() / count;
    println!("case=memory_after_updates bytes_per_pod={} counted={counted}", per_pod(before, count));
    reads(&informer, count);
}

fn reads(informer: &SharedInformer, count: u64) {
    let pods = informer.lister::<Pod>();
    let keys: Vec<String> = informer
        .store()
        .snapshot()
        .iter()
        .step_by((count / 1000).max(1) as usize)
        .map(|pod| pod.key().to_string())
        .collect();
    for case in ["typed_get_cold", "typed_get_warm"] {
        let mut times: Vec<Duration> = Vec::new();
        // Few enough that they stay decoded.
        for key in keys.iter().take(100) {
            let begun = Instant::now();
            assert!(pods.get_key(key).unwrap().is_some());
            times.push(begun.elapsed());
        }
        times.sort_unstable();
        println!("case={case} p50={:?} p99={:?}", times[times.len() / 2], times[times.len() * 99 / 100]);
    }
    let begun = Instant::now();
    let decoded = keys.iter().filter_map(|key| pods.get_key(key).unwrap()).count();
    println!("case=typed_list objects={decoded} time={:?}", begun.elapsed());
    let matcher = LabelMatcher::parse("app=app-7").unwrap();
    let begun = Instant::now();
    let found = informer.store().snapshot().select(None, &matcher).count();
    println!("case=label_select objects={count} found={found} time={:?}", begun.elapsed());
}

/// Time by the clock and time on a core.
struct Stopwatch {
    begun: Instant,
    cpu: Duration,
}

impl Stopwatch {
    fn start() -> Self {
        Stopwatch { begun: Instant::now(), cpu: on_core() }
    }

    fn report(&self, case: &str, count: u64) {
        let cpu = (on_core() - self.cpu).as_secs_f64();
        let rate = count as f64 / cpu;
        let wall = self.begun.elapsed().as_secs_f64();
        println!(
            "case={case} objects_per_second={rate:.0} microseconds_each={:.2} wall_seconds={wall:.3}",
            1e6 / rate
        );
    }
}

/// The time that this thread has spent on a core.
fn on_core() -> Duration {
    let nanoseconds = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(nanoseconds.split(' ').next().unwrap().parse().unwrap())
}

fn per_pod(before: u64, count: u64) -> u64 {
    resident().saturating_sub(before) / count
}

/// Resident bytes of this process.
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Gives the bytes of two files as one watch: the second after it was told to.
struct Replay {
    initial: PathBuf,
    updates: PathBuf,
    go: Arc<Notify>,
}

impl ListerWatcher for Replay {
    fn list(&self, _: ListRequest) -> BoxFuture<'static, Result<Bytes, WatchFailure>> {
        async { Err(WatchFailure::Transport("only watches are replayed".to_owned())) }.boxed()
    }

    fn watch(&self, _: WatchRequest) -> BoxFuture<'static, Result<WatchStream, WatchFailure>> {
        let (initial, updates, go) = (chunks(&self.initial), self.updates.clone(), self.go.clone());
        let later = async move {
            go.notified().await;
            chunks(&updates)
        };
        let stream = initial.chain(later.into_stream().flatten()).chain(futures::stream::pending());
        async move { Ok(stream.boxed()) }.boxed()
    }
}

fn chunks(path: &Path) -> impl futures::Stream<Item = Result<Bytes, WatchFailure>> + use<> {
    let mut file = File::open(path).unwrap();
    futures::stream::iter(std::iter::from_fn(move || {
        let mut chunk = vec![0; CHUNK];
        let length = file.read(&mut chunk).unwrap();
        chunk.truncate(length);
        (length > 0).then(|| Ok(Bytes::from(chunk)))
    }))
}

/// Words that names, images and values are made of.
const WORDS: [&str; 24] = [
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

/// What identifies a pod, and where its other values are drawn from; the same in every round.
struct Names {
    shape: u64,
    word: &'static str,
    fixed: Random,
    owner: Random,
    hash: String,
    namespace: String,
    name: String,
}

impl Names {
    fn of(number: u64) -> Self {
        let shape = number % 24;
        let word = WORDS[shape as usize];
        let fixed = Random::from_seed(number.wrapping_mul(31).wrapping_add(7));
        let owner = Random::from_seed(1_000_003 + number / 24 % 400 * 24 + shape);
        let hash = owner.suffix(10);
        let namespace = format!("team-{:02}", number / 24 % 40);
        let name = format!("{word}-{hash}-{}", fixed.suffix(5));
        Names { shape, word, fixed, owner, hash, namespace, name }
    }

    fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// One of 24 workload shapes, with everything random that is random in a cluster.
fn pod(number: u64, round: u64, revision: u64) -> String {
    let Names { shape, word, fixed, owner, hash, namespace, name } = Names::of(number);
    let uid = fixed.uid();
    let owner_uid = owner.uid();
    let container_id = digest(&fixed);
    let image = format!("registry.example.com/{namespace}/{word}");
    let image_digest = digest(&owner);
    let ip = format!("10.{}.{}.{}", fixed.below(256), fixed.below(256), fixed.below(256));
    let node = format!("node-{}.zone-{}.example.internal", fixed.below(500), fixed.below(3));
    let environment = environment(shape, &owner);
    let second = fixed.below(60);
    let time = format!(
        "2026-11-{:02}T{:02}:{:02}:{second:02}Z",
        1 + fixed.below(28),
        fixed.below(24),
        fixed.below(60)
    );
    let ready_time =
        format!("2026-11-15T{:02}:{:02}:{second:02}Z", fixed.below(24), (fixed.below(60) + round) % 60);
    let token = fixed.suffix(5);
    let checksum = digest(&owner);
    let mounts = (0..shape % 4).map(|index| {
        format!(r#"{{"name":"config-{index}","mountPath":"/etc/{word}/{index}","readOnly":true}},"#)
    });
    let mounts: String = mounts.collect();
    let volumes = (0..shape % 4).map(|index| {
        format!(
            r#"{{"name":"config-{index}","configMap":{{"name":"{word}-{index}-{hash}","defaultMode":420}}}},"#
        )
    });
    let volumes: String = volumes.collect();
    let managed = managed_fields(shape, &time, &ready_time, &uid);
    format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{name}","generateName":"{word}-{hash}-","namespace":"{namespace}","uid":"{uid}","resourceVersion":"{revision}","generation":1,"creationTimestamp":"{time}","labels":{{"app":"app-{shape}","app.kubernetes.io/name":"{word}","pod-template-hash":"{hash}","team":"{namespace}"}},"annotations":{{"checksum/config":"{checksum}","prometheus.io/port":"{port}"}},"ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"{word}-{hash}","uid":"{owner_uid}","controller":true,"blockOwnerDeletion":true}}],"managedFields":[{managed}]}},"spec":{{"volumes":[{volumes}{{"name":"kube-api-access-{token}","projected":{{"sources":[{{"serviceAccountToken":{{"expirationSeconds":3607,"path":"token"}}}},{{"configMap":{{"name":"kube-root-ca.crt","items":[{{"key":"ca.crt","path":"ca.crt"}}]}}}},{{"downwardAPI":{{"items":[]}}}}],"defaultMode":420}}}}],"containers":[{{"name":"{word}","image":"{image}@sha256:{image_digest}","ports":[{{"name":"http","containerPort":{port},"protocol":"TCP"}}],"env":[{environment}],"resources":{{"limits":{{"cpu":"{cpu}m","memory":"{memory}Mi"}},"requests":{{"cpu":"{cpu}m","memory":"{memory}Mi"}}}},"volumeMounts":[{mounts}{{"name":"kube-api-access-{token}","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}}],"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}}],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"{word}","serviceAccount":"{word}","nodeName":"{node}","securityContext":{{}},"schedulerName":"default-scheduler","tolerations":[{{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}}],"priority":0,"enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority"}},"status":{{"phase":"Running","conditions":[{{"type":"Initialized","status":"True","lastProbeTime":null,"lastTransitionTime":"{time}"}},{{"type":"Ready","status":"True","lastProbeTime":null,"lastTransitionTime":"{ready_time}"}},{{"type":"ContainersReady","status":"True","lastProbeTime":null,"lastTransitionTime":"{ready_time}"}},{{"type":"PodScheduled","status":"True","lastProbeTime":null,"lastTransitionTime":"{time}"}}],"hostIP":"10.0.{host}.7","podIP":"{ip}","podIPs":[{{"ip":"{ip}"}}],"startTime":"{time}","containerStatuses":[{{"name":"{word}","state":{{"running":{{"startedAt":"{ready_time}"}}}},"lastState":{{}},"ready":true,"restartCount":{round},"image":"{image}@sha256:{image_digest}","imageID":"{image}@sha256:{image_digest}","containerID":"containerd://{container_id}","started":true}}],"qosClass":"Guaranteed"}}}}"#,
        port = 8000 + shape,
        cpu = 50 * (1 + shape % 8),
        memory = 64 * (1 + shape % 6),
        host = fixed.below(256),
    )
}

fn environment(shape: u64, owner: &Random) -> String {
    let count = 1 + shape % 6;
    let variables = (0..count).map(|index| {
        let word = WORDS[((shape + index * 5) % 24) as usize];
        let upper = word.to_uppercase();
        match index % 3 {
            0 => format!(r#"{{"name":"{upper}_URL","value":"http://{word}.team-{:02}.svc:8080"}}"#, owner.below(40)),
            1 => format!(r#"{{"name":"{upper}_KEY","valueFrom":{{"secretKeyRef":{{"name":"{word}-{}","key":"key"}}}}}}"#, owner.suffix(6)),
            _ => format!(r#"{{"name":"{upper}_LEVEL","value":"{}"}}"#, owner.below(10_000)),
        }
    });
    variables.collect::<Vec<_>>().join(",")
}

fn managed_fields(shape: u64, time: &str, ready_time: &str, uid: &str) -> String {
    let volumes: String = (0..shape % 4).map(|index| format!(r#""k:{{\"name\":\"config-{index}\"}}":{{".":{{}},"f:configMap":{{".":{{}},"f:defaultMode":{{}},"f:name":{{}}}},"f:name":{{}}}},"#)).collect();
    let controller = format!(
        r#"{{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":"{time}","fieldsType":"FieldsV1","fieldsV1":{{"f:metadata":{{"f:annotations":{{".":{{}},"f:checksum/config":{{}},"f:prometheus.io/port":{{}}}},"f:generateName":{{}},"f:labels":{{".":{{}},"f:app":{{}},"f:app.kubernetes.io/name":{{}},"f:pod-template-hash":{{}}}},"f:ownerReferences":{{".":{{}},"k:{{\"uid\":\"{uid}\"}}":{{}}}}}},"f:spec":{{"f:containers":{{"k:{{\"name\":\"main\"}}":{{".":{{}},"f:env":{{}},"f:image":{{}},"f:imagePullPolicy":{{}},"f:name":{{}},"f:ports":{{}},"f:resources":{{}},"f:terminationMessagePath":{{}},"f:volumeMounts":{{}}}}}},"f:dnsPolicy":{{}},"f:enableServiceLinks":{{}},"f:restartPolicy":{{}},"f:schedulerName":{{}},"f:securityContext":{{}},"f:serviceAccount":{{}},"f:terminationGracePeriodSeconds":{{}},"f:volumes":{{{volumes}".":{{}}}}}}}}}}"#
    );
    let kubelet = format!(
        r#"{{"manager":"kubelet","operation":"Update","apiVersion":"v1","time":"{ready_time}","fieldsType":"FieldsV1","fieldsV1":{{"f:status":{{"f:conditions":{{"k:{{\"type\":\"ContainersReady\"}}":{{".":{{}},"f:lastProbeTime":{{}},"f:lastTransitionTime":{{}},"f:status":{{}},"f:type":{{}}}},"k:{{\"type\":\"Ready\"}}":{{".":{{}},"f:lastProbeTime":{{}},"f:status":{{}},"f:type":{{}}}}}},"f:containerStatuses":{{}},"f:hostIP":{{}},"f:phase":{{}},"f:podIP":{{}},"f:podIPs":{{".":{{}}}},"f:startTime":{{}}}}}},"subresource":"status"}}"#
    );
    format!("{controller},{kubelet}")
}

fn digest(random: &Random) -> String {
    (0..4).map(|_| format!("{:016x}", random.next_u64())).collect()
}
