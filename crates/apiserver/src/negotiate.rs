//! Content negotiation: the encoding of a body and the form of an answer.

use std::borrow::Cow;

use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};

use crate::error::{ApiError, Result};
use crate::header::first;
use crate::request::Query;

/// The encoding of an object on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// `application/json`.
    Json,
    /// `application/yaml`.
    Yaml,
    /// `application/vnd.kubernetes.protobuf`.
    Protobuf,
}

/// The representation of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Representation {
    /// The object itself.
    Whole,
    /// `meta.k8s.io` Table; the version is `v1` or `v1beta1`.
    Table(&'static str),
    /// PartialObjectMetadata.
    Metadata(&'static str),
    /// PartialObjectMetadataList.
    MetadataList(&'static str),
}

/// The result of content negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// The encoding.
    pub format: Format,
    /// The representation: the object itself, a table, or metadata only.
    pub representation: Representation,
    /// Whether JSON is indented for people.
    pub pretty: bool,
}

pub(crate) const JSON: &str = "application/json";
pub(crate) const YAML: &str = "application/yaml";
pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

impl Format {
    /// The media type without parameters.
    pub fn media_type(self) -> &'static str {
        match self {
            Format::Json => JSON,
            Format::Yaml => YAML,
            Format::Protobuf => PROTOBUF,
        }
    }
}

/// One clause of an Accept header, or a Content-Type.
#[derive(Debug)]
pub(crate) struct MediaType<'a> {
    pub(crate) kind: &'a str,
    pub(crate) subtype: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    quality: f32,
}

impl<'a> MediaType<'a> {
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let (kind, subtype) = parts.next()?.split_once('/')?;
        let mut media = MediaType { kind, subtype, parameters: Vec::new(), quality: 1.0 };
        for (key, value) in parts.filter_map(|part| part.split_once('=')) {
            if key == "q" {
                media.quality = value.parse().unwrap_or(1.0);
            } else {
                media.parameters.push((key, value.trim_matches('"')));
            }
        }
        Some(media)
    }

    pub(crate) fn parameter(&self, key: &str) -> Option<&'a str> {
        self.parameters.iter().find(|(k, _)| *k == key).map(|(_, v)| *v)
    }
}

/// The clauses of an Accept header, best first.
pub(crate) fn accept_clauses(accept: &str) -> Vec<MediaType<'_>> {
    let mut clauses: Vec<MediaType<'_>> =
        accept.split(',').filter_map(|c| MediaType::parse(c.trim())).collect();
    clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality));
    clauses
}

/// The formats and forms in which a resource is available.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// Whether protobuf is available: for built-in kinds, not for custom ones.
    pub protobuf: bool,
    /// Whether Table and PartialObjectMetadata are available.
    pub forms: bool,
}

impl Offer {
    fn media_types(self) -> &'static [&'static str] {
        if self.protobuf { &[JSON, YAML, PROTOBUF] } else { &[JSON, YAML] }
    }
}

/// Chooses the encoding and the representation of an answer.
pub fn negotiate(headers: &HeaderMap, query: &Query, offer: Offer) -> Result<Negotiated> {
    let pretty = wants_pretty(headers, query);
    let accept = first(headers, ACCEPT);
    if accept.trim().is_empty() {
        return Ok(Negotiated { format: Format::Json, representation: Representation::Whole, pretty });
    }
    let mut known = false;
    for clause in accept_clauses(&accept) {
        let Some(format) = clause_format(&clause, offer) else { continue };
        known = true;
        let Some(representation) = clause_representation(&clause, offer) else { continue };
        let pretty = clause.parameter("pretty").map_or(pretty, |value| value != "0" && value != "false");
        return Ok(Negotiated { format, representation, pretty });
    }
    if known || !offer.protobuf {
        return Err(ApiError::not_acceptable(&[JSON, YAML, PROTOBUF]));
    }
    let streams = ["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"];
    let watch = matches!(query.get("watch"), Some("true" | "1"));
    let more = if watch { &streams[..] } else { &[] };
    Err(ApiError::no_representation(&[offer.media_types(), more].concat()))
}

fn clause_format(clause: &MediaType<'_>, offer: Offer) -> Option<Format> {
    match (clause.kind, clause.subtype) {
        ("*" | "application", "*") | ("application", "json") => Some(Format::Json),
        ("application", "yaml") => Some(Format::Yaml),
        ("application", "vnd.kubernetes.protobuf") if offer.protobuf => Some(Format::Protobuf),
        _ => None,
    }
}

fn clause_representation(clause: &MediaType<'_>, offer: Offer) -> Option<Representation> {
    let Some(kind) = clause.parameter("as") else { return Some(Representation::Whole) };
    if !offer.forms || clause.parameter("g") != Some("meta.k8s.io") {
        return None;
    }
    let version = match clause.parameter("v") {
        Some("v1") => "v1",
        Some("v1beta1") => "v1beta1",
        _ => return None,
    };
    match kind {
        "Table" => Some(Representation::Table(version)),
        "PartialObjectMetadata" => Some(Representation::Metadata(version)),
        "PartialObjectMetadataList" => Some(Representation::MetadataList(version)),
        _ => None,
    }
}

pub(crate) fn wants_pretty(headers: &HeaderMap, query: &Query) -> bool {
    if let Some(flag) = query.optional_flag("pretty") {
        return flag;
    }
    let agent = first(headers, USER_AGENT);
    ["curl", "Wget", "Mozilla/5.0"].iter().any(|prefix| agent.starts_with(prefix))
}

/// The encoding of a request's body: `application/json` if the request names none.
pub fn body_format(headers: &HeaderMap, offer: Offer) -> Result<Format> {
    let Some(text) = content_type(headers) else { return Ok(Format::Json) };
    let refused = || ApiError::unsupported_media_type(offer.media_types());
    let media = MediaType::parse(&text).ok_or_else(refused)?;
    match (media.kind, media.subtype) {
        ("application", "json") => Ok(Format::Json),
        ("application", "yaml") => Ok(Format::Yaml),
        ("application", "vnd.kubernetes.protobuf") if offer.protobuf => Ok(Format::Protobuf),
        _ => Err(refused()),
    }
}

/// The Content-Type header, if it is not empty.
pub(crate) fn content_type(headers: &HeaderMap) -> Option<Cow<'_, str>> {
    Some(first(headers, CONTENT_TYPE)).filter(|value| !value.is_empty())
}

/// The media type of a patch.
pub(crate) fn media_type(headers: &HeaderMap) -> String {
    let whole = content_type(headers).unwrap_or_default();
    whole.split(';').next().unwrap_or("").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn negotiated(accept: &str, protobuf: bool) -> Result<Negotiated> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accept.parse().unwrap());
        negotiate(&headers, &Query::default(), Offer { protobuf, forms: true })
    }

    #[test]
    fn kubectl_gets_a_table() {
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(negotiated(accept, true).unwrap().representation, Representation::Table("v1"));
    }

    #[test]
    fn custom_kinds_fall_back_from_protobuf() {
        let accept = "application/vnd.kubernetes.protobuf,application/json";
        assert_eq!(negotiated(accept, true).unwrap().format, Format::Protobuf);
        assert_eq!(negotiated(accept, false).unwrap().format, Format::Json);
        assert_eq!(
            negotiated("application/vnd.kubernetes.protobuf", false).unwrap_err().code().as_u16(),
            406
        );
    }

    #[test]
    fn quality_orders() {
        assert_eq!(
            negotiated("application/yaml;q=0.5, application/json", true).unwrap().format,
            Format::Json
        );
        assert_eq!(negotiated("text/html, */*;q=0.1", true).unwrap().format, Format::Json);
    }
}
