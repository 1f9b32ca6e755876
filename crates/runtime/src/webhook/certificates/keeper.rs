//! Keeps the Secret, serves its certificate, and writes its authorities. Replicas agree by optimistic concurrency: no
//! leader is needed, and each replica can take each step.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};
use setpoint_api::{Clock, Random};

use super::Tls;
use super::bundle::{Held, Holder};
use super::pair::{Pair, PairError, server_config};
use super::state::State;
use crate::client::{Client, Kind};
use crate::error::{ClientError, Error};
use crate::key::Key;
use crate::webhook::own::OwnObject;

/// How often a lost race for the Secret is repeated before the next look.
const RACES: usize = 8;
/// The time between two tries at the start; doubled up to the second.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(15));

/// The needs of a keeper.
pub(in crate::webhook) struct KeeperOptions {
    pub(in crate::webhook) client: Client,
    pub(in crate::webhook) clock: Clock,
    pub(in crate::webhook) random: Random,
    /// The Secret.
    pub(in crate::webhook) secret: Key,
    /// The names for which the certificate is valid.
    pub(in crate::webhook) names: Vec<String>,
    pub(in crate::webhook) holders: Vec<Holder>,
    pub(in crate::webhook) own: Vec<OwnObject>,
    pub(in crate::webhook) validity: Duration,
    pub(in crate::webhook) check_every: Duration,
    pub(in crate::webhook) settle: Duration,
    pub(in crate::webhook) client_authority: Option<String>,
    /// How long the start may take.
    pub(in crate::webhook) patience: Duration,
}

/// The keeper of one replica.
pub(in crate::webhook) struct Keeper {
    options: KeeperOptions,
    tls: Tls,
    /// The certificates as they were seen last.
    state: Option<State>,
    /// The authorities that every holder holds, and since when.
    published: Option<(String, Timestamp)>,
}

/// The outcome of one try to write the Secret.
enum Written {
    Yes,
    /// Another replica was first.
    Raced,
}

impl Keeper {
    pub(super) fn new(options: KeeperOptions, tls: Tls) -> Self {
        Keeper { options, tls, state: None, published: None }
    }

    /// Reads the Secret, or makes it, and serves its certificate.
    pub(super) async fn obtain(&mut self) -> Result<(), Error> {
        let deadline = tokio::time::Instant::now() + self.options.patience;
        let mut pause = RETRY.0;
        loop {
            // First: a configuration that matches the Secret may refuse that it is written.
            let looked = match self.check_own().await {
                Ok(()) => self.advance().await,
                refused => refused,
            };
            let Err(error) = looked else { return Ok(()) };
            self.retry("the Secret with the webhook certificates", error, deadline, &mut pause).await?;
        }
    }

    /// Writes the authorities of the certificate.
    pub(super) async fn publish(&mut self) -> Result<(), Error> {
        let deadline = tokio::time::Instant::now() + self.options.patience;
        let mut pause = RETRY.0;
        loop {
            let Err(error) = self.spread().await else { return Ok(()) };
            self.retry("the caBundle of the webhooks", error, deadline, &mut pause).await?;
        }
    }

    /// Looks again and again, and takes the steps of a rotation when they are due.
    pub(super) async fn keep(&mut self) -> Result<(), Error> {
        loop {
            let jitter = 0.9 + 0.2 * self.options.random.unit();
            tokio::time::sleep(self.options.check_every.mul_f64(jitter)).await;
            if let Err(error) = self.look().await {
                if error.is_terminal() {
                    return Err(error);
                }
                tracing::warn!(%error, "could not keep the webhook certificates; retrying");
            }
        }
    }

    async fn look(&mut self) -> Result<(), Error> {
        // Another replica that had not seen the newest Secret may have taken an authority away again. A rotation goes on
        // only if the authorities are everywhere at this moment.
        let spread = self.spread().await;
        self.advance().await?;
        spread?;
        if self.state.as_ref().map(State::bundle).as_ref()
            == self.published.as_ref().map(|(bundle, _)| bundle)
        {
            return Ok(());
        }
        self.spread().await
    }

    async fn check_own(&self) -> Result<(), Error> {
        for holder in &self.options.holders {
            holder.check(&self.options.client, &self.options.own).await?;
        }
        Ok(())
    }

    async fn retry(
        &self,
        what: &str,
        error: Error,
        deadline: tokio::time::Instant,
        pause: &mut Duration,
    ) -> Result<(), Error> {
        if error.is_terminal() || tokio::time::Instant::now() + *pause > deadline {
            return Err(Error::msg(format!("{what}: {error}")));
        }
        tracing::warn!(what, %error, "could not prepare the webhooks; retrying");
        tokio::time::sleep(*pause).await;
        *pause = (*pause * 2).min(RETRY.1);
        Ok(())
    }

    /// Reads the Secret and takes the steps that are due.
    async fn advance(&mut self) -> Result<(), Error> {
        for _ in 0..RACES {
            let secret =
                self.options.client.live().get_value(&Secret::api_resource(), &self.options.secret).await?;
            let now = self.options.clock.now();
            let found = secret.as_ref().and_then(State::read);
            let Some(state) = found else {
                // A Secret that somebody removed or emptied comes back with what is served.
                let state = match &self.state {
                    Some(state) => state.clone(),
                    None => State::new(self.make(now)?),
                };
                if let Written::Yes = self.write(secret, &state).await? {
                    self.serve(state)?;
                    return Ok(());
                }
                continue;
            };
            self.serve(state.clone())?;
            let Some(step) = state.due(now, self.is_settled(&state, now)) else { return Ok(()) };
            let next = state.after(step, now, || self.make(now))?;
            if let Written::Yes = self.write(secret, &next).await? {
                // Read again: one step may make the next one due.
                tracing::info!(secret = %self.options.secret, ?step, "rotated the webhook certificates");
            }
        }
        Err(Error::msg(format!("lost {RACES} races for the Secret {}", self.options.secret)))
    }

    /// Whether every API server has had time to learn of all authorities.
    fn is_settled(&self, state: &State, now: Timestamp) -> bool {
        let settle = SignedDuration::try_from(self.options.settle).unwrap_or(SignedDuration::MAX);
        let published = self.published.as_ref().filter(|(bundle, _)| *bundle == state.bundle());
        published.is_some_and(|(_, since)| now.duration_since(*since) >= settle)
    }

    fn make(&self, now: Timestamp) -> Result<Pair, PairError> {
        Pair::make(self.options.names.clone(), now, self.options.validity)
    }

    /// Serves a state's certificate from now on.
    fn serve(&mut self, state: State) -> Result<(), Error> {
        if self.state.as_ref().is_none_or(|served| served.current != state.current) {
            let authority = self.options.client_authority.as_deref();
            let config = server_config(&state.current.certificate, &state.current.key, authority)?;
            self.tls.send_replace(Some(config));
            let until = state.current.valid.until;
            tracing::info!(secret = %self.options.secret, %until, "serving a webhook certificate");
        }
        self.state = Some(state);
        Ok(())
    }

    async fn write(&self, secret: Option<Value>, state: &State) -> Result<Written, ClientError> {
        let resource = Secret::api_resource();
        let api = self.options.client.dynamic(&resource);
        let (namespace, name) = (self.options.secret.namespace(), self.options.secret.name());
        let written = match secret {
            Some(mut secret) => {
                secret["data"] = state.data();
                api.update(&secret).await
            }
            None => {
                let metadata = json!({"name": name, "namespace": namespace});
                let secret = json!({
                    "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": metadata,
                    "data": state.data(),
                });
                api.create(&secret).await
            }
        };
        match written {
            Ok(_) => Ok(Written::Yes),
            // Somebody removed it in between, or was first.
            Err(error) if error.is_conflict() || error.is_already_exists() || error.is_not_found() => {
                Ok(Written::Raced)
            }
            Err(error) => Err(error),
        }
    }

    /// Writes the authorities into every holder.
    async fn spread(&mut self) -> Result<(), Error> {
        let Some(state) = &self.state else { return Ok(()) };
        let bundle = state.bundle();
        let mut failure = None;
        let (mut everywhere, mut changed) = (true, false);
        for holder in &self.options.holders {
            match holder.publish(&self.options.client, &bundle, &self.options.own).await {
                Ok(held) => {
                    everywhere &= held != Held::NotInstalled;
                    changed |= held == Held::Written;
                }
                Err(error) if error.is_terminal() => return Err(error),
                // One that fails keeps the others from nothing.
                Err(error) => failure = Some(error),
            }
        }
        if !everywhere || failure.is_some() {
            self.published = None;
        } else if changed || self.published.as_ref().is_none_or(|(published, _)| *published != bundle) {
            self.published = Some((bundle, self.options.clock.now()));
        }
        failure.map_or(Ok(()), Err)
    }
}
