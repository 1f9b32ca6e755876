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
    values: String,
    unit: String,
    own: f64,
    better: Better,
    ratios: String,
}

impl Line {
    pub fn new(case: &str, unit: &str, better: Better, own: f64) -> Self {
        let values = format!("case={case} setpoint={}", number(own));
        Line { values, unit: unit.to_owned(), own, better, ratios: String::new() }
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
        write!(self.values, " {name}={}", number(value)).expect("writing to a String does not fail");
        self
    }

    pub fn print(self) {
        println!("{}", self.text());
    }

    /// All values, their unit, then the ratios.
    fn text(&self) -> String {
        format!("{} unit={}{}", self.values, self.unit, self.ratios)
    }
}

fn number(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.3}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_the_values_then_their_unit_then_the_ratios() {
        let line = Line::new("first_sync", "objects/s", Better::More, 1000.0)
            .against("client-go", Some(50.0))
            .against("kube-runtime", Some(250.0))
            .beside("client-go-protobuf", 200.0);
        assert_eq!(
            line.text(),
            "case=first_sync setpoint=1000 client-go=50.000 kube-runtime=250 client-go-protobuf=200 \
             unit=objects/s ratio_client_go=20.00 ratio_kube_runtime=4.00"
        );
        let line = Line::new("get", "microseconds", Better::Less, 2.0).against("client-go", Some(1.0));
        assert!(line.text().ends_with("unit=microseconds ratio_client_go=0.50"), "{}", line.text());
    }
}
