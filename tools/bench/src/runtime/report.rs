//! The lines that are printed.

use std::fmt::Write as _;

/// Whether more is better.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Better {
    More,
    Less,
}

/// One case: what each side reached.
pub struct Line {
    text: String,
    own: f64,
    better: Better,
    ratios: String,
}

impl Line {
    pub fn new(case: &str, unit: &str, better: Better, own: f64) -> Self {
        let text = format!("case={case} unit={unit} setpoint={}", number(own));
        Line { text, own, better, ratios: String::new() }
    }

    /// Another side, with the ratio: how many times better Setpoint is.
    pub fn against(mut self, name: &str, value: Option<f64>) -> Self {
        let Some(value) = value else { return self };
        let ratio = match self.better {
            Better::More => self.own / value,
            Better::Less => value / self.own,
        };
        self = self.beside(name, value);
        write!(self.ratios, " ratio_{}={ratio:.2}", name.replace('-', "_"))
            .expect("writing to a String does not fail");
        self
    }

    /// Another figure, without a ratio.
    pub fn beside(mut self, name: &str, value: f64) -> Self {
        write!(self.text, " {name}={}", number(value)).expect("writing to a String does not fail");
        self
    }

    pub fn print(self) {
        println!("{}{}", self.text, self.ratios);
    }
}

fn number(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.3}") }
}
