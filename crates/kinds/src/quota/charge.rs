//! Charging a write to the quotas of its namespace, or refusing it, in kube-apiserver's words.

use jiff::Timestamp;
use serde_json::Value;

use super::{Tracked, pod, scope};
use crate::access::{at, entries, text};
use crate::resources::{Amounts, add, amounts};
use setpoint_api::quantity::Quantity;

/// An object that is about to be written.
pub struct Write<'a> {
    /// The resources that quotas count of it.
    pub tracked: &'a Tracked,
    /// The part of the object that is written; empty for the object itself.
    pub subresource: &'a str,
    /// The object that will be stored.
    pub object: &'a Value,
    /// The stored object, or `None` if it is new.
    pub old: Option<&'a Value>,
    /// When.
    pub now: Timestamp,
}

impl Write<'_> {
    /// Whether the write can use more than was used before.
    pub fn counts(&self) -> bool {
        match (self.tracked, self.subresource, self.old) {
            (_, "", None) | (Tracked::Services | Tracked::Claims, "", Some(_)) => true,
            (Tracked::Pods, "", Some(old)) => pod::terminates(old) != pod::terminates(self.object),
            (Tracked::Pods, "resize", Some(_)) | (Tracked::Claims, "status", Some(_)) => true,
            _ => false,
        }
    }

    fn matches(&self, quota: &Value, object: &Value) -> bool {
        !self.counted(quota).is_empty() && scope::covers(quota, self.tracked, object)
    }

    /// Returns the names that the quota counts of such objects, in order.
    fn counted<'q>(&self, quota: &'q Value) -> Vec<&'q str> {
        let hard = entries(quota, "status.hard").map(|(name, _)| name.as_str());
        hard.filter(|name| self.tracked.counts(name)).collect()
    }

    /// Returns the additional use of a quota by the write. Zero amounts are included.
    fn more(&self, quota: &Value) -> Amounts {
        let mut usage = self.tracked.usage(self.object, self.now);
        if let Some(old) = self.old.filter(|old| self.matches(quota, old)) {
            for (name, before) in self.tracked.usage(old, self.now) {
                if let Some(after) = usage.get_mut(&name) {
                    *after = *after - before;
                }
            }
        }
        usage.retain(|_, amount| amount.signum() > 0);
        usage
    }
}

/// A write that its quotas do not allow, in kube-apiserver's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuotaError {
    /// The object does not say what a quota must know.
    #[error("failed quota: {quota}: {missing}")]
    Unspecified {
        /// The quota.
        quota: String,
        /// The missing part.
        missing: String,
    },
    /// The quota has not been counted yet.
    #[error("status unknown for quota: {quota}, resources: {resources}")]
    Uncounted {
        /// The quota.
        quota: String,
        /// The resources that it limits.
        resources: String,
    },
    /// The object uses less than nothing of these resources.
    #[error("quota usage is negative for resource(s): {0}")]
    Negative(String),
    /// The write does not fit.
    #[error("exceeded quota: {quota}, requested: {requested}, used: {used}, limited: {limited}")]
    Exceeded {
        /// The quota.
        quota: String,
        /// The amounts of the write.
        requested: String,
        /// The amounts before the write.
        used: String,
        /// The limits.
        limited: String,
    },
}

/// Returns the use of each quota with this write, by its index. Quotas that the write costs nothing are left out.
pub fn charge(write: &Write<'_>, quotas: &[Value]) -> Result<Vec<(usize, Amounts)>, QuotaError> {
    if !write.counts() {
        return Ok(Vec::new());
    }
    let concerned: Vec<(usize, &Value)> =
        quotas.iter().enumerate().filter(|(_, quota)| write.matches(quota, write.object)).collect();
    for (_, quota) in &concerned {
        check_known(write, quota)?;
    }
    if concerned.is_empty() {
        return Ok(Vec::new());
    }
    let usage = write.tracked.usage(write.object, write.now);
    let negative: Vec<&str> =
        usage.iter().filter(|(_, amount)| amount.signum() < 0).map(|(name, _)| name.as_str()).collect();
    if !negative.is_empty() {
        return Err(QuotaError::Negative(negative.join(",")));
    }
    let mut charged = Vec::new();
    for (place, quota) in concerned {
        let hard = amounts(at(quota, "status.hard"));
        let mut more = write.more(quota);
        more.retain(|name, _| hard.contains_key(name));
        let mut used = amounts(at(quota, "status.used"));
        // A status write is never refused: it reports what there is already.
        if write.subresource != "status" {
            fits(text(quota, "metadata.name"), &more, &used, &hard)?;
        }
        if !more.is_empty() {
            add(&mut used, &more);
            charged.push((place, used));
        }
    }
    Ok(charged)
}

/// Whether the object says what the quota must know, and the quota knows what it has used.
fn check_known(write: &Write<'_>, quota: &Value) -> Result<(), QuotaError> {
    let (name, counted) = (text(quota, "metadata.name"), write.counted(quota));
    if *write.tracked == Tracked::Pods
        && let Some(missing) = pod::missing(write.object, &counted)
    {
        return Err(QuotaError::Unspecified { quota: name.to_owned(), missing: missing.to_string() });
    }
    let used = at(quota, "status.used");
    if counted.iter().any(|name| used.get(name).is_none()) {
        return Err(QuotaError::Uncounted { quota: name.to_owned(), resources: counted.join(",") });
    }
    Ok(())
}

fn fits(name: &str, more: &Amounts, used: &Amounts, hard: &Amounts) -> Result<(), QuotaError> {
    let none = Quantity::whole(0);
    let of = |amounts: &Amounts, name: &str| amounts.get(name).copied().unwrap_or(none);
    let exceeded: Vec<&str> = more
        .iter()
        .filter(|(name, amount)| of(used, name) + **amount > of(hard, name))
        .map(|(name, _)| name.as_str())
        .collect();
    if exceeded.is_empty() {
        return Ok(());
    }
    let told = |amounts: &Amounts| -> String {
        let parts = exceeded.iter().filter_map(|name| Some(format!("{name}={}", amounts.get(*name)?)));
        parts.collect::<Vec<_>>().join(",")
    };
    Err(QuotaError::Exceeded {
        quota: name.to_owned(),
        requested: told(more),
        used: told(used),
        limited: told(hard),
    })
}
