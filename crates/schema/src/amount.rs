//! The text that Go prints for a quantity that it has read. [`Quantity`] computes; this keeps the sender's
//! spelling where Go does.

use setpoint_api::quantity::{Quantity, QuantityError};

/// Digits that Go's short form takes.
const SHORT_DIGITS: i64 = 18;
/// The finest part of a quantity: nano.
const FINEST: i64 = -9;

/// Returns the text that Go prints for a quantity.
pub(crate) fn canonical(text: &str) -> Result<String, QuantityError> {
    // Most quantities are short, whole and spelled as they are printed.
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    if (1..=9).contains(&end)
        && (DECIMAL.iter().any(|(name, _)| *name == &text[end..]) || BINARY.contains(&&text[end..]))
    {
        let parts = Parts::of(text);
        if parts.kept() {
            return Ok(text.to_owned());
        }
    }
    if let Some(zero) = without_digits(text) {
        return zero;
    }
    let quantity: Quantity = text.parse()?;
    let parts = Parts::of(text);
    if parts.kept() {
        return Ok(text.to_owned());
    }
    match parts.base {
        Base::Binary => Ok(quantity.to_string()),
        Base::Decimal { exponential } => Ok(parts.print(exponential)),
    }
}

/// Go takes a quantity without a digit for nothing, if what follows is a suffix.
fn without_digits(text: &str) -> Option<Result<String, QuantityError>> {
    let rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    let suffix = rest.strip_prefix('.').unwrap_or(rest);
    let digit = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    if text.is_empty() || digit(rest) || digit(suffix) {
        return None;
    }
    let known = BINARY.contains(&suffix)
        || DECIMAL.iter().any(|(name, _)| *name == suffix)
        || suffix.starts_with(['e', 'E']) && suffix[1..].parse::<i64>().is_ok();
    if known {
        return Some(Ok("0".to_owned()));
    }
    let tail = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let tail = tail.strip_prefix(['+', '-']).unwrap_or(tail);
    tail.bytes().all(|byte| byte.is_ascii_digit()).then_some(Err(QuantityError::Suffix))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Base {
    Binary,
    Decimal { exponential: bool },
}

/// A well-formed quantity, taken apart.
struct Parts<'a> {
    negative: bool,
    /// Without leading zeros.
    whole: &'a str,
    fraction: &'a str,
    base: Base,
    /// The exponent, of ten or of two.
    exponent: i64,
}

impl<'a> Parts<'a> {
    fn of(text: &'a str) -> Parts<'a> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let end = unsigned.bytes().take_while(u8::is_ascii_digit).count();
        let (whole, rest) = unsigned.split_at(end);
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count()),
            None => ("", rest),
        };
        let (base, exponent) = suffix_value(suffix);
        let whole = whole.trim_start_matches('0');
        Parts { negative: text.starts_with('-'), whole, fraction, base, exponent }
    }

    /// Whether Go takes the sender's spelling for the canonical one.
    fn kept(&self) -> bool {
        let digits = (self.whole.len().max(1) + self.fraction.len()) as i64;
        match self.base {
            Base::Binary => {
                let last: u8 = self.whole.bytes().last().map_or(0, |digit| digit - b'0');
                let room = 15 - digits - self.exponent * 3 / 10 - 1;
                self.fraction.is_empty() && room >= 0 && (last % 2 == 1 || !multiple_of_eight(self.whole))
            }
            Base::Decimal { .. } => {
                let scale = self.exponent - self.fraction.len() as i64;
                let tail_of_zeros = match self.fraction.len() {
                    0 => self.whole.ends_with("000"),
                    1 => self.fraction == "0" && self.whole.ends_with("00"),
                    2 => self.fraction == "00" && self.whole.ends_with('0'),
                    _ => self.fraction.ends_with("000"),
                };
                digits <= SHORT_DIGITS
                    && scale >= FINEST
                    && scale % 3 == 0
                    && !tail_of_zeros
                    && !self.whole.is_empty()
            }
        }
    }

    /// The digits without trailing zeros, with an exponent that a suffix stands for.
    fn print(&self, exponential: bool) -> String {
        let mut digits = format!("{}{}", self.whole, self.fraction);
        let mut exponent = self.exponent - self.fraction.len() as i64;
        if exponent < FINEST {
            round_up(&mut digits, usize::try_from(FINEST - exponent).unwrap_or(usize::MAX));
            exponent = FINEST;
        }
        let kept = digits.trim_end_matches('0').len();
        exponent += (digits.len() - kept) as i64;
        digits.truncate(kept);
        let digits = digits.trim_start_matches('0');
        if digits.is_empty() {
            return "0".to_owned();
        }
        let pad = exponent.rem_euclid(3);
        let exponent = exponent - pad;
        let suffix = match exponent {
            0 => String::new(),
            _ if exponential => format!("e{exponent}"),
            _ => DECIMAL.iter().find(|(_, known)| *known == exponent).map_or("", |(name, _)| name).to_owned(),
        };
        let sign = if self.negative { "-" } else { "" };
        format!("{sign}{digits}{}{suffix}", &"00"[..pad as usize])
    }
}

const DECIMAL: [(&str, i64); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

fn suffix_value(suffix: &str) -> (Base, i64) {
    if let Some(at) = BINARY.iter().position(|known| *known == suffix) {
        return (Base::Binary, 10 * (at as i64 + 1));
    }
    match DECIMAL.iter().find(|(known, _)| *known == suffix) {
        Some((_, exponent)) => (Base::Decimal { exponential: false }, *exponent),
        None => {
            let exponent = suffix.get(1..).and_then(|number| number.parse().ok()).unwrap_or(0);
            (Base::Decimal { exponential: true }, exponent)
        }
    }
}

fn multiple_of_eight(digits: &str) -> bool {
    let tail = &digits[digits.len().saturating_sub(3)..];
    tail.parse::<u32>().unwrap_or(0) % 8 == 0
}

/// Drops that many digits, away from zero.
fn round_up(digits: &mut String, count: usize) {
    let kept = digits.len().saturating_sub(count);
    let exact = digits[kept..].bytes().all(|digit| digit == b'0');
    digits.truncate(kept);
    if exact {
        return;
    }
    let mut bytes = std::mem::take(digits).into_bytes();
    let mut carried = true;
    for digit in bytes.iter_mut().rev() {
        carried = *digit == b'9';
        *digit = if carried { b'0' } else { *digit + 1 };
        if !carried {
            break;
        }
    }
    if carried {
        bytes.insert(0, b'1');
    }
    *digits = String::from_utf8(bytes).expect("digits are ASCII");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_printed_as_go_prints_what_it_read() {
        for (text, printed) in [
            ("0", "0"),
            ("1000", "1k"),
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1.125", "1.125"),
            ("1.25", "1250m"),
            ("1.250", "1.250"),
            ("1.000", "1"),
            ("1024Mi", "1Gi"),
            ("1023Mi", "1023Mi"),
            ("8Mi", "8Mi"),
            ("1.5Gi", "1536Mi"),
            ("12E6", "12E6"),
            ("1e3", "1e3"),
            ("1e2", "100"),
            ("1e19", "10e18"),
            ("01", "01"),
            ("+5", "+5"),
            ("-0", "0"),
            ("0.1n", "1n"),
            ("99.99999999999", "100"),
            ("9223372036854775808", "9223372036854775808"),
            ("7200796.50P", "7200796500T"),
            ("0.0001Ki", "102400u"),
            (".5", "500m"),
            ("m", "0"),
            ("-", "0"),
        ] {
            assert_eq!(canonical(text).as_deref(), Ok(printed), "{text}");
        }
        assert_eq!(canonical("1 Gi"), Err(QuantityError::Format));
        assert_eq!(canonical("K"), Err(QuantityError::Suffix));
        assert_eq!(canonical("x"), Err(QuantityError::Format));
    }
}
