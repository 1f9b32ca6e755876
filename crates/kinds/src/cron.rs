//! Cron schedules: five fields, or a name such as `@daily` or `@every 90m`.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};

/// When something is to happen again and again.
///
/// ```
/// use setpoint_kinds::cron::Schedule;
/// let schedule = Schedule::parse("30 6 * * mon-fri").unwrap();
/// let friday = "2026-01-02T12:00:00Z".parse().unwrap();
/// let next = schedule.next(friday, &jiff::tz::TimeZone::UTC);
/// assert_eq!(next, Some("2026-01-05T06:30:00Z".parse().unwrap()));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule(Form);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    Fields(Fields),
    Every(SignedDuration),
}

/// One bit for each value that matches.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fields {
    minute: u64,
    hour: u64,
    day: u64,
    month: u64,
    weekday: u64,
    /// Day and weekday must both match where one of them is a star; else either is enough.
    either_day: bool,
}

/// The fault of a schedule, in the words of the parser that Kubernetes uses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ScheduleError(String);

/// Beyond this nothing is looked for: the thirtieth of February never comes.
const YEARS_AHEAD: i16 = 5;

impl Schedule {
    /// Reads a schedule. A time zone before it (`TZ=… `) is passed over.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(schedule: &str) -> Result<Schedule, ScheduleError> {
        let mut schedule = schedule;
        if schedule.starts_with("TZ=") || schedule.starts_with("CRON_TZ=") {
            schedule = schedule.split_once(' ').map_or("", |(_, rest)| rest.trim());
        }
        let form =
            if schedule.starts_with('@') { descriptor(schedule) } else { fields(schedule).map(Form::Fields) };
        form.map(Schedule).map_err(ScheduleError)
    }

    /// The first time after `after`, on the clocks of `zone`; none if there is none within five years.
    pub fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let whole = Timestamp::from_second(after.as_second()).ok()?;
        match &self.0 {
            Form::Every(period) => whole.checked_add(*period).ok(),
            Form::Fields(fields) => fields.next(whole.checked_add(SignedDuration::from_secs(1)).ok()?, zone),
        }
    }
}

impl Fields {
    /// The first time at or after `time`. What does not match is stepped over: months and days on the calendar, hours and
    /// minutes in real time, so that an hour that the clocks skip never comes and one that they repeat comes twice.
    fn next(&self, mut time: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let last = time.to_zoned(zone.clone()).year().checked_add(YEARS_AHEAD)?;
        loop {
            let local = time.to_zoned(zone.clone());
            if local.year() > last {
                return None;
            }
            let has = |set: u64, value: i8| set & (1 << value) != 0;
            let in_hour = i64::from(local.minute()) * 60 + i64::from(local.second());
            let forward = |seconds: i64| time.checked_add(SignedDuration::from_secs(seconds)).ok();
            time = if !has(self.month, local.month()) {
                start_of(local.date().first_of_month().checked_add(jiff::Span::new().months(1)).ok()?, zone)?
            } else if !self.matches_day(&local) {
                start_of(local.date().tomorrow().ok()?, zone)?
            } else if !has(self.hour, local.hour()) {
                forward(3600 - in_hour)?
            } else if !has(self.minute, local.minute()) || local.second() != 0 {
                forward(60 - i64::from(local.second()))?
            } else {
                return Some(time);
            };
        }
    }

    fn matches_day(&self, local: &Zoned) -> bool {
        let day = self.day & (1 << local.day()) != 0;
        let weekday = self.weekday & (1 << local.weekday().to_sunday_zero_offset()) != 0;
        if self.either_day { day || weekday } else { day && weekday }
    }
}

fn start_of(date: jiff::civil::Date, zone: &TimeZone) -> Option<Timestamp> {
    Some(date.to_zoned(zone.clone()).ok()?.timestamp())
}

const NONE: &[&str] = &[];
const MONTHS: &[&str] =
    &["", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// The bit that says that a field is a star.
const STAR: u64 = 1 << 63;

fn fields(schedule: &str) -> Result<Fields, String> {
    let parts: Vec<&str> = schedule.split_whitespace().collect();
    let [minute, hour, day, month, weekday] = parts.as_slice() else {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", parts.len(), parts.join(" ")));
    };
    let minute = field(minute, 0, 59, NONE)?;
    let hour = field(hour, 0, 23, NONE)?;
    let day = field(day, 1, 31, NONE)?;
    let month = field(month, 1, 12, MONTHS)?;
    let weekday = field(weekday, 0, 6, DAYS)?;
    Ok(Fields { minute, hour, day, month, weekday, either_day: (day | weekday) & STAR == 0 })
}

fn field(text: &str, least: u64, most: u64, names: &[&str]) -> Result<u64, String> {
    let parts = text.split(',').filter(|part| !part.is_empty());
    parts.map(|part| range(part, least, most, names)).try_fold(0, |set, part| Ok(set | part?))
}

fn range(part: &str, least: u64, most: u64, names: &[&str]) -> Result<u64, String> {
    let pieces: Vec<&str> = part.split('/').collect();
    let bounds: Vec<&str> = pieces[0].split('-').collect();
    let star = matches!(bounds[0], "*" | "?");
    let (start, mut end) = if star {
        (least, most)
    } else {
        let start = number(bounds[0], names)?;
        match bounds.as_slice() {
            [_] => (start, start),
            [_, end] => (start, number(end, names)?),
            _ => return Err(format!("too many hyphens: {part}")),
        }
    };
    let step = match pieces.as_slice() {
        [_] => 1,
        [_, step] => {
            if bounds.len() == 1 {
                end = most;
            }
            number(step, NONE)?
        }
        _ => return Err(format!("too many slashes: {part}")),
    };
    if start < least {
        return Err(format!("beginning of range ({start}) below minimum ({least}): {part}"));
    }
    if end > most {
        return Err(format!("end of range ({end}) above maximum ({most}): {part}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {part}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {part}"));
    }
    let set =
        (start..=end).filter(|value| (value - start) % step == 0).fold(0, |set, value| set | 1 << value);
    Ok(if star && step == 1 { set | STAR } else { set })
}

fn number(text: &str, names: &[&str]) -> Result<u64, String> {
    let lower = text.to_lowercase();
    if let Some(at) = names.iter().position(|name| !name.is_empty() && *name == lower) {
        return Ok(at as u64);
    }
    match text.parse::<i64>() {
        Ok(number) if number < 0 => Err(format!("negative number ({number}) not allowed: {text}")),
        Ok(number) => Ok(number as u64),
        Err(_) => {
            let quoted = setpoint_api::go_format::quote(text);
            Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {quoted}: invalid syntax"))
        }
    }
}

fn descriptor(schedule: &str) -> Result<Form, String> {
    let known = match schedule {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ => {
            let Some(text) = schedule.strip_prefix("@every ") else {
                return Err(format!("unrecognized descriptor: {schedule}"));
            };
            let period = duration(text).ok_or_else(|| {
                let quoted = setpoint_api::go_format::quote(text);
                format!("failed to parse duration {schedule}: time: invalid duration {quoted}")
            })?;
            return Ok(Form::Every(SignedDuration::from_secs(period.as_secs().max(1))));
        }
    };
    fields(known).map(Form::Fields)
}

/// The longer units stand first: `m` begins `ms` too.
const UNITS: [(&str, f64); 8] = [
    ("ns", 1e-9),
    ("us", 1e-6),
    ("µs", 1e-6),
    ("μs", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("m", 60.0),
    ("h", 3600.0),
];

/// Go's durations: numbers with units.
fn duration(text: &str) -> Option<SignedDuration> {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Some(SignedDuration::ZERO);
    }
    let mut seconds = None;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let (unit, worth) = UNITS.iter().find(|(unit, _)| rest.starts_with(unit))?;
        rest = &rest[unit.len()..];
        seconds = Some(seconds.unwrap_or(0.0) + number * worth);
    }
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    SignedDuration::try_from_secs_f64(sign * seconds?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_judged_field_by_field() {
        for good in ["* * * * *", "*/5 0-3 1,15 jan-MAR mon", "@every 1h30m", "@daily", "0 0 ? * 6"] {
            assert!(Schedule::parse(good).is_ok(), "{good}");
        }
        for (bad, words) in [
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
            ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("x * * * *", "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("@sometimes", "unrecognized descriptor: @sometimes"),
            ("@every x", "failed to parse duration @every x: time: invalid duration \"x\""),
        ] {
            assert_eq!(Schedule::parse(bad).unwrap_err().to_string(), words, "{bad}");
        }
    }

    #[test]
    fn the_next_time_is_the_first_that_matches() {
        // Thursday, 1 January 2026.
        for (schedule, after, next) in [
            ("* * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"),
            ("* * * * *", "2026-01-01T00:00:59.9Z", "2026-01-01T00:01:00Z"),
            ("*/15 * * * *", "2026-01-01T00:46:10Z", "2026-01-01T01:00:00Z"),
            ("5/15 * * * *", "2026-01-01T00:46:10Z", "2026-01-01T00:50:00Z"),
            ("30 6-16/4 * * 1-5", "2026-01-02T14:30:00Z", "2026-01-05T06:30:00Z"),
            ("0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"),
            ("0 12 13 * fri", "2026-01-01T00:00:00Z", "2026-01-02T12:00:00Z"),
            ("0 12 */1 * fri", "2026-01-03T00:00:00Z", "2026-01-09T12:00:00Z"),
            ("0 12 */2 * fri", "2026-01-03T00:00:00Z", "2026-01-03T12:00:00Z"),
            ("@yearly", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"),
            ("@monthly", "2026-01-31T10:00:00Z", "2026-02-01T00:00:00Z"),
            ("@weekly", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"),
            ("@hourly", "2026-01-01T23:59:59Z", "2026-01-02T00:00:00Z"),
            ("@every 90m", "2026-01-01T00:00:30.5Z", "2026-01-01T01:30:30Z"),
            ("@every 10ms", "2026-01-01T00:00:30.5Z", "2026-01-01T00:00:31Z"),
        ] {
            let found = Schedule::parse(schedule).unwrap().next(after.parse().unwrap(), &TimeZone::UTC);
            assert_eq!(found, Some(next.parse().unwrap()), "{schedule} after {after}");
        }
        let never = Schedule::parse("59 23 31 2 *").unwrap();
        assert_eq!(never.next("2026-01-01T00:00:00Z".parse().unwrap(), &TimeZone::UTC), None);
    }

    #[test]
    fn clocks_that_change_skip_an_hour_or_repeat_it() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let schedule = Schedule::parse("30 2 * * *").unwrap();
        let mut times = Vec::new();
        for start in ["2026-03-28T00:00:00Z", "2026-10-24T12:00:00Z"] {
            let mut time = start.parse().unwrap();
            for _ in 0..3 {
                time = schedule.next(time, &zone).unwrap();
                times.push(time.to_string());
            }
        }
        let spring = ["2026-03-28T01:30:00Z", "2026-03-30T00:30:00Z", "2026-03-31T00:30:00Z"];
        let autumn = ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"];
        assert_eq!(times, [spring, autumn].concat());
    }
}
