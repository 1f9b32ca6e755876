//! Errors of decoders without the values of objects, which may be secrets.

use serde::de::DeserializeOwned;

/// A decoder's words without the values that it quotes: texts stand in double quotes, numbers and variants in
/// backticks. The names of fields stay.
pub(crate) fn redact(words: &str) -> String {
    let mut words = match (words.find('"'), words.rfind('"')) {
        (Some(first), Some(last)) if first < last => format!("{}…{}", &words[..=first], &words[last..]),
        _ => words.to_owned(),
    };
    for before in ["variant `", "integer `", "floating point `", "boolean `", "character `"] {
        let Some(start) = words.find(before).map(|at| at + before.len()) else { continue };
        let end = words.rfind("`, expected").or_else(|| words.rfind('`')).unwrap_or(words.len());
        if start < end {
            words.replace_range(start..end, "…");
        }
    }
    words
}

/// Why a JSON text is no `T`: the path of the field, and the decoder's words without the values that it quotes.
pub(crate) fn why_undecodable<T: DeserializeOwned>(json: &[u8], error: &serde_json::Error) -> String {
    let words = redact(&error.to_string());
    // Decoded a second time, because only failures need the path.
    let again = serde_path_to_error::deserialize::<_, T>(&mut serde_json::Deserializer::from_slice(json));
    match again.err().map(|error| error.path().to_string()) {
        Some(path) if path != "." => format!("{path}: {words}"),
        _ => words,
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    #[test]
    fn the_field_that_does_not_decode_is_named() {
        #[derive(Debug, serde::Deserialize)]
        #[expect(dead_code, reason = "only its decoding matters")]
        struct Outer {
            spec: Vec<Inner>,
        }
        #[derive(Debug, serde::Deserialize)]
        #[expect(dead_code, reason = "only its decoding matters")]
        struct Inner {
            replicas: u8,
        }
        let why = |json: &str| {
            let error = serde_json::from_str::<Outer>(json).unwrap_err();
            why_undecodable::<Outer>(json.as_bytes(), &error)
        };
        let named = why(r#"{"spec": [{"replicas": 1}, {"replicas": "hunter2"}]}"#);
        assert!(named.starts_with("spec[1].replicas: invalid type: string"), "{named}");
        assert!(!named.contains("hunter2"), "{named}");
        assert!(why("{}").starts_with("missing field `spec`"), "{}", why("{}"));
    }

    #[test]
    fn what_a_decoder_quotes_is_left_out_and_the_names_of_fields_are_not() {
        fn told<T: serde::de::DeserializeOwned + fmt::Debug>(json: &str) -> String {
            redact(&serde_json::from_str::<T>(json).unwrap_err().to_string())
        }
        #[derive(Debug, serde::Deserialize)]
        enum Colour {
            Red,
        }
        #[derive(Debug, serde::Deserialize)]
        #[expect(dead_code, reason = "only its decoding matters")]
        struct Strict {
            password: Colour,
        }
        let secret = |text: &str| text.contains("hunter") || text.contains("4711");
        for told in [
            told::<u16>(r#""hunter\"2""#),
            told::<Colour>(r#""hunter`2""#),
            told::<u8>("4711"),
            told::<bool>("4711.5"),
            told::<Strict>(r#"{"password": "hunter2"}"#),
        ] {
            assert!(!secret(&told) && told.contains('…') && told.contains("expected"), "{told}");
        }
        assert!(told::<Strict>("{}").contains("missing field `password`"));
        let _ = Colour::Red;
    }
}
