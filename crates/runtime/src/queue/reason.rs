//! Why a key was queued: a small, bounded memory beside each key.

use std::fmt;
use std::sync::RwLock;

use crate::revision::Revision;

/// How many distinct reasons one key remembers between two runs. The rest are only counted
/// ([`Reasons::forgotten`]).
pub const REASONS_PER_KEY: usize = 4;

/// The event that queued a key.
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
    /// The last run did not begin, or ended, because a cache did not show this process's writes.
    Stale,
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
            Trigger::Stale => "stale",
            Trigger::Manual => "manual",
        })
    }
}

/// The giver of a reason: a kind, or the name of a channel. Two bytes; the name lives as long as the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SourceName(u16);

/// Names of sources. There are as many as kinds and channels.
static NAMES: RwLock<Vec<&'static str>> = RwLock::new(Vec::new());

impl SourceName {
    /// Nobody in particular.
    pub const NONE: SourceName = SourceName(0);

    /// The source with this name. Beyond 65,535 different names they are no longer told apart.
    pub fn named(name: &str) -> Self {
        if name.is_empty() {
            return SourceName::NONE;
        }
        let mut names = NAMES.write().expect("no holder of this lock panics");
        let place = names.iter().position(|known| *known == name);
        let Ok(next) = u16::try_from(place.unwrap_or(names.len()) + 1) else { return SourceName::NONE };
        if place.is_none() {
            names.push(Box::leak(name.to_owned().into_boxed_str()));
        }
        SourceName(next)
    }

    /// Its name; empty for nobody.
    pub fn name(self) -> &'static str {
        let names = NAMES.read().expect("no holder of this lock panics");
        usize::from(self.0).checked_sub(1).and_then(|place| names.get(place).copied()).unwrap_or_default()
    }
}

impl From<&str> for SourceName {
    fn from(name: &str) -> Self {
        SourceName::named(name)
    }
}

/// One reason: what happened, to which kind of object, by which write. Small, so that remembering it costs nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The kind or channel that gave it.
    pub source: SourceName,
    /// The event.
    pub trigger: Trigger,
    /// The resourceVersion of the write that the event tells of; zero if it tells of none.
    pub revision: Revision,
}

impl Reason {
    /// A reason. Who gives it often keeps the [`SourceName`] instead of naming it each time.
    pub fn new(source: impl Into<SourceName>, trigger: Trigger) -> Self {
        Reason { source: source.into(), trigger, revision: 0 }
    }

    /// The same reason, given by the write that made a resourceVersion.
    #[must_use]
    pub const fn at(self, revision: Revision) -> Self {
        Reason { revision, ..self }
    }

    fn is_like(&self, other: &Reason) -> bool {
        self.source == other.source && self.trigger == other.trigger
    }

    /// Somebody called `add` without saying why.
    pub const MANUAL: Reason = Reason { source: SourceName::NONE, trigger: Trigger::Manual, revision: 0 };
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.source.name() {
            "" => write!(f, "{}", self.trigger),
            source => write!(f, "{source} {}", self.trigger),
        }
    }
}

/// The reasons that one run answers, oldest first, each with how often it was given.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reasons {
    kept: [Option<(Reason, u16)>; REASONS_PER_KEY],
    forgotten: u16,
}

impl Reasons {
    /// For one reason, given once.
    pub(crate) fn of(reason: Reason) -> Self {
        let mut reasons = Reasons::default();
        reasons.note(reason);
        reasons
    }

    /// Remembers `reason`; at the bound it is only counted.
    pub(crate) fn note(&mut self, reason: Reason) {
        self.note_times(reason, 1);
    }

    /// Remembers what `others` do, after what is remembered already.
    pub(crate) fn join(&mut self, others: &Reasons) {
        for (reason, times) in others.iter() {
            self.note_times(reason, times);
        }
        self.forgotten = self.forgotten.saturating_add(others.forgotten);
    }

    fn note_times(&mut self, reason: Reason, times: u16) {
        for place in &mut self.kept {
            match place {
                Some((known, count)) if known.is_like(&reason) => {
                    *count = count.saturating_add(times);
                    known.revision = known.revision.max(reason.revision);
                    return;
                }
                Some(_) => {}
                None => {
                    *place = Some((reason, times));
                    return;
                }
            }
        }
        self.forgotten = self.forgotten.saturating_add(times);
    }

    /// The distinct reasons with their counts. One that was given several times has the newest write.
    pub fn iter(&self) -> impl Iterator<Item = (Reason, u16)> + '_ {
        self.kept.iter().flatten().copied()
    }

    /// How many further reasons did not fit.
    pub fn forgotten(&self) -> u16 {
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
            reasons.note(Reason::new(SourceName::named("Pod"), Trigger::Updated));
        }
        for source in ["a", "b", "c", "d", "e"] {
            reasons.note(Reason::new(SourceName::named(source), Trigger::Added));
        }
        assert_eq!(reasons.to_string(), "Pod updated x3, a added, b added, c added, and 2 more");
    }
}
