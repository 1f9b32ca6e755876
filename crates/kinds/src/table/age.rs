//! How long ago, in the few characters that kubectl's users know.

use jiff::Timestamp;
use serde_json::Value;

use crate::access::at;

/// The age of the time at `path`; `<unknown>` if there is none.
pub fn age(object: &Value, path: &str, now: Timestamp) -> String {
    match parse(at(object, path)) {
        Some(then) => human_duration(now.as_nanosecond() - then.as_nanosecond()),
        None => "<unknown>".to_owned(),
    }
}

pub(super) fn parse(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// Nanoseconds in two or three significant figures.
///
/// ```
/// use setpoint_kinds::table::human_duration;
/// assert_eq!(human_duration(90_000_000_000), "90s");
/// assert_eq!(human_duration(150_000_000_000), "2m30s");
/// ```
pub fn human_duration(nanoseconds: i128) -> String {
    let seconds = (nanoseconds / 1_000_000_000) as i64;
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    if seconds < 0 {
        return "0s".to_owned();
    }
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    let two = |large: i64, unit: char, small: i64, small_unit: char| {
        if small == 0 { format!("{large}{unit}") } else { format!("{large}{unit}{small}{small_unit}") }
    };
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, 'm', seconds % 60, 's'),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, 'h', minutes % 60, 'm'),
        () if hours < 48 => format!("{hours}h"),
        () if hours < 24 * 8 => two(days, 'd', hours % 24, 'h'),
        () if hours < 24 * 365 * 2 => format!("{days}d"),
        () if hours < 24 * 365 * 8 => two(years, 'y', days % 365, 'd'),
        () => format!("{years}y"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_written_as_kubectl_writes_them() {
        let second: i128 = 1_000_000_000;
        for (seconds, written) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (599, "9m59s"),
            (600, "10m"),
            (3 * 3600 - 1, "179m"),
            (3 * 3600, "3h"),
            (8 * 3600 - 60, "7h59m"),
            (8 * 3600, "8h"),
            (48 * 3600, "2d"),
            (49 * 3600, "2d1h"),
            (8 * 86400, "8d"),
            (2 * 365 * 86400, "2y"),
            (366 * 2 * 86400, "2y2d"),
            (9 * 365 * 86400, "9y"),
        ] {
            assert_eq!(human_duration(seconds * second), written, "{seconds}");
        }
    }
}
