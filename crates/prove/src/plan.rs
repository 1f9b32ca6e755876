//! Plans: one fault, at one place of one step.

use serde::{Deserialize, Serialize};

use crate::life::Step;
use crate::resource::ObjectName;

/// One write of the operator, counted from the beginning of a step.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Anchor {
    /// POST, PUT, PATCH or DELETE.
    pub verb: String,
    /// The resource with its group and subresource: `stores.example.org/status`.
    pub resource: String,
    /// The name of the object. A generated name is its prefix and `*`.
    pub name: String,
    /// The number of the write among equal ones, from 1.
    pub nth: usize,
}

impl std::fmt::Display for Anchor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {} (number {})", self.verb, self.resource, self.name, self.nth)
    }
}

/// A fault. Each of them can happen to a client of a correct kube-apiserver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Fault {
    /// The operator restarts while everything is at rest, before the step.
    Restart,
    /// The operator dies before the server gets a write, and starts again.
    CrashBefore {
        /// The write.
        write: Anchor,
    },
    /// The operator dies after the server committed a write, and starts again.
    CrashAfter {
        /// The write.
        write: Anchor,
    },
    /// The server commits a write, and the connection breaks before its answer.
    LostAnswer {
        /// The write.
        write: Anchor,
    },
    /// The connection breaks before the server gets a write.
    Reset {
        /// The write.
        write: Anchor,
    },
    /// The server refuses a write and does not commit it.
    Refuse {
        /// The write.
        write: Anchor,
        /// The HTTP status: 429 or 500.
        status: u16,
    },
    /// Another client annotates the object just before a write.
    Bystander {
        /// The write.
        write: Anchor,
    },
    /// The next step of the life comes right after a write.
    NextStep {
        /// The write.
        write: Anchor,
    },
    /// All watches of a resource deliver an event, and everything after it, late.
    Hold {
        /// The resource with its group.
        resource: String,
        /// The number of the event among those of the resource in the step, from 1.
        event: usize,
        /// The delay in seconds.
        seconds: u64,
    },
    /// A watch ends before an event.
    Cut {
        /// The resource with its group.
        resource: String,
        /// The number of the event among those of the resource in the step, from 1.
        event: usize,
    },
    /// No watch of a resource delivers anything during the step and the beginning of the next one. Then the watches
    /// end with 410, so that the operator lists again and misses what was in between.
    Unseen {
        /// The resource with its group.
        resource: String,
    },
    /// The operator dies after a write, and its successor dies after a write of its own.
    CrashTwice {
        /// The write of the first process.
        write: Anchor,
        /// The write of the second process, counted from its start.
        then: Anchor,
    },
    /// A client of somebody else keeps a deleted object by a finalizer until the operator rests.
    SlowDeletion {
        /// The deletion.
        write: Anchor,
    },
    /// The API server restarts right after a write: connections break, and all earlier versions are too old.
    ServerRestart {
        /// The write.
        write: Anchor,
    },
    /// All watches of a resource stop at an event, and end with 410 later: the operator lists again and misses what
    /// was in between.
    Gap {
        /// The resource with its group.
        resource: String,
        /// The number of the event among those of the resource in the step, from 1.
        event: usize,
        /// The delay in seconds.
        seconds: u64,
    },
    /// Watches deliver nothing of the step at first. Then the resources catch up one after the other.
    Swizzle {
        /// The resources, in the order in which they catch up.
        order: Vec<String>,
    },
    /// The operator restarts when the steps are done, and its first lists show an older state. Then the resources catch
    /// up one after the other. Only servers before 1.32 and clients without WatchList know such a start.
    StaleRestart {
        /// The number of commits, of anything but Leases, Nodes and Events, after which the old state was.
        commits: usize,
        /// The resources, in the order in which they catch up.
        order: Vec<String>,
        /// The number of steps before the restart: 1 or 2. The old state is in the first of them.
        steps: usize,
    },
    /// Somebody changes or deletes a child by hand when the step is at rest.
    Drift {
        /// The path of the child in the API.
        path: String,
        /// The child.
        object: ObjectName,
        /// Whether it is deleted. Otherwise one value of it is changed.
        delete: bool,
    },
    /// Nothing happens for a long time after the step.
    Idle {
        /// The time in hours.
        hours: u64,
    },
    /// The clock of the operator's machine jumps before the step.
    ClockJump {
        /// The jump in seconds.
        seconds: i64,
    },
    /// The same object is made in a second namespace at the same time.
    Twin,
    /// The operator's webhooks do not answer for a while, from a write on.
    WebhookOutage {
        /// The write.
        write: Anchor,
        /// The time in seconds.
        seconds: u64,
    },
    /// The operator dies after a write, and the first lists of its successor show an older state. Then the resources
    /// catch up one after the other.
    StaleCrash {
        /// The write.
        write: Anchor,
        /// The number of commits of the step, of anything but Leases, Nodes and Events, after which the old state was.
        commits: usize,
        /// The resources, in the order in which they catch up.
        order: Vec<String>,
    },
    /// Two replicas run. The leader is cut off from the server after a write for longer than its Lease lasts: the
    /// other one takes over. Then the connection is back.
    LeaderCutOff {
        /// The write.
        write: Anchor,
    },
    /// Two replicas run. The leader dies after a write, and the other one takes over when the Lease is over.
    LeaderChange {
        /// The write.
        write: Anchor,
        /// Whether the open watches of the other one show neither this write nor anything after it by then.
        stale: bool,
    },
    /// Two replicas run. The leader is told to stop after a write, as in a rolling update.
    Replacement {
        /// The write.
        write: Anchor,
    },
    /// Somebody else marks an object before the step. The control of [`Fault::Bystander`]: an operator that removes a
    /// mark that it has seen means to.
    Marked {
        /// The path of the object in the API.
        path: String,
        /// Whether the mark is a condition. Otherwise it is an annotation.
        condition: bool,
    },
}

impl Fault {
    /// Returns the write at which the fault happens, if it happens at one.
    pub fn write(&self) -> Option<&Anchor> {
        match self {
            Fault::CrashBefore { write }
            | Fault::CrashAfter { write }
            | Fault::LostAnswer { write }
            | Fault::Reset { write }
            | Fault::Refuse { write, .. }
            | Fault::Bystander { write }
            | Fault::NextStep { write }
            | Fault::CrashTwice { write, .. }
            | Fault::SlowDeletion { write }
            | Fault::WebhookOutage { write, .. }
            | Fault::StaleCrash { write, .. }
            | Fault::LeaderCutOff { write }
            | Fault::LeaderChange { write, .. }
            | Fault::Replacement { write }
            | Fault::ServerRestart { write } => Some(write),
            _ => None,
        }
    }

    /// Returns the kind of the fault, as the report counts it.
    pub fn kind(&self) -> &'static str {
        match self {
            Fault::Restart => "restart at rest",
            Fault::CrashBefore { .. } => "crash before a write",
            Fault::CrashAfter { .. } => "crash after a write",
            Fault::LostAnswer { .. } => "lost answer",
            Fault::Reset { .. } => "connection reset",
            Fault::Refuse { .. } => "refused write",
            Fault::Bystander { .. } => "concurrent writer",
            Fault::NextStep { .. } => "early next step",
            Fault::Hold { .. } => "held watch",
            Fault::Cut { .. } => "cut watch",
            Fault::Unseen { .. } => "unseen step",
            Fault::CrashTwice { .. } => "crash in the recovery",
            Fault::SlowDeletion { .. } => "slow deletion",
            Fault::ServerRestart { .. } => "server restart",
            Fault::Gap { .. } => "cut and list again",
            Fault::Swizzle { .. } => "order of kinds",
            Fault::StaleRestart { .. } => "stale restart",
            Fault::Drift { delete: true, .. } => "child deleted by hand",
            Fault::Drift { delete: false, .. } => "child edited by hand",
            Fault::Idle { .. } => "idle time",
            Fault::ClockJump { .. } => "clock jump",
            Fault::Twin => "second namespace",
            Fault::WebhookOutage { .. } => "webhook outage",
            Fault::StaleCrash { .. } => "stale restart after a crash",
            Fault::LeaderCutOff { .. } => "leader cut off",
            Fault::LeaderChange { stale: false, .. } => "change of leader",
            Fault::LeaderChange { stale: true, .. } => "late standby",
            Fault::Replacement { .. } => "rolling replacement",
            Fault::Marked { .. } => "mark before the step",
        }
    }

    /// Returns whether the next step of the life is a part of the run.
    pub fn spans_two_steps(&self) -> bool {
        matches!(self, Fault::NextStep { .. } | Fault::Unseen { .. } | Fault::StaleRestart { steps: 2, .. })
    }

    /// Returns whether two replicas run, and one leads.
    pub(crate) fn needs_replicas(&self) -> bool {
        matches!(self, Fault::LeaderCutOff { .. } | Fault::LeaderChange { .. } | Fault::Replacement { .. })
    }

    /// Returns whether the operator sees the past for a time: it then may do again what somebody else undoes.
    pub(crate) fn is_late(&self) -> bool {
        matches!(
            self,
            Fault::Hold { .. }
                | Fault::Gap { .. }
                | Fault::Swizzle { .. }
                | Fault::StaleRestart { .. }
                | Fault::StaleCrash { .. }
                | Fault::LeaderChange { stale: true, .. }
        )
    }

    /// Returns whether the fault strikes in every run: it waits for nothing that the operator does.
    pub fn always_strikes(&self) -> bool {
        matches!(self, Fault::Restart | Fault::Idle { .. } | Fault::ClockJump { .. } | Fault::Twin)
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::Restart => write!(f, "the operator restarts at rest"),
            Fault::CrashBefore { write } => write!(f, "the operator dies before {write}"),
            Fault::CrashAfter { write } => write!(f, "the operator dies after {write}"),
            Fault::LostAnswer { write } => write!(f, "the answer to {write} is lost"),
            Fault::Reset { write } => write!(f, "the connection breaks before {write}"),
            Fault::Refuse { write, status } => write!(f, "the server answers {status} to {write}"),
            Fault::Bystander { write } => write!(f, "another client annotates the object before {write}"),
            Fault::NextStep { write } => write!(f, "the next step comes right after {write}"),
            Fault::Hold { resource, event, seconds } => {
                write!(f, "watches of {resource} are {seconds} s late from event {event} on")
            }
            Fault::Cut { resource, event } => write!(f, "a watch of {resource} ends before event {event}"),
            Fault::Unseen { resource } => write!(f, "no watch of {resource} shows this step"),
            Fault::CrashTwice { write, then } => {
                write!(f, "the operator dies after {write}, and its successor after {then}")
            }
            Fault::SlowDeletion { write } => {
                write!(f, "a finalizer of somebody else delays the deletion of {write}")
            }
            Fault::ServerRestart { write } => write!(f, "the API server restarts after {write}"),
            Fault::Gap { resource, event, seconds } => {
                write!(f, "watches of {resource} miss {seconds} s from event {event} on, and list again")
            }
            Fault::Swizzle { order } => write!(f, "kinds catch up in the order {}", order.join(", ")),
            Fault::StaleRestart { commits, order, steps } => {
                let late = if *steps == 2 { "after the next step" } else { "after the step" };
                let order = order.join(", ");
                write!(f, "the operator restarts {late} and sees commit {commits}; then follow {order}")
            }
            Fault::Drift { object, delete: true, .. } => write!(f, "somebody deletes {object} by hand"),
            Fault::Drift { object, .. } => write!(f, "somebody edits {object} by hand"),
            Fault::Idle { hours } => write!(f, "nothing happens for {hours} hours"),
            Fault::ClockJump { seconds } => write!(f, "the operator's clock jumps by {seconds} s"),
            Fault::Twin => write!(f, "the same object is made in a second namespace"),
            Fault::WebhookOutage { write, seconds } => {
                write!(f, "the operator's webhooks do not answer for {seconds} s from {write} on")
            }
            Fault::StaleCrash { write, commits, order } => {
                let order = order.join(", ");
                write!(
                    f,
                    "the operator dies after {write}, its successor sees commit {commits}; then follow {order}"
                )
            }
            Fault::LeaderCutOff { write } => {
                write!(f, "the leader is cut off past its Lease after {write}")
            }
            Fault::LeaderChange { write, stale: false } => {
                write!(f, "the leader dies after {write}, and a standby takes over")
            }
            Fault::LeaderChange { write, .. } => {
                write!(f, "the leader dies after {write}, and a standby that does not see it takes over")
            }
            Fault::Replacement { write } => write!(f, "the leader is replaced in order after {write}"),
            Fault::Marked { path, .. } => write!(f, "another client marks {path} before the step"),
        }
    }
}

/// A fault in a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The number of the step, from 1.
    pub step: usize,
    /// The fault.
    pub at: Fault,
}

impl std::fmt::Display for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "step {}: {}", self.step, self.at)
    }
}

/// Everything that a replay needs besides the operator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanFile {
    /// The name of the operator.
    pub subject: String,
    /// The seed.
    pub seed: u64,
    /// The life.
    pub life: Vec<Step>,
    /// The plan. Without one the undisturbed life is the finding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
}

impl PlanFile {
    /// Writes the file as YAML.
    pub fn to_yaml(&self) -> String {
        serde_saphyr::to_string(self).expect("texts, numbers, lists and objects have a YAML form")
    }

    /// Reads a file that [`PlanFile::to_yaml`] wrote.
    ///
    /// # Errors
    /// If the text is no plan file. The error names the line.
    pub fn from_yaml(text: &str) -> Result<PlanFile, String> {
        serde_saphyr::from_str(text).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_plan_file_reads_back() {
        let write =
            Anchor { verb: "PUT".into(), resource: "statefulsets.apps".into(), name: "a".into(), nth: 1 };
        let steps = vec![
            Step::Apply(json!({"kind": "Store", "metadata": {"name": "a"}, "spec": {"size": 3}})),
            Step::Patch { name: "a".into(), patch: json!({"spec": {"size": null}}) },
            Step::Delete { name: "a".into() },
        ];
        let plan = Plan { step: 2, at: Fault::CrashAfter { write } };
        let file = PlanFile { subject: "store".into(), seed: 7, life: steps, plan: Some(plan) };
        let text = file.to_yaml();
        assert_eq!(PlanFile::from_yaml(&text).as_ref(), Ok(&file), "{text}");
        assert!(text.contains("do: crash-after"), "{text}");
    }
}
