//! A real browser sees the rendered page, and sees it change.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use super::cluster::{Cluster, Kubectl};
use super::proxy::PAUSE;
use super::{Missing, Setup};
use crate::run;

const SOON: Duration = Duration::from_secs(30);
/// Time within which the page must follow an edit.
const CHANGED_WITHIN: Duration = Duration::from_secs(2);
/// One edit of so many must be followed so soon: whatever else the machine does takes its time too.
const TRIES: usize = 3;

pub fn run(setup: &Setup) -> Result<()> {
    let chromium =
        run::found("chromium").ok_or_else(|| Missing("chromium is not on the search path".into()))?;
    let program = setup.peer("kubectl")?;
    let cluster = Cluster::start(&setup.setpoint, &["--demo"])?;
    let kubectl = cluster.kubectl(&program);
    kubectl.comes_to_print(&["get", "markdownview", "markdownview-sample"], "Healthy", SOON)?;
    let forward = Forward::start(&kubectl, cluster.folder.path())?;
    let url = format!("http://127.0.0.1:{}/", forward.port);
    page_shows(&chromium, &url, &["Page 1</a></h1>", "<li>one</li>"])?;
    let artefacts = run::root().join("target/e2e");
    std::fs::create_dir_all(&artefacts)?;
    screenshot(&chromium, &url, &artefacts.join("markdownview.png"))?;
    let line = edited(&kubectl, forward.port)?;
    page_shows(&chromium, &url, &["Changed</a></h1>", &line])
}

/// Edits until the page follows soon enough, and gives the line that it shows then.
fn edited(kubectl: &Kubectl, port: u16) -> Result<String> {
    for number in 1..=TRIES {
        let change =
            json!({ "spec": { "markdowns": { "page1.md": format!("# Changed\n\n- change {number}\n") } } });
        let line = format!("<li>change {number}</li>");
        kubectl.ok(&[
            "patch",
            "markdownview",
            "markdownview-sample",
            "--type=merge",
            "-p",
            &change.to_string(),
        ])?;
        let edited = Instant::now();
        while !fetch(port, "/")?.contains(&line) {
            ensure!(edited.elapsed() < SOON, "the page is the old one {:?} after the edit", edited.elapsed());
        }
        let taken = edited.elapsed();
        println!("browser: the page changed {} ms after the edit", taken.as_millis());
        if taken < CHANGED_WITHIN {
            return Ok(line);
        }
    }
    bail!("not once in {TRIES} tries did the page change within {CHANGED_WITHIN:?}")
}

/// The page without a browser: starting one takes longer than the change may.
pub fn fetch(port: u16, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(SOON))?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// A port-forward of the viewer's Service; killed when dropped.
struct Forward {
    child: Child,
    port: u16,
}

impl Drop for Forward {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Forward {
    fn start(kubectl: &Kubectl, folder: &Path) -> Result<Forward> {
        let output = folder.join("forward.log");
        let file = std::fs::File::create(&output)?;
        let mut command = kubectl.command(&["port-forward", "svc/viewer-markdownview-sample", ":80"]);
        let child = command.stdout(file.try_clone()?).stderr(file).stdin(Stdio::null()).spawn()?;
        let mut forward = Forward { child, port: 0 };
        let deadline = Instant::now() + SOON;
        while Instant::now() < deadline {
            let text = std::fs::read_to_string(&output)?;
            let port =
                text.split_once("127.0.0.1:").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
            if let Some(port) = port {
                forward.port = port;
                return Ok(forward);
            }
            if let Some(status) = forward.child.try_wait()? {
                bail!("kubectl port-forward ended with {status}: {text}");
            }
            std::thread::sleep(PAUSE);
        }
        bail!("kubectl port-forward did not begin to listen")
    }
}

fn browser(chromium: &Path) -> Command {
    let mut command = Command::new(chromium);
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--window-size=1100,700",
    ]);
    command
}

/// Loads the page until it shows all of it.
pub fn page_shows(chromium: &Path, url: &str, wanted: &[&str]) -> Result<()> {
    let deadline = Instant::now() + SOON;
    loop {
        let page = run::read(browser(chromium).args(["--dump-dom", url]))?;
        if wanted.iter().all(|text| page.contains(text)) {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("{url} does not show {wanted:?}: {page}");
        }
    }
}

fn screenshot(chromium: &Path, url: &str, file: &Path) -> Result<()> {
    run::read(browser(chromium).arg(format!("--screenshot={}", file.display())).arg(url))?;
    std::fs::metadata(file).with_context(|| format!("no screenshot at {}", file.display()))?;
    Ok(())
}
