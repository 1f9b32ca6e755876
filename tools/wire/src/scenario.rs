//! Scenarios: the inputs, written by hand in `testdata/wire/scenarios/*.yaml` or by [`crate::families`].

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A named sequence of requests. `{{ns}}` is a namespace of its own, made before the first step that needs it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    pub name: String,
    pub steps: Vec<Step>,
}

/// One request. `{{name}}` anywhere in it stands for what an earlier step captured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// `METHOD /path?query`.
    #[serde(rename = "do")]
    pub request: String,
    /// Content-Type; JSON when there is a body and nothing is said. See [`content_type`] for the short names.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accept: Option<String>,
    /// `admin` (the default), `alice` (in group `dev`) or `anonymous`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// The name of a captured document over which the body is laid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub onto: Option<String>,
    /// A body that is no JSON document, or whose text matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Name → JSON pointer into the answer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub capture: BTreeMap<String, String>,
    /// The request is repeated until the answer has this, and only the last answer counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Until>,
    /// Facts of the answer that an attack must not change. Recordings do not keep them.
    #[serde(default, skip_serializing)]
    pub must: Option<Must>,
}

/// Facts of an answer.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Must {
    /// The status is one of these.
    #[serde(default)]
    pub status: Vec<u16>,
    /// The reason of the Status.
    #[serde(default)]
    pub reason: Option<String>,
    /// The body contains each of these texts.
    #[serde(default)]
    pub has: Vec<String>,
    /// The body contains none of these texts.
    #[serde(default)]
    pub lacks: Vec<String>,
}

/// A condition to wait for.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Until {
    #[serde(default = "ok")]
    pub status: u16,
    /// A JSON pointer into the answer that must lead somewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// The value there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub equals: Option<Value>,
}

fn ok() -> u16 {
    200
}

/// Written-out media types of the short names.
pub fn content_type(name: &str) -> &str {
    match name {
        "json" => "application/json",
        "yaml" => "application/yaml",
        "json-patch" => "application/json-patch+json",
        "merge" => "application/merge-patch+json",
        "strategic" => "application/strategic-merge-patch+json",
        "apply" => "application/apply-patch+yaml",
        "table" => "application/json;as=Table;v=v1;g=meta.k8s.io",
        "partial" => "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        "partial-list" => "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        "aggregated" => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        "protobuf" => "application/vnd.kubernetes.protobuf",
        other => other,
    }
}

impl Step {
    /// A request without a body.
    pub fn new(request: impl Into<String>) -> Step {
        Step { request: request.into(), ..Step::default() }
    }

    /// A request with a JSON body.
    pub fn with(request: impl Into<String>, body: Value) -> Step {
        Step { request: request.into(), body: Some(body), ..Step::default() }
    }

    /// A PATCH of the named type.
    pub fn patch(path: impl std::fmt::Display, kind: &str, body: Value) -> Step {
        Step { content_type: Some(kind.into()), ..Step::with(format!("PATCH {path}"), body) }
    }

    /// An apply by `manager`.
    pub fn apply(path: impl std::fmt::Display, manager: &str, force: bool, body: Value) -> Step {
        let force = if force { "&force=true" } else { "" };
        Step::patch(format!("{path}?fieldManager={manager}{force}"), "apply", body)
    }

    /// Method and path.
    pub fn split(&self) -> (&str, &str) {
        self.request.split_once(' ').unwrap_or(("GET", &self.request))
    }

    /// Whether the answer is a stream of events.
    pub fn is_watch(&self) -> bool {
        let (_, path) = self.split();
        path.contains("watch=true") || path.contains("watch=1") || path.contains("/watch/")
    }
}

/// Every `*.yaml` of the folder, as (file stem, scenarios).
pub fn load(folder: &Path) -> Result<Vec<(String, Vec<Scenario>)>> {
    let mut files: Vec<_> = std::fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    files.sort_by_key(std::fs::DirEntry::file_name);
    let mut all = Vec::new();
    for file in files {
        let path = file.path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let text = std::fs::read_to_string(&path)?;
        let value: Value = serde_saphyr::from_str(&text).with_context(|| path.display().to_string())?;
        let scenarios = serde_json::from_value(value).with_context(|| path.display().to_string())?;
        all.push((path.file_stem().unwrap_or_default().to_string_lossy().into_owned(), scenarios));
    }
    Ok(all)
}
