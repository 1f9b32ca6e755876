//! Webhooks of a test, which the API server calls as functions: no socket, no certificate.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use setpoint_apiserver::{Answering, LocalWebhooks};

type Answer = Arc<dyn Fn(Request<Bytes>) -> Answering + Send + Sync>;

/// The webhooks inside the process, by the Service that configurations name. Clones are one set, which a fork of a
/// cluster shares.
#[derive(Clone, Default)]
pub struct InProcessWebhooks(Arc<Mutex<BTreeMap<(String, String), Answer>>>);

impl fmt::Debug for InProcessWebhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let services = self.0.lock().expect("no holder of this lock panics");
        f.debug_list().entries(services.keys()).finish()
    }
}

impl InProcessWebhooks {
    /// Answers the calls of webhooks behind a Service, which need not exist. `setpoint::webhook::Webhooks::call` answers
    /// as an operator does.
    ///
    /// ```
    /// # use bytes::Bytes;
    /// # use http::{Request, Response};
    /// # use setpoint_cluster::Options;
    /// let options = Options::default();
    /// options.webhooks.answer("cafe-system", "cafe-webhooks", |request: Request<Bytes>| async move {
    ///     assert_eq!(request.uri().path(), "/validate-example-org-v1-cafe");
    ///     Response::new(Bytes::from_static(b"{}"))
    /// });
    /// ```
    pub fn answer<F, R>(&self, namespace: &str, service: &str, answer: F)
    where
        F: Fn(Request<Bytes>) -> R + Send + Sync + 'static,
        R: Future<Output = Response<Bytes>> + Send + 'static,
    {
        let answer: Answer = Arc::new(move |request| Box::pin(answer(request)));
        let key = (namespace.to_owned(), service.to_owned());
        self.0.lock().expect("no holder of this lock panics").insert(key, answer);
    }
}

impl LocalWebhooks for InProcessWebhooks {
    fn call(&self, namespace: &str, service: &str, request: Request<Bytes>) -> Option<Answering> {
        let key = (namespace.to_owned(), service.to_owned());
        let answer = self.0.lock().expect("no holder of this lock panics").get(&key)?.clone();
        // Outside the lock: an author's code runs here.
        Some(answer(request))
    }
}
