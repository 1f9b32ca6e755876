//! The name in the protobuf body of a request. Go's clients write built-in kinds so.

/// The beginning of a protobuf body. A message follows that wraps the object.
const MAGIC: &[u8] = b"k8s\0";
/// The field of the wrapper with the bytes of the object.
const RAW: u64 = 2;
/// The field of every object with its metadata.
const METADATA: u64 = 1;
/// Fields of the metadata.
const NAME: u64 = 1;
const GENERATE_NAME: u64 = 2;

/// Returns name and `generateName` of the object in a protobuf body, or `None` for any other body.
pub fn names(body: &[u8]) -> Option<(String, String)> {
    let object = field(body.strip_prefix(MAGIC)?, RAW)?;
    let metadata = field(object, METADATA)?;
    let text = |number| field(metadata, number).and_then(|bytes| String::from_utf8(bytes.to_vec()).ok());
    Some((text(NAME).unwrap_or_default(), text(GENERATE_NAME).unwrap_or_default()))
}

/// Returns the bytes of the first field with this number that has a length.
fn field(mut message: &[u8], wanted: u64) -> Option<&[u8]> {
    while !message.is_empty() {
        let key = varint(&mut message)?;
        match key & 7 {
            0 => drop(varint(&mut message)?),
            1 => message = message.get(8..)?,
            2 => {
                let length = usize::try_from(varint(&mut message)?).ok()?;
                let bytes = message.get(..length)?;
                if key >> 3 == wanted {
                    return Some(bytes);
                }
                message = &message[length..];
            }
            5 => message = message.get(4..)?,
            _ => return None,
        }
    }
    None
}

fn varint(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = message.split_first()?;
        *message = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_length(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut written = vec![number << 3 | 2, u8::try_from(bytes.len()).unwrap()];
        written.extend_from_slice(bytes);
        written
    }

    #[test]
    fn the_name_is_found_behind_other_fields_and_garbage_is_none() {
        let mut metadata = of_length(1, b"a");
        metadata.extend(of_length(2, b"a-"));
        let mut object = vec![3 << 3, 0x96, 1];
        object.extend(of_length(1, &metadata));
        let mut body = MAGIC.to_vec();
        body.extend(of_length(1, b"types"));
        body.extend(of_length(2, &object));
        assert_eq!(names(&body), Some(("a".into(), "a-".into())));
        for cut in 5..body.len() {
            let _ = names(&body[..cut]);
        }
        assert_eq!(names(b"{\"metadata\": {}}"), None);
        assert_eq!(names(b"k8s\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), None);
        assert_eq!(names(b"k8s\0\x12\xff\xff\xff\xff\xff\xff\xff\xff\x01"), None);
    }
}
