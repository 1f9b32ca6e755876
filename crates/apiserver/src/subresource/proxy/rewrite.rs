//! Rewrites links in `Location` and in HTML, so that they lead through the proxy.

/// How links change.
#[derive(Clone, Debug)]
pub struct Links {
    /// The path of the proxy.
    pub prefix: String,
    /// Hosts that mean the proxied server.
    pub hosts: [String; 2],
}

impl Links {
    /// The rewritten link, or `None` if the link may stay.
    pub fn through(&self, link: &str) -> Option<String> {
        let (host, rest) = split(link);
        let elsewhere = !host.is_empty() && !self.hosts.iter().any(|own| own == host);
        let end = rest.find(['?', '#']).unwrap_or(rest.len());
        let (path, more) = rest.split_at(end);
        if elsewhere || !path.starts_with('/') {
            return None;
        }
        let led = if path.starts_with(&self.prefix) { path.to_owned() } else { join(&self.prefix, path) };
        Some(format!("{led}{more}"))
    }
}

/// The host of a link, if it names one, and what follows.
fn split(link: &str) -> (&str, &str) {
    let Some(rest) = link.strip_prefix("//").or_else(|| {
        let (scheme, rest) = link.split_once("://")?;
        scheme
            .bytes()
            .all(|letter| letter.is_ascii_alphanumeric() || b"+-.".contains(&letter))
            .then_some(rest)
    }) else {
        return ("", link);
    };
    rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()))
}

/// Joins paths and removes empty, `.` and `..` segments. A slash at the end stays.
pub fn join(prefix: &str, path: &str) -> String {
    let mut steps: Vec<&str> = Vec::new();
    for step in prefix.split('/').chain(path.split('/')) {
        match step {
            "" | "." => {}
            ".." => drop(steps.pop()),
            step => steps.push(step),
        }
    }
    let end = if path.ends_with('/') && !steps.is_empty() { "/" } else { "" };
    format!("/{}{end}", steps.join("/"))
}

/// The attributes of tags that hold links.
const ATTRIBUTES: &[(&str, &[&str])] = &[
    ("a", &["href"]),
    ("applet", &["codebase"]),
    ("area", &["href"]),
    ("audio", &["src"]),
    ("base", &["href"]),
    ("blockquote", &["cite"]),
    ("body", &["background"]),
    ("button", &["formaction"]),
    ("command", &["icon"]),
    ("del", &["cite"]),
    ("embed", &["src"]),
    ("form", &["action"]),
    ("frame", &["longdesc", "src"]),
    ("head", &["profile"]),
    ("html", &["manifest"]),
    ("iframe", &["longdesc", "src"]),
    ("img", &["longdesc", "src", "usemap"]),
    ("input", &["src", "usemap", "formaction"]),
    ("ins", &["cite"]),
    ("link", &["href"]),
    ("object", &["classid", "codebase", "data", "usemap"]),
    ("q", &["cite"]),
    ("script", &["src"]),
    ("source", &["src"]),
    ("video", &["poster", "src"]),
];

/// Elements whose content is text and no tags.
const TEXT: &[&str] = &[
    "iframe",
    "noembed",
    "noframes",
    "noscript",
    "plaintext",
    "script",
    "style",
    "textarea",
    "title",
    "xmp",
];

/// A page whose links go through the proxy. Only the values of links change.
pub fn html(page: &str, links: &Links) -> String {
    let mut out = String::with_capacity(page.len() + 256);
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        let (text, tag) = rest.split_at(at);
        out.push_str(text);
        let (untouched, more) = match tag.strip_prefix("<!--") {
            Some(comment) => tag.split_at(comment.find("-->").map_or(tag.len(), |end| end + 7)),
            None => element(tag, links, &mut out),
        };
        out.push_str(untouched);
        rest = more;
    }
    out.push_str(rest);
    out
}

/// Writes a start tag with its links. Returns the text to copy unchanged, and the text after that.
fn element<'a>(tag: &'a str, links: &Links, out: &mut String) -> (&'a str, &'a str) {
    let name = tag[1..].split(|letter: char| !letter.is_ascii_alphanumeric()).next().unwrap_or_default();
    if !name.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
        return tag.split_at(1);
    }
    let name = name.to_ascii_lowercase();
    let (start, content) = tag.split_at(tag_length(tag));
    out.push_str(&start_tag(start, &name, links));
    content.split_at(if TEXT.contains(&name.as_str()) { text_length(content, &name) } else { 0 })
}

/// The length of a tag: up to a `>` outside of quotes.
fn tag_length(tag: &str) -> usize {
    let mut quote = None;
    for (at, letter) in tag.char_indices() {
        match (quote, letter) {
            (None, '>') => return at + 1,
            (None, '"' | '\'') if tag[..at].trim_end().ends_with('=') => quote = Some(letter),
            (Some(open), letter) if open == letter => quote = None,
            _ => {}
        }
    }
    tag.len()
}

/// The length of the text before the element's end tag.
fn text_length(text: &str, name: &str) -> usize {
    let mut from = 0;
    while let Some(at) = text[from..].find("</") {
        let end = from + at + 2;
        if text
            .as_bytes()
            .get(end..end + name.len())
            .is_some_and(|own| own.eq_ignore_ascii_case(name.as_bytes()))
        {
            return from + at;
        }
        from = end;
    }
    text.len()
}

fn start_tag(tag: &str, name: &str, links: &Links) -> String {
    let Some((_, attributes)) = ATTRIBUTES.iter().find(|(own, _)| *own == name) else {
        return tag.to_owned();
    };
    let mut out = String::with_capacity(tag.len() + 64);
    let mut rest = tag;
    while let Some(at) = rest.find('=') {
        let (before, after) = rest.split_at(at + 1);
        let own = before[..at].trim_end();
        let own = own[own.rfind([' ', '\t', '\n', '\r', '/', '"', '\'']).map_or(0, |start| start + 1)..]
            .to_ascii_lowercase();
        let spaces = after.len() - after.trim_start().len();
        let value = &after[spaces..];
        let (open, length) = match value.chars().next() {
            Some(quote @ ('"' | '\'')) => (1, value[1..].find(quote).unwrap_or(value.len() - 1)),
            _ => (0, value.find([' ', '\t', '\n', '\r', '>']).unwrap_or(value.len())),
        };
        let (link, behind) = value[open..].split_at(length);
        out.push_str(before);
        out.push_str(&after[..spaces + open]);
        let led = attributes.contains(&own.as_str()).then(|| links.through(link)).flatten();
        out.push_str(led.as_deref().unwrap_or(link));
        // A tag without its second quote has no quote to copy.
        let (close, more) = behind.split_at(open.min(behind.len()));
        out.push_str(close);
        rest = more;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links() -> Links {
        Links {
            prefix: "/p/proxy".to_owned(),
            hosts: ["10.0.0.1:80".to_owned(), "localhost:8001".to_owned()],
        }
    }

    #[test]
    fn links_to_the_same_host_lead_through_the_proxy() {
        for (link, expected) in [
            ("/a", Some("/p/proxy/a")),
            ("/a/?q=/x#y", Some("/p/proxy/a/?q=/x#y")),
            ("/a//b/../c", Some("/p/proxy/a/c")),
            ("/p/proxy/a", Some("/p/proxy/a")),
            ("http://10.0.0.1:80/a", Some("/p/proxy/a")),
            ("//localhost:8001/a", Some("/p/proxy/a")),
            ("http://elsewhere/a", None),
            ("a/b", None),
            ("#top", None),
            ("mailto:a@b", None),
            ("", None),
        ] {
            assert_eq!(links().through(link).as_deref(), expected, "{link}");
        }
    }

    #[test]
    fn pages_change_in_their_links_only() {
        for (page, expected) in [
            (r#"<p>1 < 2 <a class=x href="/a">/a</a>"#, r#"<p>1 < 2 <a class=x href="/p/proxy/a">/a</a>"#),
            ("<IMG SRC='/i.png' alt=\"/x\"/>", "<IMG SRC='/p/proxy/i.png' alt=\"/x\"/>"),
            ("<a href=/a>", "<a href=/p/proxy/a>"),
            ("<a title=\"x > y\" href = \"/a\">", "<a title=\"x > y\" href = \"/p/proxy/a\">"),
            (
                "<script src=/s.js>if (a<b) f('<a href=\"/x\">')</script><a href=/>",
                "<script src=/p/proxy/s.js>if (a<b) f('<a href=\"/x\">')</script><a href=/p/proxy/>",
            ),
            ("<!-- <a href=/a> --><a href=b>", "<!-- <a href=/a> --><a href=b>"),
            ("<p href=/a>", "<p href=/a>"),
            ("<a href=\"/ungeschlossen", "<a href=\"/p/proxy/ungeschlossen"),
            ("<", "<"),
            ("<ä", "<ä"),
            ("<a", "<a"),
            ("<a href=", "<a href="),
        ] {
            assert_eq!(html(page, &links()), expected, "{page}");
        }
    }
}
