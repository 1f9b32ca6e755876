//! Plays a scenario against a target and normalises the answers.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use serde_json::{Value, json};

use crate::families::objects::overlay;
use crate::message::{Received, Sent};
use crate::normal::Normaliser;
use crate::repeat;
use crate::scenario::{Scenario, Step, Until, content_type};
use crate::target::Target;
use crate::transcript::{Answer, Exchange, Transcript};

/// Time for which a step is repeated until its condition holds.
const PATIENCE: Duration = Duration::from_secs(30);
const HEADERS: [&str; 4] = ["content-type", "warning", "location", "retry-after"];

/// Plays all steps.
pub async fn play(target: &Target, scenario: &Scenario) -> Result<Transcript> {
    let mut player = Player::new(target, &scenario.name);
    let mut exchanges = Vec::new();
    for (at, step) in scenario.steps.iter().enumerate() {
        let answer = player.step(step).await.with_context(|| format!("{} step {at}", scenario.name))?;
        exchanges.push(Exchange { request: step.clone(), answer });
    }
    Ok(Transcript { name: scenario.name.clone(), exchanges })
}

/// One scenario on its way.
pub struct Player<'a> {
    target: &'a Target,
    captured: BTreeMap<String, String>,
    normal: Normaliser,
    namespace: String,
    has_namespace: bool,
    last: Value,
}

impl<'a> Player<'a> {
    pub fn new(target: &'a Target, name: &str) -> Self {
        let namespace = format!("w-{}", name.to_lowercase());
        let captured = BTreeMap::from([("ns".to_owned(), namespace.clone())]);
        Player {
            target,
            captured,
            normal: Normaliser::default(),
            namespace,
            has_namespace: false,
            last: Value::Null,
        }
    }

    /// Sends one step and gives its normalised answer.
    pub async fn step(&mut self, step: &Step) -> Result<Answer> {
        if !self.has_namespace && mentions_namespace(step) {
            self.make_namespace().await?;
        }
        let sent = self.fill(step)?;
        self.normal.will_generate(&String::from_utf8_lossy(&sent.body));
        let received = match &step.until {
            None => self.target.send(&sent).await?,
            Some(until) => self.repeat(&sent, until).await?,
        };
        let body = parse(step, &received);
        for (name, pointer) in &step.capture {
            let found = body.pointer(pointer);
            let value = found.map(|found| found.as_str().map_or_else(|| found.to_string(), str::to_owned));
            self.captured.insert(name.clone(), value.unwrap_or_else(|| "absent".to_owned()));
        }
        self.last.clone_from(&body);
        Ok(self.normalise(received, body))
    }

    /// Gives a value that steps may name: `{{name}}`.
    pub fn know(&mut self, name: &str, value: &str) {
        self.captured.insert(name.to_owned(), value.to_owned());
    }

    /// The last answer's body as it came.
    pub fn last(&self) -> &Value {
        &self.last
    }

    async fn make_namespace(&mut self) -> Result<()> {
        self.has_namespace = true;
        let body = json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": self.namespace}});
        let step = Step::with("POST /api/v1/namespaces", body);
        let sent = self.fill(&step)?;
        let received = self.target.send(&sent).await?;
        if received.status != 201 {
            bail!("namespace {}: {}", self.namespace, String::from_utf8_lossy(&received.body));
        }
        Ok(())
    }

    async fn repeat(&self, sent: &Sent, until: &Until) -> Result<Received> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let received = self.target.send(sent).await?;
            let body: Value = serde_json::from_slice(&received.body).unwrap_or_default();
            let there =
                until.pointer.as_ref().is_none_or(|pointer| match (body.pointer(pointer), &until.equals) {
                    (Some(found), Some(wanted)) => found == wanted,
                    (found, _) => found.is_some(),
                });
            let done = received.status == until.status && there;
            if done || tokio::time::Instant::now() > deadline {
                return Ok(received);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn fill(&self, step: &Step) -> Result<Sent> {
        let (method, path) = step.split();
        let body = match (&step.body, &step.text) {
            (Some(body), _) if step.onto.is_some() => {
                let base = step.onto.as_ref().and_then(|name| self.captured.get(name));
                let base: Value = serde_json::from_str(base.map_or("{}", String::as_str)).unwrap_or_default();
                // There was nothing to change: the body goes alone.
                let base = if base["kind"] == "Status" { json!({}) } else { base };
                overlay(&base, body).to_string()
            }
            (Some(body), _) => self.substitute(&serde_json::to_string(body)?),
            (None, Some(text)) => self.substitute(text),
            (None, None) => String::new(),
        };
        let mut headers = vec![("user-agent".to_owned(), "wire/1".to_owned())];
        if let Some(kind) = step.content_type.as_deref().or((!body.is_empty()).then_some("json"))
            && !kind.is_empty()
        {
            headers.push(("content-type".to_owned(), content_type(kind).to_owned()));
        }
        let accept = step.accept.as_deref().unwrap_or("json");
        headers.push(("accept".to_owned(), content_type(accept).to_owned()));
        for (name, value) in &step.headers {
            // A header that is sent twice has a line for each value.
            headers.extend(self.substitute(value).split('\n').map(|value| (name.clone(), value.to_owned())));
        }
        Ok(Sent {
            method: method.to_owned(),
            path: self.substitute(path),
            user: step.user.clone().unwrap_or_else(|| "admin".to_owned()),
            headers,
            body: Bytes::from(body),
        })
    }

    fn substitute(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, value) in &self.captured {
            text = text.replace(&format!("{{{{{name}}}}}"), value);
        }
        repeat::expand(&text)
    }

    fn normalise(&mut self, received: Received, mut body: Value) -> Answer {
        let mut headers = BTreeMap::new();
        for name in HEADERS {
            let values: Vec<String> = received
                .headers
                .get_all(name)
                .iter()
                .map(|value| self.normal.text(&String::from_utf8_lossy(value.as_bytes())))
                .collect();
            if !values.is_empty() {
                headers.insert(name.to_owned(), values);
            }
        }
        if received.headers.contains_key("etag") {
            headers.insert("etag".to_owned(), vec!["present".to_owned()]);
        }
        match &mut body {
            Value::Array(events) => events.iter_mut().for_each(|event| self.normal.document(event)),
            other => self.normal.document(other),
        }
        Answer { status: received.status, headers, body }
    }
}

fn mentions_namespace(step: &Step) -> bool {
    step.request.contains("{{ns}}")
        || step.body.as_ref().is_some_and(|body| body.to_string().contains("{{ns}}"))
        || step.text.as_ref().is_some_and(|text| text.contains("{{ns}}"))
}

/// JSON and YAML as documents, a watch as the list of its events, anything else as text.
fn parse(step: &Step, received: &Received) -> Value {
    let kind = received.headers.get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    // HTTP carries no body in answer to HEAD; in process there may be one.
    let head = step.split().0 == "HEAD";
    if head {
        return Value::String(String::new());
    }
    let text = || String::from_utf8_lossy(&received.body).into_owned();
    if kind.contains("yaml") {
        return serde_saphyr::from_str(&text()).unwrap_or_else(|_| Value::String(text()));
    }
    if kind.contains("protobuf") {
        return Value::String("<protobuf>".to_owned());
    }
    if step.is_watch() && received.status == 200 {
        return text()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|_| Value::String(line.to_owned())))
            .collect();
    }
    serde_json::from_slice(&received.body).unwrap_or_else(|_| Value::String(text()))
}
