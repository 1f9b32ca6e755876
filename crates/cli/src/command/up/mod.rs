//! `setpoint up`: a cluster in the foreground, or in the background.

mod background;
mod failure;
mod steps;

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use setpoint_cluster::{Backend, Cluster, Controllers, NodeOptions, Options, Serving, bind, reachable};
use setpoint_node::ImageTable;
use setpoint_store::Recovery;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::nodes::{self, PodFolder};
use crate::control::Control;
use crate::limits::{RequestFlags, quota};
use crate::named::{Claim, ClusterName, DEFAULT_NAME, Facts, Named};
use crate::output::say;

const EXAMPLES: &str = "Examples:
  setpoint up                                  # a cluster in memory, until Ctrl-C
  setpoint up --detach                         # in the background; `setpoint down` stops it
  setpoint up --detach --name second           # another one beside it
  setpoint up --data-dir data                  # its objects survive a restart
  setpoint up --from backup                    # a copy of a cluster, in memory
  setpoint up --images images.toml --nodes 3   # pods of these images are programs of this host";

/// The port of a cluster without a name, kube-apiserver's.
const PORT: u16 = 6443;
/// The kubeconfig of a cluster without a name.
const KUBECONFIG: &str = ".setpoint/kubeconfig";
/// Time after which the start is reported as going on.
const PROGRESS: Duration = Duration::from_secs(1);

/// Start a cluster and keep it in the foreground until Ctrl-C or SIGTERM.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Start the cluster in the background and return when it is ready.
    #[arg(long)]
    detach: bool,
    /// Name of the cluster, for `setpoint status`, `down`, `kubeconfig` and `load` [default with --detach: default].
    #[arg(long)]
    name: Option<ClusterName>,
    /// Given by `--detach` to the process in the background.
    #[arg(long, hide = true)]
    in_background: bool,
    /// Also stop when the standard input ends: for a program that starts a cluster and may be killed.
    #[arg(long, conflicts_with_all = ["detach", "in_background"])]
    until_stdin_closes: bool,
    /// Port to serve on; 0 takes a free one [default: 6443, or a free one with --detach or --name].
    #[arg(long)]
    port: Option<u16>,
    /// Address to serve on.
    #[arg(long, default_value = "127.0.0.1")]
    bind: IpAddr,
    /// Folder for the cluster's objects and keys. Without it they live in memory and end with the process.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Begin with the objects of a folder that `setpoint snapshot save` wrote. They live in memory, and the folder stays
    /// as it is.
    #[arg(long, value_name = "DIR", conflicts_with = "data_dir")]
    from: Option<PathBuf>,
    /// With --data-dir: sync each write to the disk before it is acknowledged.
    #[arg(long, value_name = "true|false", default_value_t = true, action = clap::ArgAction::Set,
        requires = "data_dir")]
    fsync: bool,
    /// Number of changes kept for watches that resume. A client with an older version gets "Expired" and lists again
    /// [default: 100000].
    #[arg(long, value_name = "N")]
    history_events: Option<usize>,
    /// The most bytes stored, history included. The server refuses a write that would exceed it. A negative number
    /// sets no quota [default: 2147483648].
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = 0,
        hide_default_value = true,
        allow_negative_numbers = true
    )]
    quota_backend_bytes: i64,
    #[command(flatten)]
    requests: RequestFlags,
    /// File for the kubeconfig (mode 0600) [default: .setpoint/kubeconfig, or a file in the state folder with --detach
    /// or --name].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Start a bare API server: no built-in controllers, no scheduler, no nodes.
    #[arg(long)]
    no_controllers: bool,
    /// Run only these controllers, separated by commas. An unknown name lists all names.
    #[arg(long, value_name = "NAMES", conflicts_with_all = ["no_controllers", "demo"])]
    only: Option<String>,
    /// Number of nodes [default: 1].
    #[arg(long, value_name = "N")]
    nodes: Option<u32>,
    /// Image table: the images that run as processes of this host, and their programs (TOML).
    #[arg(long, value_name = "FILE")]
    images: Option<PathBuf>,
    /// Run the three example operators with their sample objects.
    #[arg(long, conflicts_with = "no_controllers")]
    demo: bool,
}

/// Runs until a signal, or until the cluster in the background is ready.
pub async fn run(arguments: Arguments, began: Instant) -> Result<()> {
    arguments.check()?;
    if arguments.detach {
        return background::start(&arguments.named()?.context("no name")?);
    }
    if arguments.in_background {
        background::leave_terminal();
    }
    serve(arguments, began).await
}

impl Arguments {
    /// Refuses flags that would have no effect.
    fn check(&self) -> Result<()> {
        let nodes = self.nodes.unwrap_or(1);
        ensure!(
            !(self.no_controllers && self.nodes.is_some_and(|nodes| nodes > 0)),
            "--nodes has no effect with --no-controllers: a bare API server has no nodes"
        );
        if let Some(from) = &self.from {
            ensure!(from.is_dir(), "--from {}: there is no such folder", from.display());
        }
        ensure!(
            self.images.is_none() || (!self.no_controllers && nodes > 0),
            "--images has no effect without nodes: leave out {}",
            if self.no_controllers { "--no-controllers" } else { "--nodes 0" }
        );
        Ok(())
    }

    /// The cluster that other commands find by its name, if this one has a name.
    fn named(&self) -> Result<Option<Named>> {
        let default = || (self.detach || self.in_background).then(|| DEFAULT_NAME.parse());
        let name = self.name.clone().map(Ok).or_else(default).transpose().map_err(anyhow::Error::msg)?;
        name.map(Named::of).transpose()
    }

    /// The folder that is read at the start.
    fn folder(&self) -> Option<&Path> {
        self.data_dir.as_deref().or(self.from.as_deref())
    }

    fn node_count(&self) -> u32 {
        if self.no_controllers { 0 } else { self.nodes.unwrap_or(1) }
    }

    fn options(&self, nodes: NodeOptions) -> Result<Options> {
        let backend = match (&self.data_dir, &self.from) {
            (Some(path), _) => Backend::Folder { path: path.clone(), fsync: self.fsync },
            (None, Some(path)) => Backend::Copy { path: path.clone() },
            (None, None) => Backend::Memory,
        };
        let controllers = match &self.only {
            _ if self.no_controllers => Controllers::None,
            None => Controllers::All,
            Some(names) => {
                Controllers::Only(setpoint_controllers::parse_names(names, &[])?.into_iter().collect())
            }
        };
        Ok(Options {
            backend,
            history_events: self.history_events,
            quota_bytes: quota(self.quota_backend_bytes),
            requests: self.requests.limits()?,
            controllers,
            nodes,
            prose: Some(crate::prose::tell),
            ..Options::default()
        })
    }
}

async fn serve(arguments: Arguments, began: Instant) -> Result<()> {
    let named = arguments.named()?;
    let claim = named.as_ref().map(Named::claim).transpose()?;
    let default = || named.as_ref().map_or_else(|| KUBECONFIG.into(), Named::kubeconfig);
    let kubeconfig = arguments.kubeconfig.clone().unwrap_or_else(default);
    let port = arguments.port.unwrap_or(if named.is_some() { 0 } else { PORT });
    let folder = PodFolder::make(arguments.data_dir.as_deref())?;
    let address = SocketAddr::new(arguments.bind, port);
    let listener = bind(address).await.map_err(|error| failure::explain(error, None))?;
    let api = reachable(listener.local_addr()?);
    let nodes = NodeOptions {
        count: arguments.node_count(),
        images: images(arguments.images.as_deref(), arguments.demo)?,
        helper: Some(std::env::current_exe()?),
        folder: Some(folder.path.clone()),
        cluster: folder.cluster,
        environment: nodes::api_environment(&api.ip().to_string(), api.port()),
        ..NodeOptions::default()
    };
    // Handle signals from the start: one that comes during the start must not leave half a cluster.
    let mut signals = setpoint::program::Signals::new()?;
    let cluster = start(&arguments, nodes).await?;
    if arguments.node_count() == 0 {
        // Without nodes, remove the files that nodes of a killed run left.
        folder.clear();
    }
    report_recovery(cluster.recovery());
    let address = cluster.serve(listener, Serving::default())?;
    write_kubeconfig(&kubeconfig, &cluster.kubeconfig(address)?)?;
    let stop = CancellationToken::new();
    let mut tasks = JoinSet::new();
    if let (Some(claim), Some(named)) = (&claim, &named) {
        let control = Control::bind(&named.control())?;
        tasks.spawn(control.serve(cluster.store().clone(), stop.clone()));
        publish(claim, address, &kubeconfig, arguments.data_dir.as_deref())?;
    }
    let ready = format!(
        "ready https://{address} in {} ms, kubeconfig {}",
        began.elapsed().as_millis(),
        kubeconfig.display()
    );
    say(&ready);
    if arguments.demo {
        super::demo::start(&kubeconfig, &mut tasks, &stop).await.context("the demo did not start")?;
    } else if !arguments.in_background {
        say(&steps::foreground(&kubeconfig, arguments.node_count(), arguments.data_dir.as_deref()));
    }
    let input_ended = until_stdin_closes(arguments.until_stdin_closes);
    tokio::select! {
        biased;
        () = signals.next() => {}
        () = input_ended => {}
    }
    stop.cancel();
    while tasks.join_next().await.is_some() {}
    cluster.shutdown().await;
    folder.remove();
    drop(claim);
    Ok(())
}

/// Starts the cluster. Reading a large data folder takes seconds: then it says so.
async fn start(arguments: &Arguments, nodes: NodeOptions) -> Result<Cluster> {
    let mut start = Box::pin(Cluster::start(arguments.options(nodes)?));
    let started = match tokio::time::timeout(PROGRESS, &mut start).await {
        Ok(started) => started,
        Err(_) => {
            let what =
                arguments.folder().map_or("starting".into(), |data| format!("reading {}", data.display()));
            eprintln!("setpoint: {what}");
            start.await
        }
    };
    started.map_err(|error| failure::explain(error, arguments.folder()))
}

/// Ends with the standard input, or never.
async fn until_stdin_closes(watched: bool) {
    let (ended, end) = tokio::sync::oneshot::channel::<()>();
    if !watched {
        return std::future::pending().await;
    }
    // A thread of its own: a read cannot be interrupted, and the runtime would wait for one of its threads.
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        drop(ended);
    });
    let _ = end.await;
}

fn publish(claim: &Claim, address: SocketAddr, kubeconfig: &Path, data: Option<&Path>) -> Result<()> {
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    claim.publish(&Facts {
        pid: std::process::id(),
        server: format!("https://{}", reachable(address)),
        kubeconfig: std::path::absolute(kubeconfig)?,
        data_dir: data.map(std::path::absolute).transpose()?,
        started: started.as_secs(),
    })
}

fn images(file: Option<&Path>, demo: bool) -> Result<ImageTable> {
    let mut table = nodes::image_table(file)?;
    if demo {
        table.images.extend(super::demo::images()?.images);
    }
    Ok(table)
}

fn report_recovery(recovery: Option<&Recovery>) {
    let Some(recovery) = recovery else { return };
    if let Some(cut) = &recovery.cut {
        eprintln!(
            "setpoint: {}: cut off {} bytes at offset {}: an unfinished write of the last run",
            cut.file, cut.bytes, cut.offset
        );
    }
    if let Some(jump) = &recovery.jumped {
        eprintln!(
            "setpoint: the last run had no fsync and did not stop cleanly: the revision moved from {} to {}",
            jump.from, jump.to
        );
    }
}

/// Writes the kubeconfig. It holds the administrator's key, so only the owner may read it, from its first byte on.
fn write_kubeconfig(path: &Path, text: &str) -> Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let describe = || format!("cannot write {}", path.display());
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).with_context(describe)?;
    }
    // A file that others could read would keep its mode if it were overwritten.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(describe);
        }
        _ => {}
    }
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path).with_context(describe)?;
    file.write_all(text.as_bytes()).with_context(describe)
}
