//! Why a key was queued: a small, bounded memory beside each key.

use std::fmt;

/// How many distinct reasons one key remembers between two runs. The rest are only counted
/// ([`Reasons::forgotten`]).
pub const REASONS_PER_KEY: usize = 4;

/// What made somebody queue a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Trigger {
    /// The object was in the first list that the informer saw.
    Initial,
    /// An object was created.
    Added,
    /// An object was changed.
    Updated,
    /// An object was deleted.
    Deleted,
    /// The periodic local resync.
    Resync,
    /// An external event channel.
    External,
    /// The reconciler asked for a later run.
    RequeueAfter,
    /// The reconciler asked for another rate-limited run.
    Requeue,
    /// The last run failed.
    Error,
    /// The last run panicked.
    Panic,
    /// The last run lost a write conflict.
    Conflict,
    /// Somebody called `add` directly.
    Manual,
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Trigger::Initial => "initial",
            Trigger::Added => "added",
            Trigger::Updated => "updated",
            Trigger::Deleted => "deleted",
            Trigger::Resync => "resync",
            Trigger::External => "external",
            Trigger::RequeueAfter => "requeue-after",
            Trigger::Requeue => "requeue",
            Trigger::Error => "error",
            Trigger::Panic => "panic",
            Trigger::Conflict => "conflict",
            Trigger::Manual => "manual",
        })
    }
}

/// One reason: what happened, to which kind of object. Small and `Copy`, so that remembering it costs no
/// allocation; `source` is a name that lives as long as the program (a kind, the name of a channel).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The kind whose event it was, or the name of another source.
    pub source: &'static str,
    /// What happened.
    pub trigger: Trigger,
}

impl Reason {
    /// A reason.
    pub const fn new(source: &'static str, trigger: Trigger) -> Self {
        Reason { source, trigger }
    }

    /// Somebody called `add` without saying why.
    pub const MANUAL: Reason = Reason { source: "", trigger: Trigger::Manual };
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.source.is_empty() {
            return write!(f, "{}", self.trigger);
        }
        write!(f, "{} {}", self.source, self.trigger)
    }
}

/// The reasons that one run answers, oldest first, each with how often it was given.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reasons {
    kept: [Option<(Reason, u32)>; REASONS_PER_KEY],
    forgotten: u32,
}

impl Reasons {
    /// Remembers `reason`; at the bound it is only counted.
    pub(crate) fn note(&mut self, reason: Reason) {
        for place in &mut self.kept {
            match place {
                Some((known, count)) if *known == reason => {
                    *count = count.saturating_add(1);
                    return;
                }
                Some(_) => {}
                None => {
                    *place = Some((reason, 1));
                    return;
                }
            }
        }
        self.forgotten = self.forgotten.saturating_add(1);
    }

    /// The distinct reasons with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (Reason, u32)> + '_ {
        self.kept.iter().flatten().copied()
    }

    /// How many further reasons did not fit.
    pub fn forgotten(&self) -> u32 {
        self.forgotten
    }
}

impl fmt::Display for Reasons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, (reason, count)) in self.iter().enumerate() {
            let comma = if position == 0 { "" } else { ", " };
            match count {
                1 => write!(f, "{comma}{reason}")?,
                _ => write!(f, "{comma}{reason} x{count}")?,
            }
        }
        if self.forgotten > 0 {
            write!(f, ", and {} more", self.forgotten)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_reasons_are_counted_and_the_bound_holds() {
        let mut reasons = Reasons::default();
        for _ in 0..3 {
            reasons.note(Reason::new("Pod", Trigger::Updated));
        }
        for source in ["a", "b", "c", "d", "e"] {
            reasons.note(Reason::new(source, Trigger::Added));
        }
        assert_eq!(reasons.to_string(), "Pod updated x3, a added, b added, c added, and 2 more");
    }
}
