//! Go's regular expressions (RE2 syntax) in the form that this crate's engine reads with the same meaning.

use std::sync::atomic::{AtomicUsize, Ordering};

use regex::{Regex, RegexBuilder};

/// A pattern that Go would refuse, in Go's words where they are known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("error parsing regexp: {0}")]
pub struct PatternError(String);

/// Compiles a pattern as Go would.
pub fn compile(pattern: &str) -> Result<Regex, PatternError> {
    if let Some(operator) = too_many_repetitions(pattern) {
        return Err(PatternError(format!("invalid repeat count: `{operator}`")));
    }
    Regex::new(&translate(pattern)).map_err(|error| describe(pattern, &error))
}

/// How much memory the patterns of all schemas may keep together.
const KEPT_BYTES: usize = 128 * 1024 * 1024;
/// Programs of a pattern are kept by the smallest of these sizes that is enough.
const SIZES: [usize; 4] = [16 * 1024, 256 * 1024, 2 * 1024 * 1024, 10 * 1024 * 1024];

static KEPT: AtomicUsize = AtomicUsize::new(0);

/// A pattern of a schema. It stays compiled while all that are have room; otherwise it is compiled at each use, which
/// is slow and keeps nothing.
#[derive(Debug)]
pub(super) struct Pattern {
    text: String,
    kept: Option<(Regex, Share)>,
}

/// The share of [`KEPT_BYTES`] that a pattern takes.
#[derive(Debug)]
struct Share(usize);

impl Share {
    fn take(size: usize) -> Option<Share> {
        let grown = |kept: usize| kept.checked_add(size).filter(|kept| *kept <= KEPT_BYTES);
        KEPT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).ok().map(|_| Share(size))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        KEPT.fetch_sub(self.0, Ordering::Relaxed);
    }
}

impl Pattern {
    pub(super) fn new(text: &str) -> Self {
        let translated = translate(text);
        let kept = SIZES.iter().find_map(|size| {
            let regex =
                RegexBuilder::new(&translated).size_limit(*size).dfa_size_limit(*size).build().ok()?;
            // The program, one backwards, and what matching remembers.
            Some((regex, Share::take(4 * size)))
        });
        let kept = kept.and_then(|(regex, share)| Some((regex, share?)));
        Pattern { text: text.to_owned(), kept }
    }

    pub(super) fn is_match(&self, text: &str) -> bool {
        match &self.kept {
            Some((regex, _)) => regex.is_match(text),
            None => compile(&self.text).is_ok_and(|regex| regex.is_match(text)),
        }
    }
}

/// `\d`, `\w` and `\s` mean ASCII in Go; a brace that is no repetition, and a bracket, `&&`, `--` or `~~` inside a
/// class, stand for themselves.
fn translate(pattern: &str) -> String {
    let letters: Vec<char> = pattern.chars().collect();
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut in_class = false;
    let mut at = 0;
    while at < letters.len() {
        let letter = letters[at];
        let next = letters.get(at + 1).copied();
        match letter {
            '\\' => {
                out.push_str(&escape(next, in_class));
                at += 1;
            }
            '[' if in_class && next == Some(':') => {
                let name: String = letters[at..].iter().take_while(|letter| **letter != ']').collect();
                if name.ends_with(':') {
                    out.push_str(&name);
                    out.push(']');
                    at += name.chars().count();
                } else {
                    out.push_str("\\[");
                }
            }
            '[' if in_class => out.push_str("\\["),
            '[' => {
                in_class = true;
                out.push('[');
                if next == Some('^') {
                    out.push('^');
                    at += 1;
                }
                // A bracket that opens the class's list stands for itself.
                if letters.get(at + 1) == Some(&']') {
                    out.push_str("\\]");
                    at += 1;
                }
            }
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            '&' | '~' | '-' if in_class && next == Some(letter) => {
                out.push(letter);
                out.push('\\');
                out.push(letter);
                at += 1;
            }
            '{' if !in_class && !is_repetition(&letters[at + 1..]) => out.push_str("\\{"),
            other => out.push(other),
        }
        at += 1;
    }
    out
}

/// Go refuses more repetitions of one expression, those within it included. Programs grow with their number.
const MOST_REPETITIONS: u64 = 1000;

/// The first repetition that asks for too many, as it stands in the pattern.
fn too_many_repetitions(pattern: &str) -> Option<String> {
    let letters: Vec<char> = pattern.chars().collect();
    // The most repetitions within each open group, and those of the expression before the operator.
    let (mut groups, mut last) = (vec![1_u64], 1_u64);
    let mut at = 0;
    while at < letters.len() {
        match letters[at] {
            '\\' => (at, last) = (at + 1, 1),
            '[' => (at, last) = (end_of_class(&letters, at), 1),
            '(' => groups.push(1),
            ')' if groups.len() > 1 => {
                last = groups.pop().unwrap_or(1);
                if let Some(outer) = groups.last_mut() {
                    *outer = last.max(*outer);
                }
            }
            '{' if is_repetition(&letters[at + 1..]) => {
                let body: String = letters[at + 1..].iter().take_while(|letter| **letter != '}').collect();
                let (least, most) = body.split_once(',').unwrap_or((&body, &body));
                let bound = if most.is_empty() { least } else { most };
                // A number that does not fit is too large as well.
                last = last.saturating_mul(bound.parse::<u64>().unwrap_or(u64::MAX).max(1));
                if last > MOST_REPETITIONS {
                    return Some(format!("{{{body}}}"));
                }
                if let Some(group) = groups.last_mut() {
                    *group = last.max(*group);
                }
                at += body.chars().count() + 1;
            }
            '*' | '+' | '?' => {}
            _ => last = 1,
        }
        at += 1;
    }
    None
}

/// The place of the bracket that closes a class. A bracket that opens the class's list stands for itself.
fn end_of_class(letters: &[char], begin: usize) -> usize {
    let mut at = begin + 1;
    at += usize::from(letters.get(at) == Some(&'^'));
    at += usize::from(letters.get(at) == Some(&']'));
    while let Some(letter) = letters.get(at) {
        match letter {
            ']' => return at,
            '\\' => at += 2,
            '[' if letters.get(at + 1) == Some(&':') => {
                let name = letters[at..].iter().position(|letter| *letter == ']');
                at += name.map_or(1, |end| end + 1);
            }
            _ => at += 1,
        }
    }
    letters.len()
}

/// Whether what follows an opening brace makes it a repetition.
fn is_repetition(rest: &[char]) -> bool {
    let body: String = rest.iter().take_while(|letter| **letter != '}').collect();
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let closed = rest.len() > body.chars().count();
    closed
        && match body.split_once(',') {
            None => digits(&body),
            Some((least, most)) => digits(least) && (most.is_empty() || digits(most)),
        }
}

fn escape(letter: Option<char>, in_class: bool) -> String {
    const SPACE: &str = "\\t\\n\\f\\r ";
    let (set, negated) = match letter {
        Some('d') => ("0-9", false),
        Some('D') => ("0-9", true),
        Some('w') => ("0-9A-Za-z_", false),
        Some('W') => ("0-9A-Za-z_", true),
        Some('s') => (SPACE, false),
        Some('S') => (SPACE, true),
        Some('b') if !in_class => return "(?-u:\\b)".into(),
        Some(other) => return format!("\\{other}"),
        None => return "\\".into(),
    };
    match (in_class, negated) {
        (true, false) => set.to_owned(),
        (_, true) => format!("[^{set}]"),
        (false, false) => format!("[{set}]"),
    }
}

/// Go's words for the mistakes that people make.
fn describe(pattern: &str, error: &regex::Error) -> PatternError {
    let text = error.to_string();
    let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
    PatternError(match reason {
        "unclosed group" => format!("missing closing ): `{pattern}`"),
        "unopened group" => format!("unexpected ): `{pattern}`"),
        "unclosed character class" => {
            let from = pattern.rfind('[').unwrap_or(0);
            format!("missing closing ]: `{}`", &pattern[from..])
        }
        "repetition operator missing expression" => {
            let operator = pattern.find(['*', '+', '?']).map_or("*", |at| &pattern[at..=at]);
            format!("missing argument to repetition operator: `{operator}`")
        }
        look if look.starts_with("look-around") => {
            let found = ["(?=", "(?!", "(?<"].into_iter().find(|form| pattern.contains(form)).unwrap_or("(?");
            format!("invalid or unsupported Perl syntax: `{found}`")
        }
        escape if escape.starts_with("incomplete escape") => {
            "trailing backslash at end of expression: ``".into()
        }
        other => other.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::{KEPT, KEPT_BYTES, Ordering, Pattern, Share, compile};

    /// Other tests may take their share meanwhile, and match all the same.
    #[test]
    fn patterns_share_what_they_may_keep() {
        let most = Share::take(KEPT_BYTES - KEPT.load(Ordering::Relaxed));
        let late = Pattern::new("^a{2,4}$");
        assert!(most.is_some() && late.kept.is_none() && late.is_match("aaa") && !late.is_match("a"));
        drop(most);
        let kept = Pattern::new("^a{2,4}$");
        assert!(kept.kept.is_some() && kept.is_match("aaa") && !kept.is_match("a"));
    }

    fn matches(pattern: &str, text: &str) -> bool {
        compile(pattern).unwrap().is_match(text)
    }

    #[test]
    fn classes_mean_ascii() {
        assert!(matches(r"^\w+$", "ab_1") && !matches(r"^\w+$", "é"));
        assert!(matches(r"^[\d-]+$", "1-2") && !matches(r"^\d$", "٣"));
        assert!(matches(r"^[^\s]+$", "\u{a0}") && !matches(r"^\S$", " "));
        assert!(matches(r"^[\D]$", "x") && !matches(r"^[\D]$", "1"));
        assert!(matches(r"\bfoo\b", "a foo b"));
    }

    #[test]
    fn what_stands_for_itself_in_go_does_here() {
        assert!(matches("^{a}$", "{a}") && matches("^a{2,3}$", "aaa") && matches("a{,2}", "a{,2}"));
        assert!(matches("^[[]+$", "[[") && matches("^[]a]+$", "a]") && matches("^[^]]$", "x"));
        assert!(matches("^[a&&b]+$", "a&b") && matches("^[[:alpha:]-]+$", "a-b"));
        assert!(matches("^[+--]+$", "+,-"));
    }

    #[test]
    fn repetitions_within_repetitions_are_bounded() {
        let refused = |pattern: &str| compile(pattern).unwrap_err().to_string();
        assert_eq!(refused("a{1001}"), "error parsing regexp: invalid repeat count: `{1001}`");
        assert_eq!(
            refused("^((a{1,100}){1,100}|x)$"),
            "error parsing regexp: invalid repeat count: `{1,100}`"
        );
        assert_eq!(refused("(a{2,}b{3}){400}"), "error parsing regexp: invalid repeat count: `{400}`");
        for good in [
            "a{1000}",
            "(a{10}){100}",
            "a{500}b{600}",
            "[{1001}]{2}",
            r"\{1001}",
            "(a{100}|b){0,10}",
            "[^]{2000}]",
        ] {
            assert!(compile(good).is_ok(), "{good}");
        }
    }

    #[test]
    fn mistakes_are_described_in_gos_words() {
        assert_eq!(compile("(").unwrap_err().to_string(), "error parsing regexp: missing closing ): `(`");
        assert_eq!(compile("a)").unwrap_err().to_string(), "error parsing regexp: unexpected ): `a)`");
        assert_eq!(
            compile("^(?!x)").unwrap_err().to_string(),
            "error parsing regexp: invalid or unsupported Perl syntax: `(?!`"
        );
        assert_eq!(compile("[a").unwrap_err().to_string(), "error parsing regexp: missing closing ]: `[a`");
        assert_eq!(
            compile("*").unwrap_err().to_string(),
            "error parsing regexp: missing argument to repetition operator: `*`"
        );
    }
}
