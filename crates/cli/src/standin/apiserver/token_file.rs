//! `--token-auth-file`: bearer tokens in a CSV file.

use std::path::Path;

use anyhow::{Context, Result, bail};
use setpoint_apiserver::{StaticToken, UserInfo};

/// Reads the tokens: each line has a token, a user name, a uid, and possibly groups in one quoted column. Returns
/// warnings about lines that count for nothing.
///
/// # Errors
/// kube-apiserver refuses the file too.
pub fn tokens(path: &Path) -> Result<(Vec<StaticToken>, Vec<String>)> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let file = path.display();
    let (mut tokens, mut warnings) = (Vec::<StaticToken>::new(), Vec::new());
    for (number, record) in records(&text)?.into_iter().enumerate() {
        let mut columns = record.into_iter();
        let count = columns.len();
        let (Some(token), Some(name), Some(uid)) = (columns.next(), columns.next(), columns.next()) else {
            bail!(
                "token file '{file}' must have at least 3 columns (token, user name, user uid), found {count}"
            );
        };
        let number = number + 1;
        if token.is_empty() {
            warnings
                .push(format!("empty token has been found in token file '{file}', record number '{number}'"));
            continue;
        }
        let groups = columns.next().map(|groups| groups.split(',').map(str::to_owned).collect());
        let user = UserInfo { name, uid, groups: groups.unwrap_or_default(), ..UserInfo::default() };
        let known = StaticToken { token, user };
        // The last line of a token counts.
        match tokens.iter_mut().find(|own| own.token == known.token) {
            Some(own) => {
                warnings.push(format!(
                    "duplicate token has been found in token file '{file}', record number '{number}'"
                ));
                *own = known;
            }
            None => tokens.push(known),
        }
    }
    Ok((tokens, warnings))
}

/// Splits CSV as Go's `encoding/csv` does: empty lines do not count, and a column in quotes may hold commas, line ends,
/// and quotes written twice.
fn records(text: &str) -> Result<Vec<Vec<String>>> {
    let text = text.replace("\r\n", "\n");
    let mut records = Vec::new();
    let mut rest = text.as_str();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('\n') {
            rest = after;
            continue;
        }
        let (record, after) = record(rest)?;
        records.push(record);
        rest = after;
    }
    Ok(records)
}

/// Reads one record. Returns it with the text behind it.
fn record(mut rest: &str) -> Result<(Vec<String>, &str)> {
    let mut columns = Vec::new();
    loop {
        let column;
        (column, rest) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_column(quoted)?,
            None => {
                let (plain, after) = rest.split_at(rest.find([',', '\n']).unwrap_or(rest.len()));
                if plain.contains('"') {
                    bail!("bare \" in non-quoted-field");
                }
                (plain.to_owned(), after)
            }
        };
        columns.push(column);
        match rest.strip_prefix(',') {
            Some(after) => rest = after,
            None => return Ok((columns, rest.strip_prefix('\n').unwrap_or(rest))),
        }
    }
}

fn quoted_column(mut rest: &str) -> Result<(String, &str)> {
    let mut column = String::new();
    loop {
        let Some((text, after)) = rest.split_once('"') else {
            bail!("extraneous or missing \" in quoted-field")
        };
        column.push_str(text);
        match after.strip_prefix('"') {
            Some(after) => {
                column.push('"');
                rest = after;
            }
            None if after.is_empty() || after.starts_with([',', '\n']) => return Ok((column, after)),
            None => bail!("extraneous or missing \" in quoted-field"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(Vec<StaticToken>, Vec<String>), String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let path = file.path().display().to_string();
        let shorten = |text: String| text.replace(&path, "FILE");
        tokens(file.path())
            .map(|(tokens, warnings)| (tokens, warnings.into_iter().map(shorten).collect()))
            .map_err(|error| shorten(error.to_string()))
    }

    #[test]
    fn a_line_is_a_token_a_user_a_uid_and_groups() {
        let (tokens, warnings) =
            read("t1,alice,7,\"dev,ops\"\r\n\n,nobody,1\nt2,bob,8\nt1,\"a \"\"b\"\"\",9,dev\n").unwrap();
        let users: Vec<_> = tokens
            .iter()
            .map(|own| (&*own.token, &*own.user.name, &*own.user.uid, own.user.groups.join(" ")))
            .collect();
        assert_eq!(users, [("t1", "a \"b\"", "9", "dev".to_owned()), ("t2", "bob", "8", String::new())]);
        assert_eq!(
            warnings,
            [
                "empty token has been found in token file 'FILE', record number '2'",
                "duplicate token has been found in token file 'FILE', record number '4'"
            ]
        );
        let (tokens, _) = read("t,alice,7,\"dev,ops\"").unwrap();
        assert_eq!(tokens[0].user.groups, ["dev", "ops"]);
    }

    /// As kube-apiserver 1.37 says it.
    #[test]
    fn a_short_line_stops_the_start() {
        let said = "token file 'FILE' must have at least 3 columns (token, user name, user uid), found 2";
        assert_eq!(read("t,alice\n").err().as_deref(), Some(said));
        assert!(read("t,al\"ice,7\n").is_err() && read("t,\"alice,7\n").is_err());
    }
}
