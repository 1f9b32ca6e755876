//! Admission and conversion webhooks (feature `webhooks`): handlers of typed objects, and the server before them.
//!
//! A [`Webhooks`] value lists the handlers. Everything else is derived from it: the paths that are served, the rules of
//! the configurations, the Service, the conversion stanza of a definition.
//!
//! ```
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use setpoint::webhook::{Allowed, Denied, FieldErrors, Review, Webhooks};
//!
//! fn default_owner(_: &Review<ConfigMap>, object: &mut ConfigMap) -> Result<Allowed, Denied> {
//!     object.data.get_or_insert_default().entry("owner".into()).or_insert("nobody".into());
//!     Ok(Allowed::yes())
//! }
//!
//! fn owner_stays(review: &Review<ConfigMap>) -> Result<Allowed, Denied> {
//!     let owner = |object: &Option<ConfigMap>| object.as_ref()?.data.as_ref()?.get("owner").cloned();
//!     let mut errors = FieldErrors::default();
//!     if review.old.is_some() && owner(&review.old) != owner(&review.new) {
//!         errors.forbidden("data.owner", "the owner stays");
//!     }
//!     review.verdict(errors)
//! }
//!
//! let webhooks = Webhooks::new("cafe-system", "cafe-webhooks")
//!     .mutate::<ConfigMap, _>(default_owner)
//!     .validate::<ConfigMap, _>(owner_stays);
//! ```
//!
//! # The answers
//!
//! | The handler… | The API server gets… | The request is… |
//! |---|---|---|
//! | allows | an `AdmissionResponse`, with the patch and the warnings | admitted |
//! | denies ([`Denied`]) | an `AdmissionResponse` with the Status | refused, with the Status |
//! | is given an object that does not decode as its type | an `AdmissionResponse` with a Status (400) | refused |
//! | fails ([`Denied::failed`]), panics, or takes too long | HTTP 500 or 504 with a Status | decided by `failurePolicy` |
//! | is asked about another kind, or gets no review | HTTP 400 with a Status | decided by `failurePolicy` |
//!
//! Each failure is counted and logged with the object's name.

mod serve;
mod certificates;
mod own;
mod manifests;
mod call;
mod round_trip;
mod conversion;
mod handler;
mod patch;
mod wire;
mod metrics;
mod options;
mod review;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use kube::core::ApiResource;

use crate::client::Kind;
use call::failure;
use conversion::Versions;
use handler::{Admission, Mutating, Validating};
use metrics::WebhookMetrics;

pub use conversion::Conversion;
pub use handler::{Mutate, Validate};
pub use manifests::WEBHOOK_PORT;
pub use options::{Certificates, FailurePolicy, HookOptions, ServingOptions};
pub use review::{Allowed, Denied, FieldErrors, FieldValue, Operation, Review, User};
pub use round_trip::RoundTripError;

/// The time limit of a conversion, and of a call of a custom path. kube-apiserver waits as long for a conversion.
const OTHER_TIMEOUT: Duration = Duration::from_secs(30);

/// The webhooks of an operator. Cheap to clone; clones share their metrics.
#[derive(Clone)]
pub struct Webhooks {
    service: Service,
    hooks: Vec<Hook>,
    conversions: Vec<Converted>,
    routes: BTreeMap<String, Route>,
    /// The mistakes of the author, which registration reports.
    mistakes: Vec<String>,
    options: ServingOptions,
    metrics: WebhookMetrics,
}

/// The Service that leads to the webhooks.
#[derive(Clone, Debug)]
struct Service {
    namespace: String,
    name: String,
}

/// One admission webhook, as its configuration will describe it.
#[derive(Clone, Debug)]
struct Hook {
    mutating: bool,
    namespaced: bool,
    resource: ApiResource,
    name: String,
    path: String,
    options: HookOptions,
}

/// One definition whose versions are converted.
#[derive(Clone, Debug)]
struct Converted {
    definition: String,
    path: String,
}

type CustomPath = Arc<dyn Fn(Request<Bytes>) -> BoxFuture<'static, Response<Bytes>> + Send + Sync>;

/// The handler behind a path.
#[derive(Clone)]
enum Route {
    Admission(Arc<dyn Admission>, Duration),
    Conversion(Versions),
    Custom(CustomPath),
}

impl fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhooks")
            .field("service", &self.service)
            .field("paths", &self.routes.keys().collect::<Vec<_>>())
            .finish()
    }
}

impl Webhooks {
    /// Returns no webhooks yet, behind a Service of this namespace and name. The configurations have the name of the
    /// Service.
    pub fn new(namespace: &str, service: &str) -> Self {
        Webhooks {
            service: Service { namespace: namespace.to_owned(), name: service.to_owned() },
            hooks: Vec::new(),
            conversions: Vec::new(),
            routes: BTreeMap::new(),
            mistakes: Vec::new(),
            options: ServingOptions::default(),
            metrics: WebhookMetrics::default(),
        }
    }

    /// Changes how they are served.
    #[must_use]
    pub fn serving(mut self, options: ServingOptions) -> Self {
        self.options = options;
        self
    }

    /// Adds a validator of a kind, asked for each create and update.
    #[must_use]
    pub fn validate<K: Kind, H: Validate<K>>(self, handler: H) -> Self {
        self.validate_with(handler, HookOptions::default())
    }

    /// Adds a validator of a kind.
    #[must_use]
    pub fn validate_with<K: Kind, H: Validate<K>>(self, handler: H, options: HookOptions) -> Self {
        self.admission::<K>(false, Arc::new(Validating(handler, PhantomData::<fn() -> K>)), options)
    }

    /// Adds a mutator of a kind, asked for each create and update. Mutators are asked in the order of their addition.
    #[must_use]
    pub fn mutate<K: Kind, H: Mutate<K>>(self, handler: H) -> Self {
        self.mutate_with(handler, HookOptions::default())
    }

    /// Adds a mutator of a kind.
    #[must_use]
    pub fn mutate_with<K: Kind, H: Mutate<K>>(self, handler: H, options: HookOptions) -> Self {
        self.admission::<K>(true, Arc::new(Mutating(handler, PhantomData::<fn() -> K>)), options)
    }

    /// Adds the conversion of a kind, at `/convert-GROUP-KIND`.
    #[must_use]
    pub fn convert<H: Kind>(mut self, conversion: Conversion<H>) -> Self {
        let versions = conversion.versions;
        let resource = versions.resource();
        let path = format!("/convert-{}-{}", dashed(&resource.group), resource.kind.to_lowercase());
        self.conversions.push(Converted { definition: versions.definition(), path: path.clone() });
        self.route(path, Route::Conversion(versions));
        self
    }

    /// Answers a path with a function of the author's own. No configuration leads there.
    #[must_use]
    pub fn path<F, R>(mut self, path: &str, answer: F) -> Self
    where
        F: Fn(Request<Bytes>) -> R + Send + Sync + 'static,
        R: Future<Output = Response<Bytes>> + Send + 'static,
    {
        let answer: CustomPath = Arc::new(move |request| Box::pin(answer(request)));
        self.route(path.to_owned(), Route::Custom(answer));
        self
    }

    fn admission<K: Kind>(
        mut self,
        mutating: bool,
        handler: Arc<dyn Admission>,
        options: HookOptions,
    ) -> Self {
        let resource = K::api_resource();
        let kind = resource.kind.to_lowercase();
        let (verb, letter) = if mutating { ("mutate", 'm') } else { ("validate", 'v') };
        let path = options
            .path
            .clone()
            .unwrap_or_else(|| format!("/{verb}-{}-{}-{kind}", dashed(&resource.group), resource.version));
        let name = options
            .name
            .clone()
            .unwrap_or_else(|| format!("{letter}{kind}.{}.{}", resource.version, core_or(&resource.group)));
        if self.hooks.iter().any(|hook| hook.name == name && hook.mutating == mutating) {
            self.mistakes
                .push(format!("two webhooks are called {name:?}: set the name of one in its options"));
        }
        if let Some(mistake) = options.mistake() {
            self.mistakes.push(format!("webhook {name:?}: {mistake}"));
        }
        self.route(path.clone(), Route::Admission(handler, options.timeout));
        self.hooks.push(Hook { mutating, namespaced: K::namespaced(), resource, name, path, options });
        self
    }

    fn route(&mut self, path: String, route: Route) {
        if !path.starts_with('/') {
            self.mistakes.push(format!("the path {path:?} does not begin with /"));
        }
        if self.routes.contains_key(&path) {
            self.mistakes
                .push(format!("two webhooks have the path {path:?}: set the path of one in its options"));
        }
        self.routes.insert(path, route);
    }
}

/// A group in a path, as kubebuilder writes it.
fn dashed(group: &str) -> String {
    group.replace('.', "-")
}

fn core_or(group: &str) -> &str {
    if group.is_empty() { "core" } else { group }
}

#[cfg(test)]
mod tests;
