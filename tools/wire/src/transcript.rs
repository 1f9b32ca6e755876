//! Requests beside their normalised answers, in `testdata/wire/*.json`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::scenario::{Scenario, Step};

/// A recorded answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    pub status: u16,
    /// Those that matter: Content-Type, Warning, Location, Retry-After, and whether there is an ETag.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Vec<String>>,
    /// A document, a list of watch events, or a text.
    pub body: Value,
}

/// A request and its answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Exchange {
    pub request: Step,
    pub answer: Answer,
}

/// A scenario as it went.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Transcript {
    pub name: String,
    pub exchanges: Vec<Exchange>,
}

impl Transcript {
    /// The requests alone.
    pub fn scenario(&self) -> Scenario {
        let steps = self.exchanges.iter().map(|exchange| exchange.request.clone()).collect();
        Scenario { name: self.name.clone(), steps }
    }
}

/// `testdata/wire` of this repository.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/wire")
}

/// Every recorded file, as (stem, transcripts).
pub fn load() -> Result<Vec<(String, Vec<Transcript>)>> {
    let mut files: Vec<_> = std::fs::read_dir(folder())?.collect::<Result<_, _>>()?;
    files.sort_by_key(std::fs::DirEntry::file_name);
    let mut all = Vec::new();
    for file in files {
        let path = file.path();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if path.extension().is_none_or(|extension| extension != "json") || stem == "differences" {
            continue;
        }
        let text = std::fs::read_to_string(&path)?;
        all.push((stem, serde_json::from_str(&text).with_context(|| path.display().to_string())?));
    }
    Ok(all)
}

/// Writes one file: a line for each request and each answer, so that a change reads as one.
pub fn save(stem: &str, transcripts: &[Transcript]) -> Result<()> {
    let mut text = String::from("[\n");
    for (at, transcript) in transcripts.iter().enumerate() {
        text += &format!("{{\"name\":{},\"exchanges\":[\n", serde_json::to_string(&transcript.name)?);
        for (at, exchange) in transcript.exchanges.iter().enumerate() {
            text += &format!("{{\"request\":{},\n", serde_json::to_string(&exchange.request)?);
            text += &format!(" \"answer\":{}}}", serde_json::to_string(&exchange.answer)?);
            text += if at + 1 < transcript.exchanges.len() { ",\n" } else { "\n" };
        }
        text += if at + 1 < transcripts.len() { "]},\n" } else { "]}\n" };
    }
    text += "]\n";
    std::fs::write(folder().join(format!("{stem}.json")), text)?;
    Ok(())
}
