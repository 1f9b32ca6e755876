//! The text that both ends prime their header compression with (SPDY protocol, draft 3, section 2.6.10.1).

/// Names that the dictionary holds with a four-byte length before each.
const COUNTED: &[&str] = &[
    "options",
    "head",
    "post",
    "put",
    "delete",
    "trace",
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "accept-ranges",
    "age",
    "allow",
    "authorization",
    "cache-control",
    "connection",
    "content-base",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-md5",
    "content-range",
    "content-type",
    "date",
    "etag",
    "expect",
    "expires",
    "from",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "last-modified",
    "location",
    "max-forwards",
    "pragma",
    "proxy-authenticate",
    "proxy-authorization",
    "range",
    "referer",
    "retry-after",
    "server",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "vary",
    "via",
    "warning",
    "www-authenticate",
    "method",
    "get",
    "status",
    "200 OK",
    "version",
    "HTTP/1.1",
    "url",
    "public",
    "set-cookie",
    "keep-alive",
    "origin",
];

/// The words that follow them, run together.
const PLAIN: &[&str] = &[
    "100",
    "101",
    "201",
    "202",
    "205",
    "206",
    "300",
    "302",
    "303",
    "304",
    "305",
    "306",
    "307",
    "402",
    "405",
    "406",
    "407",
    "408",
    "409",
    "410",
    "411",
    "412",
    "413",
    "414",
    "415",
    "416",
    "417",
    "502",
    "504",
    "505",
    "203 Non-Authoritative Information",
    "204 No Content",
    "301 Moved Permanently",
    "400 Bad Request",
    "401 Unauthorized",
    "403 Forbidden",
    "404 Not Found",
    "500 Internal Server Error",
    "501 Not Implemented",
    "503 Service Unavailable",
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT",
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,",
    "text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.",
];

/// The dictionary's bytes.
pub fn dictionary() -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1423);
    for name in COUNTED {
        bytes.extend_from_slice(&u32::try_from(name.len()).expect("names are short").to_be_bytes());
        bytes.extend_from_slice(name.as_bytes());
    }
    for text in PLAIN {
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// zlib names a dictionary by its Adler-32; every SPDY/3 peer expects this one.
    #[test]
    fn the_checksum_is_the_one_that_peers_expect() {
        let bytes = dictionary();
        let (mut a, mut b) = (1u32, 0u32);
        for byte in &bytes {
            a = (a + u32::from(*byte)) % 65521;
            b = (b + a) % 65521;
        }
        assert_eq!((bytes.len(), (b << 16) | a), (1423, 0xe3c6_a7c2));
    }
}
