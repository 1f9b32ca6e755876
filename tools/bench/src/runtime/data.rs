//! The bytes that the replay server says, built before anything is measured.

use std::sync::{Arc, OnceLock};

use setpoint_schema::protobuf::{transcode, watch_frame};

use super::pods;

/// Pods per page of a list, as clients ask for them.
const PAGE: usize = 500;

/// The form in which a client asks for objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    Json,
    Protobuf,
}

impl Form {
    pub fn watch_type(self) -> &'static str {
        match self {
            Form::Json => "application/json",
            Form::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        }
    }
}

/// Everything about `count` pods. Cheap to clone.
#[derive(Clone)]
pub struct Data(Arc<Inner>);

struct Inner {
    count: u64,
    /// Numbers of the pods in the order of their keys.
    ordered: Vec<u64>,
    initial: [OnceLock<Vec<u8>>; 2],
    pages: Vec<Vec<u8>>,
    average: usize,
}

impl Data {
    pub fn new(count: u64) -> Self {
        let ordered = pods::in_key_order(0..count);
        let (pages, bytes) = pages(&ordered);
        let average = bytes / ordered.len().max(1);
        Data(Arc::new(Inner { count, ordered, initial: [OnceLock::new(), OnceLock::new()], pages, average }))
    }

    pub fn count(&self) -> u64 {
        self.0.count
    }

    /// Bytes of JSON per pod, on average.
    pub fn average(&self) -> usize {
        self.0.average
    }

    /// The first state as a watch tells it, with the bookmark at its end.
    pub fn initial(&self, form: Form) -> &[u8] {
        self.0.initial[form as usize].get_or_init(|| {
            let mut stream = Vec::new();
            for number in &self.0.ordered {
                event(&mut stream, form, "ADDED", &pods::pod(*number, 0, number + 1));
            }
            let mark = format!(
                r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"resourceVersion":"{}","creationTimestamp":null,"annotations":{{"k8s.io/initial-events-end":"true"}}}},"spec":{{"containers":null}},"status":{{}}}}"#,
                self.0.count
            );
            event(&mut stream, form, "BOOKMARK", &mark);
            stream
        })
    }

    /// Page `number` of the list.
    pub fn page(&self, number: usize) -> &[u8] {
        &self.0.pages[number.min(self.0.pages.len() - 1)]
    }

    /// Every pod of the first state goes, then as many others come that have nothing to do with them.
    pub fn replacement(&self, form: Form) -> Vec<u8> {
        let count = self.0.count;
        let mut stream = Vec::new();
        for (number, revision) in self.0.ordered.iter().zip(count + 1..) {
            event(&mut stream, form, "DELETED", &pods::pod(*number, 0, revision));
        }
        let others = pods::in_key_order(pods::OTHERS..pods::OTHERS + count);
        for (number, revision) in others.into_iter().zip(count * 2 + 1..) {
            event(&mut stream, form, "ADDED", &pods::pod(number, 0, revision));
        }
        stream
    }

    /// One update of every pod that came with the replacement, from all over the cluster and not in key order; `round`
    /// counts from one.
    pub fn updates(&self, form: Form, round: u64) -> Vec<u8> {
        let count = self.0.count;
        let mut stream = Vec::new();
        for step in 0..count {
            let number = pods::OTHERS + self.shuffled(step);
            event(&mut stream, form, "MODIFIED", &pods::pod(number, round, count * (round + 2) + step + 1));
        }
        stream
    }

    /// A pod for each step, every one once.
    pub fn shuffled(&self, step: u64) -> u64 {
        // A prime beside which the counts that are measured have no common factor.
        (step * 7919) % self.0.count
    }
}

fn pages(ordered: &[u64]) -> (Vec<Vec<u8>>, usize) {
    let mut bytes = 0;
    let total = ordered.len().div_ceil(PAGE);
    let pages = ordered.chunks(PAGE).enumerate().map(|(page, numbers)| {
        let next = if page + 1 < total { format!(r#","continue":"{}""#, page + 1) } else { String::new() };
        let left = ordered.len() - page * PAGE - numbers.len();
        let mut body = format!(
            r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"{}"{next},"remainingItemCount":{left}}},"items":["#,
            ordered.len()
        )
        .into_bytes();
        for (index, number) in numbers.iter().enumerate() {
            let pod = pods::pod(*number, 0, number + 1);
            bytes += pod.len();
            // Items of a list come without their types.
            let untyped = pod.strip_prefix(r#"{"kind":"Pod","apiVersion":"v1","#).expect("types come first");
            body.extend_from_slice(if index == 0 { b"{" } else { b",{" });
            body.extend_from_slice(untyped.as_bytes());
        }
        body.extend_from_slice(b"]}\n");
        body
    });
    (pages.collect(), bytes)
}

/// Appends one event as an HTTP chunk of its own.
pub fn event(stream: &mut Vec<u8>, form: Form, kind: &str, json: &str) {
    let payload = match form {
        Form::Json => format!("{{\"type\":\"{kind}\",\"object\":{json}}}\n").into_bytes(),
        Form::Protobuf => {
            let object = transcode(json.as_bytes(), "v1", "Pod").expect("the pods are made to encode");
            watch_frame(kind, &object)
        }
    };
    stream.extend_from_slice(format!("{:x}\r\n", payload.len()).as_bytes());
    stream.extend_from_slice(&payload);
    stream.extend_from_slice(b"\r\n");
}
