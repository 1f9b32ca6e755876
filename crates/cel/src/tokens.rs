//! The tokens of an expression, as far as its nesting is to be told from them.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Word,
    /// A field's name between backticks.
    Quoted,
    Literal,
    Open(char),
    Close(char),
    Dot,
    Comma,
    Question,
    Colon,
    Bang,
    Minus,
    Plus,
    Times,
    Relation,
    And,
    Or,
    /// No token begins so.
    Bad,
}

/// The tokens, with where each begins.
pub(super) fn tokens(text: &str) -> Vec<(Token, usize)> {
    let mut cursor = Cursor { text: text.as_bytes(), at: 0 };
    let mut found = Vec::new();
    while let Some(byte) = cursor.skip_blank() {
        let start = cursor.at;
        let token = cursor.token(byte);
        found.push((token, start));
    }
    found
}

struct Cursor<'t> {
    text: &'t [u8],
    at: usize,
}

impl Cursor<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    /// Moves over white space and comments to the next byte.
    fn skip_blank(&mut self) -> Option<u8> {
        loop {
            match self.text.get(self.at)? {
                b' ' | b'\t' | b'\r' | b'\n' | 0x0c => self.at += 1,
                b'/' if self.peek(1) == b'/' => {
                    self.at = self.text[self.at..]
                        .iter()
                        .position(|byte| *byte == b'\n')
                        .map_or(self.text.len(), |line| self.at + line);
                }
                byte => return Some(*byte),
            }
        }
    }

    fn while_byte(&mut self, holds: impl Fn(u8) -> bool) {
        while self.text.get(self.at).is_some_and(|byte| holds(*byte)) {
            self.at += 1;
        }
    }

    fn token(&mut self, byte: u8) -> Token {
        let next = self.peek(1);
        match byte {
            b'_' | b'a'..=b'z' | b'A'..=b'Z' => return self.word(),
            b'0'..=b'9' => return self.number(),
            b'.' if next.is_ascii_digit() => return self.number(),
            b'"' | b'\'' => return self.string(false),
            b'`' => {
                self.at += 1;
                self.while_byte(|byte| byte.is_ascii_alphanumeric() || b"_.-/ ".contains(&byte));
                let closed = self.peek(0) == b'`';
                self.at += usize::from(closed);
                return if closed { Token::Quoted } else { Token::Bad };
            }
            _ => {}
        }
        let (token, length) = match (byte, next) {
            (b'(' | b'[' | b'{', _) => (Token::Open(byte.into()), 1),
            (b')' | b']' | b'}', _) => (Token::Close(byte.into()), 1),
            (b'=' | b'!' | b'<' | b'>', b'=') => (Token::Relation, 2),
            (b'<' | b'>', _) => (Token::Relation, 1),
            (b'&', b'&') => (Token::And, 2),
            (b'|', b'|') => (Token::Or, 2),
            (b'.', _) => (Token::Dot, 1),
            (b',', _) => (Token::Comma, 1),
            (b'?', _) => (Token::Question, 1),
            (b':', _) => (Token::Colon, 1),
            (b'!', _) => (Token::Bang, 1),
            (b'-', _) => (Token::Minus, 1),
            (b'+', _) => (Token::Plus, 1),
            (b'*' | b'/' | b'%', _) => (Token::Times, 1),
            _ => (Token::Bad, 1),
        };
        self.at += length;
        token
    }

    /// A name, or a text with a prefix.
    fn word(&mut self) -> Token {
        let start = self.at;
        self.while_byte(|byte| byte == b'_' || byte.is_ascii_alphanumeric());
        let word = &self.text[start..self.at];
        let raw = match word {
            b"r" | b"R" | b"br" | b"bR" | b"Br" | b"BR" => Some(true),
            b"b" | b"B" => Some(false),
            _ => None,
        };
        match (word, raw) {
            (_, Some(raw)) if matches!(self.peek(0), b'"' | b'\'') => self.string(raw),
            (b"in", _) => Token::Relation,
            (b"true" | b"false" | b"null", _) => Token::Literal,
            _ => Token::Word,
        }
    }

    fn number(&mut self) -> Token {
        if self.peek(0) == b'0' && self.peek(1) == b'x' && self.peek(2).is_ascii_hexdigit() {
            self.at += 2;
            self.while_byte(|byte| byte.is_ascii_hexdigit());
        } else {
            self.while_byte(|byte| byte.is_ascii_digit());
            if self.peek(0) == b'.' && self.peek(1).is_ascii_digit() {
                self.at += 1;
                self.while_byte(|byte| byte.is_ascii_digit());
            }
            let signed = usize::from(matches!(self.peek(1), b'+' | b'-'));
            if matches!(self.peek(0), b'e' | b'E') && self.peek(1 + signed).is_ascii_digit() {
                self.at += 1 + signed;
                self.while_byte(|byte| byte.is_ascii_digit());
            }
        }
        self.at += usize::from(matches!(self.peek(0), b'u' | b'U'));
        Token::Literal
    }

    fn string(&mut self, raw: bool) -> Token {
        let quote = self.peek(0);
        let is_triple = self.peek(1) == quote && self.peek(2) == quote;
        let width = if is_triple { 3 } else { 1 };
        self.at += width;
        while let Some(byte) = self.text.get(self.at) {
            match byte {
                b'\\' if !raw => self.at += 2,
                b'\n' | b'\r' if !is_triple => break,
                byte if *byte == quote
                    && (!is_triple || (self.peek(1) == quote && self.peek(2) == quote)) =>
                {
                    self.at += width;
                    return Token::Literal;
                }
                _ => self.at += 1,
            }
        }
        self.at = self.at.min(self.text.len());
        Token::Bad
    }
}
