//! The input of the reader: bytes, or a value that is already there (the result of a patch).

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::syntax::{self, Scanner};

/// The next token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Object,
    Array,
    Text,
    Number,
    Bool(bool),
    Null,
}

/// Why reading stopped before its end.
#[derive(Debug)]
pub(super) enum Stop {
    /// The bytes are not JSON; the text is Go's.
    Syntax(String),
    /// A type that Go unmarshals by hand refused its value.
    Refused(String),
}

impl From<syntax::Error> for Stop {
    fn from(error: syntax::Error) -> Self {
        Stop::Syntax(error.0)
    }
}

/// One pass over a JSON value. The reader looks at the token and takes exactly what the token says.
pub(super) trait Input {
    fn token(&mut self) -> Result<Token, Stop>;
    /// Takes a bool or null.
    fn literal(&mut self) -> Result<(), Stop>;
    fn text(&mut self) -> Result<String, Stop>;
    /// A number as it is written.
    fn number(&mut self) -> Result<Cow<'_, str>, Stop>;
    /// Takes an object: `each` takes the value of each key.
    fn object(&mut self, each: &mut dyn FnMut(&mut Self, &str) -> Result<(), Stop>) -> Result<(), Stop>;
    /// Takes an array: `each` takes each item.
    fn array(&mut self, each: &mut dyn FnMut(&mut Self) -> Result<(), Stop>) -> Result<(), Stop>;
    fn skip(&mut self) -> Result<(), Stop>;
}

impl Input for Scanner<'_> {
    fn token(&mut self) -> Result<Token, Stop> {
        Ok(match self.begin_value()? {
            b'{' => Token::Object,
            b'[' => Token::Array,
            b'"' => Token::Text,
            b't' => Token::Bool(true),
            b'f' => Token::Bool(false),
            b'n' => Token::Null,
            _ => Token::Number,
        })
    }

    fn literal(&mut self) -> Result<(), Stop> {
        Ok(self.word()?)
    }

    fn text(&mut self) -> Result<String, Stop> {
        Ok(self.string()?.into_owned())
    }

    fn number(&mut self) -> Result<Cow<'_, str>, Stop> {
        Ok(Cow::Borrowed(self.numeral()?))
    }

    fn object(&mut self, each: &mut dyn FnMut(&mut Self, &str) -> Result<(), Stop>) -> Result<(), Stop> {
        self.enter()?;
        let mut more = self.first_key()?;
        while more {
            let key = self.string()?;
            self.colon()?;
            each(self, &key)?;
            more = self.next_key()?;
        }
        self.leave();
        Ok(())
    }

    fn array(&mut self, each: &mut dyn FnMut(&mut Self) -> Result<(), Stop>) -> Result<(), Stop> {
        self.enter()?;
        let mut more = self.first_item()?;
        while more {
            each(self)?;
            more = self.next_item()?;
        }
        self.leave();
        Ok(())
    }

    fn skip(&mut self) -> Result<(), Stop> {
        Ok(self.skip_value()?)
    }
}

/// A value that is taken apart while it is read.
pub(super) struct Owned(pub Value);

impl Input for Owned {
    fn token(&mut self) -> Result<Token, Stop> {
        Ok(match &self.0 {
            Value::Null => Token::Null,
            Value::Bool(value) => Token::Bool(*value),
            Value::Number(_) => Token::Number,
            Value::String(_) => Token::Text,
            Value::Array(_) => Token::Array,
            Value::Object(_) => Token::Object,
        })
    }

    fn literal(&mut self) -> Result<(), Stop> {
        Ok(())
    }

    fn text(&mut self) -> Result<String, Stop> {
        match self.0.take() {
            Value::String(text) => Ok(text),
            other => Ok(other.to_string()),
        }
    }

    fn number(&mut self) -> Result<Cow<'_, str>, Stop> {
        Ok(Cow::Owned(self.0.to_string()))
    }

    fn object(&mut self, each: &mut dyn FnMut(&mut Self, &str) -> Result<(), Stop>) -> Result<(), Stop> {
        let fields = match self.0.take() {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        for (key, value) in fields {
            self.0 = value;
            each(self, &key)?;
        }
        Ok(())
    }

    fn array(&mut self, each: &mut dyn FnMut(&mut Self) -> Result<(), Stop>) -> Result<(), Stop> {
        let items = match self.0.take() {
            Value::Array(items) => items,
            _ => Vec::new(),
        };
        for item in items {
            self.0 = item;
            each(self)?;
        }
        Ok(())
    }

    fn skip(&mut self) -> Result<(), Stop> {
        Ok(())
    }
}
