//! Shortens the life of a finding. A plan has one fault already.

use std::collections::BTreeSet;

use crate::campaign::{Campaign, ProveError};
use crate::judge::{Finding, of_reference};
use crate::page::page;
use crate::plan::Plan;
use crate::trace::trace;

/// Returns the finding with the shortest life that still shows it: steps are left out one by one.
///
/// # Errors
/// If the cluster does not start.
pub fn shrink(campaign: &Campaign, finding: Finding) -> Result<Finding, ProveError> {
    let mut best = (campaign.clone(), finding);
    if let Some(plan) = &best.1.plan {
        let last = if plan.at.spans_two_steps() { plan.step + 1 } else { plan.step };
        let mut shorter = best.0.clone();
        shorter.life.truncate(last);
        if let Some(found) = again(&shorter, best.1.plan.clone(), &best.1)? {
            best = (shorter, found);
        }
    }
    let mut index = best.0.life.len();
    while index > 0 {
        index -= 1;
        let Some((shorter, plan)) = without(&best.0, best.1.plan.as_ref(), index) else { continue };
        if let Some(found) = again(&shorter, plan, &best.1)? {
            best = (shorter, found);
        }
    }
    Ok(best.1)
}

/// Leaves a step out. `None` if the plan needs it.
fn without(campaign: &Campaign, plan: Option<&Plan>, index: usize) -> Option<(Campaign, Option<Plan>)> {
    let mut shorter = campaign.clone();
    shorter.life.remove(index);
    if shorter.life.is_empty() {
        return None;
    }
    let plan = match plan {
        None => None,
        Some(plan) if index + 1 < plan.step => Some(Plan { step: plan.step - 1, at: plan.at.clone() }),
        Some(_) => return None,
    };
    Some((shorter, plan))
}

/// Looks for the same finding in another life. A life that the server refuses shows nothing.
fn again(campaign: &Campaign, plan: Option<Plan>, finding: &Finding) -> Result<Option<Finding>, ProveError> {
    let Ok(reference) = campaign.reference() else { return Ok(None) };
    let undisturbed = of_reference(&reference, &campaign.statements);
    let Some(plan) = plan else {
        let found = undisturbed.into_iter().find(|other| other.is_like(finding));
        return Ok(found.map(|mut found| {
            found.trace = trace(&reference, None, None);
            found.page = page(&reference, None, None);
            found.file = campaign.file(None);
            found
        }));
    };
    if !undisturbed.is_empty() {
        return Ok(None);
    }
    let Some((outcome, findings)) = campaign.attempt(&reference, &plan, &mut BTreeSet::new())? else {
        return Ok(None);
    };
    let found = findings.into_iter().find(|other| other.is_like(finding));
    Ok(found.map(|mut found| {
        found.trace = trace(&reference, Some(&plan), Some(&outcome));
        found.page = page(&reference, Some(&plan), Some(&outcome));
        found.file = campaign.file(Some(plan));
        found
    }))
}
