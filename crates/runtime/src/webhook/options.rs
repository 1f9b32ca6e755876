//! The options of webhooks and of their server.

use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::review::Operation;

/// The longest time that the API server waits for an admission webhook.
const LONGEST: Duration = Duration::from_secs(30);

/// The effect of a failed webhook on the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailurePolicy {
    /// Refuses the request.
    #[default]
    Fail,
    /// Goes on as if the webhook had allowed it.
    Ignore,
}

/// How one admission webhook is called. [`HookOptions::with`] changes what differs from the defaults.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HookOptions {
    /// The name in the configuration and in refusals, a domain of three segments or more. Default:
    /// `vKIND.VERSION.GROUP`, or `mKIND.VERSION.GROUP`.
    pub name: Option<String>,
    /// The path. Default, as kubebuilder has it: `/validate-GROUP-VERSION-KIND`, or `/mutate-GROUP-VERSION-KIND`.
    pub path: Option<String>,
    /// The operations that are asked about. Default: create and update.
    pub operations: Vec<Operation>,
    /// A subresource instead of the object itself. The handler's kind must be that of the subresource's objects.
    pub subresource: Option<String>,
    /// The effect of a failure of the webhook.
    pub failure_policy: FailurePolicy,
    /// How long the API server waits, and after which the handler's future is dropped. In whole seconds, up to 30.
    pub timeout: Duration,
    /// Whether the handler has side effects, which it leaves out in a dry run.
    pub side_effects: bool,
    /// The namespaces whose objects are asked about. Default: all.
    pub namespace_selector: Option<LabelSelector>,
    /// The objects that are asked about, by their labels. Default: all.
    pub object_selector: Option<LabelSelector>,
    /// CEL expressions, each with a name. The webhook is called if all are true.
    pub match_conditions: Vec<(String, String)>,
    /// Whether a mutator is called again if others changed the object after it.
    pub reinvoke: bool,
}

impl HookOptions {
    /// Returns the defaults after `change`. A struct literal does not compile, because fields may be added.
    pub fn with(change: impl FnOnce(&mut Self)) -> Self {
        let mut options = Self::default();
        change(&mut options);
        options
    }

    /// The reason why the API server would refuse them.
    pub(super) fn mistake(&self) -> Option<String> {
        let whole = self.timeout.subsec_nanos() == 0;
        if !whole || self.timeout.is_zero() || self.timeout > LONGEST {
            return Some(format!("a timeout of {:?} is not a number of seconds from 1 to 30", self.timeout));
        }
        if self.operations.is_empty() {
            return Some("it has no operations".to_owned());
        }
        let name = self.name.as_ref()?;
        (name.split('.').filter(|part| !part.is_empty()).count() < 3)
            .then(|| "the name is not a domain of three segments or more".to_owned())
    }
}

impl Default for HookOptions {
    fn default() -> Self {
        HookOptions {
            name: None,
            path: None,
            operations: vec![Operation::Create, Operation::Update],
            subresource: None,
            failure_policy: FailurePolicy::Fail,
            timeout: Duration::from_secs(10),
            side_effects: false,
            namespace_selector: None,
            object_selector: None,
            match_conditions: Vec::new(),
            reinvoke: false,
        }
    }
}

/// The source of the serving certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Certificates {
    /// The operator makes it, keeps it in a Secret that all replicas share, writes `caBundle`, and rotates it.
    #[default]
    Managed,
    /// Another program keeps `tls.crt` and `tls.key` in this folder, such as cert-manager, and writes `caBundle`. The
    /// files are read again when they change.
    Folder(PathBuf),
}

/// How webhooks are served. [`ServingOptions::with`] changes what differs from the defaults.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServingOptions {
    /// The source of the serving certificate.
    pub certificates: Certificates,
    /// The name of the Secret with the managed certificates. Default: `SERVICE-certificates`.
    pub secret: Option<String>,
    /// The time for which a managed certificate is valid. A new one is made after two thirds of it.
    pub validity: Duration,
    /// How often the Secret, the configurations and the files are looked at. A `caBundle` that somebody removed is back
    /// after that time.
    pub check_every: Duration,
    /// How long every API server is given to learn of a new `caBundle` before a certificate that needs it is served.
    pub settle: Duration,
    /// The authorities (PEM) of client certificates. With it, only callers with a certificate of theirs are heard.
    /// kube-apiserver shows one if its `AdmissionConfiguration` says so.
    pub client_authority: Option<String>,
    /// The most bytes of an admission review. The API server takes objects of up to 3 MiB, and sends two.
    pub max_review_bytes: usize,
    /// The most bytes of a conversion review, which may hold a whole list.
    pub max_conversion_bytes: usize,
}

impl ServingOptions {
    /// Returns the defaults after `change`. A struct literal does not compile, because fields may be added.
    pub fn with(change: impl FnOnce(&mut Self)) -> Self {
        let mut options = Self::default();
        change(&mut options);
        options
    }

    /// Returns the defaults for managed certificates that last this long, with looks as often as they then need.
    pub fn lasting(validity: Duration) -> Self {
        ServingOptions::with(|options| {
            options.validity = validity;
            options.check_every = options.check_every.min(validity / 60);
            options.settle = options.settle.min(validity / 30);
        })
    }
}

impl Default for ServingOptions {
    fn default() -> Self {
        ServingOptions {
            certificates: Certificates::Managed,
            secret: None,
            validity: Duration::from_secs(90 * 24 * 60 * 60),
            check_every: Duration::from_secs(60),
            settle: Duration::from_secs(60),
            client_authority: None,
            max_review_bytes: 7 << 20,
            max_conversion_bytes: 64 << 20,
        }
    }
}
