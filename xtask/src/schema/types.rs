//! Types: Go's struct tags joined with the OpenAPI extensions of the same field.

use std::collections::HashMap;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::blob::{Kind, Record, Strings};
use super::sources::{Sources, list, text};

/// Types as records, and which kinds they belong to.
pub struct Types {
    pub records: Vec<Record>,
    pub kinds: Vec<Kind>,
}

/// Numbers of the record format.
const ANY: u32 = 0;
const SCALAR: u32 = 1;
const STRUCT: u32 = 2;
const MAP: u32 = 3;
const LIST: u32 = 4;

const PLAIN: u32 = 0;
const WRAPPED_LIST: u32 = 7;
const JSON_ONLY: u32 = 8;

/// Every type that a registered kind reaches.
pub fn collect(sources: &Sources, strings: &mut Strings) -> Result<Types> {
    let mut builder = Builder { sources, strings, numbers: HashMap::new(), records: Vec::new() };
    let mut kinds = Vec::new();
    for kind in list(&sources.go, "kinds") {
        let [group, version, name] =
            ["group", "version", "kind"].map(|key| text(kind, key).map(str::to_owned));
        let (group, version, name) = (group?, version?, name?);
        for part in [&group, &version, &name] {
            builder.strings.add(part);
        }
        let number = builder.number(text(kind, "type")?, None)?;
        kinds.push((group, version, name, u16::try_from(number)?));
    }
    kinds.sort();
    Ok(Types { records: builder.records, kinds })
}

struct Builder<'a> {
    sources: &'a Sources,
    strings: &'a mut Strings,
    /// By Go type and how it merges here.
    numbers: HashMap<(String, String), u32>,
    records: Vec<Record>,
}

impl Builder<'_> {
    /// The number of a Go type as it stands at an OpenAPI property.
    fn number(&mut self, go: &str, property: Option<&Value>) -> Result<u32> {
        let sources = self.sources;
        let ty = &sources.go["types"][go];
        let key = (go.to_owned(), merging(property)?);
        if let Some(number) = self.numbers.get(&key) {
            return Ok(*number);
        }
        // The number is given out before the type is built: types contain themselves.
        let number = u32::try_from(self.records.len())?;
        self.numbers.insert(key, number);
        self.records.push(Record::default());
        let record = self.record(ty, property).with_context(|| go.to_owned())?;
        self.records[number as usize] = record;
        Ok(number)
    }

    fn record(&mut self, ty: &Value, property: Option<&Value>) -> Result<Record> {
        let mut record = Record::default();
        let kind = text(ty, "kind")?;
        let name = ty["model"].as_str();
        record.optional(name.map(|name| self.strings.add(name)));
        record.optional(Some(self.strings.add(text(ty, "go")?)));
        record.number(codec(kind));
        if let Some(scalar) = scalar(kind) {
            record.number(SCALAR);
            record.number(scalar);
            let values: Vec<&str> = list(ty, "values").iter().filter_map(Value::as_str).collect();
            record.texts(values.into_iter(), self.strings);
            return Ok(record);
        }
        match kind {
            "struct" | "jsonstruct" => self.structure(ty, property, &mut record)?,
            "map" => {
                record.number(MAP);
                record.number(extension(property, "map-type").is_some_and(|v| v == "atomic").into());
                record.number(self.number(text(ty, "elem")?, property.map(|p| &p["additionalProperties"]))?);
            }
            "list" | "wrappedlist" => {
                record.number(LIST);
                let keys: Vec<&str> = property
                    .map_or(&[][..], |p| list(p, "x-kubernetes-list-map-keys"))
                    .iter()
                    .filter_map(Value::as_str)
                    .collect();
                match extension(property, "list-type").and_then(Value::as_str) {
                    None | Some("atomic") => record.number(0),
                    Some("set") => record.number(1),
                    Some("map") => {
                        record.number(2);
                        record.texts(keys.into_iter(), self.strings);
                    }
                    Some(other) => bail!("list-type {other}"),
                }
                record.number(self.number(text(ty, "elem")?, property.map(|p| &p["items"]))?);
            }
            "propsorbool" | "propsorarray" | "propsorstringarray" => {
                record.number(ANY);
                record.number(self.number(text(ty, "elem")?, None)?);
            }
            "any" | "rawextension" | "fieldsv1" | "json" => record.number(ANY),
            other => bail!("kind {other}"),
        }
        Ok(record)
    }

    fn structure(&mut self, ty: &Value, property: Option<&Value>, record: &mut Record) -> Result<()> {
        let empty = Value::Null;
        let component = self.sources.components.get(text(ty, "model")?).unwrap_or(&empty);
        // The extension of a field precedes the extension of its type.
        let map_type = extension(property, "map-type").or(component.get("x-kubernetes-map-type"));
        let atomic = map_type.is_some_and(|value| value == "atomic");
        let required: Vec<&str> = list(component, "required").iter().filter_map(Value::as_str).collect();
        let mut fields: Vec<&Value> = list(ty, "fields").iter().collect();
        fields.sort_by_key(|field| field["name"].as_str());
        record.number(STRUCT);
        record.number(atomic.into());
        record.number(u32::try_from(fields.len())?);
        for field in fields {
            let name = text(field, "name")?;
            let property = component["properties"].get(name);
            if property.is_none() && component["properties"].is_object() {
                bail!("OpenAPI does not have field {name}");
            }
            self.field(field, property, required.contains(&name), record)?;
        }
        Ok(())
    }

    fn field(
        &mut self,
        field: &Value,
        property: Option<&Value>,
        required: bool,
        record: &mut Record,
    ) -> Result<()> {
        let flag = |name: &str| field[name].as_bool().unwrap_or(false);
        let strategy = field["patchStrategy"].as_str().unwrap_or("");
        if let Some(published) = extension(property, "patch-strategy") {
            ensure!(published == strategy, "patch strategy {published} and {strategy}");
        }
        let mut flags = u32::from(required) | u32::from(flag("pointer")) << 1;
        flags |= if flag("omitzero") { 2 } else { u32::from(flag("omitempty")) } << 2;
        for part in strategy.split(',').filter(|part| !part.is_empty()) {
            flags |= match part {
                "merge" => 1 << 4,
                "retainKeys" => 1 << 5,
                "replace" => 1 << 6,
                other => bail!("patch strategy {other}"),
            };
        }
        let kind = text(&self.sources.go["types"][text(field, "type")?], "kind")?;
        let omitted_when_empty =
            matches!(kind, "string" | "bool" | "bytes" | "map" | "list" | "wrappedlist" | "any")
                || matches!(kind, "int32" | "int64" | "double");
        let always = !flag("omitempty") && !flag("omitzero")
            || !flag("omitzero") && !flag("pointer") && !omitted_when_empty;
        flags |= u32::from(always) << 7;
        record.number(self.strings.add(text(field, "name")?));
        record.number(self.number(text(field, "type")?, property)?);
        record.number(flags);
        record.optional(field["under"].as_str().map(|under| self.strings.add(under)));
        let default = property.and_then(|p| p.get("default")).map(Value::to_string);
        record.optional(default.map(|text| self.strings.add(&text)));
        record.optional(field["patchMergeKey"].as_str().map(|key| self.strings.add(key)));
        let path = list(field, "proto");
        ensure!(path.len() <= 3, "an inlined struct within two others");
        record.number(u32::try_from(path.len())?);
        for number in path {
            record.number(u32::try_from(number.as_u64().context("a field number")?)?);
        }
        Ok(())
    }
}

fn extension<'a>(property: Option<&'a Value>, name: &str) -> Option<&'a Value> {
    property.and_then(|property| property.get(format!("x-kubernetes-{name}")))
}

/// The distinction of two uses of one Go type: the merge extensions of the property and of its items.
fn merging(property: Option<&Value>) -> Result<String> {
    let Some(property) = property else { return Ok(String::new()) };
    let mut out = String::new();
    for (name, usual) in [("list-type", "atomic"), ("list-map-keys", ""), ("map-type", "")] {
        match extension(Some(property), name) {
            Some(value) if value != usual => out += &format!("{name}={value};"),
            _ => {}
        }
    }
    for name in ["items", "additionalProperties"] {
        let inner = merging(property.get(name))?;
        if !inner.is_empty() {
            out += &format!("{name}({inner})");
        }
    }
    Ok(out)
}

fn scalar(kind: &str) -> Option<u32> {
    Some(match kind {
        "string" => 0,
        "int32" => 1,
        "int64" => 2,
        "double" => 3,
        "bool" => 4,
        "bytes" => 5,
        "intorstring" => 6,
        "quantity" => 7,
        "time" => 8,
        "microtime" => 9,
        "duration" => 10,
        _ => return None,
    })
}

fn codec(kind: &str) -> u32 {
    match kind {
        "rawextension" => 1,
        "fieldsv1" => 2,
        "json" => 3,
        "propsorbool" => 4,
        "propsorarray" => 5,
        "propsorstringarray" => 6,
        "wrappedlist" => WRAPPED_LIST,
        "jsonstruct" | "any" => JSON_ONLY,
        _ => PLAIN,
    }
}
