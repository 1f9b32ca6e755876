//! Kubernetes' quantities (`500m`, `1Gi`, `2e3`): parse, compare, add, and print in the one canonical form.

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, Sub};

use serde_json::Value;

/// How a quantity is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `12Mi`
    BinarySi,
    /// `12M`
    DecimalSi,
    /// `12e6`
    DecimalExponent,
}

/// A fixed-point number, exact to nano, as `resource.Quantity`.
///
/// ```
/// use setpoint_api::quantity::Quantity;
/// let half: Quantity = "0.5".parse().unwrap();
/// assert_eq!(half.to_string(), "500m");
/// assert_eq!("1024Mi".parse::<Quantity>().unwrap().to_string(), "1Gi");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nano: i128,
    format: Format,
}

/// Why text is no quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuantityError {
    /// Not a number with a suffix.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// The suffix is not known.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

const NANO: i128 = 1_000_000_000;
const MILLI: i128 = 1_000_000;
/// Larger values are cut to this one.
const MAX: i128 = i64::MAX as i128 * NANO;

impl Quantity {
    /// A whole number.
    pub fn whole(number: i64) -> Self {
        Quantity { nano: i128::from(number) * NANO, format: Format::DecimalSi }
    }

    /// From JSON: text or a number.
    pub fn from_json(value: &Value) -> Result<Self, QuantityError> {
        match value {
            Value::String(text) => text.trim().parse(),
            Value::Number(number) => number.to_string().parse(),
            _ => Err(QuantityError::Format),
        }
    }

    /// Whether it is nothing.
    pub fn is_zero(self) -> bool {
        self.nano == 0
    }

    /// Less than nothing, nothing, or more.
    pub fn signum(self) -> i32 {
        self.nano.signum() as i32
    }

    /// The next whole number away from zero.
    pub fn value(self) -> i64 {
        round_away(self.nano, NANO).clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }

    /// In thousandths, rounded away from zero.
    pub fn milli_value(self) -> i64 {
        round_away(self.nano, MILLI).clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }

    /// In billionths, which are exact: the same for all spellings of an amount.
    pub fn nano_value(self) -> i128 {
        self.nano
    }

    /// Rounded away from zero to thousandths.
    #[must_use]
    pub fn round_up_to_milli(self) -> Self {
        Quantity { nano: round_away(self.nano, MILLI) * MILLI, ..self }
    }

    /// Rounded away from zero to a whole number.
    #[must_use]
    pub fn round_up(self) -> Self {
        Quantity { nano: round_away(self.nano, NANO) * NANO, ..self }
    }

    /// How it is printed.
    pub fn format(self) -> Format {
        self.format
    }
}

fn round_away(number: i128, unit: i128) -> i128 {
    let (whole, rest) = (number / unit, number % unit);
    whole + rest.signum()
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nano == other.nano
    }
}
impl Eq for Quantity {}
impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nano.cmp(&other.nano)
    }
}

impl Add for Quantity {
    type Output = Quantity;
    /// The sum keeps the format of the left side, unless that is zero.
    fn add(self, other: Quantity) -> Quantity {
        let format = if self.is_zero() { other.format } else { self.format };
        Quantity { nano: self.nano.saturating_add(other.nano), format }
    }
}

impl Sub for Quantity {
    type Output = Quantity;
    /// The rest keeps the format of the left side, unless that is zero.
    fn sub(self, other: Quantity) -> Quantity {
        self + Quantity { nano: -other.nano, ..other }
    }
}

impl std::str::FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let (negative, rest) = match text.as_bytes().first() {
            None => return Err(QuantityError::Format),
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            Some(_) => (false, text),
        };
        let whole_end = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (whole, rest) = rest.split_at(whole_end);
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count()),
            None => ("", rest),
        };
        if (whole.is_empty() && fraction.is_empty()) || !suffix_shaped(suffix) {
            return Err(QuantityError::Format);
        }
        let (base, exponent, mut format) = parse_suffix(suffix)?;
        let magnitude = scale(whole, fraction, base, exponent);
        if format == Format::BinarySi && magnitude < NANO {
            format = Format::DecimalSi;
        }
        let magnitude = magnitude.min(MAX);
        Ok(Quantity { nano: if negative { -magnitude } else { magnitude }, format })
    }
}

fn suffix_shaped(suffix: &str) -> bool {
    let letters = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let number = letters.strip_prefix(['-', '+']).unwrap_or(letters);
    number.bytes().all(|b| b.is_ascii_digit())
}

const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

fn parse_suffix(suffix: &str) -> Result<(u32, i32, Format), QuantityError> {
    if let Some(at) = BINARY.iter().position(|known| *known == suffix) {
        return Ok((2, 10 * (at as i32 + 1), Format::BinarySi));
    }
    if let Some((_, exponent)) = DECIMAL.iter().find(|(known, _)| *known == suffix) {
        return Ok((10, *exponent, Format::DecimalSi));
    }
    if suffix.len() > 1
        && let Some(number) = suffix.strip_prefix(['e', 'E'])
        && let Ok(exponent) = number.parse::<i32>()
    {
        return Ok((10, exponent, Format::DecimalExponent));
    }
    Err(QuantityError::Suffix)
}

/// The magnitude in nano: rounded up where it is finer, capped where it is larger.
fn scale(whole: &str, fraction: &str, base: u32, exponent: i32) -> i128 {
    let digits: String = format!("{whole}{fraction}").trim_start_matches('0').to_owned();
    if digits.is_empty() {
        return 0;
    }
    let binary = if base == 2 { 1i128 << exponent } else { 1 };
    let ten = if base == 10 { exponent } else { 0 };
    let shift = 9 + i64::from(ten) - fraction.len() as i64;
    // Nano of the largest value has 28 digits: whatever ends with more is capped anyway.
    if digits.len() as i64 + shift > 30 {
        return MAX;
    }
    // Finer than nano: as many zeros in front as make one digit before the cut.
    let missing = usize::try_from(-(digits.len() as i64 + shift)).unwrap_or(0);
    if missing > 40 {
        return 1;
    }
    let digits = format!("{}{digits}", "0".repeat(missing));
    let kept = if shift < 0 { digits.len() - (-shift) as usize } else { digits.len() };
    let mantissa: i128 = if kept == 0 { 0 } else { digits[..kept].parse().unwrap_or(MAX) };
    let mut number = mantissa.saturating_mul(binary);
    if shift >= 0 {
        return number.saturating_mul(10i128.pow(shift as u32)).min(MAX);
    }
    let finer = &digits[kept..];
    let finer_value: i128 = finer[..finer.len().min(18)].parse().unwrap_or(0);
    let unit = 10i128.pow(finer.len().min(18) as u32);
    let scaled = finer_value.saturating_mul(binary);
    number = number.saturating_add(scaled / unit);
    let inexact = scaled % unit != 0 || finer.len() > 18;
    number.saturating_add(i128::from(inexact)).min(MAX)
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nano == 0 {
            return f.write_str("0");
        }
        let small = self.nano.abs() < 1024 * NANO;
        if self.format == Format::BinarySi && !small && self.nano % NANO == 0 {
            let mut number = self.nano / NANO;
            let mut times = 0;
            while number % 1024 == 0 && times < BINARY.len() {
                number /= 1024;
                times += 1;
            }
            let suffix = if times == 0 { "" } else { BINARY[times - 1] };
            return write!(f, "{number}{suffix}");
        }
        let (mut number, mut exponent) = (self.nano, -9);
        while number % 10 == 0 {
            number /= 10;
            exponent += 1;
        }
        while exponent % 3 != 0 {
            number *= 10;
            exponent -= 1;
        }
        if self.format == Format::DecimalExponent {
            return if exponent == 0 { write!(f, "{number}") } else { write!(f, "{number}e{exponent}") };
        }
        let suffix = DECIMAL.iter().find(|(_, known)| *known == exponent).map_or("", |(suffix, _)| suffix);
        write!(f, "{number}{suffix}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> String {
        text.parse::<Quantity>().map_or_else(|error| error.to_string(), |quantity| quantity.to_string())
    }

    #[test]
    fn quantities_are_printed_as_go_prints_them() {
        for (text, printed) in [
            ("0", "0"),
            ("0.0", "0"),
            ("1", "1"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("1.", "1"),
            ("1000", "1k"),
            ("1200", "1200"),
            ("1024", "1024"),
            ("1024Ki", "1Mi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Ki", "512"),
            ("0.5Mi", "512Ki"),
            ("1Ki", "1Ki"),
            ("0.0001Ki", "102400u"),
            ("100M", "100M"),
            ("1e3", "1e3"),
            ("1E3", "1e3"),
            ("12e6", "12e6"),
            ("1e2", "100"),
            ("-5", "-5"),
            ("+5", "5"),
            ("1n", "1n"),
            ("0.1n", "1n"),
            ("9999999999999999999", "9223372036854775807"),
            ("1000000", "1M"),
            ("128974848", "128974848"),
            ("129e6", "129e6"),
            ("123Mi", "123Mi"),
        ] {
            assert_eq!(canonical(text), printed, "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for text in ["", "a", ".", "1 Gi", "1gi", "--1", "1.1.1"] {
            assert_eq!(text.parse::<Quantity>(), Err(QuantityError::Format), "{text}");
        }
        assert_eq!("1Kii".parse::<Quantity>(), Err(QuantityError::Suffix));
    }

    #[test]
    fn quantities_compare_and_add_across_formats() {
        let (mebi, mega): (Quantity, Quantity) = ("1Mi".parse().unwrap(), "1M".parse().unwrap());
        assert!(mebi > mega);
        assert_eq!((mega + mebi).to_string(), "2048576");
        assert_eq!("100m".parse::<Quantity>().unwrap() + "0.9".parse().unwrap(), Quantity::whole(1));
        assert_eq!("1001u".parse::<Quantity>().unwrap().round_up_to_milli().to_string(), "2m");
        assert_eq!("1500m".parse::<Quantity>().unwrap().value(), 2);
    }
}
