//! `setpoint new`: the crate of a new operator, and additions to one.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::output::say;
use anyhow::{Context, Result};
use setpoint_scaffold::{
    ApiGroup, ApiVersion, Changes, CustomResource, KindName, OperatorName, Plural, Project, Source,
};

const EXAMPLES: &str = "Examples:
  setpoint new my-operator --kind Website --group example.org
  cd my-operator
  setpoint new kind Page
  setpoint new webhook Website
  setpoint new version v1beta1 --kind Website";

/// Whether the crates are in the registry. Until then cargo does not find them there.
const PUBLISHED: bool = false;

/// Write the crate of a new operator, or add a kind, a webhook or a version to one.
#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    addition: Option<Addition>,
    /// Name of the operator, and of the folder that is made.
    #[arg(required = true)]
    name: Option<OperatorName>,
    /// Kind of its custom resource, such as Website.
    #[arg(long, required = true)]
    kind: Option<KindName>,
    /// API group of the custom resource, such as example.org.
    #[arg(long, required = true)]
    group: Option<ApiGroup>,
    /// Version of the custom resource.
    #[arg(long, default_value = "v1")]
    version: ApiVersion,
    /// Resource name [default: the plural of the kind].
    #[arg(long)]
    plural: Option<Plural>,
    /// Add admission webhooks: defaulting and validation.
    #[arg(long)]
    webhook: bool,
    /// Take Setpoint's crates from a clone of its repository, not from the registry.
    #[arg(long, value_name = "DIR")]
    setpoint_path: Option<PathBuf>,
}

#[derive(clap::Subcommand, Debug)]
enum Addition {
    /// Add a custom resource and its controller to the operator in this folder.
    Kind {
        /// The kind, such as Page.
        kind: KindName,
        /// API group [default: the group of the operator's first kind].
        #[arg(long)]
        group: Option<ApiGroup>,
        /// Version of the custom resource.
        #[arg(long, default_value = "v1")]
        version: ApiVersion,
        /// Resource name [default: the plural of the kind].
        #[arg(long)]
        plural: Option<Plural>,
    },
    /// Add admission webhooks to a kind: defaulting and validation.
    Webhook {
        /// The kind.
        kind: KindName,
    },
    /// Add a served version to a kind, and the webhook that converts it.
    Version {
        /// The new version, such as v1beta1.
        version: ApiVersion,
        /// The kind.
        #[arg(long)]
        kind: KindName,
    },
}

/// Writes the files and prints the next steps.
pub fn run(arguments: Arguments) -> Result<()> {
    match arguments.addition {
        Some(addition) => add(Path::new("."), addition),
        None => operator(arguments),
    }
}

fn operator(arguments: Arguments) -> Result<()> {
    let name = arguments.name.context("no NAME")?;
    let kind = arguments.kind.context("no --kind")?;
    let resource = CustomResource {
        group: arguments.group.context("no --group")?,
        version: arguments.version,
        plural: arguments.plural.unwrap_or_else(|| kind.plural()),
        kind: kind.clone(),
    };
    let source = arguments.setpoint_path.map_or(Source::Registry, Source::Folder);
    let folder = PathBuf::from(name.as_str());
    let (mut created, _) = setpoint_scaffold::operator(&folder, &name, &resource, &source)?.write()?;
    if arguments.webhook {
        created.extend(setpoint_scaffold::webhook(&Project::open(&folder)?, &kind)?.write()?.0);
    }
    format(&folder);
    say(&format!("wrote {} files to {}/. Next:\n", created.len(), folder.display()));
    say(&format!("  cd {name}"));
    say("  cargo test     # the operator on a cluster in the test's process, and a proof that it converges");
    say("  less README.md # how to run and deploy it, and how to add to it");
    if source == Source::Registry && !PUBLISHED {
        say(&format!(
            "\nThe crates of Setpoint are not in the registry yet, so cargo will not find them. Remove the folder and \
             use a clone:\n\n  setpoint new {name} --kind {kind} --group {} --setpoint-path DIR",
            resource.group
        ));
    }
    Ok(())
}

fn add(folder: &Path, addition: Addition) -> Result<()> {
    let project = Project::open(folder)?;
    let changes: Changes = match addition {
        Addition::Kind { kind, group, version, plural } => {
            let first = project.resources.first().map(|first| first.group.clone());
            let resource = CustomResource {
                group: group.or(first).context("no --group")?,
                version,
                plural: plural.unwrap_or_else(|| kind.plural()),
                kind,
            };
            setpoint_scaffold::kind(&project, &resource)?
        }
        Addition::Webhook { kind } => setpoint_scaffold::webhook(&project, &kind)?,
        Addition::Version { version, kind } => setpoint_scaffold::version(&project, &kind, &version)?,
    };
    let (created, changed) = changes.write()?;
    format(folder);
    for (what, files) in [("wrote", created), ("changed", changed)] {
        for file in files {
            say(&format!("{what} {}", file.display()));
        }
    }
    say("\nNext: cargo test");
    Ok(())
}

/// Breaks the lines anew, because names have other lengths than the template's. Without rustfmt the lines stay.
fn format(folder: &Path) {
    let mut command = Command::new("cargo");
    command.arg("fmt").current_dir(folder);
    let _ = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
}
