//! `--service-account-max-token-expiration`.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::flags::Flags;

const SHORTEST: Duration = Duration::from_secs(3600);
const LONGEST: Duration = Duration::from_secs(1 << 32);

/// The longest life of tokens that clients ask for; none if the flag is 0.
///
/// # Errors
/// The flag is out of range. The words are kube-apiserver's.
pub fn longest_life(flags: &Flags) -> Result<Option<Duration>> {
    let life = flags.service_account_max_token_expiration.0;
    if life == Some(Duration::ZERO) {
        return Ok(None);
    }
    let is_in_range = life.is_some_and(|life| (SHORTEST..=LONGEST).contains(&life));
    ensure!(is_in_range, "the service-account-max-token-expiration must be between 1 hour and 2^32 seconds");
    Ok(life)
}

#[cfg(test)]
mod tests {
    use super::super::flags::parsed;
    use super::*;

    #[test]
    fn the_longest_life_of_tokens_has_bounds() {
        let life = |text: &str| {
            let flags = parsed(&[&format!("--service-account-max-token-expiration={text}")]);
            longest_life(&flags).map_err(|error| error.to_string())
        };
        assert_eq!((life("0"), life("1h")), (Ok(None), Ok(Some(SHORTEST))));
        assert_eq!(life("4294967296s"), Ok(Some(LONGEST)));
        for wrong in ["59m59s", "4294967297s", "-1h"] {
            let words = "the service-account-max-token-expiration must be between 1 hour and 2^32 seconds";
            assert_eq!(life(wrong), Err(words.to_owned()), "{wrong}");
        }
        assert_eq!(longest_life(&parsed(&[])).unwrap(), None);
    }
}
