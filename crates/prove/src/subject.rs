//! The program under test.

use std::future::Future;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;
use setpoint::clock::{Clock, Random};
use setpoint::leader_election::LeaderElection;
use setpoint::{Manager, ManagerOptions, SetupError};
use tokio_util::sync::CancellationToken;

use crate::webhooks::Webhooks;

/// The namespace of Leases of programs without an account.
const BUILT_IN: &str = "kube-system";

/// An operator on `setpoint`, as its `main` knows it.
#[derive(Clone, Copy)]
pub struct Operator {
    /// The name of the operator, its service account and its field manager.
    pub name: &'static str,
    /// Registers the controllers with a manager.
    pub register: fn(&Manager) -> Result<(), SetupError>,
    /// Returns all objects that the operator needs in a cluster for an image. Its Deployment is left out.
    pub manifests: fn(image: &str) -> Vec<Value>,
}

/// The program under test: anything that works on a [`kube::Client`].
#[derive(Clone)]
pub struct Subject {
    pub(crate) name: String,
    pub(crate) manifests: Vec<Value>,
    pub(crate) account: Option<(String, String)>,
    /// Namespace and name of the Lease for which replicas compete.
    pub(crate) lease: Option<(String, String)>,
    pub(crate) webhooks: Option<Webhooks>,
    pub(crate) start: Arc<dyn Fn(Start) -> Running + Send + Sync>,
}

/// The surroundings of one incarnation of a program.
#[derive(Clone)]
pub struct Start {
    /// The program's only connection to the cluster.
    pub client: kube::Client,
    /// The cluster's clock.
    pub clock: Clock,
    /// A source of random numbers that the run's seed determines.
    pub random: Random,
    /// The part in a leader election, in runs with two replicas. Others have none.
    pub election: Option<Election>,
    /// Asks the program to stop in order, as SIGTERM does.
    pub stop: CancellationToken,
}

/// The part of one replica in a leader election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Election {
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of the Lease.
    pub name: String,
    /// The replica's own name.
    pub identity: String,
}

/// One incarnation of a program. Dropping `program` is a crash.
pub struct Running {
    /// The program. It should run until it is dropped.
    pub program: Program,
    /// Returns the number of panics that the program caught so far.
    pub panics: Box<dyn Fn() -> u64 + Send>,
    /// The activity of the process, if the program is one of its own.
    pub activity: Option<Arc<dyn Activity>>,
}

/// The activity of a process, as the operating system sees it.
pub trait Activity: Send + Sync {
    /// Returns whether the process computes, or would if it had a processor. One that only waits is not busy.
    fn is_busy(&self) -> bool;
}

/// A running program. Its error says why it ended.
pub type Program = BoxFuture<'static, Result<(), String>>;

/// Makes a subject of a function that works on a [`kube::Client`], such as an operator on kube-rs. `manifests` are the
/// objects that it needs, its definitions first.
pub fn program<F, E>(
    name: &str,
    manifests: Vec<Value>,
    main: impl Fn(kube::Client) -> F + Send + Sync + 'static,
) -> Subject
where
    F: Future<Output = Result<(), E>> + Send + 'static,
    E: std::fmt::Display,
{
    let start = move |start: Start| {
        let running = main(start.client).map(|ended| ended.map_err(|error| error.to_string()));
        Running { program: running.boxed(), panics: Box::new(|| 0), activity: None }
    };
    Subject::new(name, manifests, start)
}

impl From<Operator> for Subject {
    fn from(operator: Operator) -> Self {
        let manifests = (operator.manifests)("image");
        Subject::manager(operator.name, manifests, operator.register)
    }
}

impl Subject {
    /// Makes a subject of controllers that `register` adds to a manager.
    pub fn manager(
        name: &str,
        manifests: Vec<Value>,
        register: impl Fn(&Manager) -> Result<(), SetupError> + Send + Sync + 'static,
    ) -> Subject {
        Subject::manager_with(name, manifests, |_| {}, register)
    }

    /// Makes a subject like [`Subject::manager`], with other options of the manager.
    pub fn manager_with(
        name: &str,
        manifests: Vec<Value>,
        change: impl Fn(&mut ManagerOptions) + Send + Sync + 'static,
        register: impl Fn(&Manager) -> Result<(), SetupError> + Send + Sync + 'static,
    ) -> Subject {
        let lease = lease(name, &manifests, &change);
        let manager_name = name.to_owned();
        let start = move |start: Start| {
            let options = ManagerOptions::with(|options| {
                options.name.clone_from(&manager_name);
                options.clock = start.clock;
                options.random = start.random;
                change(options);
                if let Some(Election { namespace, name, identity }) = &start.election {
                    let own = LeaderElection::new(namespace, name);
                    let election = options.leader_election.take().unwrap_or(own);
                    options.leader_election = Some(election.identity(identity));
                }
            });
            let manager = Manager::new(start.client, options);
            let metrics = manager.metrics().clone();
            let program = match register(&manager) {
                Ok(()) => async move {
                    manager.run(start.stop.cancelled_owned()).await.map_err(|error| error.to_string())
                }
                .boxed(),
                Err(error) => futures::future::ready(Err(error.to_string())).boxed(),
            };
            Running { program, panics: Box::new(move || panics(&metrics.encode())), activity: None }
        };
        Subject { lease, ..Subject::new(name, manifests, start) }
    }

    /// Makes a subject of anything that `start` starts. It acts as the service account of the manifests, if there is
    /// one.
    pub fn new(
        name: &str,
        manifests: Vec<Value>,
        start: impl Fn(Start) -> Running + Send + Sync + 'static,
    ) -> Subject {
        let account = service_account(&manifests);
        Subject {
            name: name.to_owned(),
            manifests,
            account,
            lease: None,
            webhooks: None,
            start: Arc::new(start),
        }
    }

    /// Returns the subject with another start.
    #[must_use]
    pub fn with_start(&self, start: impl Fn(Start) -> Running + Send + Sync + 'static) -> Subject {
        Subject { start: Arc::new(start), ..self.clone() }
    }

    /// Returns the subject under another service account: its namespace and its name.
    #[must_use]
    pub fn with_account(self, account: Option<(String, String)>) -> Subject {
        Subject { account, ..self }
    }

    /// Returns the subject with a Lease for which its replicas compete if [`Start::election`] says so. Subjects with a
    /// manager compete for the Lease of the operator's name, if the account may write Leases.
    #[must_use]
    pub fn with_lease(self, namespace: &str, name: &str) -> Subject {
        Subject { lease: Some((namespace.to_owned(), name.to_owned())), ..self }
    }

    /// Returns namespace and name of the service account, if there is one.
    pub fn service_account(&self) -> Option<(String, String)> {
        self.account.clone()
    }
}

/// Returns the Lease for which replicas of a manager compete, unless the account has no right to it.
fn lease(name: &str, manifests: &[Value], change: &impl Fn(&mut ManagerOptions)) -> Option<(String, String)> {
    let options = ManagerOptions::with(change);
    if let Some(election) = options.leader_election {
        return Some((election.namespace, election.name));
    }
    let Some((namespace, _)) = service_account(manifests) else {
        return Some((BUILT_IN.to_owned(), name.to_owned()));
    };
    let rules = manifests.iter().filter_map(|object| object["rules"].as_array()).flatten();
    let has = |rule: &Value, field: &str, wanted: &str| {
        let values = rule[field].as_array();
        values.into_iter().flatten().any(|value| value == wanted || value == "*")
    };
    let mut rules = rules.filter(|rule| has(rule, "resources", "leases"));
    rules.any(|rule| has(rule, "verbs", "update")).then(|| (namespace, name.to_owned()))
}

/// Returns the first service account of some manifests.
fn service_account(manifests: &[Value]) -> Option<(String, String)> {
    let account = manifests.iter().find(|object| object["kind"] == "ServiceAccount")?;
    let text = |field: &str| account["metadata"][field].as_str().map(str::to_owned);
    Some((text("namespace")?, text("name")?))
}

/// Adds up the panics of all reconcilers.
fn panics(metrics: &str) -> u64 {
    let counted =
        metrics.lines().filter(|line| line.starts_with("controller_runtime_reconcile_panics_total"));
    counted.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>() as u64
}
