//! The `setpoint` command.

// This is the command line: it reads flags, files and the environment, and starts the runtime.
#![allow(clippy::disallowed_methods)]

mod command;
mod standin;
mod limits;
mod prose;
mod user_kubeconfig;
mod control;
mod named;
mod holder;
mod output;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Instant;

use clap::{CommandFactory, Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const EXAMPLES: &str = "Examples:
  setpoint up                       # a cluster until Ctrl-C, ready in milliseconds
  setpoint up --detach              # the same in the background
  setpoint load manifests/          # apply a folder to it
  setpoint down
  setpoint new my-operator --kind Website --group example.org";

/// A Kubernetes cluster in one process, and tools around it.
#[derive(Parser, Debug)]
#[command(name = "setpoint", version, about, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Start a cluster and keep it in the foreground until Ctrl-C or SIGTERM.
    Up(command::up::Arguments),
    /// List the clusters that were started with --detach or --name.
    Status(command::status::Arguments),
    /// Stop a cluster that was started with --detach or --name.
    Down(command::down::Arguments),
    /// Print a cluster's kubeconfig, merge it into yours, or remove it from there.
    Kubeconfig(command::kubeconfig::Arguments),
    /// Apply a folder in order: namespaces, definitions (and waits until they are served), then the rest.
    Load(command::load::Arguments),
    /// Save the objects of a cluster to a folder, or restore them from one.
    Snapshot(command::snapshot::Arguments),
    /// Run the built-in controllers, the scheduler and nodes against any API server.
    Controllers(command::controllers::Arguments),
    /// Find the convergence bugs of an operator, in any language.
    Prove(command::prove::Arguments),
    /// Write the crate of a new operator, or add a kind, a webhook or a version to one.
    New(command::new::Arguments),
    /// Write executables named kube-apiserver and etcd, so that a Go suite that uses envtest runs on Setpoint.
    Assets(command::assets::Arguments),
    /// Print a completion script for a shell.
    #[command(
        after_help = "Example:\n  setpoint completions bash > ~/.local/share/bash-completion/completions/setpoint"
    )]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Serve a folder of markdown as a book (the program behind the demo's `mdbook` image).
    #[command(hide = true)]
    Viewer(command::viewer::Arguments),
    /// Run a container's program (started by a node).
    #[command(hide = true)]
    ContainerInit,
    /// Become a container's program (started by `container-init`).
    #[command(hide = true)]
    ContainerExec {
        /// The terminal that the program gets.
        #[arg(long)]
        terminal: Option<std::path::PathBuf>,
        /// The descriptor of the program's file.
        #[arg(long)]
        program: i32,
        /// The program's arguments, its name first.
        #[arg(last = true)]
        command: Vec<std::ffi::OsString>,
    },
}

fn main() -> ExitCode {
    let began = Instant::now();
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "warn".into());
    // https://no-color.org: any value but an empty one.
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let colours = std::io::stderr().is_terminal() && !refused;
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colours).init();
    // The program's name selects its role: see `setpoint assets`.
    let name = std::env::args_os().next().map(std::path::PathBuf::from);
    let result = match name.as_deref().and_then(|path| path.file_name()?.to_str()) {
        Some("kube-apiserver") => stand_in_for_apiserver(),
        Some("etcd") => stand_in_for_etcd(),
        _ => run(Cli::parse().command, began),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            // Prints each cause once: many errors repeat theirs.
            eprintln!("setpoint: {}", setpoint::Error::from(error));
            ExitCode::FAILURE
        }
    }
}

fn stand_in_for_apiserver() -> anyhow::Result<ExitCode> {
    let flags = standin::apiserver::Flags::read(std::env::args_os()).unwrap_or_else(|error| error.exit());
    if flags.version.as_deref().is_some_and(|asked| asked != "false") {
        println!("Kubernetes {}", setpoint_apiserver::VERSION);
        return Ok(ExitCode::SUCCESS);
    }
    let controllers = std::env::var("SETPOINT_CONTROLLERS").ok();
    multi_thread()?.block_on(standin::apiserver::run(flags, controllers))?;
    Ok(ExitCode::SUCCESS)
}

fn stand_in_for_etcd() -> anyhow::Result<ExitCode> {
    current_thread()?.block_on(standin::etcd::run(standin::etcd::Flags::parse()))?;
    Ok(ExitCode::SUCCESS)
}

fn run(command: Command, began: Instant) -> anyhow::Result<ExitCode> {
    match command {
        Command::Up(arguments) => multi_thread()?.block_on(command::up::run(arguments, began))?,
        Command::Status(arguments) => return command::status::run(arguments),
        Command::Down(arguments) => command::down::run(arguments)?,
        Command::Kubeconfig(arguments) => command::kubeconfig::run(arguments)?,
        Command::Load(arguments) => current_thread()?.block_on(command::load::run(arguments))?,
        Command::Snapshot(arguments) => current_thread()?.block_on(command::snapshot::run(arguments))?,
        Command::Controllers(arguments) => multi_thread()?.block_on(command::controllers::run(arguments))?,
        Command::Prove(arguments) => {
            setpoint_apiserver::raise_open_files();
            return Ok(command::prove::run(arguments));
        }
        Command::New(arguments) => command::new::run(arguments)?,
        Command::Assets(arguments) => command::assets::run(&arguments)?,
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "setpoint", &mut std::io::stdout());
        }
        Command::Viewer(arguments) => current_thread()?.block_on(command::viewer::run(arguments))?,
        Command::ContainerInit => {
            let code = setpoint_node::process::init::supervise();
            return Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)));
        }
        Command::ContainerExec { terminal, program, command } => {
            let name = command.first().cloned().unwrap_or_default();
            let exec = setpoint_node::process::init::Exec { terminal, program, command };
            let error = setpoint_node::process::init::exec(&exec);
            anyhow::bail!("cannot run {}: {error}", name.display());
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A runtime for commands that serve or open many connections.
fn multi_thread() -> std::io::Result<tokio::runtime::Runtime> {
    setpoint_apiserver::raise_open_files();
    tokio::runtime::Builder::new_multi_thread().enable_all().build()
}

fn current_thread() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}
