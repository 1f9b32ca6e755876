//! Leaves: each in the one form that Go prints.

use base64::Engine;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use serde_json::Value;

use super::at::At;
use super::input::{Input, Stop, Token};
use super::walk::describe;
use super::{Reader, mismatch_text};
use crate::amount::canonical;
use crate::instant::Instant;
use crate::zero::float;
use crate::{Scalar, Schema};

/// Go does not mind bits that are left over in the last letter.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

impl Reader {
    pub(super) fn leaf<I: Input>(
        &mut self,
        input: &mut I,
        scalar: Scalar,
        token: Token,
        ty: &Schema,
        at: &At<'_>,
    ) -> Result<Option<Value>, Stop> {
        match (scalar, token) {
            (Scalar::String | Scalar::Duration, Token::Text) => input.text().map(|text| Some(text.into())),
            (Scalar::Bool, Token::Bool(value)) => input.literal().map(|()| Some(value.into())),
            (Scalar::Int32 | Scalar::Int64 | Scalar::Double, Token::Number) => {
                let text = input.number()?;
                match parse_number(&text, scalar) {
                    Some(value) => Ok(Some(value)),
                    None => {
                        let found = format!("number {text}");
                        let go = ty.go.as_deref().unwrap_or("float64");
                        let error = mismatch_text(&found, go, at);
                        self.error.get_or_insert(error);
                        Ok(None)
                    }
                }
            }
            (Scalar::Bytes, Token::Text) => {
                let text = input.text()?;
                match bytes(&text) {
                    Ok(value) => Ok(Some(value)),
                    Err(error) => {
                        self.error.get_or_insert(error);
                        Ok(None)
                    }
                }
            }
            (Scalar::Bytes, Token::Array) => self.byte_array(input, at).map(Some),
            (Scalar::IntOrString, _) => int_or_string(input, token, at).map(Some),
            (Scalar::Quantity, _) => quantity(input, token).map(Some),
            (Scalar::Time | Scalar::MicroTime, _) => {
                time(input, token, scalar == Scalar::MicroTime, at).map(Some)
            }
            _ => {
                let found = describe(token);
                self.mismatch(input, found, ty, at)
            }
        }
    }
}

impl Reader {
    /// Go also takes a list of numbers for bytes.
    fn byte_array<I: Input>(&mut self, input: &mut I, at: &At<'_>) -> Result<Value, Stop> {
        let mut bytes = Vec::new();
        input.array(&mut |input| {
            let token = input.token()?;
            let wrong = match token {
                Token::Null => {
                    input.literal()?;
                    bytes.push(0);
                    return Ok(());
                }
                Token::Number => {
                    let text = input.number()?;
                    match text.parse::<u8>() {
                        Ok(byte) => {
                            bytes.push(byte);
                            return Ok(());
                        }
                        Err(_) => mismatch_text(&format!("number {text}"), "uint8", at),
                    }
                }
                other => {
                    input.skip()?;
                    mismatch_text(describe(other), "uint8", at)
                }
            };
            self.error.get_or_insert(wrong);
            Ok(())
        })?;
        Ok(Value::String(BASE64.encode(bytes)))
    }
}

fn parse_number(text: &str, scalar: Scalar) -> Option<Value> {
    match scalar {
        Scalar::Double => text.parse::<f64>().ok().filter(|value| value.is_finite()).map(float),
        Scalar::Int32 => text.parse::<i32>().ok().map(Value::from),
        _ => text.parse::<i64>().ok().map(Value::from),
    }
}

/// Base64 in its one form: Go decodes and encodes it again, ignoring line ends.
fn bytes(text: &str) -> Result<Value, String> {
    let clean: String;
    let text = if text.contains(['\r', '\n']) {
        clean = text.replace(['\r', '\n'], "");
        &clean
    } else {
        text
    };
    match BASE64.decode(text) {
        Ok(decoded) => Ok(Value::String(BASE64.encode(decoded))),
        Err(_) => Err(format!("illegal base64 data at input byte {}", corrupt_at(text.as_bytes()))),
    }
}

/// The byte that Go's decoder names.
fn corrupt_at(text: &[u8]) -> usize {
    let mut at = 0;
    loop {
        for place in 0..4 {
            let Some(byte) = text.get(at) else { return at - place };
            match (byte, place) {
                (b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/', _) => at += 1,
                (b'=', 2) if text.get(at + 1) == Some(&b'=') => return at + 2,
                (b'=', 2) if at + 1 == text.len() => return text.len(),
                (b'=', 3) => return at + 1,
                _ => return at,
            }
        }
    }
}

fn int_or_string<I: Input>(input: &mut I, token: Token, at: &At<'_>) -> Result<Value, Stop> {
    match token {
        Token::Text => input.text().map(Value::String),
        Token::Number => {
            let text = input.number()?;
            let number = text.parse::<i32>();
            number
                .map(Value::from)
                .map_err(|_| Stop::Refused(mismatch_text(&format!("number {text}"), "int32", at)))
        }
        other => Err(Stop::Refused(mismatch_text(describe(other), "int32", at))),
    }
}

fn quantity<I: Input>(input: &mut I, token: Token) -> Result<Value, Stop> {
    let text = match token {
        Token::Text => input.text()?,
        Token::Number => input.number()?.into_owned(),
        // Go hands the raw JSON to the parser, which has no use for braces.
        _ => String::from("{"),
    };
    canonical(text.trim()).map(Value::String).map_err(|error| Stop::Refused(error.to_string()))
}

fn time<I: Input>(input: &mut I, token: Token, micro: bool, at: &At<'_>) -> Result<Value, Stop> {
    if token != Token::Text {
        return Err(Stop::Refused(mismatch_text(describe(token), "string", at)));
    }
    let text = input.text()?;
    match Instant::parse(&text, micro) {
        Ok(instant) if instant.is_zero() => Ok(Value::Null),
        // Most times come in the form in which they go.
        Ok(_) if text.len() == if micro { 27 } else { 20 } && text.ends_with('Z') => Ok(Value::String(text)),
        Ok(instant) => Ok(Value::String(instant.print(micro))),
        Err(error) => Err(Stop::Refused(error.text(&text, micro))),
    }
}
