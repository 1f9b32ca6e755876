//! Conversion webhooks: custom resources whose versions a webhook converts.
//!
//! Reads convert the stored objects before they answer ([`views`]). A write decides in a transaction, which cannot
//! wait. If a write needs a conversion that is not known yet, the decision stops ([`Stop::NeedsConversion`]). The
//! server then calls the webhook outside of the transaction ([`Conversions::fetch`]) and decides the write again.

mod review;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::Value;
use setpoint_machinery::apply::{ConversionError, Versions};
use setpoint_schema::Schema;
use setpoint_store::{Entry, Event};

use crate::context::RequestContext;
use crate::decision::{Decision, Stop};
use crate::error::{ApiError, Result, Unreadable};
use crate::object;
use crate::registry::{self, Custom, Resource, kept_view};
use crate::server::Server;
use crate::webhook::Patience;
use crate::webhook::answer::room;
use review::Question;

/// The time limit of one conversion, and the error of kube-apiserver's client after it.
const PATIENCE: Patience = Patience {
    time: Duration::from_secs(30),
    exceeded: "context deadline exceeded (Client.Timeout exceeded while awaiting headers)",
};

/// The number of times that a write decides again because others changed the object that it had converted. Then the
/// write fails.
const MAX_ROUNDS: usize = 32;

/// The conversions of one write so far.
pub(crate) struct Conversions {
    custom: Arc<Custom>,
    /// The version of the request.
    version: String,
    memo: Mutex<Memo>,
}

#[derive(Default)]
struct Memo {
    known: HashMap<ConversionKey, Result<Value, ConversionError>>,
    wanted: Vec<Wanted>,
    rounds: usize,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct ConversionKey {
    object: String,
    to: String,
}

struct Wanted {
    key: ConversionKey,
    object: Value,
}

impl Conversions {
    /// Begins the conversions of a write, or returns `None` if no webhook converts the kind.
    pub(crate) fn begin(resource: &Resource) -> Option<Self> {
        let custom = converted_by_webhook(resource)?.clone();
        Some(Conversions { custom, version: resource.version.clone(), memo: Mutex::default() })
    }

    fn memo(&self) -> MutexGuard<'_, Memo> {
        self.memo.lock().expect("no holder of this lock panics")
    }

    /// The object at another version, or the error of its conversion. `None` if neither is known yet: the conversion
    /// is then noted for [`Conversions::fetch`].
    fn converted(&self, object: &Value, to: &str) -> Option<Result<Value, ConversionError>> {
        let key = ConversionKey { object: object.to_string(), to: to.to_owned() };
        let mut memo = self.memo();
        if let Some(known) = memo.known.get(&key) {
            return Some(known.clone());
        }
        memo.wanted.push(Wanted { key, object: object.clone() });
        None
    }

    /// Whether a decision missed a conversion. The decision is then void.
    pub(crate) fn is_missing(&self) -> bool {
        !self.memo().wanted.is_empty()
    }

    /// Converts the objects that a decision missed.
    ///
    /// # Errors
    /// Others changed the converted objects again and again.
    pub(crate) async fn fetch(&self, ctx: &RequestContext) -> Result<()> {
        let (mut wanted, rounds) = {
            let mut memo = self.memo();
            memo.rounds += 1;
            (std::mem::take(&mut memo.wanted), memo.rounds)
        };
        if rounds > MAX_ROUNDS {
            return Err(ApiError::modified(&ctx.resource, &ctx.info.name));
        }
        while let Some(first) = wanted.first() {
            let to = first.key.to.clone();
            let (now, later): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|one| one.key.to == to);
            wanted = later;
            let objects: Vec<&Value> = now.iter().map(|one| &one.object).collect();
            let converted = convert(&ctx.server, &self.custom, &to, &objects).await;
            for (one, converted) in now.into_iter().zip(converted) {
                self.memo().known.insert(one.key, converted);
            }
        }
        Ok(())
    }
}

/// The definition of a kind whose versions a webhook converts.
pub(crate) fn converted_by_webhook(resource: &Resource) -> Option<&Arc<Custom>> {
    resource.custom.as_ref().filter(|custom| custom.conversion().is_some())
}

/// A stored object at the version of the request, inside a decision.
pub(crate) fn live(conversions: Option<&Conversions>, entry: &Arc<Entry>) -> Decision<Value> {
    let Some(conversions) = conversions else { return Ok(registry::value(entry)) };
    let custom = &conversions.custom;
    let mut value = custom.decoded(registry::value(entry));
    let to = custom.api_version(&conversions.version);
    if value["apiVersion"] != to {
        let converted = conversions.converted(&value, &to).ok_or(Stop::NeedsConversion)?;
        value =
            converted.map_err(|why| ApiError::corrupt_object(&Unreadable { entry: entry.clone(), why }))?;
        custom.prune(&conversions.version, &mut value);
    }
    Ok(value)
}

/// An object of the request's version at the storage version, inside a decision.
pub(crate) fn stored<'v>(conversions: Option<&Conversions>, object: &'v Value) -> Decision<Cow<'v, Value>> {
    let Some(conversions) = conversions else { return Ok(Cow::Borrowed(object)) };
    let to = conversions.custom.storage_api_version();
    if object["apiVersion"] == to {
        return Ok(Cow::Borrowed(object));
    }
    // The decision already lacks a conversion and will be repeated: its result is not worth a call.
    if conversions.is_missing() {
        return Err(Stop::NeedsConversion);
    }
    let converted = conversions.converted(object, &to).ok_or(Stop::NeedsConversion)?;
    let converted = converted.map_err(ApiError::from)?;
    Ok(Cow::Owned(conversions.custom.pruned_for_storage(converted)))
}

/// Whether a decision leaves a stored object unchanged. `None` if no webhook converts the kind.
pub(crate) fn is_stored_already(
    conversions: Option<&Conversions>,
    entry: &Entry,
    stored: &Value,
) -> Option<bool> {
    conversions?;
    Some(setpoint_machinery::apply::only_timestamps_differ(&registry::value(entry), stored))
}

/// Converts the object to the versions in which its field managers wrote.
impl Versions for Conversions {
    fn convert(&self, object: &Value, api_version: &str) -> Option<(Value, Schema)> {
        self.try_convert(object, api_version).ok().flatten()
    }

    fn try_convert(
        &self,
        object: &Value,
        api_version: &str,
    ) -> Result<Option<(Value, Schema)>, ConversionError> {
        let Some(schema) = self.custom.schema_of(api_version) else { return Ok(None) };
        if object["apiVersion"] == api_version {
            return Ok(Some((object.clone(), schema)));
        }
        let converted = self.converted(object, api_version).transpose()?;
        Ok(converted.map(|converted| (converted, schema)))
    }
}

/// Calls the webhook to convert objects to another version. Returns each object, or the error of its conversion.
pub(crate) async fn convert(
    server: &Server,
    custom: &Custom,
    to: &str,
    objects: &[&Value],
) -> Vec<Result<Value, ConversionError>> {
    let all = |why: ConversionError| objects.iter().map(|_| Err(why.clone())).collect();
    let (Some(conversion), Some(first)) = (custom.conversion(), objects.first()) else {
        return all(ConversionError("the definition names no webhook".to_owned()));
    };
    let unknown =
        |object: &&&Value| !object["apiVersion"].as_str().is_some_and(|own| custom.has_version(own));
    if let Some(object) = objects.iter().find(unknown) {
        let version = object["apiVersion"].as_str().unwrap_or("");
        return all(ConversionError(format!(
            "request to convert CR from an invalid group/version: {version}"
        )));
    }
    let uid = server.options().random.uid();
    let question = match Question::new(&conversion.review_versions, uid, to, first) {
        Ok(question) => question,
        Err(why) => return all(why),
    };
    match conversion.webhook.call(server, &question.body(objects), PATIENCE, &room()).await {
        Err(why) => all(question.failed(&why.to_string())),
        Ok(answer) => question.read(answer, objects).unwrap_or_else(all),
    }
}

/// The error for a list of converted objects that is empty.
pub(crate) fn nothing() -> ConversionError {
    ConversionError("nothing was converted".to_owned())
}

/// One object at another version, outside a decision.
pub(crate) async fn at(ctx: &RequestContext, object: &Value, to: &str) -> Result<Value, ConversionError> {
    let Some(custom) = converted_by_webhook(&ctx.resource) else { return Ok(object.clone()) };
    let converted = convert(&ctx.server, custom, to, &[object]).await.pop();
    converted.unwrap_or_else(|| Err(nothing()))
}

/// One stored object at the version of the request.
pub(crate) async fn view(ctx: &RequestContext, entry: Arc<Entry>) -> Result<Arc<Entry>> {
    if converted_by_webhook(&ctx.resource).is_none() {
        return Ok(entry);
    }
    let viewed = converted_entries(ctx, std::slice::from_ref(&entry), false).await;
    let viewed = viewed.map_err(|failed| {
        failed.first().map_or_else(|| ApiError::internal("nothing was converted"), ApiError::corrupt_object)
    });
    Ok(viewed?.pop().unwrap_or(entry))
}

/// Stored objects at the version of the request. The store's entry keeps the converted object for the next reader.
pub(crate) async fn views(
    ctx: &RequestContext,
    entries: Vec<Arc<Entry>>,
) -> Result<Vec<Arc<Entry>>, Vec<Unreadable>> {
    if converted_by_webhook(&ctx.resource).is_none() {
        return Ok(entries);
    }
    converted_entries(ctx, &entries, true).await
}

/// Watch events with their objects at the version of the request.
pub(crate) async fn events(
    ctx: &RequestContext,
    events: &[Arc<Event>],
) -> Result<Vec<Arc<Event>>, Vec<Unreadable>> {
    let both = events.iter().flat_map(|event| event.old.iter().chain(&event.new)).cloned();
    let mut seen = views(ctx, both.collect()).await?.into_iter();
    let mut next = |was: &Option<Arc<Entry>>| was.as_ref().and_then(|_| seen.next());
    let changed = events.iter().map(|event| {
        let old = next(&event.old);
        Arc::new(event.with_entries(old, next(&event.new)))
    });
    Ok(changed.collect())
}

async fn converted_entries(
    ctx: &RequestContext,
    entries: &[Arc<Entry>],
    keep: bool,
) -> Result<Vec<Arc<Entry>>, Vec<Unreadable>> {
    let Some(custom) = converted_by_webhook(&ctx.resource) else { return Ok(entries.to_vec()) };
    let (version, to) = (&ctx.resource.version, ctx.resource.api_version());
    let slot = |entry: &Entry| kept_view(entry, custom.generation(), version);
    let mut views: Vec<Option<Arc<Entry>>> =
        entries.iter().map(|entry| keep.then(|| slot(entry)).flatten()).collect();
    let mut asked: Vec<(usize, Value)> = Vec::new();
    for (at, entry) in entries.iter().enumerate().filter(|(at, _)| views[*at].is_none()).collect::<Vec<_>>() {
        let value = custom.decoded(registry::value(entry));
        if value["apiVersion"] == to {
            views[at] = Some(Arc::new(entry.with_value(encoded(&value))));
        } else {
            asked.push((at, value));
        }
    }
    let objects: Vec<&Value> = asked.iter().map(|(_, value)| value).collect();
    let converted =
        if objects.is_empty() { Vec::new() } else { convert(&ctx.server, custom, &to, &objects).await };
    let mut failed = Vec::new();
    for ((at, _), converted) in asked.iter().zip(converted) {
        let entry = &entries[*at];
        match converted {
            Err(why) => failed.push(Unreadable { entry: entry.clone(), why }),
            Ok(mut value) => {
                custom.prune(version, &mut value);
                let view = Arc::new(entry.with_value(encoded(&value)));
                registry::keep_view(entry, custom.generation(), version, view.clone());
                views[*at] = Some(view);
            }
        }
    }
    if failed.is_empty() { Ok(views.into_iter().flatten().collect()) } else { Err(failed) }
}

/// The object that a dry run would have stored, read back at the version of the request, as after a real write.
pub(crate) async fn read_back(ctx: &RequestContext, value: Value) -> Result<Value> {
    let Some(custom) = converted_by_webhook(&ctx.resource) else { return Ok(value) };
    let (to, back) = (custom.storage_api_version(), ctx.resource.api_version());
    if to == back {
        return Ok(value);
    }
    let one = |mut converted: Vec<Result<Value, ConversionError>>| {
        converted.pop().unwrap_or_else(|| Err(nothing())).map_err(ApiError::from)
    };
    let stored = one(convert(&ctx.server, custom, &to, &[&value]).await)?;
    let stored = custom.pruned_for_storage(stored);
    let mut value = one(convert(&ctx.server, custom, &back, &[&stored]).await)?;
    custom.prune(&ctx.resource.version, &mut value);
    Ok(value)
}

fn encoded(value: &Value) -> bytes::Bytes {
    let mut bytes = object::ordered(value);
    bytes.push(b'\n');
    bytes.into()
}
