//! The demo's viewer, the program behind the `mdbook` image. Renders the mounted markdown as a book with mdBook's own
//! libraries, serves it, and renders again when the mounted files change.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use mdbook_driver::MDBook;
use mdbook_driver::config::Config;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// Interval at which the mounted files are checked. A changed ConfigMap reaches the files in well under a second, so
/// the page changes within two seconds of an edit.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Maximum number of open connections. Further ones wait to be accepted.
const CONNECTIONS: usize = 256;

/// The command line of `mdbook serve`, as far as the MarkdownView operator uses it.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// The only verb is `serve`.
    #[arg(default_value = "serve")]
    pub verb: String,
    /// Address to serve on. A pod's own address on this host takes precedence.
    #[arg(long, default_value = "127.0.0.1")]
    pub hostname: String,
    /// Port to serve on.
    #[arg(long, default_value_t = 3000)]
    pub port: u16,
    /// The book's folder. Its `src` contains the markdown.
    #[arg(long, default_value = "/book")]
    pub book: PathBuf,
}

/// Rendered files by request path, without the leading slash.
type Site = BTreeMap<String, Bytes>;

/// Serves until the process is stopped.
pub async fn run(arguments: Arguments) -> Result<()> {
    anyhow::ensure!(arguments.verb == "serve", "unknown verb `{}`: only `serve` is known", arguments.verb);
    let book = book_folder(&arguments.book);
    let address = listen_address(&arguments)?;
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
    let mut sources = read_sources(&book.join("src"))?;
    let site = Arc::new(Mutex::new(Arc::new(render(&book)?)));
    println!("serving {} on http://{address}", book.display());
    let mut connections = JoinSet::new();
    let mut look = tokio::time::interval(LOOK_EVERY);
    loop {
        tokio::select! {
            biased;
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if connections.len() < CONNECTIONS => {
                let (stream, _) = accepted?;
                let site = site.clone();
                connections.spawn(async move {
                    let answer = service_fn(move |request| {
                        let site = site.lock().expect("no holder of this lock panics").clone();
                        async move { Ok::<_, Infallible>(answer(&site, &request)) }
                    });
                    // A client that disconnects early needs no report.
                    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
                });
            }
            _ = look.tick() => {
                // A file that vanishes between two reads is part of a change: the next check sees its end.
                let Ok(now) = read_sources(&book.join("src")) else { continue };
                if now != sources {
                    sources = now;
                    match render(&book) {
                        Ok(rendered) => *site.lock().expect("no holder of this lock panics") = Arc::new(rendered),
                        Err(error) => eprintln!("cannot render: {error:#}"),
                    }
                }
            }
        }
    }
}

/// Without a mount namespace, the pod's volumes stand under a folder that the node names.
fn book_folder(book: &Path) -> PathBuf {
    match std::env::var_os("SETPOINT_ROOT") {
        Some(root) => Path::new(&root).join(book.strip_prefix("/").unwrap_or(book)),
        None => book.to_path_buf(),
    }
}

/// Returns the pod's own loopback address, or the port that stands for the container's.
fn listen_address(arguments: &Arguments) -> Result<SocketAddr> {
    let host: IpAddr = match std::env::var("SETPOINT_HOST") {
        Ok(host) => host.parse().context("SETPOINT_HOST")?,
        Err(_) => arguments.hostname.parse().context("--hostname")?,
    };
    let port = match std::env::var(format!("SETPOINT_PORT_{}", arguments.port)) {
        Ok(port) => port.parse().context("SETPOINT_PORT")?,
        Err(_) => arguments.port,
    };
    Ok(SocketAddr::new(host, port))
}

fn render(book: &Path) -> Result<Site> {
    let output = tempfile::tempdir()?;
    let mut config = Config::default();
    config.book.title = Some("Markdown View".into());
    config.build.build_dir = output.path().to_path_buf();
    // The mounted files are read-only: a chapter that SUMMARY.md names and that does not exist stays missing.
    config.build.create_missing = false;
    MDBook::load_with_config(book, config)?.build()?;
    let mut site = Site::new();
    collect(output.path(), output.path(), &mut site)?;
    Ok(site)
}

fn read_sources(folder: &Path) -> Result<Site> {
    let mut sources = Site::new();
    collect(folder, folder, &mut sources)?;
    Ok(sources)
}

fn collect(root: &Path, folder: &Path, files: &mut Site) -> Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        let name = path.strip_prefix(root)?.to_string_lossy().into_owned();
        // A mounted ConfigMap keeps its generations in folders named `..something`.
        if name.starts_with("..") {
            continue;
        }
        if path.is_dir() {
            collect(root, &path, files)?;
        } else {
            files.insert(name, std::fs::read(&path)?.into());
        }
    }
    Ok(())
}

fn answer(site: &Site, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "only GET\n".into(), "text/plain");
    }
    let path = request.uri().path().trim_start_matches('/');
    let path =
        if path.is_empty() || path.ends_with('/') { format!("{path}index.html") } else { path.to_owned() };
    match site.get(&path) {
        Some(body) => plain(StatusCode::OK, body.clone(), content_type(&path)),
        None => match site.get("404.html") {
            Some(body) => plain(StatusCode::NOT_FOUND, body.clone(), "text/html; charset=utf-8"),
            None => plain(StatusCode::NOT_FOUND, "not found\n".into(), "text/plain"),
        },
    }
}

fn plain(status: StatusCode, body: Bytes, content_type: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content_type));
    response.headers_mut().insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-cache"));
    response
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "json" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "woff2" => "font/woff2",
        "md" | "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_becomes_pages() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("src");
        std::fs::create_dir(&source).unwrap();
        std::fs::write(source.join("SUMMARY.md"), "# Summary\n\n- [Page1](page1.md)\n").unwrap();
        std::fs::write(source.join("page1.md"), "# Page 1\n\nA first page.\n").unwrap();
        let site = render(folder.path()).unwrap();
        let index = String::from_utf8(site["index.html"].to_vec()).unwrap();
        assert!(index.contains("A first page."), "{index}");
        assert!(site.contains_key("page1.html"));
    }
}
