//! The webhooks of a MarkdownView: the viewer's image is filled in, and what the schema cannot say is checked.

use setpoint::webhook::{Allowed, Denied, FieldErrors, HookOptions, Review, Webhooks};

use crate::types::{DEFAULT_VIEWER_IMAGE, MarkdownView};

/// The file that is the book's table of contents.
const SUMMARY: &str = "SUMMARY.md";

/// The webhooks, under the names of the original.
pub fn webhooks() -> Webhooks {
    let named = |name: &str| HookOptions::with(|options| options.name = Some(name.to_owned()));
    Webhooks::new("markdown-view-system", "markdown-view-webhooks")
        .mutate_with::<MarkdownView, _>(default_image, named("mmarkdownview.kb.io"))
        .validate_with::<MarkdownView, _>(validate, named("vmarkdownview.kb.io"))
}

/// The schema fills in an image that is absent. One that is empty is filled in here.
fn default_image(_: &Review<MarkdownView>, view: &mut MarkdownView) -> Result<Allowed, Denied> {
    if view.spec.viewer_image.is_empty() {
        view.spec.viewer_image = DEFAULT_VIEWER_IMAGE.into();
    }
    Ok(Allowed::yes())
}

fn validate(review: &Review<MarkdownView>) -> Result<Allowed, Denied> {
    // A deletion is always allowed.
    let Some(view) = &review.new else { return Ok(Allowed::yes()) };
    let mut errors = FieldErrors::default();
    if !(1..=5).contains(&view.spec.replicas) {
        errors.invalid("spec.replicas", view.spec.replicas, "replicas must be in the range of 1 to 5.");
    }
    if !view.spec.markdowns.contains_key(SUMMARY) {
        errors.required("spec.markdowns", "markdowns must have SUMMARY.md.");
    }
    let mut allowed = review.verdict(errors)?;
    let summary = view.spec.markdowns.get(SUMMARY).map(String::as_str).unwrap_or_default();
    let unlisted =
        view.spec.markdowns.keys().filter(|file| *file != SUMMARY && !summary.contains(file.as_str()));
    for file in unlisted {
        allowed = allowed.warn(format!("{file} is not in {SUMMARY}, so no page leads to it"));
    }
    Ok(allowed)
}
