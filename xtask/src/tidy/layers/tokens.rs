//! Rust source as words and marks, without comments and literals: enough to read `mod` lines, imports and paths.

/// One token with the line on which it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    pub text: String,
    pub line: usize,
}

/// Splits a source file. Comments, strings and characters are left out; `::` is one token, every other mark is one each.
pub fn tokens(text: &str) -> Vec<Token> {
    let mut reader = Reader { text: text.as_bytes(), at: 0, line: 1 };
    let mut tokens = Vec::new();
    while let Some(byte) = reader.peek(0) {
        let line = reader.line;
        let begin = reader.at;
        match byte {
            b'/' if reader.peek(1) == Some(b'/') => reader.skip_while(|byte| byte != b'\n'),
            b'/' if reader.peek(1) == Some(b'*') => reader.block_comment(),
            b'"' => reader.string(),
            b'\'' => reader.character_or_lifetime(),
            b':' if reader.peek(1) == Some(b':') => {
                reader.advance(2);
                tokens.push(Token { text: "::".to_owned(), line });
            }
            _ if is_word(byte) => {
                reader.skip_while(is_word);
                if reader.raw_string_follows(begin) {
                    reader.raw_string();
                } else if !matches!(reader.peek(0), Some(b'"')) || reader.at - begin > 2 {
                    // Otherwise it is the prefix of a string (`b"…"`, `c"…"`), which the next turn leaves out.
                    tokens.push(Token { text: text[begin..reader.at].to_owned(), line });
                }
            }
            _ => {
                reader.advance(1);
                if byte.is_ascii_punctuation() {
                    tokens.push(Token { text: char::from(byte).to_string(), line });
                }
            }
        }
    }
    tokens
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    line: usize,
}

impl Reader<'_> {
    fn peek(&self, ahead: usize) -> Option<u8> {
        self.text.get(self.at + ahead).copied()
    }

    fn advance(&mut self, bytes: usize) {
        for _ in 0..bytes {
            if self.peek(0) == Some(b'\n') {
                self.line += 1;
            }
            self.at += 1;
        }
    }

    fn skip_while(&mut self, wanted: impl Fn(u8) -> bool) {
        while self.peek(0).is_some_and(&wanted) {
            self.advance(1);
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        while let Some(byte) = self.peek(0) {
            match (byte, self.peek(1)) {
                (b'/', Some(b'*')) => {
                    depth += 1;
                    self.advance(2);
                }
                (b'*', Some(b'/')) => {
                    depth -= 1;
                    self.advance(2);
                    if depth == 0 {
                        return;
                    }
                }
                _ => self.advance(1),
            }
        }
    }

    fn string(&mut self) {
        self.advance(1);
        while let Some(byte) = self.peek(0) {
            self.advance(if byte == b'\\' { 2 } else { 1 });
            if byte == b'"' {
                return;
            }
        }
    }

    fn raw_string_follows(&self, begin: usize) -> bool {
        let prefix = &self.text[begin..self.at];
        let hashes = (0..).take_while(|ahead| self.peek(*ahead) == Some(b'#')).count();
        matches!(prefix, b"r" | b"br" | b"cr") && self.peek(hashes) == Some(b'"')
    }

    fn raw_string(&mut self) {
        let hashes = (0..).take_while(|ahead| self.peek(*ahead) == Some(b'#')).count();
        let mut end = vec![b'"'];
        end.resize(hashes + 1, b'#');
        self.advance(hashes + 1);
        while self.at < self.text.len() && !self.text[self.at..].starts_with(&end) {
            self.advance(1);
        }
        self.advance(end.len());
    }

    /// `'a'` and `'\n'` are characters, `'a` a lifetime.
    fn character_or_lifetime(&mut self) {
        self.advance(1);
        if self.peek(0) == Some(b'\\') {
            self.advance(2);
            self.skip_while(|byte| byte != b'\'');
            self.advance(1);
            return;
        }
        let rest = std::str::from_utf8(&self.text[self.at..]).unwrap_or_default();
        let wide = rest.chars().next().map_or(1, char::len_utf8);
        if self.peek(wide) == Some(b'\'') {
            self.advance(wide + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_left_out() {
        let text = "use a::b; // use c::d;\n/* x /* y */ z */ let s = r#\"mod \"q\"\"#; 'x: '\\'' '\"' b\"mod\" f(\"\\\"\")";
        let found: Vec<String> = tokens(text).into_iter().map(|token| token.text).collect();
        let expected = "use a :: b ; let s = ; x : f ( )";
        assert_eq!(found.join(" "), expected);
    }

    #[test]
    fn a_token_knows_its_line() {
        let found = tokens("a\n/*\n*/ b\n\"\n\" c");
        let lines: Vec<(String, usize)> = found.into_iter().map(|token| (token.text, token.line)).collect();
        assert_eq!(lines, [("a".to_owned(), 1), ("b".to_owned(), 3), ("c".to_owned(), 5)]);
    }
}
