//! `kill`: nothing acknowledged is lost. Writers record every write that the server acknowledged, the server is killed
//! with SIGKILL at random moments, and after each restart all that was acknowledged must be there.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use setpoint_api::Random;
use tokio::task::JoinSet;

use crate::connection::Call;
use crate::connection::{Connection, Target};
use crate::server;

const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const PATH: &str = "/api/v1/namespaces/default/configmaps";
/// Writers, each with a connection and objects of its own.
const WRITERS: usize = 8;
/// Objects of each writer.
const OBJECTS: u64 = 40;
/// A kill comes at most so long after the server is ready…
const LONGEST_RUN_MILLIS: u64 = 250;
/// …and every so many times so soon after its start that it may not be ready yet.
const EARLY_EVERY: u64 = 6;
const EARLY_MILLIS: u64 = 30;

/// The state of an object: its counter and uid.
type State = Option<(u64, String)>;

/// A writer's knowledge about one of its objects.
#[derive(Clone, Debug, Default)]
struct Belief {
    /// The last acknowledged state.
    sure: State,
    /// The resourceVersion of that.
    version: u64,
    /// The state if an unanswered write took effect. A uid that only the server knows is empty.
    maybe: Option<State>,
}

#[derive(Default)]
struct Writer {
    objects: BTreeMap<String, Belief>,
    acknowledged: u64,
    counter: u64,
}

struct Flags {
    program: PathBuf,
    times: u64,
    seed: u64,
}

pub async fn run(words: &[String]) -> Result<()> {
    let flags = flags(words)?;
    let random = Random::from_seed(flags.seed);
    let folder = tempfile::tempdir()?;
    let mut writers: Vec<Writer> = (0..WRITERS).map(|_| Writer::default()).collect();
    let began = Instant::now();
    let mut checked = 0;
    for kill in 1..=flags.times {
        if kill % EARLY_EVERY == 0 {
            let mut child = start(&flags.program, folder.path())?;
            tokio::time::sleep(Duration::from_millis(random.below(EARLY_MILLIS))).await;
            child.kill()?;
            child.wait()?;
            continue;
        }
        let mut child = start(&flags.program, folder.path())?;
        let target = ready(&mut child, folder.path()).await?;
        checked += verify(&target, &mut writers).await.with_context(|| format!("before kill {kill}"))?;
        let deadline = Duration::from_millis(random.below(LONGEST_RUN_MILLIS));
        writers = write_until(writers, &target, &random, deadline, &mut child).await?;
        if kill % 20 == 0 {
            println!("{kill} kills, {} writes acknowledged", acknowledged(&writers));
        }
    }
    let mut child = start(&flags.program, folder.path())?;
    let target = ready(&mut child, folder.path()).await?;
    checked += verify(&target, &mut writers).await.context("after the last kill")?;
    child.kill()?;
    child.wait()?;
    println!(
        "kills={} acknowledged={} objects_checked={checked} lost=0 seed={} seconds={:.0}",
        flags.times,
        acknowledged(&writers),
        flags.seed,
        began.elapsed().as_secs_f64()
    );
    Ok(())
}

fn flags(words: &[String]) -> Result<Flags> {
    let value = |name: &str| words.iter().position(|word| word == name).and_then(|at| words.get(at + 1));
    let number = |name: &str, default: u64| value(name).map_or(Ok(default), |text| text.parse());
    Ok(Flags {
        program: value("--setpoint").context("--setpoint PROGRAM")?.into(),
        times: number("--times", 200)?,
        seed: number("--seed", 1)?,
    })
}

fn acknowledged(writers: &[Writer]) -> u64 {
    writers.iter().map(|writer| writer.acknowledged).sum()
}

fn start(program: &Path, folder: &Path) -> Result<Child> {
    let mut command = Command::new(program);
    command.args(["up", "--port", "0", "--no-controllers", "--nodes", "0"]);
    command.arg("--kubeconfig").arg(folder.join("kubeconfig"));
    command.arg("--data-dir").arg(folder.join("data"));
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().context("setpoint")
}

async fn ready(child: &mut Child, folder: &Path) -> Result<Target> {
    let mut line = String::new();
    BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
    let address = line.split_whitespace().nth(1).and_then(|url| url.strip_prefix("https://"));
    let Some(address) = address else { bail!("setpoint did not start again: {line:?}") };
    let target = server::target(&folder.join("kubeconfig"), address.to_owned())?;
    server::ready(&target, Instant::now()).await?;
    Ok(target)
}

/// Writers write until the server is killed in their midst.
async fn write_until(
    writers: Vec<Writer>,
    target: &Target,
    random: &Random,
    deadline: Duration,
    child: &mut Child,
) -> Result<Vec<Writer>> {
    let mut tasks = JoinSet::new();
    for (number, mut writer) in writers.into_iter().enumerate() {
        let target = target.clone();
        let random = random.clone();
        tasks.spawn(async move {
            // Ends with the connection: the server is gone.
            let _ = writer.write(number, &target, &random).await;
            (number, writer)
        });
    }
    tokio::time::sleep(deadline).await;
    child.kill()?;
    child.wait()?;
    let mut ended: BTreeMap<usize, Writer> = BTreeMap::new();
    while let Some(task) = tasks.join_next().await {
        ended.extend([task?]);
    }
    Ok(ended.into_values().collect())
}

impl Writer {
    async fn write(&mut self, number: usize, target: &Target, random: &Random) -> Result<()> {
        let mut connection = Connection::open(target).await?;
        loop {
            let name = format!("w{number}-{}", random.below(OBJECTS));
            self.counter += 1;
            let counter = self.counter;
            let belief = self.objects.entry(name.clone()).or_default();
            let (call, after) = match &belief.sure {
                None => (create(&name, counter), Some((counter, String::new()))),
                Some(_) if random.below(8) == 0 => (delete(&name), None),
                Some((_, uid)) => (patch(&name, counter), Some((counter, uid.clone()))),
            };
            belief.maybe = Some(after.clone());
            let body = connection.read(&call).await?;
            let answer: Value = serde_json::from_slice(&body)?;
            // The answer to a deletion is a Status, which has no version.
            belief.version = version(&answer).max(belief.version);
            belief.sure = after.map(|(counter, _)| (counter, uid(&answer)));
            belief.maybe = None;
            self.acknowledged += 1;
        }
    }
}

fn call(method: Method, path: String, content_type: Option<&'static str>, body: Bytes) -> Call {
    Call { method, path, content_type, accept: JSON, body }
}

fn create(name: &str, counter: u64) -> Call {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
        "data": {"counter": counter.to_string(), "text": "x".repeat(300)}});
    call(Method::POST, PATH.into(), Some(JSON), object.to_string().into())
}

fn patch(name: &str, counter: u64) -> Call {
    let patch = json!({"data": {"counter": counter.to_string()}});
    call(Method::PATCH, format!("{PATH}/{name}"), Some(MERGE_PATCH), patch.to_string().into())
}

fn delete(name: &str) -> Call {
    call(Method::DELETE, format!("{PATH}/{name}"), None, Bytes::new())
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

/// Every object is as it was last acknowledged, or as the one unanswered write would have left it.
async fn verify(target: &Target, writers: &mut [Writer]) -> Result<u64> {
    let list =
        Connection::open(target).await?.read(&call(Method::GET, PATH.into(), None, Bytes::new())).await?;
    let list: Value = serde_json::from_slice(&list)?;
    let items = list["items"].as_array().context("no items")?;
    let stored: BTreeMap<&str, &Value> =
        items.iter().filter_map(|item| Some((item["metadata"]["name"].as_str()?, item))).collect();
    let mut checked = 0;
    for (name, belief) in writers.iter_mut().flat_map(|writer| &mut writer.objects) {
        let found = stored.get(name.as_str());
        let now: State = found.map(|item| {
            let counter = item["data"]["counter"].as_str().and_then(|text| text.parse().ok());
            (counter.unwrap_or(0), uid(item))
        });
        let expected = now == belief.sure || belief.maybe.as_ref().is_some_and(|maybe| agrees(maybe, &now));
        ensure!(expected, "{name}: {now:?} is stored; {belief:?} was acknowledged");
        ensure!(version(&list) >= belief.version, "the version went backwards: {belief:?}");
        if let Some(item) = found {
            ensure!(version(item) >= belief.version, "{name} went back to {item}");
        }
        belief.sure = now;
        belief.maybe = None;
        checked += 1;
    }
    Ok(checked)
}

fn agrees(maybe: &State, now: &State) -> bool {
    match (maybe, now) {
        (None, None) => true,
        (Some((wanted, uid)), Some((counter, found))) => {
            wanted == counter && (uid.is_empty() || uid == found)
        }
        _ => false,
    }
}
