//! Resource quantities as exact numbers.

const NANO: i128 = 1_000_000_000;

/// A quantity in billionths, none if it is not one. Fractions of a billionth are rounded up, as Kubernetes does.
pub fn nanos(text: &str) -> Option<i128> {
    let digits_end =
        text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-'))).unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits_end);
    let (negative, number) = match number.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let (multiplier, exponent) = scale(suffix)?;
    let exponent = exponent + 9 - i32::try_from(fraction.len()).ok()?;
    let value = digits.checked_mul(multiplier)?;
    let value = match exponent {
        0.. => value.checked_mul(10i128.checked_pow(exponent.unsigned_abs())?)?,
        _ => {
            let divisor = 10i128.checked_pow(exponent.unsigned_abs())?;
            value.checked_add(divisor - 1)? / divisor
        }
    };
    Some(if negative { -value } else { value })
}

/// A suffix as a binary multiplier and a power of ten.
fn scale(suffix: &str) -> Option<(i128, i32)> {
    Some(match suffix {
        "n" => (1, -9),
        "u" => (1, -6),
        "m" => (1, -3),
        "" => (1, 0),
        "k" => (1, 3),
        "M" => (1, 6),
        "G" => (1, 9),
        "T" => (1, 12),
        "P" => (1, 15),
        "E" => (1, 18),
        "Ki" => (1 << 10, 0),
        "Mi" => (1 << 20, 0),
        "Gi" => (1 << 30, 0),
        "Ti" => (1 << 40, 0),
        "Pi" => (1 << 50, 0),
        "Ei" => (1 << 60, 0),
        exponent => (1, exponent.strip_prefix(['e', 'E'])?.parse().ok()?),
    })
}

/// Thousandths, rounded up: how CPU is counted.
pub fn millis(text: &str) -> i64 {
    rounded(text, NANO / 1000)
}

/// Whole units, rounded up: how everything else is counted.
pub fn units(text: &str) -> i64 {
    rounded(text, NANO)
}

fn rounded(text: &str, unit: i128) -> i64 {
    let value = nanos(text).unwrap_or(0);
    i64::try_from((value + unit - 1).div_euclid(unit)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_exact() {
        for (text, expected) in [
            ("1", Some(NANO)),
            ("100m", Some(NANO / 10)),
            ("0.1", Some(NANO / 10)),
            (".5", Some(NANO / 2)),
            ("1e3", Some(1000 * NANO)),
            ("1Ki", Some(1024 * NANO)),
            ("1.5Gi", Some(1536 * 1024 * 1024 * NANO)),
            ("-2k", Some(-2000 * NANO)),
            ("1n", Some(1)),
            ("0.1n", Some(1)),
            ("16Ei", Some((16i128 << 60) * NANO)),
            ("", None),
            ("x", None),
            ("1x", None),
            ("1.2.3", None),
        ] {
            assert_eq!(nanos(text), expected, "{text}");
        }
        assert_eq!((millis("1"), millis("250m"), millis("1u")), (1000, 250, 1));
        assert_eq!((units("1Mi"), units("1m")), (1 << 20, 1));
    }
}
