//! The property test of a conversion: objects drawn from the schemas of a definition survive the way there and back.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Map, Value, json};
use setpoint_api::Random;

use super::conversion::{Conversion, Versions};
use super::patch;
use crate::client::Kind;

/// The number of objects that may be refused for each one that is converted.
const REFUSALS: usize = 20;
/// The nesting below which optional fields are left out.
const DEPTH: usize = 8;
/// Texts for fields without an enumeration: short ones, and those that types often want.
const TEXTS: [&str; 10] =
    ["a", "b-c", "512Mi", "1", "100m", "nginx:1", "10s", "x.example.org", "/path", "ü ~/"];

/// An object that a conversion changes, or a conversion that cannot be checked.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RoundTripError {
    /// The object returned changed.
    #[error(
        "seed {seed}: {object} changes on its way to {via} and back: {difference}; keep in an annotation what {via} \
         cannot express"
    )]
    Changed {
        /// The seed of the object alone.
        seed: u64,
        /// The version between.
        via: String,
        /// The object.
        object: Value,
        /// The operations that lead from the object to what returned.
        difference: Value,
    },
    /// The functions refused almost every object.
    #[error("seed {seed}: {refused} of {drawn} objects of {version} were refused, the last with: {error}")]
    Refused {
        /// The seed of all objects.
        seed: u64,
        /// The version of the objects.
        version: String,
        /// The number of drawn objects.
        drawn: usize,
        /// The number of refused objects.
        refused: usize,
        /// The last refusal.
        error: String,
    },
    /// The conversion has one version, or the definition has a schema for none of them.
    #[error("there is nothing to check: the definition has a schema for no version that is converted")]
    Nothing,
}

impl<H: Kind> Conversion<H> {
    /// Checks in a test that no version loses anything: objects drawn from the definition's schemas become each other
    /// version and return unchanged. The same seed draws the same objects.
    ///
    /// An object that a function refuses is drawn again, because a schema often allows more than a type.
    ///
    /// # Errors
    /// When an object returns changed, or when the functions refuse almost every object.
    pub fn check_round_trips(
        &self,
        definition: &CustomResourceDefinition,
        seed: u64,
        cases: usize,
    ) -> Result<(), RoundTripError> {
        check(&self.versions, definition, seed, cases)
    }
}

/// Checks every version that has a schema against every other one.
fn check(
    versions: &Versions,
    definition: &CustomResourceDefinition,
    seed: u64,
    cases: usize,
) -> Result<(), RoundTripError> {
    let definition = serde_json::to_value(definition).unwrap_or_default();
    let group = definition["spec"]["group"].as_str().unwrap_or_default();
    let mut checked = 0;
    for version in definition["spec"]["versions"].as_array().into_iter().flatten() {
        let api_version = format!("{group}/{}", version["name"].as_str().unwrap_or_default());
        if !versions.all().any(|known| known == api_version) {
            continue;
        }
        for via in versions.all().filter(|via| *via != api_version) {
            let schema = &version["schema"]["openAPIV3Schema"];
            let draw = |random: &Random| {
                let mut object = drawn(random, schema, 0);
                object["apiVersion"] = json!(api_version);
                object["kind"] = definition["spec"]["names"]["kind"].clone();
                object["metadata"] = metadata(random);
                object
            };
            check_one(versions, (&api_version, via), draw, seed, cases)?;
            checked += 1;
        }
    }
    if checked == 0 { Err(RoundTripError::Nothing) } else { Ok(()) }
}

fn check_one(
    versions: &Versions,
    (version, via): (&str, &str),
    draw: impl Fn(&Random) -> Value,
    seed: u64,
    cases: usize,
) -> Result<(), RoundTripError> {
    let seeds = Random::from_seed(seed);
    let (mut converted, mut refused) = (0, 0);
    while converted < cases {
        let own_seed = seeds.next_u64();
        match there_and_back(versions, draw(&Random::from_seed(own_seed)), version, via) {
            Ok((before, after)) if before == after => converted += 1,
            Ok((before, after)) => {
                let difference = Value::from(patch::difference(&before, &after));
                return Err(RoundTripError::Changed {
                    seed: own_seed,
                    via: via.to_owned(),
                    object: before,
                    difference,
                });
            }
            Err(_) if refused < REFUSALS * cases => refused += 1,
            Err(error) => {
                let (version, drawn) = (version.to_owned(), converted + refused);
                return Err(RoundTripError::Refused { seed, version, drawn, refused, error });
            }
        }
    }
    Ok(())
}

fn there_and_back(
    versions: &Versions,
    object: Value,
    version: &str,
    via: &str,
) -> Result<(Value, Value), String> {
    let before = versions.normal(object)?;
    let there = versions.convert(before.clone(), via)?;
    // As the API server stores it: written by the type, and read again.
    let back = versions.convert(versions.normal(there)?, version)?;
    Ok((before, versions.normal(back)?))
}

fn metadata(random: &Random) -> Value {
    let mut metadata = json!({"name": random.suffix(5), "namespace": "default", "uid": random.uid()});
    for field in ["labels", "annotations"] {
        if random.below(2) == 0 {
            metadata[field] = json!({"example.org/a": random.suffix(3)});
        }
    }
    metadata
}

/// A value that a structural schema allows, but for patterns and CEL rules.
fn drawn(random: &Random, schema: &Value, depth: usize) -> Value {
    if let Some(allowed) = schema["enum"].as_array().filter(|allowed| !allowed.is_empty()) {
        return pick(random, allowed).clone();
    }
    if schema["nullable"] == true && random.below(8) == 0 {
        return Value::Null;
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return if random.below(2) == 0 { json!(random.below(100)) } else { json!(pick(random, &TEXTS)) };
    }
    match schema["type"].as_str() {
        Some("boolean") => json!(random.below(2) == 0),
        Some("integer") => integer(random, schema),
        // Halves are exact in every float.
        Some("number") => json!(integer(random, schema).as_i64().unwrap_or(0) as f64 + 0.5),
        Some("string") => text(random, schema),
        Some("array") => {
            let least = schema["minItems"].as_u64().unwrap_or(0);
            let most = schema["maxItems"].as_u64().unwrap_or(least + 3).max(least);
            let count =
                if depth > DEPTH { least } else { least + random.below(most.min(least + 3) - least + 1) };
            (0..count).map(|_| drawn(random, &schema["items"], depth + 1)).collect()
        }
        Some("object") => Value::Object(object(random, schema, depth)),
        _ => json!({"any": random.suffix(2)}),
    }
}

fn pick<'a, T>(random: &Random, all: &'a [T]) -> &'a T {
    &all[random.below(all.len() as u64) as usize]
}

fn integer(random: &Random, schema: &Value) -> Value {
    let least = schema["minimum"].as_f64().map_or(-3, |least| least as i64);
    let most = schema["maximum"].as_f64().map_or(least.saturating_add(100), |most| most as i64).max(least);
    let span = most.saturating_sub(least).clamp(0, 1 << 20) as u64;
    // Bounds are where conversions go wrong.
    match random.below(4) {
        0 => json!(least),
        1 => json!(most),
        _ => json!(least.saturating_add_unsigned(random.below(span + 1))),
    }
}

fn text(random: &Random, schema: &Value) -> Value {
    match schema["format"].as_str() {
        Some("date-time") => return json!(format!("2026-01-{:02}T03:04:05Z", 1 + random.below(28))),
        Some("byte") => return json!("YQ=="),
        _ => {}
    }
    let least = schema["minLength"].as_u64().unwrap_or(0) as usize;
    let most = schema["maxLength"].as_u64().map_or(usize::MAX, |most| most as usize);
    let mut text = if random.below(6) == 0 { String::new() } else { (*pick(random, &TEXTS)).to_owned() };
    while text.chars().count() < least {
        text.push('x');
    }
    json!(text.chars().take(most).collect::<String>())
}

fn object(random: &Random, schema: &Value, depth: usize) -> Map<String, Value> {
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut fields = Map::new();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let optional = !required.contains(&name.as_str());
        if optional && (depth > DEPTH || random.below(3) == 0) {
            continue;
        }
        fields.insert(name.clone(), drawn(random, property, depth + 1));
    }
    let of_map = &schema["additionalProperties"];
    if of_map.is_object() {
        let least = schema["minProperties"].as_u64().unwrap_or(0);
        for number in 0..least + random.below(3) {
            fields.insert(format!("{}{number}", pick(random, &TEXTS)), drawn(random, of_map, depth + 1));
        }
    }
    fields
}
