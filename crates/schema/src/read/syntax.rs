//! A JSON scanner with the error texts of Go's encoding/json.

use std::borrow::Cow;

use setpoint_api::go_format;

/// Go's error for bytes that are not JSON.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Error(pub String);

/// Objects and arrays within each other. Deeper ones are refused: readers recurse. It is the bound that
/// serde_json has when it reads the object back.
const DEPTH: usize = 127;

/// A cursor over JSON text.
pub(crate) struct Scanner<'a> {
    data: &'a [u8],
    at: usize,
    depth: usize,
}

type Scan<T> = Result<T, Error>;

impl<'a> Scanner<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Self {
        Scanner { data, at: 0, depth: 0 }
    }

    /// Returns the position of the cursor.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// Returns the bytes taken since `position`.
    pub(crate) fn since(&self, position: usize) -> &'a [u8] {
        &self.data[position..self.at]
    }

    #[inline]
    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.data.get(self.at) {
            self.at += 1;
        }
    }

    /// The next byte that is no space, without taking it.
    #[inline]
    fn peek(&mut self) -> Scan<u8> {
        self.space();
        match self.data.get(self.at) {
            Some(byte) => Ok(*byte),
            None => self.invalid(""),
        }
    }

    #[cold]
    fn invalid<T>(&self, context: &str) -> Scan<T> {
        let Some(byte) = self.data.get(self.at) else {
            return Err(Error("unexpected end of JSON input".to_owned()));
        };
        Err(Error(format!("invalid character {} {context}", quote(*byte))))
    }

    /// The first byte of the value that stands next.
    #[inline]
    pub(crate) fn begin_value(&mut self) -> Scan<u8> {
        match self.peek()? {
            byte @ (b'{' | b'[' | b'"' | b't' | b'f' | b'n' | b'-' | b'0'..=b'9') => Ok(byte),
            _ => self.invalid("looking for beginning of value"),
        }
    }

    /// Steps into the object or array that stands next.
    #[inline]
    pub(crate) fn enter(&mut self) -> Scan<()> {
        self.depth += 1;
        if self.depth > DEPTH {
            return self.invalid("exceeded max depth");
        }
        self.at += 1;
        Ok(())
    }

    pub(crate) fn leave(&mut self) {
        self.depth -= 1;
    }

    /// Whether the object just entered has a key; takes the end when not.
    #[inline]
    pub(crate) fn first_key(&mut self) -> Scan<bool> {
        if self.peek()? == b'}' {
            self.at += 1;
            return Ok(false);
        }
        self.key()
    }

    #[inline]
    fn key(&mut self) -> Scan<bool> {
        match self.peek()? {
            b'"' => Ok(true),
            _ => self.invalid("looking for beginning of object key string"),
        }
    }

    /// Whether another key follows; takes the comma or the end.
    #[inline]
    pub(crate) fn next_key(&mut self) -> Scan<bool> {
        match self.peek()? {
            b',' => {
                self.at += 1;
                self.key()
            }
            b'}' => {
                self.at += 1;
                Ok(false)
            }
            _ => self.invalid("after object key:value pair"),
        }
    }

    #[inline]
    pub(crate) fn colon(&mut self) -> Scan<()> {
        match self.peek()? {
            b':' => {
                self.at += 1;
                Ok(())
            }
            _ => self.invalid("after object key"),
        }
    }

    /// Whether the array just entered has an item; takes the end when not.
    #[inline]
    pub(crate) fn first_item(&mut self) -> Scan<bool> {
        if self.peek()? == b']' {
            self.at += 1;
            return Ok(false);
        }
        Ok(true)
    }

    /// Whether another item follows; takes the comma or the end.
    #[inline]
    pub(crate) fn next_item(&mut self) -> Scan<bool> {
        match self.peek()? {
            b',' => {
                self.at += 1;
                Ok(true)
            }
            b']' => {
                self.at += 1;
                Ok(false)
            }
            _ => self.invalid("after array element"),
        }
    }

    /// Takes `true`, `false` or `null`.
    pub(crate) fn word(&mut self) -> Scan<()> {
        let word = match self.data.get(self.at) {
            Some(b't') => "true",
            Some(b'f') => "false",
            _ => "null",
        };
        for expected in word.bytes() {
            if self.data.get(self.at) != Some(&expected) {
                return self.invalid(&format!("in literal {word} (expecting '{}')", expected as char));
            }
            self.at += 1;
        }
        Ok(())
    }

    /// Takes a number as it is written.
    pub(crate) fn numeral(&mut self) -> Scan<&'a str> {
        let start = self.at;
        if self.data.get(self.at) == Some(&b'-') {
            self.at += 1;
        }
        match self.data.get(self.at) {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return self.invalid("in numeric literal"),
        }
        if self.data.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.some_digits("after decimal point in numeric literal")?;
        }
        if let Some(b'e' | b'E') = self.data.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.data.get(self.at) {
                self.at += 1;
            }
            self.some_digits("in exponent of numeric literal")?;
        }
        Ok(std::str::from_utf8(&self.data[start..self.at]).expect("digits, signs and points are ASCII"))
    }

    fn digits(&mut self) {
        while let Some(b'0'..=b'9') = self.data.get(self.at) {
            self.at += 1;
        }
    }

    fn some_digits(&mut self, context: &str) -> Scan<()> {
        match self.data.get(self.at) {
            Some(b'0'..=b'9') => {
                self.digits();
                Ok(())
            }
            _ => self.invalid(context),
        }
    }

    /// Takes a string; bytes that are not UTF-8 become U+FFFD, as in Go.
    pub(crate) fn string(&mut self) -> Scan<Cow<'a, str>> {
        let start = self.at + 1;
        match self.plain_string()? {
            Some(bytes) => Ok(match std::str::from_utf8(bytes) {
                Ok(text) => Cow::Borrowed(text),
                Err(_) => String::from_utf8_lossy(bytes),
            }),
            None => self.escaped(start).map(Cow::Owned),
        }
    }

    /// As [`Scanner::string`], of a document that is known to be JSON and UTF-8.
    #[inline]
    pub(crate) fn known_string(&mut self) -> Scan<Cow<'a, [u8]>> {
        let start = self.at + 1;
        match memchr::memchr2(b'"', b'\\', &self.data[start..]) {
            Some(length) if self.data[start + length] == b'"' => {
                self.at = start + length + 1;
                Ok(Cow::Borrowed(&self.data[start..start + length]))
            }
            _ => {
                self.at = start;
                self.escaped(start).map(|text| Cow::Owned(text.into_bytes()))
            }
        }
    }

    /// As [`Scanner::skip_value`], of a document that is known to be JSON: brackets are counted, nothing is looked at.
    pub(crate) fn skip_known(&mut self) -> Scan<()> {
        if !matches!(self.begin_value()?, b'{' | b'[') {
            return self.skip_value();
        }
        let mut open = 0usize;
        while let Some(byte) = self.data.get(self.at) {
            self.at += 1;
            match byte {
                b'"' => self.pass_known_string(),
                b'{' | b'[' => open += 1,
                b'}' | b']' if open == 1 => return Ok(()),
                b'}' | b']' => open -= 1,
                _ => {}
            }
        }
        self.invalid("")
    }

    /// Goes behind the string whose quote was just taken.
    #[inline]
    fn pass_known_string(&mut self) {
        while let Some(length) = memchr::memchr2(b'"', b'\\', &self.data[self.at..]) {
            self.at += length + 1;
            if self.data[self.at - 1] == b'"' {
                return;
            }
            // A quote after a backslash does not end the string.
            self.at = (self.at + 1).min(self.data.len());
        }
        self.at = self.data.len();
    }

    /// Takes a string that stands for itself; of any other only what comes before its first escape.
    #[inline]
    fn plain_string(&mut self) -> Scan<Option<&'a [u8]>> {
        let start = self.at + 1;
        self.at = start + plain(&self.data[start..]);
        match self.data.get(self.at) {
            Some(b'"') => {
                self.at += 1;
                Ok(Some(&self.data[start..self.at - 1]))
            }
            Some(b'\\') => Ok(None),
            _ => self.invalid("in string literal"),
        }
    }

    /// Takes a string without keeping it.
    fn skip_string(&mut self) -> Scan<()> {
        self.at += 1;
        loop {
            self.at += plain(&self.data[self.at..]);
            match self.data.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => {
                    self.at += 1;
                    self.escape()?;
                }
                _ => return self.invalid("in string literal"),
            }
        }
    }

    /// The rest of a string that has escapes, from its start.
    fn escaped(&mut self, start: usize) -> Scan<String> {
        let mut text = Vec::with_capacity(self.at - start + 16);
        text.extend_from_slice(&self.data[start..self.at]);
        loop {
            let run = self.at;
            self.at += plain(&self.data[run..]);
            text.extend_from_slice(&self.data[run..self.at]);
            match self.data.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    let lossy = |wrong: std::string::FromUtf8Error| {
                        String::from_utf8_lossy(wrong.as_bytes()).into_owned()
                    };
                    return Ok(String::from_utf8(text).unwrap_or_else(lossy));
                }
                Some(b'\\') => {
                    self.at += 1;
                    let c = self.escape()?;
                    text.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                }
                _ => return self.invalid("in string literal"),
            }
        }
    }

    fn escape(&mut self) -> Scan<char> {
        let c = match self.data.get(self.at) {
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(byte @ (b'\\' | b'/' | b'"')) => *byte as char,
            Some(b'u') => {
                self.at += 1;
                return self.unicode();
            }
            _ => return self.invalid("in string escape code"),
        };
        self.at += 1;
        Ok(c)
    }

    fn unicode(&mut self) -> Scan<char> {
        let first = self.hex()?;
        if !(0xd800..0xe000).contains(&first) {
            return Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        // A low half that follows belongs to it; anything else stands for itself.
        if first < 0xdc00 && self.data[self.at..].starts_with(b"\\u") {
            let before = self.at;
            self.at += 2;
            let second = self.hex()?;
            if (0xdc00..0xe000).contains(&second) {
                let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = before;
        }
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn hex(&mut self) -> Scan<u32> {
        let mut code = 0;
        for _ in 0..4 {
            let Some(digit) = self.data.get(self.at).and_then(|byte| (*byte as char).to_digit(16)) else {
                return self.invalid("in \\u hexadecimal character escape");
            };
            code = code * 16 + digit;
            self.at += 1;
        }
        Ok(code)
    }

    /// Takes whatever stands next.
    pub(crate) fn skip_value(&mut self) -> Scan<()> {
        match self.begin_value()? {
            b'"' => self.skip_string(),
            b't' | b'f' | b'n' => self.word(),
            b'{' => {
                self.enter()?;
                let mut more = self.first_key()?;
                while more {
                    self.skip_string()?;
                    self.colon()?;
                    self.skip_value()?;
                    more = self.next_key()?;
                }
                self.leave();
                Ok(())
            }
            b'[' => {
                self.enter()?;
                let mut more = self.first_item()?;
                while more {
                    self.skip_value()?;
                    more = self.next_item()?;
                }
                self.leave();
                Ok(())
            }
            _ => self.numeral().map(drop),
        }
    }

    /// Nothing but space may follow.
    pub(crate) fn end(&mut self) -> Scan<()> {
        self.space();
        if self.at < self.data.len() { self.invalid("after top-level value") } else { Ok(()) }
    }
}

/// How many bytes stand for themselves in a string: up to a quote, a backslash or a control character. Eight at a time.
fn plain(text: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    let is_zero = |word: u64| word.wrapping_sub(ONES) & !word;
    let mut at = 0;
    while let Some(chunk) = text[at..].first_chunk() {
        let word = u64::from_le_bytes(*chunk);
        let control = word.wrapping_sub(ONES * 0x20) & !word;
        let found = (is_zero(word ^ (ONES * 0x22)) | is_zero(word ^ (ONES * 0x5c)) | control) & HIGH;
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = &text[at..];
    at + rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f)).unwrap_or(rest.len())
}

/// Whether the whole is one JSON value.
pub(crate) fn check(data: &[u8]) -> Scan<()> {
    let mut scanner = Scanner::new(data);
    scanner.skip_value()?;
    scanner.end()
}

fn quote(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        // Go turns the byte into the code point of that number.
        _ => {
            let quoted = go_format::quote(&(byte as char).to_string());
            format!("'{}'", &quoted[1..quoted.len() - 1])
        }
    }
}
