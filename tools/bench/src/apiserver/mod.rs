//! `bench apiserver`: ours and the real kube-apiserver with etcd under the same load, one after the other.

mod library;
mod list;
mod watch;
mod verbs;
mod body;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::load;
use crate::server::{self, Durability, Server};

/// The result of one server in one case: a rate, a time or a size, and its CPU time per operation.
#[derive(Clone, Copy, Debug)]
struct Figure {
    value: f64,
    cpu: Option<Duration>,
}

impl Figure {
    fn plain(value: f64) -> Figure {
        Figure { value, cpu: None }
    }
}

/// Whether more or less of a figure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Better {
    More,
    Less,
}

/// One case of one server.
struct Case {
    name: &'static str,
    unit: &'static str,
    better: Better,
    figure: Figure,
}

impl Case {
    fn rate(name: &'static str, figure: Figure) -> Case {
        Case { name, unit: "op/s", better: Better::More, figure }
    }

    fn less(name: &'static str, unit: &'static str, figure: Figure) -> Case {
        Case { name, unit, better: Better::Less, figure }
    }
}

struct Flags {
    program: PathBuf,
    objects: usize,
    pods: usize,
    watchers: usize,
    /// Ours alone, for who works on it.
    alone: bool,
}

pub async fn run(words: &[String]) -> Result<()> {
    let flags = flags(words)?;
    println!(
        "# {} connections over TLS and HTTP/2, one request at a time each; servers one after the other; {} CPUs",
        load::CONNECTIONS,
        std::thread::available_parallelism()?,
    );
    let mut ours = library::measure().await?;
    ours.extend(measure(Which::Setpoint, &flags).await?);
    if flags.alone {
        ours.iter().for_each(alone);
        return Ok(());
    }
    let theirs = measure(Which::KubeApiserver, &flags).await?;
    let theirs: BTreeMap<&str, Figure> = theirs.iter().map(|case| (case.name, case.figure)).collect();
    for case in &ours {
        // A test with kube-apiserver has to start its processes: there is no library.
        let same = match case.name {
            "library-start" | "library-start-bare" => "exec-to-ready",
            "library-rss" => "idle-rss",
            name => name,
        };
        line(case, theirs.get(same).copied().with_context(|| format!("no figure for {same}"))?);
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Which {
    Setpoint,
    KubeApiserver,
}

impl Which {
    async fn start(self, flags: &Flags, durability: Durability) -> Result<Server> {
        match self {
            Which::Setpoint => server::setpoint(&flags.program, durability).await,
            Which::KubeApiserver => server::kube_apiserver(durability).await,
        }
    }
}

/// Every case, on a server in memory (or without fsync) and then on one with fsync.
async fn measure(which: Which, flags: &Flags) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    if let Which::Setpoint = which {
        cases.extend(starts(flags).await?);
    }
    let server = which.start(flags, Durability::None).await?;
    if let Which::KubeApiserver = which {
        cases.push(Case::less("exec-to-ready", "ms", Figure::plain(server.start.as_secs_f64() * 1e3)));
        let idle = Figure::plain(settled(&server).await?);
        cases.push(Case::less("idle-rss", "MB", idle));
        cases.push(Case::less("idle-rss-bare", "MB", idle));
    }
    server.prepare().await?;
    cases.extend(verbs::measure(&server, flags.objects).await?);
    cases.push(watch::measure(&server, flags.watchers).await?);
    cases.extend(list::measure(&server, flags.pods).await?);
    drop(server);
    let server = which.start(flags, Durability::Fsync).await?;
    cases.push(Case::rate("create-fsync", verbs::create(&server, "durable", flags.objects).await?));
    if let Which::Setpoint = which {
        server::report_sync()?;
    }
    Ok(cases)
}

/// Ours starts in no time: the middle of several. Memory is that of everything (controllers, a node), and of the API
/// server alone, which is what there is of the peer.
async fn starts(flags: &Flags) -> Result<Vec<Case>> {
    const TIMES: usize = 11;
    let mut times = Vec::new();
    let mut sizes = Vec::new();
    for arguments in [&[][..], server::BARE] {
        for _ in 0..TIMES {
            let server = server::start_setpoint(&flags.program, Durability::None, arguments).await?;
            times.push(server.start.as_secs_f64() * 1e3);
        }
        let server = server::start_setpoint(&flags.program, Durability::None, arguments).await?;
        sizes.push(settled(&server).await?);
    }
    // The first half is with everything, as `setpoint up` starts.
    times.truncate(TIMES);
    times.sort_by(f64::total_cmp);
    Ok(vec![
        Case::less("exec-to-ready", "ms", Figure::plain(times[TIMES / 2])),
        Case::less("idle-rss", "MB", Figure::plain(sizes[0])),
        Case::less("idle-rss-bare", "MB", Figure::plain(sizes[1])),
    ])
}

/// Resident memory once a server has come to rest.
async fn settled(server: &Server) -> Result<f64> {
    tokio::time::sleep(Duration::from_secs(3)).await;
    Ok(server.usage()?.resident_bytes as f64 / 1e6)
}

fn flags(words: &[String]) -> Result<Flags> {
    let value = |name: &str| words.iter().position(|word| word == name).and_then(|at| words.get(at + 1));
    let number = |name: &str, default: usize| value(name).map_or(Ok(default), |text| text.parse());
    Ok(Flags {
        program: value("--setpoint").context("--setpoint PROGRAM")?.into(),
        objects: number("--objects", 8000)?,
        pods: number("--pods", 50_000)?,
        watchers: number("--watchers", 1000)?,
        alone: words.iter().any(|word| word == "--alone"),
    })
}

fn line(case: &Case, theirs: Figure) {
    let ours = case.figure;
    let ratio = match case.better {
        Better::Less => theirs.value / ours.value,
        Better::More => ours.value / theirs.value,
    };
    let cpu = match (ours.cpu, theirs.cpu) {
        (Some(ours), Some(theirs)) if !ours.is_zero() => {
            format!("{:.1}", theirs.as_secs_f64() / ours.as_secs_f64())
        }
        _ => "-".into(),
    };
    let Case { name, unit, .. } = case;
    println!(
        "case={name} setpoint={:.1} kube-apiserver={:.1} unit={unit} ratio={ratio:.1} cpu_ratio={cpu}",
        ours.value, theirs.value
    );
    if let (Some(ours), Some(theirs)) = (ours.cpu, theirs.cpu) {
        println!("#   {name}: CPU per operation {}, kube-apiserver and etcd {}", spent(ours), spent(theirs));
    }
}

fn alone(case: &Case) {
    let cpu = case.figure.cpu.map_or("-".into(), spent);
    println!("case={} setpoint={:.1} unit={} cpu={cpu}", case.name, case.figure.value, case.unit);
}

fn spent(cpu: Duration) -> String {
    format!("{:.1} us", cpu.as_secs_f64() * 1e6)
}
