//! How a reflector lists and watches.

use std::time::Duration;

use crate::log_target::LogTarget;

/// How a reflector lists and watches.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ReflectorOptions {
    /// Ask for the first state through the watch itself (WatchList), and list only if that fails.
    pub watch_list: bool,
    /// How long a streamed list may stay silent, and a quarter of how long it may bring no further object in the order of
    /// their keys, before a plain list replaces it. A server that never marks the end of the first state costs this twice.
    pub sync_deadline: Duration,
    /// The first list asks for the newest state, and not for any that the server has in its cache (`resourceVersion=0`):
    /// a process that starts anew may not act on a state from before its last end.
    pub consistent_first_list: bool,
    /// Objects in one page of a plain list.
    pub page_size: u32,
    /// The server is asked to end each watch after a random time between this and twice this.
    pub shortest_watch: Duration,
    /// No answer to a list page, or to the opening of a watch, within this time is a failure. A long page may take this
    /// time for each 16 KiB.
    pub request_deadline: Duration,
    /// Under which target it logs.
    pub log_target: LogTarget,
}

impl ReflectorOptions {
    /// Returns the defaults after `change`. A struct literal does not compile, because fields may be added.
    pub fn with(change: impl FnOnce(&mut Self)) -> Self {
        let mut options = Self::default();
        change(&mut options);
        options
    }
}

impl Default for ReflectorOptions {
    fn default() -> Self {
        ReflectorOptions {
            watch_list: true,
            sync_deadline: Duration::from_secs(30),
            consistent_first_list: false,
            page_size: 500,
            shortest_watch: Duration::from_secs(300),
            request_deadline: Duration::from_secs(60),
            log_target: LogTarget::default(),
        }
    }
}
