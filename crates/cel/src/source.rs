//! Positions in the text of an expression. The parser does not keep them, so a walk over the tree in the text's order
//! finds them again.

/// The number of errors that are reported, as in cel-go. For the others only their number is reported.
pub(super) const MOST_ERRORS: usize = 100;
/// The longest line that an error shows, as in cel-go.
const MAX_SNIPPET: usize = 16384;

/// The errors as cel-go reports them. `count` is the number of all errors.
pub(super) fn told(mut lines: Vec<String>, count: usize) -> String {
    lines.truncate(MOST_ERRORS);
    if count > MOST_ERRORS {
        lines.push(format!("{} more errors were truncated", count - MOST_ERRORS));
    }
    lines.join("\n")
}

/// One token and where it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Token {
    text: String,
    at: usize,
}

/// A cursor over the tokens of an expression, moved forward as the tree is walked.
pub(super) struct Source<'s> {
    text: &'s str,
    tokens: Vec<Token>,
    next: usize,
}

impl<'s> Source<'s> {
    pub(super) fn new(text: &'s str) -> Self {
        Source { text, tokens: tokenize(text), next: 0 }
    }

    /// The place of the next token that reads so; the cursor moves behind it.
    pub(super) fn find(&mut self, text: &str) -> usize {
        let found = self.tokens[self.next..].iter().position(|token| token.text == text);
        match found {
            Some(at) => {
                self.next += at + 1;
                self.tokens[self.next - 1].at
            }
            None => 0,
        }
    }

    fn upcoming(&self) -> usize {
        self.tokens.get(self.next).map_or(self.text.len(), |token| token.at)
    }

    /// The place of the next value: commas and parentheses before it do not count.
    pub(super) fn upcoming_value(&self) -> usize {
        let value =
            self.tokens[self.next..].iter().find(|token| !matches!(token.text.as_str(), "," | "(" | ")"));
        value.map_or(self.text.len(), |token| token.at)
    }

    /// The place of the last token that was passed, if it names a member: its dot's.
    pub(super) fn last_dot(&self) -> Option<usize> {
        let dot = self.next.checked_sub(2)?;
        self.tokens[dot].text.starts_with('.').then_some(self.tokens[dot].at)
    }

    /// Moves behind the next literal.
    pub(super) fn skip_literal(&mut self) {
        let is_literal = |token: &Token| {
            let text = token.text.as_str();
            text.starts_with(|letter: char| letter.is_ascii_digit())
                || text.ends_with(['"', '\''])
                || matches!(text, "true" | "false" | "null")
        };
        if let Some(at) = self.tokens[self.next..].iter().position(is_literal) {
            self.next += at + 1;
        }
    }

    /// Moves behind the next token.
    pub(super) fn skip(&mut self) -> usize {
        let at = self.upcoming();
        self.next = (self.next + 1).min(self.tokens.len());
        at
    }

    /// The place of the dot before the next such name; the cursor moves behind the name.
    pub(super) fn find_member(&mut self, name: &str) -> usize {
        let pairs = self.tokens[self.next..].windows(2);
        let found = pairs.into_iter().position(|pair| pair[0].text.starts_with('.') && pair[1].text == name);
        match found {
            Some(at) => {
                self.next += at + 2;
                self.tokens[self.next - 2].at
            }
            None => self.find(name),
        }
    }

    /// The message as cel-go formats it: position, line, and a caret under it.
    pub(super) fn describe(&self, at: usize, message: &str) -> String {
        let before = &self.text[..at.min(self.text.len())];
        let line = before.matches('\n').count();
        let column = before.rsplit('\n').next().map_or(0, |rest| rest.chars().count());
        let text = self.text.lines().nth(line).unwrap_or_default();
        if text.len() > MAX_SNIPPET {
            return format!("ERROR: <input>:{}:{}: {message}", line + 1, column + 1);
        }
        let dots = ".".repeat(column);
        format!("ERROR: <input>:{}:{}: {message}\n | {text}\n | {dots}^", line + 1, column + 1)
    }
}

impl Source<'_> {
    /// Like [`Source::describe`], for a line and column that count from one.
    pub(super) fn describe_at(&self, line: isize, column: isize, message: &str) -> String {
        let skipped = usize::try_from(line - 1).unwrap_or(0);
        let start: usize = self.text.split_inclusive('\n').take(skipped).map(str::len).sum();
        let column = usize::try_from(column - 1).unwrap_or(0);
        let inside = self.text[start..].chars().take(column).map(char::len_utf8).sum::<usize>();
        self.describe(start + inside, message)
    }
}

fn tokenize(text: &str) -> Vec<Token> {
    let letters: Vec<(usize, char)> = text.char_indices().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < letters.len() {
        let (start, letter) = letters[at];
        if letter.is_whitespace() {
            at += 1;
            continue;
        }
        let end = if letter.is_ascii_alphabetic() || letter == '_' {
            word_end(&letters, at)
        } else if letter.is_ascii_digit() {
            number_end(&letters, at)
        } else if letter == '"' || letter == '\'' {
            string_end(&letters, at)
        } else {
            operator_end(&letters, at)
        };
        let stop = letters.get(end).map_or(text.len(), |(stop, _)| *stop);
        tokens.push(Token { text: text[start..stop].to_owned(), at: start });
        at = end;
    }
    tokens
}

/// A name, or a string with a prefix (`r'…'`).
fn word_end(letters: &[(usize, char)], from: usize) -> usize {
    let mut at = from;
    while at < letters.len() && (letters[at].1.is_ascii_alphanumeric() || letters[at].1 == '_') {
        at += 1;
    }
    let is_prefix = at - from <= 2 && letters[from..at].iter().all(|(_, letter)| "rRbB".contains(*letter));
    match letters.get(at) {
        Some((_, '"' | '\'')) if is_prefix => string_end(letters, at),
        _ => at,
    }
}

fn number_end(letters: &[(usize, char)], from: usize) -> usize {
    let mut at = from;
    while at < letters.len() {
        let letter = letters[at].1;
        let fraction = letter == '.' && letters.get(at + 1).is_some_and(|(_, next)| next.is_ascii_digit());
        let signed = matches!(letter, '+' | '-') && matches!(letters[at - 1].1, 'e' | 'E');
        if !(letter.is_ascii_alphanumeric() || fraction || signed) {
            break;
        }
        at += 1;
    }
    at
}

fn string_end(letters: &[(usize, char)], from: usize) -> usize {
    let quote = letters[from].1;
    let is_triple = letters.len() > from + 2 && letters[from + 1].1 == quote && letters[from + 2].1 == quote;
    let width = if is_triple { 3 } else { 1 };
    let mut at = from + width;
    while at < letters.len() {
        if letters[at].1 == '\\' {
            at += 2;
            continue;
        }
        if letters[at..].iter().take(width).filter(|(_, letter)| *letter == quote).count() == width {
            return at + width;
        }
        at += 1;
    }
    letters.len()
}

fn operator_end(letters: &[(usize, char)], from: usize) -> usize {
    let next = letters.get(from + 1).map(|(_, letter)| *letter);
    let double = matches!(
        (letters[from].1, next),
        ('=' | '!' | '<' | '>', Some('=')) | ('&', Some('&')) | ('|', Some('|')) | ('.' | '[', Some('?'))
    );
    from + if double { 2 } else { 1 }
}
