//! The server that answers: ours in this process, or a real server over TLS.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use http::{HeaderValue, Request};
use http_body_util::{BodyExt, Full};
use setpoint_api::{Clock, Random};
use setpoint_apiserver::jwt::SigningKey;
use setpoint_apiserver::{Admission, Caller, Options, Plugin, Server, UserInfo};
use setpoint_kinds::admission::PodSecurity;
use setpoint_store::Store;
use tokio::sync::Mutex;

use crate::certified::Certified;
use crate::message::{Received, Sent};
use crate::peer::{Connection, Peer};
use crate::setting::Setting;

/// A server that can be asked.
pub enum Target {
    Ours(Server),
    Real {
        connection: Mutex<Option<Connection>>,
        peer: Arc<Peer>,
    },
    /// A server over TLS whose users have certificates.
    Certified(Arc<Certified>),
}

impl Target {
    /// A fresh server of ours, with the switches that the real one was recorded with.
    pub async fn ours(clock: Clock, setting: Setting) -> Result<Target> {
        let store = Store::memory(setpoint_store::Options::default());
        let mut options = Options::new(store, clock, Random::from_seed(11));
        match setting {
            Setting::Plugged => {}
            Setting::Unplugged => options.admission.plugins.clear(),
            Setting::Opted => {
                options.admission = Admission::without([Plugin::ServiceAccount]);
                options.admission.plugins.extend([
                    Plugin::LimitPodHardAntiAffinityTopology,
                    Plugin::AlwaysPullImages,
                    Plugin::ExtendedResourceToleration,
                    Plugin::OwnerReferencesPermissionEnforcement,
                    Plugin::DenyServiceExternalIPs,
                ]);
            }
            Setting::Exempting => {
                options.admission = Admission::without([Plugin::ServiceAccount]);
                options.admission.pod_security = configured_pod_security()?;
            }
            Setting::Usual | Setting::Restricted => {
                options.admission.plugins.remove(&Plugin::ServiceAccount);
            }
        }
        if setting == Setting::Restricted {
            options.admission =
                Admission::without([Plugin::ServiceAccount, Plugin::LimitRanger, Plugin::ResourceQuota]);
            options.allow_privileged = false;
            options.max_token_life = Some(Duration::from_secs(7200));
        }
        options.service_accounts.issuer = "https://kubernetes.default.svc".to_owned();
        let key = SigningKey::generate_pkcs8().map_err(|error| anyhow::anyhow!("{error}"))?;
        options.service_accounts.signing =
            Some(SigningKey::from_pkcs8(&key).map_err(|error| anyhow::anyhow!("{error}"))?);
        Ok(Target::Ours(Server::start(options).await?))
    }

    pub fn real(peer: Arc<Peer>) -> Target {
        Target::Real { connection: Mutex::new(None), peer }
    }

    pub async fn send(&self, sent: &Sent) -> Result<Received> {
        match self {
            Target::Ours(server) => ours(server, sent).await,
            Target::Real { connection, peer } => real(&mut *connection.lock().await, peer, sent).await,
            Target::Certified(server) => server.send(sent).await,
        }
    }
}

/// The settings of PodSecurity with which the real server is recorded.
fn configured_pod_security() -> Result<PodSecurity> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/admission/configuration.yaml");
    let mut document: serde_json::Value = serde_saphyr::from_str(&std::fs::read_to_string(file)?)?;
    Ok(PodSecurity::read(document["plugins"][0]["configuration"].take())?)
}

async fn ours(server: &Server, sent: &Sent) -> Result<Received> {
    let caller = match sent.user.as_str() {
        "admin" => Caller::Trusted(user("admin", "system:masters")),
        "alice" => Caller::Trusted(user("alice", "dev")),
        _ => Caller::Anonymous,
    };
    let mut request = Request::builder().method(sent.method.as_str()).uri(&sent.path);
    for (name, value) in &sent.headers {
        request = request.header(name, HeaderValue::from_bytes(value.as_bytes())?);
    }
    let body = Full::new(sent.body.clone()).map_err(|never| match never {}).boxed_unsync();
    let (head, body) = server.handle(caller, request.body(body)?).await.into_parts();
    let body = body.collect().await.map_err(|error| anyhow::anyhow!("{error}"))?.to_bytes();
    Ok(Received { status: head.status.as_u16(), headers: head.headers, body })
}

/// A user as in the token file of the real server: the uid is the name.
fn user(name: &str, group: &str) -> UserInfo {
    UserInfo { uid: name.to_owned(), ..UserInfo::new(name, [group]) }
}

/// kube-apiserver closes the connection of a client that it refuses. A request that was not begun is sent again.
async fn real(slot: &mut Option<Connection>, peer: &Peer, sent: &Sent) -> Result<Received> {
    loop {
        match real_once(slot, peer, sent).await {
            Err(error) if error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_canceled) => {
                *slot = None
            }
            ended => return ended,
        }
    }
}

async fn real_once(slot: &mut Option<Connection>, peer: &Peer, sent: &Sent) -> Result<Received> {
    if slot.as_ref().is_none_or(Connection::is_closed) {
        *slot = Some(Connection::open(peer).await?);
    }
    let connection = slot.as_mut().expect("opened above");
    let mut request =
        Request::builder().method(sent.method.as_str()).uri(format!("https://{}{}", peer.address, sent.path));
    for (name, value) in &sent.headers {
        request = request.header(name, HeaderValue::from_bytes(value.as_bytes())?);
    }
    if sent.user != "anonymous" {
        request = request.header("authorization", format!("Bearer token-of-{}", sent.user));
    }
    let response = connection.send(request.body(Full::new(sent.body.clone()))?).await?;
    let (head, body) = response.into_parts();
    let body = body.collect().await?.to_bytes();
    Ok(Received { status: head.status.as_u16(), headers: head.headers, body })
}
