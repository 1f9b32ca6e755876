//! Go's times: RFC 3339 text to an instant and back, with Go's parse errors.

/// A point in time as protobuf has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instant {
    /// Seconds since 1970, UTC.
    pub seconds: i64,
    /// Nanoseconds within the second.
    pub nanos: u32,
}

/// Go's zero time, the first second of year 1.
pub(crate) const ZERO: Instant = Instant { seconds: -62_135_596_800, nanos: 0 };

const SECONDS: &str = "2006-01-02T15:04:05Z07:00";
const MICROS: &str = "2006-01-02T15:04:05.000000Z07:00";

/// Go's error for text that is not a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unparsed {
    /// The rest of the text does not fit this element of the layout.
    Element { rest: String, element: &'static str },
    /// An element's number is out of its range.
    Range(&'static str),
    /// Text after the time.
    Extra(String),
}

impl Unparsed {
    /// Go's error text.
    pub(crate) fn text(&self, value: &str, micro: bool) -> String {
        let quoted = quote(value);
        let layout = if micro { MICROS } else { SECONDS };
        match self {
            Unparsed::Element { rest, element } => format!(
                "parsing time {quoted} as \"{layout}\": cannot parse {} as \"{element}\"",
                quote(rest)
            ),
            Unparsed::Range(what) => format!("parsing time {quoted}: {what} out of range"),
            Unparsed::Extra(rest) => {
                format!("parsing time {quoted}: extra text: {}", quote(rest))
            }
        }
    }
}

/// Package time quotes by bytes: what is not printable ASCII is written in hexadecimal.
fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => {
                out.push('\\');
                out.push(byte as char);
            }
            b' '..=0x7f => out.push(byte as char),
            _ => out += &format!("\\x{byte:02x}"),
        }
    }
    out.push('"');
    out
}

impl Instant {
    /// Parses RFC 3339; with `micro`, exactly six digits of fraction are asked for.
    pub(crate) fn parse(text: &str, micro: bool) -> Result<Self, Unparsed> {
        let mut rest = Rest(text);
        let year = rest.digits(4, "2006")?;
        rest.literal("-", "-")?;
        let month = rest.digits(2, "01")?;
        if !(1..=12).contains(&month) {
            return Err(Unparsed::Range("month"));
        }
        rest.literal("-", "-")?;
        let day = rest.digits(2, "02")?;
        rest.literal("T", "T")?;
        // Go takes an hour of one digit.
        let short = rest.0.as_bytes().get(1).is_none_or(|byte| !byte.is_ascii_digit());
        let hour = rest.digits(if short { 1 } else { 2 }, "15")?;
        if hour > 23 {
            return Err(Unparsed::Range("hour"));
        }
        rest.literal(":", ":")?;
        let minute = rest.digits(2, "04")?;
        if minute > 59 {
            return Err(Unparsed::Range("minute"));
        }
        rest.literal(":", ":")?;
        let second = rest.digits(2, "05")?;
        if second > 59 {
            return Err(Unparsed::Range("second"));
        }
        let nanos = rest.fraction(micro)?;
        let offset = rest.zone()?;
        if !rest.0.is_empty() {
            return Err(Unparsed::Extra(rest.0.to_owned()));
        }
        if day < 1 || day > days_in(year, month) {
            return Err(Unparsed::Range("day"));
        }
        let seconds =
            days_from_civil(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset;
        Ok(Instant { seconds, nanos })
    }

    /// UTC text with whole seconds, or with microseconds; both cut what is finer.
    pub(crate) fn print(self, micro: bool) -> String {
        let (days, second) = (self.seconds.div_euclid(86_400), self.seconds.rem_euclid(86_400));
        let (year, month, day) = civil_from_days(days);
        // Written by hand: objects are full of times, and formatting them cost a tenth of reading one.
        let mut out = String::with_capacity(27);
        digits(&mut out, year, 4);
        for (mark, number) in
            [('-', month), ('-', day), ('T', second / 3600), (':', second / 60 % 60), (':', second % 60)]
        {
            out.push(mark);
            digits(&mut out, number, 2);
        }
        if micro {
            out.push('.');
            digits(&mut out, i64::from(self.nanos / 1000), 6);
        }
        out.push('Z');
        out
    }

    /// Whether Go's `IsZero` holds.
    pub(crate) fn is_zero(self) -> bool {
        self == ZERO
    }
}

fn digits(out: &mut String, number: i64, count: u32) {
    for place in (0..count).rev() {
        let digit = number / 10_i64.pow(place) % 10;
        out.push(char::from(b'0' + u8::try_from(digit.abs()).expect("a digit")));
    }
}

struct Rest<'a>(&'a str);

impl Rest<'_> {
    fn refuse<T>(&self, element: &'static str) -> Result<T, Unparsed> {
        Err(Unparsed::Element { rest: self.0.to_owned(), element })
    }

    fn digits(&mut self, count: usize, element: &'static str) -> Result<i64, Unparsed> {
        let Some(digits) = self.0.get(..count).filter(|text| text.bytes().all(|b| b.is_ascii_digit())) else {
            return self.refuse(element);
        };
        let number = digits.bytes().fold(0, |number, b| number * 10 + i64::from(b - b'0'));
        self.0 = &self.0[count..];
        Ok(number)
    }

    fn literal(&mut self, text: &str, element: &'static str) -> Result<(), Unparsed> {
        match self.0.strip_prefix(text) {
            Some(rest) => {
                self.0 = rest;
                Ok(())
            }
            None => self.refuse(element),
        }
    }

    fn fraction(&mut self, micro: bool) -> Result<u32, Unparsed> {
        let digits = match self.0.strip_prefix(['.', ',']) {
            Some(rest) => rest.bytes().take_while(u8::is_ascii_digit).count(),
            None => 0,
        };
        if micro {
            if digits < 6 {
                return self.refuse(".000000");
            }
        } else if digits == 0 {
            return Ok(0);
        }
        let taken = if micro { 6 } else { digits };
        let mut nanos = 0;
        for at in 0..9 {
            let digit = if at < taken { u32::from(self.0.as_bytes()[1 + at] - b'0') } else { 0 };
            nanos = nanos * 10 + digit;
        }
        self.0 = &self.0[1 + taken..];
        Ok(nanos)
    }

    fn zone(&mut self) -> Result<i64, Unparsed> {
        const ELEMENT: &str = "Z07:00";
        if let Some(rest) = self.0.strip_prefix('Z') {
            self.0 = rest;
            return Ok(0);
        }
        let zone = Rest(self.0.get(..6).unwrap_or(""));
        let sign = match zone.0.as_bytes().first() {
            Some(b'+') => 1,
            Some(b'-') => -1,
            _ => return self.refuse(ELEMENT),
        };
        let mut inner = Rest(&zone.0[1..]);
        let parsed = inner.digits(2, ELEMENT).and_then(|hours| {
            inner.literal(":", ELEMENT)?;
            Ok((hours, inner.digits(2, ELEMENT)?))
        });
        let Ok((hours, minutes)) = parsed else { return self.refuse(ELEMENT) };
        if hours > 24 {
            return Err(Unparsed::Range("time zone offset hour"));
        }
        if minutes > 60 {
            return Err(Unparsed::Range("time zone offset minute"));
        }
        self.0 = &self.0[6..];
        Ok(sign * (hours * 3600 + minutes * 60))
    }
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01 in the proleptic Gregorian calendar, with years that begin in March.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(text: &str, micro: bool) -> String {
        match Instant::parse(text, micro) {
            Ok(instant) => instant.print(micro),
            Err(error) => error.text(text, micro),
        }
    }

    #[test]
    fn text_becomes_utc_with_the_precision_of_the_type() {
        for (text, micro, printed) in [
            ("2026-11-15T10:00:00Z", false, "2026-11-15T10:00:00Z"),
            ("2026-11-15T10:00:00.987654321Z", false, "2026-11-15T10:00:00Z"),
            ("2026-03-01T00:30:00+01:00", false, "2026-02-28T23:30:00Z"),
            ("2024-02-29T00:00:00-08:00", false, "2024-02-29T08:00:00Z"),
            ("1969-12-31T23:59:59Z", false, "1969-12-31T23:59:59Z"),
            ("0001-01-01T00:00:00Z", false, "0001-01-01T00:00:00Z"),
            ("2026-11-15T10:00:00.123456Z", true, "2026-11-15T10:00:00.123456Z"),
        ] {
            assert_eq!(normal(text, micro), printed);
        }
        assert!(Instant::parse("0001-01-01T00:00:00Z", false).unwrap().is_zero());
    }

    #[test]
    fn what_is_no_time_is_refused_in_gos_words() {
        for (text, micro, said) in [
            (
                "yesterday",
                false,
                r#"parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006""#,
            ),
            ("", false, r#"parsing time "" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "2006""#),
            (
                "2020-01-01",
                false,
                r#"parsing time "2020-01-01" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T""#,
            ),
            ("2020-13-01T00:00:00Z", false, r#"parsing time "2020-13-01T00:00:00Z": month out of range"#),
            ("2021-02-29T00:00:00Z", false, r#"parsing time "2021-02-29T00:00:00Z": day out of range"#),
            (
                "2020-01-01T00:00:00",
                false,
                r#"parsing time "2020-01-01T00:00:00" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "Z07:00""#,
            ),
            (
                "2020-01-01T00:00:00Z",
                true,
                r#"parsing time "2020-01-01T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#,
            ),
        ] {
            assert_eq!(normal(text, micro), said);
        }
    }
}
