//! How deep an expression nests, told before anything recurses over it. The limits are those of cel-go 0.29.2, counted
//! as it counts: its parser stops in any rule of the grammar that is within itself 250 times, and its visitor at 250
//! operators, selections, calls and indexes on one path through the tree.

use std::borrow::Cow;

use super::tokens::{Token, tokens};

/// How often a rule of the grammar may be within itself, and how many nodes a path may have.
const RECURSION: usize = 250;
/// How deep expressions may nest together where one uses what others make.
const MOST_LEVELS: usize = 1000;
/// The longest expression.
const CODE_POINTS: usize = 100_000;
/// How much may nest in what is no expression. The grammar's own parser says what is wrong with it, and goes on after an
/// error: nothing but this bounds how deep.
const BROKEN: usize = 10_000;
/// How much deeper the parser goes for a bracket than for an operator.
const BRACKET: usize = 20;

/// An expression that may be given to the parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Depth(usize);

/// The tree of a level, with the loops that macros become, is at most this many nodes deep, and each takes this much
/// stack in the evaluator: without optimisation its frames are several times larger.
const LEVEL_STACK: usize = if cfg!(debug_assertions) { 192 * 1024 } else { 64 * 1024 };

impl Depth {
    /// The depth of a text that is no expression.
    const NONE: Depth = Depth(0);

    pub(super) fn levels(self) -> usize {
        self.0
    }

    /// With what nests below it.
    ///
    /// # Errors
    /// Together they are too deep.
    pub(super) fn above(self, below: usize) -> Result<Depth, String> {
        match self.0 + below {
            levels if levels <= MOST_LEVELS => Ok(Depth(levels)),
            _ => Err("max recursion depth exceeded".to_owned()),
        }
    }

    /// Runs what recurses over an expression of this depth where there is enough stack for it.
    pub(super) fn on_stack<T>(self, run: impl FnOnce() -> T) -> T {
        let needed = (self.0 + 1) * LEVEL_STACK;
        stacker::maybe_grow(needed, needed + LEVEL_STACK, run)
    }
}

enum Stop {
    /// A limit is passed, in cel-go's words.
    Limit(String),
    /// It is no expression.
    Broken,
}

/// The text without pairs of `!`, which cel-go's parser leaves out. The library's parser reads them as one. Every token
/// stays where it is.
pub(super) fn without_double_negation(text: &str) -> Cow<'_, str> {
    let tokens = tokens(text);
    let mut own = Cow::Borrowed(text);
    let mut at = 0;
    while let Some(rest) = tokens.get(at..).filter(|rest| !rest.is_empty()) {
        at += 1;
        if let [(Token::Bang, first), (Token::Bang, second), ..] = rest {
            own.to_mut().replace_range(first..=first, " ");
            own.to_mut().replace_range(second..=second, " ");
            at += 1;
        }
    }
    own
}

/// How deep an expression nests.
///
/// # Errors
/// It is longer or nests deeper than cel-go allows, in its words.
pub(super) fn measure(text: &str) -> Result<Depth, String> {
    let size = text.chars().count();
    if size > CODE_POINTS {
        return Err(format!("expression code point size exceeds limit: size: {size}, limit {CODE_POINTS}"));
    }
    let tokens = tokens(text);
    let mut reader = Reader { tokens: &tokens, at: 0, expr: 0, relation: 0, calc: 0, deepest: 0 };
    match reader.whole() {
        Ok(height) if height > RECURSION => Err("max recursion depth exceeded".to_owned()),
        Ok(height) => Ok(Depth(reader.deepest + height)),
        Err(Stop::Limit(words)) => Err(words),
        Err(Stop::Broken) => {
            let weight = |token: Token| match token {
                Token::Open(_) | Token::Question => BRACKET,
                Token::Word | Token::Literal | Token::Close(_) | Token::Comma | Token::Bad => 0,
                _ => 1,
            };
            match tokens.iter().map(|(token, _)| weight(*token)).sum::<usize>() {
                weight if weight <= BROKEN => Ok(Depth::NONE),
                _ => Err(recursion_limit()),
            }
        }
    }
}

fn recursion_limit() -> String {
    format!("expression recursion limit exceeded: {RECURSION}")
}

/// Follows the grammar and counts. Each rule of the grammar returns the height of its part of the tree.
struct Reader<'t> {
    tokens: &'t [(Token, usize)],
    at: usize,
    expr: usize,
    relation: usize,
    calc: usize,
    /// The most that `expr` has been.
    deepest: usize,
}

type Height = Result<usize, Stop>;

impl Reader<'_> {
    fn peek(&self) -> Option<Token> {
        self.tokens.get(self.at).map(|(token, _)| *token)
    }

    fn take(&mut self, wanted: Token) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, wanted: Token) -> Result<(), Stop> {
        if self.take(wanted) { Ok(()) } else { Err(Stop::Broken) }
    }

    fn whole(&mut self) -> Height {
        let height = self.expr()?;
        if self.at == self.tokens.len() { Ok(height) } else { Err(Stop::Broken) }
    }

    fn enter(depth: &mut usize) -> Result<(), Stop> {
        *depth += 1;
        if *depth > RECURSION { Err(Stop::Limit(recursion_limit())) } else { Ok(()) }
    }

    fn expr(&mut self) -> Height {
        Self::enter(&mut self.expr)?;
        self.deepest = self.deepest.max(self.expr);
        let mut height = self.either()?;
        if self.take(Token::Question) {
            let yes = self.either()?;
            self.expect(Token::Colon)?;
            height = 1 + height.max(yes).max(self.expr()?);
        }
        self.expr -= 1;
        Ok(height)
    }

    /// Terms of `||`, each of terms of `&&`: the tree over them is balanced.
    fn either(&mut self) -> Height {
        let mut height = self.relation()?;
        while self.take(Token::Or) || self.take(Token::And) {
            height = height.max(self.relation()?);
        }
        Ok(height)
    }

    fn relation(&mut self) -> Height {
        Self::enter(&mut self.relation)?;
        let mut height = self.calc(0)?;
        while self.take(Token::Relation) {
            Self::enter(&mut self.relation)?;
            height = 1 + height.max(self.calc(0)?);
            self.relation -= 1;
        }
        self.relation -= 1;
        Ok(height)
    }

    /// Operators that bind at least so strongly.
    fn calc(&mut self, least: u8) -> Height {
        Self::enter(&mut self.calc)?;
        let mut height = self.unary()?;
        while let Some(token) = self.peek() {
            let strength = match token {
                Token::Times => 2,
                Token::Plus | Token::Minus => 1,
                _ => break,
            };
            if strength < least {
                break;
            }
            self.at += 1;
            height = 1 + height.max(self.calc(strength + 1)?);
        }
        self.calc -= 1;
        Ok(height)
    }

    fn unary(&mut self) -> Height {
        if self.take(Token::Bang) {
            while self.take(Token::Bang) {}
            // Behind `!` a minus is no operator, but the sign of a number.
            if self.take(Token::Minus) && self.peek() != Some(Token::Literal) {
                return Err(Stop::Broken);
            }
        }
        while self.take(Token::Minus) {}
        let mut height = self.primary()?;
        loop {
            if self.take(Token::Dot) {
                let optional = self.take(Token::Question);
                let quoted = self.take(Token::Quoted);
                if !quoted {
                    self.expect(Token::Word)?;
                }
                if !optional && !quoted && self.take(Token::Open('(')) {
                    height = height.max(self.arguments()?);
                }
            } else if self.take(Token::Open('[')) {
                self.take(Token::Question);
                height = height.max(self.expr()?);
                self.expect(Token::Close(']'))?;
            } else {
                return Ok(height);
            }
            height += 1;
        }
    }

    fn primary(&mut self) -> Height {
        if self.take(Token::Literal) {
            return Ok(0);
        }
        if self.take(Token::Open('(')) {
            let height = self.expr()?;
            self.expect(Token::Close(')'))?;
            return Ok(height);
        }
        if self.take(Token::Open('[')) {
            return self.list();
        }
        if self.take(Token::Open('{')) {
            return self.map();
        }
        self.take(Token::Dot);
        self.expect(Token::Word)?;
        if self.take(Token::Open('(')) {
            return self.arguments();
        }
        let mut ahead = self.at;
        while let [(Token::Dot, _), (Token::Word, _), ..] = self.tokens[ahead..] {
            ahead += 2;
        }
        if self.tokens.get(ahead).is_some_and(|(token, _)| *token == Token::Open('{')) {
            self.at = ahead + 1;
            return self.map();
        }
        Ok(0)
    }

    fn arguments(&mut self) -> Height {
        let mut height = 0;
        if self.take(Token::Close(')')) {
            return Ok(height);
        }
        loop {
            height = height.max(self.expr()?);
            if !self.take(Token::Comma) {
                self.expect(Token::Close(')'))?;
                return Ok(height);
            }
        }
    }

    fn list(&mut self) -> Height {
        let mut height = 0;
        while !self.take(Token::Close(']')) {
            self.take(Token::Question);
            height = height.max(self.expr()?);
            if !self.take(Token::Comma) {
                self.expect(Token::Close(']'))?;
                break;
            }
        }
        Ok(height)
    }

    fn map(&mut self) -> Height {
        let mut height = 0;
        while !self.take(Token::Close('}')) {
            self.take(Token::Question);
            if !self.take(Token::Quoted) {
                height = height.max(self.expr()?);
            }
            self.expect(Token::Colon)?;
            height = height.max(self.expr()?);
            if !self.take(Token::Comma) {
                self.expect(Token::Close('}'))?;
                break;
            }
        }
        Ok(height)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRAMMAR: &str = "expression recursion limit exceeded: 250";

    /// The most that cel-go 0.29.2 takes of each shape, and what it says of one more.
    #[test]
    fn an_expression_may_nest_as_deep_as_in_cel_go() {
        const TREE: &str = "max recursion depth exceeded";
        let table = [
            (("a", ".a", "", ""), 250, TREE),
            (("a", ".?a", "", ""), 250, TREE),
            (("a", "[0]", "", ""), 250, TREE),
            (("a", ".f()", "", ""), 250, TREE),
            (("1", "+1", "", ""), 250, TREE),
            (("1", "+1*1", "", ""), 249, TREE),
            (("1", "*1+1", "", ""), 249, TREE),
            (("1", "<1", "", ""), 250, TREE),
            (("1", "<1+1", "", ""), 249, TREE),
            (("a", ".map(x,x)", "", ""), 250, TREE),
            (("", "[", "", "]"), 250, GRAMMAR),
            (("", "(", "1", ")"), 249, GRAMMAR),
            (("", "{1:", "1", "}"), 249, GRAMMAR),
            (("", "A{a:", "1", "}"), 249, GRAMMAR),
            (("", "{", "1", ":1}"), 249, GRAMMAR),
            (("", "f(", "", ")"), 250, GRAMMAR),
            (("", "f(", "1", ")"), 249, GRAMMAR),
            (("", "!(", "a", ")"), 249, GRAMMAR),
            (("a", "?a:a", "", ""), 249, GRAMMAR),
            (("", "a?(", "1", "):1"), 249, GRAMMAR),
            (("", "a[", "0", "]"), 249, GRAMMAR),
            (("", "1+(", "1", ")"), 124, GRAMMAR),
            (("", "(", "1", "+1)"), 248, GRAMMAR),
            (("", "a.all(x,", "x", ")"), 249, GRAMMAR),
        ];
        for ((first, open, middle, close), most, words) in table {
            let text = |count: usize| format!("{first}{}{middle}{}", open.repeat(count), close.repeat(count));
            assert!(measure(&text(most)).is_ok(), "{open} {most} times");
            assert_eq!(measure(&text(most + 1)), Err(words.to_owned()), "{open} {} times", most + 1);
            assert_eq!(measure(&text(5000)), Err(words.to_owned()), "{open}");
        }
        for flat in ["&&a", "||a"] {
            assert!(measure(&format!("a{}", flat.repeat(10_000))).is_ok());
        }
        assert!(measure(&format!("{}a", "!".repeat(10_000))).is_ok());
        assert!(measure(&format!("[1{}]", ",1".repeat(40_000))).is_ok());
    }

    #[test]
    fn an_expression_may_be_as_long_as_in_cel_go() {
        assert!(measure(&format!("1{}", " ".repeat(99_999))).is_ok());
        let error = measure(&format!("1{}", " ".repeat(100_000))).unwrap_err();
        assert_eq!(error, "expression code point size exceeds limit: size: 100001, limit 100000");
    }

    #[test]
    fn what_is_no_expression_may_nest_a_little() {
        assert_eq!(measure("1 +"), Ok(Depth::NONE));
        assert_eq!(measure("a.?f(1)"), Ok(Depth::NONE));
        for broken in ["[)", ".a", "&&", "+", "?", "{"] {
            assert_eq!(measure(&format!("){}", broken.repeat(10_001))), Err(GRAMMAR.to_owned()), "{broken}");
        }
    }

    #[test]
    fn texts_and_comments_do_not_nest() {
        let brackets = "[".repeat(1000);
        for text in [
            format!("'{brackets}'"),
            format!("\"\\\"{brackets}\""),
            format!("r'\\{brackets}'"),
            format!("'''{brackets}\n'{brackets}'''"),
            format!("1 // {brackets}"),
            format!("a.`{}`", "a.b-c/d ".repeat(100)),
            "1.5e3 + .5 + 0x1fu + -1 + b'x' + {'a': [?optional.none()]}.?a + A.b{c: 1}".to_owned(),
        ] {
            assert!(measure(&text).is_ok_and(|depth| depth.levels() < 12), "{text}");
        }
    }
}
