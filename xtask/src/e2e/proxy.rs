//! The API in plain HTTP: `kubectl proxy` speaks TLS and shows the credentials, so that this needs neither.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

pub const MERGE: &str = "application/merge-patch+json";
const JSON: &str = "application/json";
/// Time limit of a condition.
pub const SOON: Duration = Duration::from_secs(60);
/// Between two looks at a condition.
pub const PAUSE: Duration = Duration::from_millis(50);

/// A running `kubectl proxy`; it ends with this handle.
pub struct Proxy {
    child: Child,
    address: String,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Proxy {
    pub fn start(kubectl: &Path, kubeconfig: &Path) -> Result<Proxy> {
        let mut child = Command::new(kubectl)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(["proxy", "--port", "0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start kubectl proxy")?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
        let address = line.trim().rsplit(' ').next().unwrap_or_default().to_owned();
        let proxy = Proxy { child, address };
        ensure!(line.starts_with("Starting to serve on "), "kubectl proxy said {line:?}");
        Ok(proxy)
    }

    /// The head of the answer and what follows it. HTTP/1.0, so that the body is neither chunked nor kept open.
    fn send(&self, method: &str, path: &str, kind: &str, body: &str) -> Result<(u16, BufReader<TcpStream>)> {
        let mut stream = TcpStream::connect(&self.address)?;
        write!(
            stream,
            "{method} {path} HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )?;
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let code = line.split(' ').nth(1).and_then(|code| code.parse().ok());
        let code = code.with_context(|| format!("{method} {path}: {line:?} is no status line"))?;
        loop {
            line.clear();
            if reader.read_line(&mut line)? == 0 || line == "\r\n" {
                return Ok((code, reader));
            }
        }
    }

    /// One call; the answer whatever its status.
    pub fn call(&self, method: &str, path: &str, kind: &str, body: &str) -> Result<(u16, Value)> {
        let (code, mut reader) = self.send(method, path, kind, body)?;
        let mut text = String::new();
        reader.read_to_string(&mut text)?;
        Ok((code, serde_json::from_str(&text).unwrap_or(Value::String(text))))
    }

    fn succeed(&self, method: &str, path: &str, kind: &str, body: &Value) -> Result<Value> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (code, answer) = self.call(method, path, kind, &body)?;
        if !(200..300).contains(&code) {
            bail!("{method} {path}: {code} {}", answer["message"]);
        }
        Ok(answer)
    }

    pub fn get(&self, path: &str) -> Result<Value> {
        self.succeed("GET", path, JSON, &Value::Null)
    }

    /// Returns `None` if there is no such object.
    pub fn find(&self, path: &str) -> Result<Option<Value>> {
        match self.call("GET", path, JSON, "")? {
            (404, _) => Ok(None),
            (200, object) => Ok(Some(object)),
            (code, answer) => bail!("GET {path}: {code} {}", answer["message"]),
        }
    }

    pub fn create(&self, path: &str, object: &Value) -> Result<Value> {
        self.succeed("POST", path, JSON, object)
    }

    pub fn patch(&self, path: &str, kind: &str, patch: &Value) -> Result<Value> {
        self.succeed("PATCH", path, kind, patch)
    }

    pub fn delete(&self, path: &str, options: &Value) -> Result<Value> {
        self.succeed("DELETE", path, JSON, options)
    }

    pub fn items(&self, path: &str) -> Result<Vec<Value>> {
        let list = self.get(path)?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    /// The events after a version, one a line, until the server or this handle ends.
    pub fn watch(&self, path: &str, after: &str) -> Result<impl Iterator<Item = Value> + use<>> {
        let path = format!("{path}?watch=1&resourceVersion={after}");
        let (code, reader) = self.send("GET", &path, JSON, "")?;
        ensure!(code == 200, "watch of {path}: {code}");
        let lines = reader.lines().map_while(Result::ok);
        Ok(lines.map_while(|line| serde_json::from_str(&line).ok()))
    }
}

/// Waits until `check` gives something.
pub fn until<T>(what: &str, mut check: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let deadline = Instant::now() + SOON;
    loop {
        if let Some(found) = check()? {
            return Ok(found);
        }
        ensure!(Instant::now() < deadline, "not within {} s: {what}", SOON.as_secs());
        std::thread::sleep(PAUSE);
    }
}
