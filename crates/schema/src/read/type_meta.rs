//! Which kind a document says it is, before anybody knows its type.

use std::fmt::Write;

use super::at::At;
use super::input::{Input, Stop, Token};
use super::syntax::{self, Scanner};
use super::walk::describe;
use super::{ReadError, mismatch_text};
use crate::Struct;

/// `apiVersion` and `kind`; empty where the document has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeMeta {
    /// The group and version.
    pub api_version: String,
    /// The kind.
    pub kind: String,
}

const GO: &str =
    r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;

/// Reads `apiVersion` and `kind` of a JSON document.
///
/// # Errors
/// When it is not JSON or no object, in kube-apiserver's words.
pub fn type_meta(data: &[u8]) -> Result<TypeMeta, ReadError> {
    let prefix = "couldn't get version/kind; json parse error:";
    syntax::check(data).map_err(|error| ReadError::Syntax(format!("{prefix} {}", error.0)))?;
    let (mut out, mut wrong) = (TypeMeta::default(), None);
    read(&mut Scanner::new(data), &mut out, &mut wrong)
        .map_err(|_| ReadError::Syntax(format!("{prefix} unexpected end of JSON input")))?;
    match wrong {
        Some(text) => Err(ReadError::Type(format!("{prefix} {text}"))),
        None => Ok(out),
    }
}

fn read(input: &mut Scanner<'_>, out: &mut TypeMeta, wrong: &mut Option<String>) -> Result<(), Stop> {
    match input.token()? {
        Token::Object => {}
        Token::Null => return Ok(()),
        token => {
            *wrong = Some(mismatch_text(describe(token), GO, &At::Root));
            return Ok(());
        }
    }
    input.object(&mut |input, key| {
        let slot = match key {
            "apiVersion" => &mut out.api_version,
            "kind" => &mut out.kind,
            _ => return input.skip(),
        };
        match input.token()? {
            Token::Text => *slot = input.text()?,
            Token::Null => input.literal()?,
            token => {
                let none = Struct::default();
                let at = At::Field { up: &At::Root, owner: Some(("", &none, 0)), name: key };
                wrong.get_or_insert_with(|| mismatch_text(describe(token), "string", &at));
                input.skip()?;
            }
        }
        Ok(())
    })
}

/// How many bytes of a body an error shows.
const EXCERPT: usize = 30;

/// The start of a body, as kube-apiserver shows it in errors: text where it looks like JSON, else hexadecimal.
pub fn excerpt(data: &[u8]) -> String {
    let cut = &data[..data.len().min(EXCERPT)];
    let mut out = String::new();
    match data.first() {
        None => return "<empty>".to_owned(),
        Some(b'{') => out += &String::from_utf8_lossy(cut),
        Some(_) => {
            cut.iter().for_each(|byte| write!(out, "{byte:02x}").expect("writing to a string never fails"))
        }
    }
    if data.len() > EXCERPT {
        out += " ...";
    }
    out
}
