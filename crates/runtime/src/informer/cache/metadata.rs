//! Finds the metadata of one object in its JSON, without decoding the rest.

use std::ops::Range;

use super::scan::{Cursor, Malformed, Text};

/// The places of the parts of `metadata` in an object's JSON.
#[derive(Debug, Default)]
pub(crate) struct Metadata<'a> {
    pub api_version: Option<Text<'a>>,
    pub kind: Option<Text<'a>>,
    pub name: Option<Text<'a>>,
    pub namespace: Option<Text<'a>>,
    pub uid: Option<Text<'a>>,
    pub resource_version: Option<Text<'a>>,
    pub generation: Option<&'a [u8]>,
    pub deletion_timestamp: Option<Text<'a>>,
    pub labels: Option<&'a [u8]>,
    pub annotations: Option<&'a [u8]>,
    pub owner_references: Option<&'a [u8]>,
    pub finalizers: Option<&'a [u8]>,
    pub managed_fields: Option<&'a [u8]>,
    /// The bytes to cut so that the object has no managedFields, a comma included.
    pub managed_fields_cut: Option<Range<usize>>,
    /// Some field of `metadata` has another JSON type than Kubernetes gives it.
    pub ill_typed: bool,
}

impl<'a> Metadata<'a> {
    /// Reads an object up to the end of `metadata`, and no further when the types were seen before it, as every
    /// known server writes them.
    pub fn find(object: &'a [u8]) -> Result<Self, Malformed> {
        Self::read_object(&mut Cursor::new(object), true)
    }

    /// Reads the object that comes next, to its end.
    pub fn find_whole(cursor: &mut Cursor<'a>) -> Result<Self, Malformed> {
        Self::read_object(cursor, false)
    }

    fn read_object(cursor: &mut Cursor<'a>, stop_early: bool) -> Result<Self, Malformed> {
        let mut metadata = Metadata::default();
        cursor.fields(|cursor, name| {
            match name.raw {
                b"apiVersion" => metadata.api_version = text(cursor, &mut metadata.ill_typed)?,
                b"kind" => metadata.kind = text(cursor, &mut metadata.ill_typed)?,
                b"metadata" if cursor.peek()? == b'{' => {
                    metadata.read(cursor)?;
                    return Ok(!stop_early || metadata.kind.is_none() || metadata.api_version.is_none());
                }
                _ => {
                    cursor.value()?;
                }
            }
            Ok(true)
        })?;
        Ok(metadata)
    }

    fn read(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Malformed> {
        let mut previous_end = None;
        let mut open_cut = None;
        cursor.fields(|cursor, name| {
            let field_start = name.at;
            if let Some(start) = open_cut.take() {
                self.managed_fields_cut = Some(start..field_start);
            }
            let ill = &mut self.ill_typed;
            match name.raw {
                b"name" => self.name = text(cursor, ill)?,
                b"namespace" => self.namespace = text(cursor, ill)?,
                b"uid" => self.uid = text(cursor, ill)?,
                b"resourceVersion" => self.resource_version = text(cursor, ill)?,
                b"generation" => self.generation = Some(cursor.value()?),
                b"deletionTimestamp" => self.deletion_timestamp = text(cursor, ill)?,
                b"labels" => self.labels = container(cursor, b'{', ill)?,
                b"annotations" => self.annotations = container(cursor, b'{', ill)?,
                b"ownerReferences" => self.owner_references = container(cursor, b'[', ill)?,
                b"finalizers" => self.finalizers = container(cursor, b'[', ill)?,
                b"managedFields" => {
                    self.managed_fields = container(cursor, b'[', ill)?;
                    // As the last field it takes the comma before it along, otherwise the one behind it.
                    match previous_end {
                        Some(end) => self.managed_fields_cut = Some(end..cursor.at()),
                        None => open_cut = Some(field_start),
                    }
                }
                _ => {
                    cursor.value()?;
                }
            }
            previous_end = Some(cursor.at());
            Ok(true)
        })?;
        if let Some(start) = open_cut {
            self.managed_fields_cut = Some(start..cursor.at() - 1);
        }
        Ok(())
    }
}

fn text<'a>(cursor: &mut Cursor<'a>, ill_typed: &mut bool) -> Result<Option<Text<'a>>, Malformed> {
    if cursor.peek()? == b'"' {
        return cursor.text().map(Some);
    }
    *ill_typed |= cursor.value()? != b"null";
    Ok(None)
}

fn container<'a>(
    cursor: &mut Cursor<'a>,
    open: u8,
    ill_typed: &mut bool,
) -> Result<Option<&'a [u8]>, Malformed> {
    let is_container = cursor.peek()? == open;
    let value = cursor.value()?;
    *ill_typed |= !is_container && value != b"null";
    Ok(is_container.then_some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without_managed_fields(json: &str) -> serde_json::Value {
        let metadata = Metadata::find(json.as_bytes()).unwrap();
        let cut = metadata.managed_fields_cut.unwrap();
        let text = format!("{}{}", &json[..cut.start], &json[cut.end..]);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    #[test]
    fn managed_fields_are_cut_wherever_they_stand() {
        for (json, rest) in [
            (r#"{"metadata":{"managedFields":[{"manager":"a"}]},"spec":1}"#, r#"{"metadata":{},"spec":1}"#),
            (r#"{"metadata":{"name":"x" , "managedFields":[] }}"#, r#"{"metadata":{"name":"x"}}"#),
            (r#"{"metadata":{"managedFields":[1],"name":"x"}}"#, r#"{"metadata":{"name":"x"}}"#),
            (r#"{"metadata":{ "managedFields" : [1] , "name":"x"}}"#, r#"{"metadata":{"name":"x"}}"#),
            (r#"{"metadata":{"a":1,"managedFields":[[]],"name":"x"}}"#, r#"{"metadata":{"a":1,"name":"x"}}"#),
        ] {
            let expected: serde_json::Value = serde_json::from_str(rest).unwrap();
            assert_eq!(without_managed_fields(json), expected, "{json}");
        }
    }

    #[test]
    fn the_rest_of_the_object_is_not_read() {
        let json = br#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x","uid":null},"spec":{{{"#;
        let metadata = Metadata::find(json).unwrap();
        assert_eq!(metadata.name.unwrap().raw, b"x");
        assert!(!metadata.ill_typed);
        assert!(Metadata::find(br#"{"metadata":{"labels":[],"name":"x"}}"#).unwrap().ill_typed);
    }
}
