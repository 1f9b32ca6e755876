//! Resource quantities as the whole numbers in which they are counted. What is no quantity is nothing.

use setpoint_api::quantity::Quantity;

/// Thousandths, rounded up: how CPU is counted.
pub fn millis(text: &str) -> i64 {
    text.parse().map_or(0, Quantity::milli_value)
}

/// Whole units, rounded up: how everything else is counted.
pub fn units(text: &str) -> i64 {
    text.parse().map_or(0, Quantity::value)
}

/// Billionths: nothing is rounded.
pub fn nanos(text: &str) -> i128 {
    text.parse().map_or(0, Quantity::nano_value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_rounded_up() {
        assert_eq!((millis("1"), millis("250m"), millis("1u"), millis("x")), (1000, 250, 1, 0));
        assert_eq!((units("1Mi"), units("1m"), units("16Ei")), (1 << 20, 1, i64::MAX));
    }
}
