//! Words and symbols of a label selector.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Error,
    End,
    Close,
    Comma,
    Not,
    DoubleEquals,
    Equals,
    Greater,
    Identifier,
    In,
    Less,
    NotEquals,
    NotIn,
    Open,
}

const SYMBOLS: [(&str, Token); 11] = [
    (")", Token::Close),
    (",", Token::Comma),
    ("!", Token::Not),
    ("==", Token::DoubleEquals),
    ("=", Token::Equals),
    (">", Token::Greater),
    ("in", Token::In),
    ("<", Token::Less),
    ("!=", Token::NotEquals),
    ("notin", Token::NotIn),
    ("(", Token::Open),
];

fn symbol(text: &str) -> Option<Token> {
    SYMBOLS.iter().find(|(known, _)| *known == text).map(|(_, token)| *token)
}

fn is_special(b: u8) -> bool {
    matches!(b, b'=' | b'!' | b'(' | b')' | b',' | b'>' | b'<')
}

fn is_space(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\r' | b'\n')
}

/// All words and symbols, with an end mark as the last.
pub(super) fn scan(text: &str) -> Vec<(Token, String)> {
    let bytes = text.as_bytes();
    // A NUL byte ends the text, as it does in Go's lexer.
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    let mut at = 0;
    let mut tokens = Vec::new();
    while at < end {
        if is_space(bytes[at]) {
            at += 1;
            continue;
        }
        let start = at;
        if is_special(bytes[at]) {
            tokens.push(scan_symbol(text, &mut at, end));
        } else {
            while at < end && !is_special(bytes[at]) && !is_space(bytes[at]) {
                at += 1;
            }
            let word = &text[start..at];
            tokens.push((symbol(word).unwrap_or(Token::Identifier), word.to_owned()));
        }
    }
    tokens.push((Token::End, String::new()));
    tokens
}

/// The longest symbol that begins here.
fn scan_symbol(text: &str, at: &mut usize, end: usize) -> (Token, String) {
    let bytes = text.as_bytes();
    let start = *at;
    let mut found: Option<(Token, usize)> = None;
    let mut reach = start;
    while reach < end && is_special(bytes[reach]) {
        reach += 1;
        match symbol(&text[start..reach]) {
            Some(token) => found = Some((token, reach)),
            None if found.is_some() => break,
            None => {}
        }
    }
    match found {
        Some((token, stop)) => {
            *at = stop;
            (token, text[start..stop].to_owned())
        }
        None => {
            *at = reach;
            (Token::Error, format!("error expected: keyword found '{}'", &text[start..reach]))
        }
    }
}
