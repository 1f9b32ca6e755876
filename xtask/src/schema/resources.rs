//! The served groups, versions, resources and subresources, from the published discovery answers.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde_json::Value;

use super::blob::{Record, Strings};
use super::sources::{Sources, list, read_json, text};

/// By default kube-apiserver 1.37 serves exactly the stable versions. `--runtime-config` turns on beta and alpha
/// versions.
fn served(version: &str) -> bool {
    version.strip_prefix('v').is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
}

/// The record: groups, each with its versions, each with its resources.
pub fn collect(sources: &Sources, strings: &mut Strings) -> Result<Record> {
    let folder = &sources.discovery;
    let mut groups = vec![(String::new(), vec![("v1".to_owned(), read_json(&folder.join("api__v1.json"))?)])];
    let published = read_json(&folder.join("apis.json"))?;
    for group in list(&published, "groups") {
        let name = text(group, "name")?.to_owned();
        let mut versions = Vec::new();
        for version in list(group, "versions") {
            let version = text(version, "version")?;
            if served(version) {
                let file = folder.join(format!("apis__{name}__{version}.json"));
                versions.push((version.to_owned(), read_json(&file)?));
            }
        }
        if !versions.is_empty() {
            groups.push((name, versions));
        }
    }
    let mut record = Record::default();
    record.number(u32::try_from(groups.len())?);
    for (name, versions) in &groups {
        record.number(strings.add(name));
        record.number(u32::try_from(versions.len())?);
        for (version, document) in versions {
            record.number(strings.add(version));
            group_version(document, &mut record, strings)?;
        }
    }
    Ok(record)
}

fn group_version(document: &Value, record: &mut Record, strings: &mut Strings) -> Result<()> {
    let mut below: BTreeMap<&str, Vec<(&str, &Value)>> = BTreeMap::new();
    let mut resources = Vec::new();
    for entry in list(document, "resources") {
        match text(entry, "name")?.split_once('/') {
            Some((parent, name)) => below.entry(parent).or_default().push((name, entry)),
            None => resources.push(entry),
        }
    }
    record.number(u32::try_from(resources.len())?);
    for resource in resources {
        let plural = text(resource, "name")?;
        record.number(strings.add(plural));
        record.number(strings.add(text(resource, "singularName")?));
        record.number(strings.add(text(resource, "kind")?));
        record.number(resource["namespaced"].as_bool().context("scope")?.into());
        for name in ["verbs", "shortNames", "categories"] {
            texts(resource, name, record, strings);
        }
        record.optional(resource["storageVersionHash"].as_str().map(|hash| strings.add(hash)));
        let children = below.remove(plural).unwrap_or_default();
        record.number(u32::try_from(children.len())?);
        for (name, child) in children {
            record.number(strings.add(name));
            record.number(strings.add(text(child, "kind")?));
            record.optional(child["version"].as_str().map(|version| strings.add(version)));
            record.optional(child["version"].as_str().and(child["group"].as_str()).map(|g| strings.add(g)));
            texts(child, "verbs", record, strings);
        }
    }
    anyhow::ensure!(below.is_empty(), "subresources without their resource: {:?}", below.keys());
    Ok(())
}

fn texts(value: &Value, name: &str, record: &mut Record, strings: &mut Strings) {
    let all: Vec<&str> = list(value, name).iter().filter_map(Value::as_str).collect();
    record.texts(all.into_iter(), strings);
}
