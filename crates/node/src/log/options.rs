//! The options of `kubectl logs`, and the lines that match them.

use jiff::{SignedDuration, Timestamp};

/// The query of a log request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// The container. Default: the pod's only one.
    pub container: Option<String>,
    /// Keep the answer open and send new lines.
    pub follow: bool,
    /// Read the container's previous run.
    pub previous: bool,
    /// Put a time before each line.
    pub timestamps: bool,
    /// Only lines of the last seconds.
    pub since_seconds: Option<i64>,
    /// Only lines after this moment.
    pub since_time: Option<Timestamp>,
    /// Only that many lines from the end.
    pub tail_lines: Option<usize>,
    /// Cut the answer after that many bytes.
    pub limit_bytes: Option<usize>,
}

/// An invalid query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {value:?} is not valid")]
pub struct LogOptionsError {
    name: String,
    value: String,
}

impl LogOptions {
    /// Reads the decoded pairs of a query. Unknown names are ignored.
    pub fn from_query<'a>(
        query: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, LogOptionsError> {
        let mut options = LogOptions::default();
        for (name, value) in query {
            options
                .set(name, value)
                .ok_or_else(|| LogOptionsError { name: name.into(), value: value.into() })?;
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Option<()> {
        match name {
            "container" => self.container = (!value.is_empty()).then(|| value.to_owned()),
            "follow" => self.follow = boolean(value)?,
            "previous" => self.previous = boolean(value)?,
            "timestamps" => self.timestamps = boolean(value)?,
            "sinceSeconds" => self.since_seconds = Some(value.parse().ok().filter(|seconds| *seconds > 0)?),
            "sinceTime" => self.since_time = Some(value.parse().ok()?),
            "tailLines" => self.tail_lines = Some(value.parse().ok()?),
            "limitBytes" => self.limit_bytes = Some(value.parse().ok().filter(|bytes| *bytes > 0)?),
            _ => {}
        }
        Some(())
    }

    /// Returns the time before which lines are left out.
    pub fn since(&self, now: Timestamp) -> Option<Timestamp> {
        let ago = self
            .since_seconds
            .map(|seconds| now.checked_sub(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MIN));
        match (ago, self.since_time) {
            (Some(a), Some(b)) => Some(a.max(b)),
            (a, b) => a.or(b),
        }
    }

    /// Prints one line in the requested form. Only the first part of a long line has a time.
    fn print(&self, line: &Line<'_>, continues: bool, output: &mut Vec<u8>) {
        if self.timestamps && !continues {
            output.extend_from_slice(line.time.as_bytes());
            output.push(b' ');
        }
        output.extend_from_slice(line.text);
        if line.whole {
            output.push(b'\n');
        }
    }

    /// The lines of `stored` that answer this request.
    pub fn select(&self, stored: &[u8], now: Timestamp) -> Vec<u8> {
        let since = self.since(now);
        let wanted = |line: &Line<'_>| match (since, line.time.parse::<Timestamp>()) {
            (Some(since), Ok(time)) => time >= since,
            _ => true,
        };
        let lines: Vec<Line<'_>> = Line::split(stored).filter(wanted).collect();
        let from = self.tail_lines.map_or(0, |tail| lines.len().saturating_sub(tail));
        let mut output = Vec::new();
        let mut whole = true;
        for line in &lines[from..] {
            self.print(line, !whole, &mut output);
            whole = line.whole;
        }
        if let Some(limit) = self.limit_bytes {
            output.truncate(limit);
        }
        output
    }
}

fn boolean(value: &str) -> Option<bool> {
    match value {
        "true" | "1" | "" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    }
}

/// One stored line: `TIME stdout F TEXT`, where F is whole and P a part of a longer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    pub time: &'a str,
    pub whole: bool,
    pub text: &'a [u8],
}

impl<'a> Line<'a> {
    /// Returns the stored lines in order, without those in another form.
    pub fn split(stored: &'a [u8]) -> impl Iterator<Item = Line<'a>> {
        stored.split(|byte| *byte == b'\n').filter_map(Line::parse)
    }

    fn parse(line: &'a [u8]) -> Option<Line<'a>> {
        let mut parts = line.splitn(4, |byte| *byte == b' ');
        let time = std::str::from_utf8(parts.next()?).ok()?;
        let _stream = parts.next()?;
        let whole = parts.next()? == b"F";
        Some(Line { time, whole, text: parts.next()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORED: &[u8] = b"2026-11-15T10:00:00.000000000Z stdout F one\n2026-11-15T10:00:05.000000000Z stdout P tw\n2026-11-15T10:00:05.000000000Z stdout F o\n2026-11-15T10:00:09.000000000Z stdout F three\n";

    fn select(query: &[(&str, &str)]) -> String {
        let now = "2026-11-15T10:00:10Z".parse().unwrap();
        let options = LogOptions::from_query(query.iter().copied()).unwrap();
        String::from_utf8(options.select(STORED, now)).unwrap()
    }

    #[test]
    fn lines_are_chosen_as_asked() {
        assert_eq!(select(&[]), "one\ntwo\nthree\n");
        assert_eq!(select(&[("tailLines", "1")]), "three\n");
        assert_eq!(select(&[("tailLines", "0")]), "");
        assert_eq!(select(&[("sinceSeconds", "2")]), "three\n");
        assert_eq!(select(&[("sinceSeconds", "9223372036854775807")]), "one\ntwo\nthree\n");
        assert_eq!(select(&[("sinceTime", "2026-11-15T10:00:05Z")]), "two\nthree\n");
        assert_eq!(select(&[("limitBytes", "5")]), "one\nt");
        assert_eq!(
            select(&[("timestamps", "true"), ("tailLines", "1")]),
            "2026-11-15T10:00:09.000000000Z three\n"
        );
    }

    #[test]
    fn a_wrong_value_is_named() {
        let error = LogOptions::from_query([("tailLines", "many")]).unwrap_err();
        assert_eq!(error.to_string(), "tailLines: \"many\" is not valid");
        let error = LogOptions::from_query([("sinceSeconds", "0")]).unwrap_err();
        assert_eq!(error.to_string(), "sinceSeconds: \"0\" is not valid");
    }
}
