//! Cron schedules.

/// What is wrong with a schedule, in the words of the parser that Kubernetes uses.
pub(super) fn check(schedule: &str) -> Option<String> {
    let mut schedule = schedule;
    if schedule.starts_with("TZ=") || schedule.starts_with("CRON_TZ=") {
        schedule = schedule.split_once(' ').map_or("", |(_, rest)| rest.trim());
    }
    if schedule.starts_with('@') {
        return descriptor(schedule);
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != 5 {
        let found = fields.join(" ");
        return Some(format!("expected exactly 5 fields, found {}: [{found}]", fields.len()));
    }
    let bounds = [(0, 59, NONE), (0, 23, NONE), (1, 31, NONE), (1, 12, MONTHS), (0, 6, DAYS)];
    fields.iter().zip(bounds).find_map(|(field, (least, most, names))| {
        field
            .split(',')
            .filter(|part| !part.is_empty())
            .find_map(|part| range(part, least, most, names).err())
    })
}

const NONE: &[&str] = &[];
const MONTHS: &[&str] =
    &["", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

fn range(part: &str, least: u64, most: u64, names: &[&str]) -> Result<(), String> {
    let pieces: Vec<&str> = part.split('/').collect();
    let bounds: Vec<&str> = pieces[0].split('-').collect();
    let (start, mut end) = if matches!(bounds[0], "*" | "?") {
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
    Ok(())
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
            let quoted = crate::cause::quote(text);
            Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {quoted}: invalid syntax"))
        }
    }
}

fn descriptor(schedule: &str) -> Option<String> {
    let known = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];
    if known.contains(&schedule) {
        return None;
    }
    match schedule.strip_prefix("@every ") {
        Some(duration) if is_duration(duration) => None,
        Some(duration) => Some(format!(
            "failed to parse duration {schedule}: time: invalid duration {}",
            crate::cause::quote(duration)
        )),
        None => Some(format!("unrecognized descriptor: {schedule}")),
    }
}

/// Go's durations: numbers with units.
fn is_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    let mut parts = 0;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
        if digits == 0 {
            return false;
        }
        rest = &rest[digits..];
        let Some(unit) = ["ns", "us", "µs", "ms", "s", "m", "h"].iter().find(|unit| rest.starts_with(**unit))
        else {
            return false;
        };
        // `m` begins `ms` too; the longer ones stand first.
        rest = &rest[unit.len()..];
        parts += 1;
    }
    parts > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_judged_field_by_field() {
        for good in ["* * * * *", "*/5 0-3 1,15 jan-MAR mon", "@every 1h30m", "@daily", "0 0 ? * 6"] {
            assert_eq!(check(good), None, "{good}");
        }
        for (bad, words) in [
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
            ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("x * * * *", "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("@sometimes", "unrecognized descriptor: @sometimes"),
        ] {
            assert_eq!(check(bad).as_deref(), Some(words), "{bad}");
        }
    }
}
