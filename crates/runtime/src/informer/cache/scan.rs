//! Reads JSON where it lies: finds values by their bytes, without building any.
//!
//! It does not check the parts that it skips: an object whose body is no JSON fails where somebody reads it, on its own key.

use std::borrow::Cow;

use memchr::memchr2;

use super::brackets::container;

/// The text is no JSON, or ends too early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed JSON at byte {at}")]
pub(crate) struct Malformed {
    pub at: usize,
}

/// A place in a JSON text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// The inside of a JSON string, still escaped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Text<'a> {
    /// The place of the opening quote.
    pub at: usize,
    pub raw: &'a [u8],
    pub escaped: bool,
}

impl<'a> Text<'a> {
    /// The string's value; `None` when it is not UTF-8 or an escape is broken.
    pub fn value(self) -> Option<Cow<'a, str>> {
        if !self.escaped {
            return std::str::from_utf8(self.raw).ok().map(Cow::Borrowed);
        }
        let mut quoted = Vec::with_capacity(self.raw.len() + 2);
        quoted.push(b'"');
        quoted.extend_from_slice(self.raw);
        quoted.push(b'"');
        serde_json::from_slice::<String>(&quoted).ok().map(Cow::Owned)
    }
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Cursor { bytes, at: 0 }
    }

    pub fn at(&self) -> usize {
        self.at
    }

    pub fn malformed(&self) -> Malformed {
        Malformed { at: self.at }
    }

    /// The next byte that is no white space, not consumed.
    pub fn peek(&mut self) -> Result<u8, Malformed> {
        while let Some(&byte) = self.bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return Ok(byte);
            }
            self.at += 1;
        }
        Err(self.malformed())
    }

    /// Consumes `byte` after white space.
    pub fn expect(&mut self, byte: u8) -> Result<(), Malformed> {
        if self.peek()? != byte {
            return Err(self.malformed());
        }
        self.at += 1;
        Ok(())
    }

    /// Consumes `byte` if it comes next.
    pub fn accept(&mut self, byte: u8) -> Result<bool, Malformed> {
        let found = self.peek()? == byte;
        self.at += usize::from(found);
        Ok(found)
    }

    /// Consumes a string.
    pub fn text(&mut self) -> Result<Text<'a>, Malformed> {
        self.expect(b'"')?;
        let start = self.at;
        let escaped = self.finish_string()?;
        Ok(Text { at: start - 1, raw: &self.bytes[start..self.at - 1], escaped })
    }

    /// From behind an opening quote to behind the closing one; tells whether an escape was met.
    fn finish_string(&mut self) -> Result<bool, Malformed> {
        let mut escaped = false;
        loop {
            let rest = &self.bytes[self.at..];
            let Some(offset) = memchr2(b'"', b'\\', rest) else { return Err(self.malformed()) };
            if rest[offset] == b'"' {
                self.at += offset + 1;
                return Ok(escaped);
            }
            escaped = true;
            self.at += offset + 2;
            if self.at > self.bytes.len() {
                self.at = self.bytes.len();
                return Err(self.malformed());
            }
        }
    }

    /// Consumes any value and gives its bytes.
    pub fn value(&mut self) -> Result<&'a [u8], Malformed> {
        let first = self.peek()?;
        let start = self.at;
        match first {
            b'"' => {
                self.at += 1;
                self.finish_string()?;
            }
            b'{' | b'[' => self.at += container(&self.bytes[start..]).ok_or(self.malformed())?,
            _ => self.skip_scalar()?,
        }
        Ok(&self.bytes[start..self.at])
    }

    fn skip_scalar(&mut self) -> Result<(), Malformed> {
        let rest = &self.bytes[self.at..];
        let end =
            rest.iter().position(|byte| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r'));
        let length = end.unwrap_or(rest.len());
        if length == 0 {
            return Err(self.malformed());
        }
        self.at += length;
        Ok(())
    }

    /// Calls `visit` for each field of the object that comes next; `visit` must consume the field's value. It says
    /// whether to go on; when it says no the cursor stays behind that value.
    pub fn fields<F>(&mut self, mut visit: F) -> Result<bool, Malformed>
    where
        F: FnMut(&mut Cursor<'a>, Text<'a>) -> Result<bool, Malformed>,
    {
        self.expect(b'{')?;
        if self.accept(b'}')? {
            return Ok(true);
        }
        loop {
            let name = self.text()?;
            self.expect(b':')?;
            if !visit(self, name)? {
                return Ok(false);
            }
            if !self.accept(b',')? {
                self.expect(b'}')?;
                return Ok(true);
            }
        }
    }

    /// Calls `visit` for each element of the array that comes next; `visit` must consume it.
    pub fn elements<F>(&mut self, mut visit: F) -> Result<(), Malformed>
    where
        F: FnMut(&mut Cursor<'a>) -> Result<(), Malformed>,
    {
        self.expect(b'[')?;
        if self.accept(b']')? {
            return Ok(());
        }
        loop {
            visit(self)?;
            if !self.accept(b',')? {
                return self.expect(b']');
            }
        }
    }
}

/// The value at a dotted path such as `spec.nodeName`; a step that is a number picks an element of an array.
pub(crate) fn find_path<'a>(json: &'a [u8], path: &str) -> Option<&'a [u8]> {
    path.split('.').try_fold(json, |value, step| {
        let mut cursor = Cursor::new(value);
        match cursor.peek().ok()? {
            b'{' => find_field(&mut cursor, step),
            b'[' => find_element(&mut cursor, step.parse().ok()?),
            _ => None,
        }
    })
}

fn find_field<'a>(cursor: &mut Cursor<'a>, step: &str) -> Option<&'a [u8]> {
    let mut found = None;
    let visited = cursor.fields(|cursor, name| {
        let value = cursor.value()?;
        if name.raw == step.as_bytes() {
            found = Some(value);
        }
        Ok(found.is_none())
    });
    visited.ok().and(found)
}

fn find_element<'a>(cursor: &mut Cursor<'a>, index: usize) -> Option<&'a [u8]> {
    let mut found = None;
    let mut position = 0;
    let visited = cursor.elements(|cursor| {
        let value = cursor.value()?;
        if position == index {
            found = Some(value);
        }
        position += 1;
        Ok(())
    });
    visited.ok().and(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_their_bytes() {
        let json = br#" {"a": {"b\"": [1, {"c":"}]\\"}, -2.5e3 ]}, "d": null, "e":"x"}"#;
        assert_eq!(find_path(json, "d"), Some(&b"null"[..]));
        assert_eq!(find_path(json, "e"), Some(&b"\"x\""[..]));
        let nested: serde_json::Value = serde_json::from_slice(find_path(json, "a").unwrap()).unwrap();
        assert_eq!(nested, serde_json::json!({"b\"": [1, {"c": "}]\\"}, -2.5e3]}));
        assert_eq!(find_path(br#"{"items":[{"x":1},{"x":2}]}"#, "items.1.x"), Some(&b"2"[..]));
        assert_eq!(find_path(json, "a.z"), None);
        assert_eq!(find_path(b"[", "0"), None);
    }

    #[test]
    fn every_truncation_is_malformed_and_none_panics() {
        let json = br#"{"a":{"b":["x\"y",{"c":null}]},"d":12}"#;
        for length in 0..json.len() {
            let mut cursor = Cursor::new(&json[..length]);
            assert!(matches!(cursor.value(), Err(Malformed { at }) if at <= length), "{length}");
        }
        assert_eq!(Cursor::new(json).value(), Ok(&json[..]));
    }

    #[test]
    fn escaped_text_is_unescaped() {
        let mut cursor = Cursor::new(br#""a\u0041\n""#);
        assert_eq!(cursor.text().unwrap().value().unwrap(), "aA\n");
        assert_eq!(Cursor::new(br#""a\"#).text().err(), Some(Malformed { at: 3 }));
    }
}
