//! Reading header values. A header that a client sent is never treated as absent because of its bytes.

use std::borrow::Cow;

use http::header::AsHeaderName;
use http::{HeaderMap, HeaderValue};

use crate::error::{ApiError, Result};

/// Returns the first value of a header, as Go's `Header.Get` does, and an empty text if there is none. Bytes outside
/// UTF-8 become U+FFFD: use [`exact`] where two values must not become the same.
pub(crate) fn first(headers: &HeaderMap, name: impl AsHeaderName) -> Cow<'_, str> {
    headers.get(name).map_or(Cow::Borrowed(""), lossy)
}

/// Returns a value as text. Bytes outside UTF-8 become U+FFFD.
pub(crate) fn lossy(value: &HeaderValue) -> Cow<'_, str> {
    String::from_utf8_lossy(value.as_bytes())
}

/// Returns a value that names somebody, or refuses bytes outside UTF-8: no object in the store can hold them, so no
/// rule can be about them.
pub(crate) fn exact(value: &HeaderValue) -> Result<&str> {
    std::str::from_utf8(value.as_bytes())
        .map_err(|_| ApiError::bad_request("a header that names an identity is not valid UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_value_counts_and_every_byte_of_it() {
        let mut headers = HeaderMap::new();
        assert_eq!(first(&headers, "accept"), "");
        headers.append("accept", HeaderValue::from_bytes("José".as_bytes()).unwrap());
        headers.append("accept", HeaderValue::from_static("second"));
        assert_eq!(first(&headers, "accept"), "José");
        let latin = HeaderValue::from_bytes(b"Jos\xe9").unwrap();
        assert_eq!(lossy(&latin), "Jos\u{fffd}");
        assert_eq!(exact(&latin).unwrap_err().code().as_u16(), 400);
        assert_eq!(exact(&headers["accept"]).unwrap(), "José");
    }
}
