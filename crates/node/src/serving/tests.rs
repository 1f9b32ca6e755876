use http_body_util::{BodyExt, Empty};
use rcgen::{BasicConstraints, DistinguishedName, DnType, IsCa, Issuer};
use serde_json::{Value, json};

use setpoint_serving::any_server;

use super::*;
use crate::kubelet::service::{ContainerName, HostError, LogSource};
use crate::process::attach::Attachment;
use crate::process::exec::ExecCommand;

/// A node with one container.
#[derive(Clone)]
struct OneLog;

#[derive(Clone)]
struct Nowhere;

impl crate::kubelet::port_forward::Dial for Nowhere {
    type Io = tokio::io::DuplexStream;
    async fn dial(&self, _: u16) -> io::Result<Self::Io> {
        Err(io::ErrorKind::ConnectionRefused.into())
    }
}

impl Host for OneLog {
    type Dial = Nowhere;
    fn pods(&self) -> Value {
        json!({"kind": "PodList"})
    }
    fn log(&self, _: &ContainerName, _: bool) -> Result<LogSource, HostError> {
        Ok(LogSource::Lines(b"2026-01-01T00:00:00.000000000Z stdout F said\n".to_vec()))
    }
    fn exec(&self, _: &ContainerName, _: &[String]) -> Result<ExecCommand, HostError> {
        Err(HostError::Refused("no exec here".into()))
    }
    fn attach(&self, _: &ContainerName) -> Result<Attachment, HostError> {
        Err(HostError::Refused("no attach here".into()))
    }
    fn dial(&self, _: &ContainerName) -> Result<Nowhere, HostError> {
        Ok(Nowhere)
    }
}

/// Signs client certificates.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

type Shown = (CertificateDer<'static>, PrivateKeyDer<'static>);

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = named("kubernetes");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Authority { issuer: Issuer::new(params, key), pem }
    }

    fn sign(&self, mut params: CertificateParams) -> Shown {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().der().clone();
        (certificate, PrivateKeyDer::try_from(key.serialize_der()).unwrap())
    }

    fn client(&self, name: &str) -> Shown {
        self.sign(named(name))
    }
}

/// An administrator's certificate, but for its name.
fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.distinguished_name.push(DnType::OrganizationName, "system:masters");
    params
}

/// A node that serves until the set is dropped.
struct Node {
    address: SocketAddr,
    _tasks: JoinSet<()>,
}

impl Node {
    fn serving(options: &ServingOptions) -> Node {
        let serving = Serving::bind(&NodeOptions::default(), options).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], serving.ports()[0]));
        let Serving { mut listeners, tls, client_check } = serving;
        let clock = Clock::new(|| "2026-06-01T00:00:00Z".parse().unwrap());
        let service = Service::new(OneLog, clock.clone());
        let one = OneNode { service, client_check, clock };
        let listener = TcpListener::from_std(listeners.remove(0)).unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(one.accept(listener, TlsAcceptor::from(tls), Unauthenticated::new(MAX_UNAUTHENTICATED)));
        Node { address, _tasks: tasks }
    }

    async fn get(&self, shown: Option<Shown>, path: &str) -> (u16, String) {
        let config = any_server().unwrap();
        let config = match shown {
            Some((certificate, key)) => config.with_client_auth_cert(vec![certificate], key).unwrap(),
            None => config.with_no_client_auth(),
        };
        let stream = TcpStream::connect(self.address).await.unwrap();
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let stream = connector.connect(self.address.ip().into(), stream).await.unwrap();
        let (mut send, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        let mut driver = JoinSet::new();
        driver.spawn(async move { drop(connection.await) });
        let request = Request::get(path).header("host", "n").body(Empty::<bytes::Bytes>::new()).unwrap();
        let answer = send.send_request(request).await.unwrap();
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }
}

/// Every path, and one that does not exist: a client that is not admitted cannot tell them apart.
const PATHS: [&str; 7] = [
    "/pods",
    "/healthz",
    "/containerLogs/default/p/main",
    "/exec/default/p/main",
    "/attach/default/p/main",
    "/portForward/default/p",
    "/nothing",
];

#[tokio::test]
async fn only_the_api_servers_certificate_opens_the_door() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let node = Node::serving(&ServingOptions::new(&ours.pem));
    for path in PATHS {
        let unknown = (401, "Unauthorized".to_owned());
        assert_eq!(node.get(None, path).await, unknown, "no certificate, {path}");
        let stranger = theirs.client(API_SERVER);
        assert_eq!(node.get(Some(stranger), path).await, unknown, "another authority's, {path}");
        let (status, text) = node.get(Some(ours.client("kubernetes-admin")), path).await;
        assert_eq!(status, 403, "an administrator's, {path}");
        assert_eq!(text, "Forbidden (user=kubernetes-admin): this node answers its API server only");
    }
    let (status, log) = node.get(Some(ours.client(API_SERVER)), PATHS[2]).await;
    assert_eq!((status, log.as_str()), (200, "said\n"));
    assert_eq!(node.get(Some(ours.client(API_SERVER)), "/nothing").await.0, 404);
}

#[tokio::test]
async fn the_api_servers_name_may_be_another_and_its_certificate_has_an_end() {
    let authority = Authority::new();
    let names = ["system:apiserver".to_owned(), "other".to_owned()].into();
    let node = Node::serving(&ServingOptions { client_names: names, ..ServingOptions::new(&authority.pem) });
    for (name, wanted) in [("system:apiserver", 200), ("other", 200), (API_SERVER, 403), ("", 401)] {
        assert_eq!(node.get(Some(authority.client(name)), "/healthz").await.0, wanted, "{name:?}");
    }
    let mut params = named("other");
    params.not_before = rcgen::date_time_ymd(2020, 1, 1);
    params.not_after = rcgen::date_time_ymd(2026, 1, 1);
    assert_eq!(node.get(Some(authority.sign(params)), "/healthz").await.0, 401, "it expired");
}

#[tokio::test]
async fn silent_connections_make_room_for_the_api_server() {
    use tokio::io::AsyncReadExt;
    let authority = Authority::new();
    let node = Node::serving(&ServingOptions::new(&authority.pem));
    // This one has shaken hands without a certificate, and says nothing.
    let stream = TcpStream::connect(node.address).await.unwrap();
    let config = Arc::new(any_server().unwrap().with_no_client_auth());
    let connector = tokio_rustls::TlsConnector::from(config);
    let mut first = connector.connect(node.address.ip().into(), stream).await.unwrap();
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(TcpStream::connect(node.address).await.unwrap());
    }
    let gone = tokio::time::timeout(Duration::from_secs(60), first.read(&mut [0; 8])).await;
    let read = gone.expect("whoever says nothing is not kept");
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    let (status, _) = node.get(Some(authority.client(API_SERVER)), "/healthz").await;
    assert_eq!(status, 200);
}
