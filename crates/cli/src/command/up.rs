//! `setpoint up`: a cluster in the foreground.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use setpoint_cluster::{Backend, Cluster, Controllers, NodeOptions, Options, Serving, bind, reachable};
use setpoint_node::ImageTable;
use setpoint_store::Recovery;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::nodes::{self, PodFolder};
use crate::limits::{RequestFlags, quota};

/// Start a cluster and keep it in the foreground until Ctrl-C or SIGTERM.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Port to serve on; 0 takes a free one.
    #[arg(long, default_value_t = 6443)]
    port: u16,
    /// Address to serve on.
    #[arg(long, default_value = "127.0.0.1")]
    bind: IpAddr,
    /// Folder for the cluster's objects and keys. Without it they live in memory and end with the process.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// With --data-dir: sync each write to the disk before it is acknowledged.
    #[arg(long, value_name = "true|false", default_value_t = true, action = clap::ArgAction::Set)]
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
    /// File for the kubeconfig (mode 0600).
    #[arg(long, value_name = "FILE", default_value = ".setpoint/kubeconfig")]
    kubeconfig: PathBuf,
    /// Start a bare API server: no built-in controllers, no scheduler, no nodes.
    #[arg(long)]
    no_controllers: bool,
    /// Run only these controllers, separated by commas. An unknown name lists all names.
    #[arg(long, value_name = "NAMES", conflicts_with_all = ["no_controllers", "demo"])]
    only: Option<String>,
    /// Number of nodes.
    #[arg(long, value_name = "N", default_value_t = 1)]
    nodes: u32,
    /// Image table: the images that run as processes of this host, and their programs (TOML).
    #[arg(long, value_name = "FILE")]
    images: Option<PathBuf>,
    /// Run the three example operators with their sample objects.
    #[arg(long, conflicts_with = "no_controllers")]
    demo: bool,
}

/// Runs until a signal.
pub async fn run(arguments: Arguments, began: Instant) -> Result<()> {
    let backend = match &arguments.data_dir {
        Some(path) => Backend::Folder { path: path.clone(), fsync: arguments.fsync },
        None => Backend::Memory,
    };
    let controllers = match &arguments.only {
        _ if arguments.no_controllers => Controllers::None,
        None => Controllers::All,
        Some(names) => {
            Controllers::Only(setpoint_controllers::parse_names(names, &[])?.into_iter().collect())
        }
    };
    let requests = arguments.requests.limits()?;
    let count = if arguments.no_controllers { 0 } else { arguments.nodes };
    let folder = PodFolder::make(arguments.data_dir.as_deref())?;
    let listener = bind(SocketAddr::new(arguments.bind, arguments.port)).await?;
    let api = reachable(listener.local_addr()?);
    let nodes = NodeOptions {
        count,
        images: images(arguments.images.as_deref(), arguments.demo)?,
        helper: Some(std::env::current_exe()?),
        folder: Some(folder.path.clone()),
        cluster: folder.cluster,
        environment: nodes::api_environment(&api.ip().to_string(), api.port()),
        ..NodeOptions::default()
    };
    // Handle signals from the start: one that comes during the start must not leave half a cluster.
    let mut interrupt = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())?;
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    let cluster = Cluster::start(Options {
        backend,
        history_events: arguments.history_events,
        quota_bytes: quota(arguments.quota_backend_bytes),
        requests,
        controllers,
        nodes,
        prose: Some(crate::prose::tell),
        ..Options::default()
    })
    .await?;
    if count == 0 {
        // Without nodes, remove the files that nodes of a killed run left.
        folder.clear();
    }
    report_recovery(cluster.recovery());
    let address = cluster.serve(listener, Serving::default())?;
    write_kubeconfig(&arguments.kubeconfig, &cluster.kubeconfig(address)?)?;
    println!(
        "ready https://{address} in {} ms, kubeconfig {}",
        began.elapsed().as_millis(),
        arguments.kubeconfig.display()
    );
    let stop = CancellationToken::new();
    let mut operators = JoinSet::new();
    if arguments.demo {
        super::demo::start(&arguments.kubeconfig, &mut operators, &stop)
            .await
            .context("the demo did not start")?;
    }
    tokio::select! {
        biased;
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    stop.cancel();
    while operators.join_next().await.is_some() {}
    cluster.shutdown().await;
    folder.remove();
    Ok(())
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
