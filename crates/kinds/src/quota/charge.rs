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

/// Returns the use of each quota with this write, by its index. Quotas that the write costs nothing are left out.
///
/// # Errors
/// Why the write does not fit.
pub fn charge(write: &Write<'_>, quotas: &[Value]) -> Result<Vec<(usize, Amounts)>, String> {
    if !write.counts() {
        return Ok(Vec::new());
    }
    let concerned: Vec<(usize, &Value)> =
        quotas.iter().enumerate().filter(|(_, quota)| write.matches(quota, write.object)).collect();
    for (_, quota) in &concerned {
        judge(write, quota)?;
    }
    if concerned.is_empty() {
        return Ok(Vec::new());
    }
    let usage = write.tracked.usage(write.object, write.now);
    let negative: Vec<&str> =
        usage.iter().filter(|(_, amount)| amount.signum() < 0).map(|(name, _)| name.as_str()).collect();
    if !negative.is_empty() {
        return Err(format!("quota usage is negative for resource(s): {}", negative.join(",")));
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
fn judge(write: &Write<'_>, quota: &Value) -> Result<(), String> {
    let (name, counted) = (text(quota, "metadata.name"), write.counted(quota));
    if *write.tracked == Tracked::Pods
        && let Some(missing) = pod::missing(write.object, &counted)
    {
        return Err(format!("failed quota: {name}: {missing}"));
    }
    let used = at(quota, "status.used");
    if counted.iter().any(|name| used.get(name).is_none()) {
        let counted = counted.join(",");
        return Err(format!("status unknown for quota: {name}, resources: {counted}"));
    }
    Ok(())
}

fn fits(name: &str, more: &Amounts, used: &Amounts, hard: &Amounts) -> Result<(), String> {
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
    Err(format!(
        "exceeded quota: {name}, requested: {}, used: {}, limited: {}",
        told(more),
        told(used),
        told(hard)
    ))
}
