//! Numbers that may be percentages.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// Which way a percentage of a whole number is rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Round {
    /// Towards more: surge.
    Up,
    /// Towards less: unavailability.
    Down,
}

/// `value` of `total`: a plain number as it is, a percentage rounded. Something unreadable counts as zero.
pub fn scaled(value: Option<&IntOrString>, total: i32, round: Round) -> i32 {
    match value {
        None => 0,
        Some(IntOrString::Int(number)) => *number,
        Some(IntOrString::String(text)) => {
            let Some(percent) = text.strip_suffix('%').and_then(|digits| digits.parse::<i64>().ok()) else {
                return 0;
            };
            let hundredths = percent * i64::from(total);
            let whole = match round {
                Round::Up => (hundredths + 99).div_euclid(100),
                Round::Down => hundredths.div_euclid(100),
            };
            i32::try_from(whole).unwrap_or(i32::MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_round_as_asked() {
        for (text, total, up, down) in [
            ("25%", 10, 3, 2),
            ("25%", 4, 1, 1),
            ("0%", 7, 0, 0),
            ("100%", 7, 7, 7),
            ("1%", 1, 1, 0),
            ("x", 9, 0, 0),
        ] {
            let value = IntOrString::String(text.into());
            assert_eq!(scaled(Some(&value), total, Round::Up), up, "{text} of {total} up");
            assert_eq!(scaled(Some(&value), total, Round::Down), down, "{text} of {total} down");
        }
        assert_eq!(scaled(Some(&IntOrString::Int(3)), 10, Round::Up), 3);
        assert_eq!(scaled(None, 10, Round::Up), 0);
    }
}
