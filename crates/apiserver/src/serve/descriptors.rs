//! File descriptors: how many this process may have, and how many of them connections get.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Fewer connections than this make no server.
const FEWEST: u64 = 64;

/// Raises the soft limit of open files to the hard one, as Go's runtime does. Shells give 1,024 for the sake of
/// programs that call `select`.
pub fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "could not raise the limit of open files");
    }
}

/// Connections that may be open at once. A quarter of the descriptors stays for files and for connections that the
/// server opens itself; the store cannot go on without them.
pub(super) fn max_connections() -> usize {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from((files / 4 * 3).max(FEWEST)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_is_raised_to_the_hard_one() {
        raise_open_files();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
        assert!(max_connections() >= 64);
    }
}
