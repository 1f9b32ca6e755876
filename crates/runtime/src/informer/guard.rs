//! The fate of an object that its informer's transform cannot handle.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use super::metrics::InformerMetrics;
use crate::informer::cache::{Metadata, Text, Transform};
use crate::key::join_key;

/// `transform`, with a panic kept to the object that it happened on: of that one nothing is cached but its metadata.
/// The transform may have been meant to remove secrets. The same holds for an object of which it leaves nothing.
pub(crate) fn guarded(transform: Transform, kind: String, metrics: Arc<InformerMetrics>) -> Transform {
    Arc::new(move |json| {
        let transformed = std::panic::catch_unwind(AssertUnwindSafe(|| transform(json)));
        let what = match transformed {
            Ok(Some(json)) if json.is_empty() => "left nothing",
            Ok(transformed) => return transformed,
            Err(_) => "panicked",
        };
        metrics.transform_panics.add(1);
        tracing::error!(kind, key = key(json), "a transform {what}: the object is cached without a body");
        Some(Vec::new())
    })
}

fn key(json: &[u8]) -> String {
    let Ok(metadata) = Metadata::find(json) else { return String::new() };
    let text = |text: Option<Text<'_>>| text.and_then(|text| text.value().map(|text| text.into_owned()));
    join_key(text(metadata.namespace).as_deref(), &text(metadata.name).unwrap_or_default())
}
