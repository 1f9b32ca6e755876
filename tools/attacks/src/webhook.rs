//! A webhook in the attacker's hand. Its path says how it misbehaves.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::certificates::Certificates;

/// Longest time for which it holds a connection.
const HOLDS: Duration = Duration::from_secs(120);

/// The running webhook; it ends with this handle.
pub struct Webhook {
    /// `{{webhook}}` is its URL, `{{webhook-ca}}` its authority in base64.
    pub known: Vec<(String, String)>,
    _tasks: JoinSet<()>,
}

impl Webhook {
    pub async fn start(certificates: &Certificates) -> Result<Webhook> {
        let pair = certificates.issue("server:CN=127.0.0.1")?;
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pair.certificate.as_bytes()).collect();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain?, PrivateKeyDer::from_pem_slice(pair.key.as_bytes())?)?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let known = vec![
            ("webhook".to_owned(), format!("https://{}", listener.local_addr()?)),
            ("webhook-ca".to_owned(), STANDARD.encode(certificates.clients())),
        ];
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                open.spawn(async move {
                    // The server under attack may leave at any moment.
                    let _ = tokio::time::timeout(HOLDS, answer(acceptor, stream)).await;
                });
                while open.try_join_next().is_some() {}
            }
        });
        Ok(Webhook { known, _tasks: tasks })
    }
}

async fn answer(acceptor: TlsAcceptor, stream: TcpStream) -> Result<()> {
    let mut stream = acceptor.accept(stream).await?;
    let (path, review) = request(&mut stream).await?;
    let (name, rest) =
        path.trim_start_matches('/').split_once('/').unwrap_or((path.trim_start_matches('/'), ""));
    let (name, rest) =
        (name.split('?').next().unwrap_or_default(), rest.split('?').next().unwrap_or_default());
    let ok = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n";
    match name {
        "hang" => tokio::time::sleep(HOLDS).await,
        "drip" => {
            stream.write_all(format!("{ok}Content-Length: 100000\r\n\r\n").as_bytes()).await?;
            loop {
                stream.write_all(b" ").await?;
                stream.flush().await?;
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
        "endless" => {
            stream.write_all(format!("{ok}\r\n").as_bytes()).await?;
            let block = vec![b' '; 1 << 16];
            loop {
                stream.write_all(&block).await?;
            }
        }
        "redirect" => {
            let text = format!(
                "HTTP/1.1 307 Temporary Redirect\r\nLocation: /{rest}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            );
            stream.write_all(text.as_bytes()).await?;
        }
        "text" => whole(&mut stream, ok, &String::from_utf8(URL_SAFE_NO_PAD.decode(rest)?)?).await?,
        "patch" => whole(&mut stream, ok, &allow(&review, Some(rest)).to_string()).await?,
        "other-uid" => {
            let mut answer = allow(&review, None);
            answer["response"]["uid"] = json!("another");
            whole(&mut stream, ok, &answer.to_string()).await?;
        }
        _ => whole(&mut stream, ok, &allow(&review, None).to_string()).await?,
    }
    stream.shutdown().await?;
    Ok(())
}

/// An answer that allows. A patch is base64 in the alphabet of URLs.
fn allow(review: &Value, patch: Option<&str>) -> Value {
    let mut response = json!({"uid": review["request"]["uid"], "allowed": true});
    if let Some(patch) = patch.and_then(|patch| URL_SAFE_NO_PAD.decode(patch).ok()) {
        response["patchType"] = json!("JSONPatch");
        response["patch"] = json!(STANDARD.encode(patch));
    }
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
}

async fn whole(stream: &mut (impl AsyncWriteExt + Unpin), head: &str, body: &str) -> Result<()> {
    let text = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
    Ok(stream.write_all(text.as_bytes()).await?)
}

/// The path and the body of an HTTP/1.1 request.
async fn request(stream: &mut (impl AsyncReadExt + Unpin)) -> Result<(String, Value)> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        anyhow::ensure!(stream.read_buf(&mut bytes).await? > 0, "no head");
    };
    let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
    let path = String::from_utf8_lossy(&bytes[..end]).split(' ').nth(1).unwrap_or("/").to_owned();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length: usize = length.and_then(|length| length.trim().parse().ok()).context("no length")?;
    while bytes.len() < end + length {
        anyhow::ensure!(stream.read_buf(&mut bytes).await? > 0, "half a body");
    }
    Ok((path, serde_json::from_slice(&bytes[end..end + length]).unwrap_or_default()))
}
