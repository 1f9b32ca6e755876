//! `GET` of a collection: selectors, versions, pages.

use std::sync::Arc;

use base64::alphabet::URL_SAFE;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use base64::{DecodeError, Engine};
use http::Response;
use serde::{Deserialize, Serialize};
use setpoint_api::cause::{Cause, Path};
use setpoint_schema::Schema;
use setpoint_store::{Entry, ReadError, Snapshot};

use crate::body::Body;
use crate::context::RequestContext;
use crate::error::{ApiError, Result};
use crate::representation::{self, Listed};
use crate::request::Query;
use crate::selection::{Selection, parse_version, scope};
use crate::versions::conversion;

/// Refuses list options that contradict each other.
fn check_options(query: &Query) -> Result<()> {
    let path = Path::new("resourceVersionMatch");
    let mut causes = Vec::new();
    if let Some(matching) = query.get("resourceVersionMatch") {
        if query.get("resourceVersion").is_none() {
            causes.push(Cause::forbidden(
                &path,
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            ));
        }
        if query.get("continue").is_some() {
            let text = "resourceVersionMatch is forbidden when continue is provided";
            causes.push(Cause::forbidden(&path, text));
        }
        if matching != "Exact" && matching != "NotOlderThan" {
            causes.push(Cause::not_supported(&path, matching, &["Exact", "NotOlderThan", ""]));
        }
        if matching == "Exact" && query.get("resourceVersion") == Some("0") {
            let text = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            causes.push(Cause::forbidden(&path, text));
        }
    }
    if query.has("sendInitialEvents") {
        let path = Path::new("sendInitialEvents");
        causes.push(Cause::forbidden(&path, "sendInitialEvents is forbidden for list"));
    }
    if causes.is_empty() { Ok(()) } else { Err(ApiError::invalid_options("ListOptions", causes)) }
}

/// The position at which the next page begins. A version of -1 continues on the newest state.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Continue {
    v: String,
    rv: i64,
    start: String,
}

/// Base64 as Go reads it: bits after the last byte do not count.
const LENIENT: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));

const CONTINUE_VERSION: &str = "meta.k8s.io/v1";

impl Continue {
    fn encode(rv: i64, start: &[u8]) -> String {
        let start = String::from_utf8_lossy(start).into_owned();
        let token = Continue { v: CONTINUE_VERSION.to_owned(), rv, start };
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).expect("text and a number"))
    }

    fn decode(text: &str) -> Result<Self> {
        let refused = |why: &str| ApiError::bad_request(format!("invalid continue token: {why}"));
        let bytes = LENIENT.decode(text.trim_end_matches('=')).map_err(|error| {
            let at = match error {
                DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => at,
                DecodeError::InvalidLength(length) => length,
                DecodeError::InvalidPadding => text.len(),
            };
            refused(&format!("continue key is not valid: illegal base64 data at input byte {at}"))
        })?;
        let read = setpoint_schema::read_json(&bytes, &Schema::any());
        let read = read.map_err(|error| refused(&format!("continue key is not valid: {error}")))?;
        let token: Continue =
            serde_json::from_value(read.value).map_err(|_| refused("continue key is not valid"))?;
        match token {
            Continue { v, .. } if v != CONTINUE_VERSION => Err(refused(&format!(
                "continue key is not valid: server does not recognize this encoded version {v}"
            ))),
            Continue { rv: 0, .. } => Err(refused(
                "continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
            )),
            Continue { ref start, .. } if start.is_empty() => {
                Err(refused("continue key is not valid: encoded start key empty (version meta.k8s.io/v1)"))
            }
            Continue { ref start, .. } if leaves_its_place(start) => {
                Err(refused(&format!("continue key is not valid: {start}")))
            }
            token => Ok(token),
        }
    }
}

/// Whether a start key is another path than it seems: Go cleans the path and compares.
fn leaves_its_place(start: &str) -> bool {
    let path = start.strip_prefix('/').unwrap_or(start);
    start != "/" && path.split('/').any(|step| matches!(step, "" | "." | ".."))
}

/// The state that a list shows, and the position in the collection at which it begins.
struct Place {
    snapshot: Snapshot,
    /// The key after which the page begins, relative to the resource.
    after: Option<Vec<u8>>,
}

async fn place(ctx: &RequestContext) -> Result<Place> {
    let store = ctx.server.store();
    let query = &ctx.info.query;
    if let Some(text) = query.get("continue") {
        return continued(ctx, text);
    }
    let limited = query.number("limit")?.unwrap_or(0) > 0;
    let version = query.get("resourceVersion").map(parse_version).transpose();
    let version = version
        .map_err(|error| ApiError::bad_request(format!("invalid resource version: {error}")))?
        .unwrap_or(0);
    let exact = match query.get("resourceVersionMatch") {
        Some(matching) => matching == "Exact",
        // Clients before `resourceVersionMatch` get pages at the exact version.
        None => limited && version > 0,
    };
    if exact {
        ctx.server.wait_for(version).await?;
        let snapshot = store.snapshot_at(version).map_err(|error| ApiError::unreadable(&error, version))?;
        return Ok(Place { snapshot, after: None });
    }
    ctx.server.wait_for(version).await?;
    Ok(Place { snapshot: store.snapshot(), after: None })
}

fn continued(ctx: &RequestContext, text: &str) -> Result<Place> {
    if ctx.info.query.get("resourceVersion").is_some_and(|version| version != "0") {
        return Err(ApiError::bad_request("specifying resource version is not allowed when using continue"));
    }
    let store = ctx.server.store();
    let token = Continue::decode(text)?;
    let mut after = ctx.resource.prefix.clone();
    after.extend_from_slice(token.start.as_bytes());
    let snapshot = match u64::try_from(token.rv) {
        Err(_) => store.snapshot(),
        Ok(version) => store.snapshot_at(version).map_err(|error| match error {
            ReadError::Compacted { .. } => {
                ApiError::expired_continue(Continue::encode(-1, token.start.as_bytes()))
            }
            other => ApiError::unreadable(&other, version),
        })?,
    };
    Ok(Place { snapshot, after: Some(after) })
}

/// Answers a list.
pub(crate) async fn list(ctx: &RequestContext) -> Result<Response<Body>> {
    // A list does not use the value, but it refuses one that is no number.
    ctx.info.query.number("timeoutSeconds")?;
    check_options(&ctx.info.query)?;
    let selection = Selection::parse(&ctx.resource, &ctx.info)?;
    let limit = ctx.info.query.number("limit")?.unwrap_or(0);
    let limit = usize::try_from(limit).unwrap_or(0);
    let place = place(ctx).await?;
    let revision = place.snapshot.revision();
    let range = scope(&ctx.resource, &ctx.info, &selection);
    let walk = place.snapshot.range(&range, place.after.as_deref());
    let listed = if conversion::converted_by_webhook(&ctx.resource).is_some() {
        let viewed = viewed(ctx, walk.cloned().collect(), &selection, limit).await?;
        page(ctx, revision, viewed.iter(), &selection, limit)?
    } else {
        page(ctx, revision, walk, &selection, limit)?
    };
    representation::list(ctx, listed).await
}

/// Converts entries, because selectors apply to the version of the request. Without a selector, objects after the
/// page are only counted.
async fn viewed(
    ctx: &RequestContext,
    mut entries: Vec<Arc<Entry>>,
    selection: &Selection,
    limit: usize,
) -> Result<Vec<Arc<Entry>>> {
    let shown = if limit > 0 && selection.is_everything() { limit.min(entries.len()) } else { entries.len() };
    let rest = entries.split_off(shown);
    let viewed = conversion::views(ctx, entries).await;
    let mut viewed =
        viewed.map_err(|failed| ApiError::unreadable_list(&ctx.resource.group_resource(), &failed))?;
    viewed.extend(rest);
    Ok(viewed)
}

fn page<'e>(
    ctx: &RequestContext,
    revision: u64,
    mut walk: impl Iterator<Item = &'e Arc<Entry>>,
    selection: &Selection,
    limit: usize,
) -> Result<Listed> {
    let resource = &ctx.resource;
    let mut entries: Vec<Arc<Entry>> = Vec::new();
    let mut more = false;
    for entry in walk.by_ref() {
        ctx.work.check_interrupt()?;
        if !selection.matches(resource, entry) {
            continue;
        }
        if limit > 0 && entries.len() == limit {
            more = true;
            break;
        }
        entries.push(entry.clone());
    }
    let mut listed = Listed { revision, entries, next: String::new(), remaining: None };
    if more {
        let last = listed.entries.last().expect("a full page has a last entry");
        let mut start = last.key[resource.prefix.len()..].to_vec();
        start.push(0);
        let version = i64::try_from(listed.revision).unwrap_or(i64::MAX);
        listed.next = Continue::encode(version, &start);
        if selection.is_everything() {
            listed.remaining = Some(1 + walk.count());
        }
    }
    Ok(listed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continue_tokens_are_kubernetes_own() {
        let token = Continue::encode(7, b"ns/name\0");
        let decoded = Continue::decode(&token).unwrap();
        assert_eq!((decoded.rv, decoded.start.as_str()), (7, "ns/name\0"));
        assert_eq!(Continue::decode(&Continue::encode(7, b"ns/a.b")).unwrap().start, "ns/a.b");
    }

    /// As kube-apiserver 1.37 said it.
    #[test]
    fn a_bad_continue_token_is_refused_in_the_words_of_go() {
        let said = |text: &str| Continue::decode(text).unwrap_err().status().message.clone();
        let of = |token: &str| said(&URL_SAFE_NO_PAD.encode(token));
        let invalid = "invalid continue token: continue key is not valid: ";
        for (said, why) in [
            (said("*"), "illegal base64 data at input byte 0"),
            (said("bad"), "invalid character 'm' looking for beginning of value"),
            (of(r#"{"v":"meta.k8s.io/v1","rv":1}"#), "encoded start key empty (version meta.k8s.io/v1)"),
            (of(r#"{"v":"x","rv":1,"start":"a"}"#), "server does not recognize this encoded version x"),
            (
                of(r#"{"v":"meta.k8s.io/v1","rv":0,"start":"a"}"#),
                "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
            ),
            (of(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"../a"}"#), "../a"),
            (of(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"a//b"}"#), "a//b"),
        ] {
            assert_eq!(said, format!("{invalid}{why}"));
        }
    }

    #[test]
    fn options_that_contradict_each_other_are_refused() {
        let code = |text: &str| check_options(&Query::parse(text)).map_err(|e| e.code().as_u16());
        assert_eq!(code("resourceVersion=5&resourceVersionMatch=Exact"), Ok(()));
        for wrong in [
            "resourceVersionMatch=Exact",
            "resourceVersion=0&resourceVersionMatch=Exact",
            "resourceVersion=1&resourceVersionMatch=Other",
            "resourceVersion=1&resourceVersionMatch=Exact&continue=x",
            "sendInitialEvents=true",
        ] {
            assert_eq!(code(wrong), Err(422), "{wrong}");
        }
    }
}
