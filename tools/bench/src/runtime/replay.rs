//! A server that says prebuilt bytes: the pods of [`super::pods`] as a list in pages, as a watch with its first state,
//! and events whenever the benchmark sends some.
//!
//! It does nothing while it is measured but write memory to a socket: one thread per connection, blocking writes, one
//! HTTP chunk per event as kube-apiserver writes them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::data::{Data, Form};

/// Time that the benchmark waits for a client to open its watch.
const WATCH_DEADLINE: Duration = Duration::from_secs(60);

/// The server; it ends with the process.
pub struct Replay {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    data: Data,
    watcher: Mutex<Option<(TcpStream, Form)>>,
    opened: Condvar,
}

impl Replay {
    pub fn start(data: Data) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared { data, watcher: Mutex::new(None), opened: Condvar::new() });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&accepting);
                // A client that went away is no error of the server's.
                std::thread::spawn(move || drop(serve(&shared, stream)));
            }
        });
        Ok(Replay { address, shared })
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn data(&self) -> &Data {
        &self.shared.data
    }

    /// Forgets the watch of the client before.
    pub fn reset(&self) {
        *self.shared.watcher.lock().expect("no holder of this lock panics") = None;
    }

    /// The open watch: where events are written to, and in which form it wants them.
    pub fn watcher(&self) -> Result<(TcpStream, Form)> {
        let guard = self.shared.watcher.lock().expect("no holder of this lock panics");
        let (guard, timeout) = self
            .shared
            .opened
            .wait_timeout_while(guard, WATCH_DEADLINE, |watcher| watcher.is_none())
            .expect("no holder of this lock panics");
        let (stream, form) = guard.as_ref().context("no client opened a watch")?;
        if timeout.timed_out() {
            bail!("no client opened a watch in {WATCH_DEADLINE:?}");
        }
        Ok((stream.try_clone()?, *form))
    }
}

/// The parts of a request that matter here.
struct Request {
    query: Vec<(String, String)>,
    path: String,
    form: Form,
}

impl Request {
    fn has(&self, name: &str, value: &str) -> bool {
        self.query.iter().any(|(key, found)| key == name && (found == value || found == "1"))
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

fn read_request(reader: &mut impl BufRead) -> Result<Option<Request>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let target = line.split(' ').nth(1).context("a request line has a target")?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let (path, query) = (path.to_owned(), query.to_owned());
    let mut form = Form::Json;
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        if line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("accept")
            && value.trim_start().starts_with("application/vnd.kubernetes.protobuf")
        {
            form = Form::Protobuf;
        }
    }
    let query = query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    Ok(Some(Request { query, path, form }))
}

fn serve(shared: &Shared, stream: TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream.try_clone()?;
    while let Some(request) = read_request(&mut reader)? {
        if !request.path.ends_with("/pods") {
            let body =
                br#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}"#;
            head(&mut writer, "404 Not Found", "application/json", Some(body.len()))?;
            writer.write_all(body)?;
            continue;
        }
        if !request.has("watch", "true") {
            let page = request.get("continue").and_then(|token| token.parse().ok()).unwrap_or(0);
            let body = shared.data.page(page);
            head(&mut writer, "200 OK", "application/json", Some(body.len()))?;
            writer.write_all(body)?;
            continue;
        }
        let form = request.form;
        head(&mut writer, "200 OK", form.watch_type(), None)?;
        if request.has("sendInitialEvents", "true") {
            writer.write_all(shared.data.initial(form))?;
        }
        *shared.watcher.lock().expect("no holder of this lock panics") = Some((stream, form));
        shared.opened.notify_all();
        // Until the client hangs up.
        let mut rest = [0; 64];
        while reader.read(&mut rest)? > 0 {}
        return Ok(());
    }
    Ok(())
}

fn head(writer: &mut TcpStream, status: &str, content_type: &str, length: Option<usize>) -> Result<()> {
    let framing = match length {
        Some(length) => format!("content-length: {length}"),
        None => "transfer-encoding: chunked".to_owned(),
    };
    let text = format!("HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\n{framing}\r\n\r\n");
    writer.write_all(text.as_bytes())?;
    Ok(())
}
