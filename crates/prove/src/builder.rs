//! The entry: a life is written down, then checked.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use serde_json::Value;
use setpoint_cluster::Options;

use crate::campaign::{Campaign, ProveError};
use crate::finding::{Property, Statements, When};
use crate::life::Step;
use crate::plan::{Fault, PlanFile};
use crate::report::Report;
use crate::settings::Settings;
use crate::shrink::shrink;
use crate::state::View;
use crate::subject::Subject;
use crate::webhooks::Webhooks;

/// Begins a proof of an operator, or of any program that [`crate::program`] wraps.
pub fn prove(subject: impl Into<Subject>) -> Prove {
    Prove(Campaign {
        subject: subject.into(),
        settings: Settings::default(),
        cluster: Options::default(),
        life: Vec::new(),
        statements: Statements::default(),
    })
}

/// A proof under construction.
#[must_use = "a proof does nothing before `check` or `run`"]
pub struct Prove(Campaign);

impl Prove {
    /// Adds a step that applies an object. Without a namespace it goes to `default`.
    pub fn apply(mut self, object: Value) -> Prove {
        self.0.life.push(Step::Apply(object));
        self
    }

    /// Adds a step that merges a change into the object with this name.
    pub fn patch(mut self, name: &str, patch: Value) -> Prove {
        self.0.life.push(Step::Patch { name: name.to_owned(), patch });
        self
    }

    /// Adds a step that deletes the object with this name.
    pub fn delete(mut self, name: &str) -> Prove {
        self.0.life.push(Step::Delete { name: name.to_owned() });
        self
    }

    /// Adds a step for each object in the YAML and JSON files of a folder: all are applied in the order of the file
    /// names, then deleted in reverse.
    ///
    /// # Panics
    /// If a file cannot be read.
    pub fn samples(mut self, folder: impl AsRef<Path>) -> Prove {
        let folder = folder.as_ref();
        let objects = samples(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let names: Vec<String> = objects
            .iter()
            .map(|object| object["metadata"]["name"].as_str().unwrap_or_default().to_owned())
            .collect();
        self.0.life.extend(objects.into_iter().map(Step::Apply));
        self.0.life.extend(names.into_iter().rev().map(|name| Step::Delete { name }));
        self
    }

    /// Adds the life that the schema of a custom resource makes of one sample: each property there and back, scaled,
    /// broken and mended where the server accepts the value, then deleted, made again, and deleted.
    ///
    /// # Errors
    /// If the cluster refuses a manifest.
    pub fn every_property(mut self, sample: Value) -> Result<Prove, ProveError> {
        let steps = self.0.life_from_schema(&sample)?;
        self.0.life.extend(steps);
        Ok(self)
    }

    /// Adds a property that no state may have. It sees the state after every commit.
    pub fn never(self, name: &str, holds: impl Fn(&View<'_>) -> bool + Send + Sync + 'static) -> Prove {
        self.property(When::Never, name, holds)
    }

    /// Adds a property of the state after every commit.
    pub fn always(self, name: &str, holds: impl Fn(&View<'_>) -> bool + Send + Sync + 'static) -> Prove {
        self.property(When::Always, name, holds)
    }

    /// Adds a property of the state at rest after the last step.
    pub fn eventually(self, name: &str, holds: impl Fn(&View<'_>) -> bool + Send + Sync + 'static) -> Prove {
        self.property(When::Eventually, name, holds)
    }

    fn property(
        mut self,
        when: When,
        name: &str,
        holds: impl Fn(&View<'_>) -> bool + Send + Sync + 'static,
    ) -> Prove {
        let property = Property { when, name: name.to_owned(), holds: Arc::new(holds) };
        self.0.statements.properties.push(property);
        self
    }

    /// Says that objects of a resource may outlive the objects of the life: `persistentvolumeclaims`.
    pub fn keeps(mut self, resource: &str) -> Prove {
        self.0.statements.keeps.insert(resource.to_owned());
        self
    }

    /// Adds the operator's webhooks: the server calls `answer` for the configurations that name this Service. An
    /// operator on `setpoint` has `setpoint::webhook::Webhooks::call` and `configurations` for that.
    pub fn webhooks<R>(
        mut self,
        namespace: &str,
        service: &str,
        configurations: Vec<Value>,
        answer: impl Fn(Request<Bytes>) -> R + Send + Sync + 'static,
    ) -> Prove
    where
        R: Future<Output = Response<Bytes>> + Send + 'static,
    {
        let service = (namespace, service);
        let webhooks = Webhooks::new(&self.0.cluster.webhooks, service, configurations, answer);
        self.0.subject.webhooks = Some(webhooks);
        self
    }

    /// Changes the options of the cluster. With fewer controllers and no node a run is several times as fast.
    pub fn cluster(mut self, change: impl FnOnce(&mut Options)) -> Prove {
        change(&mut self.0.cluster);
        self
    }

    /// Changes the bounds.
    pub fn settings(mut self, change: impl FnOnce(&mut Settings)) -> Prove {
        change(&mut self.0.settings);
        self
    }

    /// Lets the server answer as one of an older Kubernetes version: servers before 1.32 do not stream first states, so
    /// that a client may begin with an old one. Stale restarts are tried only then.
    ///
    /// # Panics
    /// If the text is no version such as `1.31`.
    pub fn server_like(mut self, version: &str) -> Prove {
        let minor = version.strip_prefix("1.").and_then(|minor| minor.parse::<u32>().ok());
        let minor = minor.unwrap_or_else(|| panic!("{version:?} is no version of Kubernetes such as 1.31"));
        self.0.settings.watch_list = minor >= 32;
        self
    }

    /// Leaves a kind of fault out, by its name in the report: `child edited by hand`.
    pub fn without(mut self, kind: &str) -> Prove {
        self.0.settings.without.push(kind.to_owned());
        self
    }

    /// Tries one kind of fault and the others named so, and leaves out all else. A restart at rest is always tried.
    pub fn only(mut self, kind: &str) -> Prove {
        self.0.settings.only.push(kind.to_owned());
        self
    }

    /// Explores the life and reports.
    ///
    /// # Errors
    /// If the cluster refuses a manifest or a step.
    pub fn run(self) -> Result<Report, ProveError> {
        let (mut explored, _) = self.0.explore()?;
        if self.0.settings.shrink {
            let found = std::mem::take(&mut explored.findings);
            for finding in found {
                explored.findings.push(shrink(&self.0, finding)?);
            }
        }
        Ok(Report::new(&self.0, explored))
    }

    /// Explores the life.
    ///
    /// # Panics
    /// With the trace of each finding, shortest life first, and the plan file that replays it.
    pub fn check(self) -> Report {
        let report = self.run().unwrap_or_else(|error| panic!("the proof could not be made: {error}"));
        assert!(report.findings.is_empty(), "{report}");
        report
    }

    /// Lives the undisturbed life. Returns all requests, delivered events and changes as text: one seed gives one text.
    ///
    /// # Errors
    /// If the cluster refuses a manifest or a step.
    pub fn record(self) -> Result<String, ProveError> {
        self.0.record()
    }

    /// Adds steps, such as those of a plan file.
    pub fn steps(mut self, steps: impl IntoIterator<Item = Step>) -> Prove {
        self.0.life.extend(steps);
        self
    }

    /// Runs the life and plan of a plan file, and reports.
    ///
    /// # Errors
    /// If the text is no plan file, or the cluster refuses a step.
    pub fn replay(mut self, file: &str) -> Result<Report, ProveError> {
        let file = PlanFile::from_yaml(file).map_err(ProveError::File)?;
        let steps = file.life.len();
        let needed = file.plan.as_ref().map_or(1, |plan| plan.step + usize::from(plan.at.spans_two_steps()));
        if steps == 0 || needed > steps || file.plan.as_ref().is_some_and(|plan| plan.step == 0) {
            return Err(ProveError::File(format!("the plan needs step {needed} of a life of {steps}")));
        }
        if matches!(
            file.plan.as_ref().map(|plan| &plan.at),
            Some(Fault::StaleRestart { .. } | Fault::StaleCrash { .. })
        ) {
            self.0.settings.watch_list = false;
        }
        self.0.settings.seed = file.seed;
        self.0.life = file.life;
        let explored = self.0.replay(file.plan.as_ref())?;
        Ok(Report::new(&self.0, explored))
    }
}

fn samples(folder: &Path) -> Result<Vec<Value>, String> {
    let read = std::fs::read_dir(folder).map_err(|error| error.to_string())?;
    let mut files: Vec<_> = read.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    let known = |file: &&std::path::PathBuf| {
        let extension = file.extension().and_then(|extension| extension.to_str());
        matches!(extension, Some("yaml" | "yml" | "json"))
    };
    let mut objects = Vec::new();
    for file in files.iter().filter(known) {
        let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        for document in text.split("\n---").map(|document| document.trim_start_matches("---")) {
            if document.trim().is_empty() {
                continue;
            }
            let object = serde_saphyr::from_str(document);
            objects.push(object.map_err(|error| format!("{}: {error}", file.display()))?);
        }
    }
    Ok(objects)
}
