//! Flags are looked at before anything is built: a mistyped one must not cost minutes.

use anyhow::{Result, bail};

/// Refuses words that are not in `known`. A known flag that ends in `=` takes a value.
pub fn check(words: &[String], known: &[&str]) -> Result<()> {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let of_this_name = |known: &&&str| known.trim_end_matches('=') == word;
        match known.iter().find(of_this_name) {
            Some(flag) if flag.ends_with('=') && words.next().is_none() => bail!("{word} needs a value"),
            Some(_) => {}
            None if known.is_empty() => bail!("`{word}` is unexpected: there are no flags here"),
            None => {
                let names: Vec<&str> = known.iter().map(|known| known.trim_end_matches('=')).collect();
                bail!("`{word}` is unexpected; there are {}", names.join(", "))
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_flags_and_missing_values_are_refused() {
        let said = |words: &[&str], known: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            check(&words, known).map_err(|error| error.to_string())
        };
        let known = &["--alone", "--pods="];
        assert_eq!(said(&["--pods", "7", "--alone"], known), Ok(()));
        assert_eq!(said(&["--pods"], known), Err("--pods needs a value".to_owned()));
        assert_eq!(
            said(&["--pod", "7"], known),
            Err("`--pod` is unexpected; there are --alone, --pods".to_owned())
        );
        assert_eq!(said(&["now"], &[]), Err("`now` is unexpected: there are no flags here".to_owned()));
    }
}
