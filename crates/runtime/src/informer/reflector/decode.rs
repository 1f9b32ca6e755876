//! From the bytes of a watch line or a list page to objects.

use std::collections::BTreeMap;
use std::str::from_utf8;

use super::machine::{Page, WatchEvent};
use crate::informer::cache::{Cursor, Ingest, Malformed, Metadata, Object, ObjectError, Text};
use crate::informer::failure::WatchFailure;

/// Marks the bookmark behind the last object of a streamed first state.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Reads one line of a watch.
pub(super) fn watch_line(line: &[u8], ingest: &mut Ingest) -> WatchEvent {
    let Ok((kind, object)) = split_event(line.trim_ascii()) else { return WatchEvent::Unreadable };
    let read = match kind {
        b"ADDED" => ingest.object(object).map(WatchEvent::Added),
        b"MODIFIED" => ingest.object(object).map(WatchEvent::Modified),
        b"DELETED" => ingest.object(object).map(WatchEvent::Deleted),
        b"BOOKMARK" => bookmark(object).map_err(ObjectError::from),
        b"ERROR" => Ok(WatchEvent::Error(WatchFailure::from_status(None, None, object))),
        _ => return WatchEvent::Unreadable,
    };
    read.unwrap_or(WatchEvent::Unreadable)
}

/// The type and the object of an event. Servers write the type first, so that the object reaches to the last brace
/// of the line and need not be searched for its end.
fn split_event(line: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let mut cursor = Cursor::new(line);
    cursor.expect(b'{')?;
    if cursor.text()?.raw == b"type" {
        cursor.expect(b':')?;
        let kind = cursor.text()?.raw;
        cursor.expect(b',')?;
        if cursor.text()?.raw == b"object" {
            cursor.expect(b':')?;
            cursor.peek()?;
            let object = line[cursor.at()..].strip_suffix(b"}").ok_or(cursor.malformed())?.trim_ascii_end();
            return if object.ends_with(b"}") { Ok((kind, object)) } else { Err(cursor.malformed()) };
        }
    }
    split_unordered(line)
}

fn split_unordered(line: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let (mut kind, mut object) = (None, None);
    let mut cursor = Cursor::new(line);
    cursor.fields(|cursor, name| {
        match name.raw {
            b"type" => kind = Some(cursor.text()?.raw),
            b"object" => object = Some(cursor.value()?),
            _ => {
                cursor.value()?;
            }
        }
        Ok(true)
    })?;
    kind.zip(object).ok_or(cursor.malformed())
}

fn bookmark(object: &[u8]) -> Result<WatchEvent, Malformed> {
    let metadata = Metadata::find(object)?;
    let resource_version = metadata.resource_version.and_then(Text::value).unwrap_or_default();
    if resource_version.is_empty() {
        return Err(Malformed { at: 0 });
    }
    let annotations: BTreeMap<String, String> =
        metadata.annotations.and_then(|json| serde_json::from_slice(json).ok()).unwrap_or_default();
    let ends_initial = annotations.get(INITIAL_EVENTS_END).is_some_and(|value| value == "true");
    Ok(WatchEvent::Bookmark { resource_version: resource_version.into_owned(), ends_initial })
}

/// Reads one page. An object that does not say which one it is is counted by `unreadable` and left out.
///
/// An answer that does not say that it is a list is an error: taken for an empty list, the answer of a gateway in the
/// server's place would delete everything.
pub(super) fn list_page(
    body: &[u8],
    ingest: &mut Ingest,
    mut unreadable: impl FnMut(),
) -> Result<Page, WatchFailure> {
    let mut page = Page::default();
    let (mut kind, mut has_items): (&[u8], _) = (b"", None);
    if let (true, Some((kind, api_version))) = (ingest.lacks_types(), list_types(body)) {
        ingest.learn_types(kind, api_version);
    }
    let mut cursor = Cursor::new(body);
    let read = cursor.fields(|cursor, name| {
        match name.raw {
            b"kind" if cursor.peek()? == b'"' => kind = cursor.text()?.raw,
            b"metadata" if cursor.peek()? == b'{' => list_metadata(cursor, &mut page)?,
            b"items" if cursor.peek()? == b'[' => {
                has_items = Some(true);
                cursor.elements(|cursor| {
                    match list_item(cursor, body, ingest)? {
                        Some(object) => page.objects.push(object),
                        None => unreadable(),
                    }
                    Ok(())
                })?;
            }
            b"items" => has_items = Some(cursor.value()? == b"null"),
            _ => {
                cursor.value()?;
            }
        }
        Ok(true)
    });
    match read {
        Err(malformed) => Err(WatchFailure::Transport(format!("the list is no JSON: {malformed}"))),
        Ok(_) if kind == b"Table" => {
            Err(WatchFailure::Transport("the server sent a Table, not a list".to_owned()))
        }
        Ok(_) if !has_items.unwrap_or_else(|| kind.ends_with(b"List")) => {
            Err(WatchFailure::Transport("the answer is JSON, but not a list".to_owned()))
        }
        Ok(_) => Ok(page),
    }
}

/// The kind and the apiVersion of a list, which may stand behind its items.
fn list_types(body: &[u8]) -> Option<(&str, &str)> {
    let (mut kind, mut api_version) = (None, None);
    let read = Cursor::new(body).fields(|cursor, name| {
        match name.raw {
            b"kind" => kind = Some(cursor.text()?.raw),
            b"apiVersion" => api_version = Some(cursor.text()?.raw),
            _ => {
                cursor.value()?;
            }
        }
        Ok(kind.is_none() || api_version.is_none())
    });
    read.ok()?;
    Some((from_utf8(kind?).ok()?, from_utf8(api_version?).ok()?))
}

fn list_metadata(cursor: &mut Cursor<'_>, page: &mut Page) -> Result<(), Malformed> {
    cursor.fields(|cursor, name| {
        let value = cursor.value()?;
        let text = || serde_json::from_slice::<String>(value).unwrap_or_default();
        match name.raw {
            b"resourceVersion" => page.resource_version = text(),
            b"continue" => page.continue_token = Some(text()).filter(|token| !token.is_empty()),
            _ => {}
        }
        Ok(true)
    })?;
    Ok(())
}

fn list_item(cursor: &mut Cursor<'_>, body: &[u8], ingest: &mut Ingest) -> Result<Option<Object>, Malformed> {
    if cursor.peek()? != b'{' {
        cursor.value()?;
        return Ok(None);
    }
    let start = cursor.at();
    let metadata = Metadata::find_whole(cursor)?;
    Ok(ingest.build(&body[start..cursor.at()], start, &metadata).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::informer::cache::IngestOptions;

    fn ingest() -> Ingest {
        let types = Some(r#"{"kind":"Pod","apiVersion":"v1","#.into());
        Ingest::new(IngestOptions { types, ..IngestOptions::default() })
    }

    #[test]
    fn events_are_read_in_either_order_of_their_fields() {
        for line in [
            r#"{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"n"}}}"#,
            r#" { "type" : "ADDED" , "object" : { "metadata" : {"namespace":"n","name":"a"} } } "#,
            r#"{"object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"n"}},"type":"ADDED"}"#,
        ] {
            let WatchEvent::Added(object) = watch_line(line.as_bytes(), &mut ingest()) else {
                panic!("{line}")
            };
            assert_eq!(object.key().as_str(), "n/a");
            let value: serde_json::Value = object.decode().unwrap();
            assert_eq!(value["kind"], "Pod");
        }
    }

    #[test]
    fn what_cannot_be_read_is_one_unreadable_event() {
        for line in [
            "",
            "null",
            r#"{"type":"ADDED"}"#,
            r#"{"type":"ADDED","object":{"metadata":{}}}"#,
            r#"{"type":"ADDED","object":{"metadata":{"name":7}}}"#,
            r#"{"type":"ADDED","object":{"metadata":{"name":"x"#,
            r#"{"type":"SOMETHING","object":{"metadata":{"name":"x"}}}"#,
            r#"{"type":"BOOKMARK","object":{"metadata":{}}}"#,
        ] {
            let event = watch_line(line.as_bytes(), &mut ingest());
            assert!(matches!(event, WatchEvent::Unreadable), "{line}: {event:?}");
        }
    }

    #[test]
    fn the_end_of_the_first_state_is_a_bookmark_with_its_annotation() {
        let line = br#"{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"9",
            "creationTimestamp":null,"annotations":{"k8s.io/initial-events-end":"true"}},"spec":{}}}"#;
        let event = watch_line(line, &mut ingest());
        assert!(
            matches!(&event, WatchEvent::Bookmark { resource_version, ends_initial: true } if resource_version == "9")
        );
    }

    #[test]
    fn a_page_gives_its_objects_with_their_types() {
        let body = br#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"12","continue":"abc"},
            "items":[{"metadata":{"name":"a","managedFields":[{"manager":"m"}],"namespace":"n"},"spec":{"x":[1]}},
                     {"metadata":{"namespace":"n"}}, 5,
                     {"metadata":{"name":"b","namespace":"n","resourceVersion":"3"}}]}"#;
        let mut unreadable = 0;
        let page = list_page(body, &mut ingest(), || unreadable += 1).unwrap();
        assert_eq!((page.resource_version.as_str(), page.continue_token.as_deref()), ("12", Some("abc")));
        assert_eq!((page.objects.len(), unreadable), (2, 2));
        let value: serde_json::Value = page.objects[0].decode().unwrap();
        let expected = serde_json::json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "n"}, "spec": {"x": [1]}
        });
        assert_eq!(value, expected);
    }

    #[test]
    fn the_types_of_a_list_are_those_of_its_objects_if_nobody_else_told_them() {
        let types = |list: &str, item: &str| {
            let body = format!(r#"{{{list}"items":[{{{item}"metadata":{{"name":"a"}}}}]}}"#);
            let mut ingest = Ingest::new(IngestOptions::default());
            let page = list_page(body.as_bytes(), &mut ingest, || ()).unwrap();
            let value: serde_json::Value = page.objects[0].decode().unwrap();
            (value["kind"].clone(), value["apiVersion"].clone())
        };
        let typed = |kind: &str, version: &str| (serde_json::json!(kind), serde_json::json!(version));
        let jobs = r#""kind":"JobList","apiVersion":"batch/v1","#;
        assert_eq!(types(jobs, ""), typed("Job", "batch/v1"));
        assert_eq!(types(jobs, r#""kind":"Pod","apiVersion":"v1","#), typed("Pod", "v1"));
        let any = r#""kind":"List","apiVersion":"v1","#;
        assert_eq!(types(any, r#""kind":"Pod","apiVersion":"v1","#), typed("Pod", "v1"));
        assert_eq!(types(any, ""), Default::default());
    }

    #[test]
    fn only_a_list_is_a_page() {
        for body in [r#"{"items":null}"#, r#"{"items":[]}"#, r#"{"kind":"PodList","apiVersion":"v1"}"#] {
            let page = list_page(body.as_bytes(), &mut ingest(), || ());
            assert!(page.unwrap().objects.is_empty(), "{body}");
        }
        for body in [
            r#"{"message":"maintenance"}"#,
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}"#,
            r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}"#,
            r#"{"kind":"Table","items":[]}"#,
            r#"{"kind":"PodList","items":{}}"#,
            r#"{"items":"none"}"#,
            r#"{"items":[{"#,
            "{}",
            "[]",
            "",
        ] {
            assert!(list_page(body.as_bytes(), &mut ingest(), || ()).is_err(), "{body}");
        }
    }
}
