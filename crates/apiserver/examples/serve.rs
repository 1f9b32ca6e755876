//! A bare API server on a port of this machine: `cargo run -p setpoint-apiserver --example serve -- PORT DIR`.

use std::net::{IpAddr, Ipv4Addr};

use setpoint_api::{Clock, Random};
use setpoint_apiserver::auth::jwt::SigningKey;
use setpoint_apiserver::pki::{Authority, server_config};
use setpoint_apiserver::{Options, Server, StaticToken, UserInfo};
use setpoint_store::Store;
use tokio_util::sync::CancellationToken;

// A program reads the clock; the library does not.
#[allow(clippy::disallowed_methods)]
fn clock() -> Clock {
    Clock::new(jiff::Timestamp::now)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let port: u16 = arguments.next().as_deref().unwrap_or("0").parse()?;
    let directory = arguments.next().unwrap_or_else(|| ".".to_owned());
    let clock = clock();
    let now = clock.now();
    let authority = Authority::generate(now)?;
    let serving = authority.serving(&[], &[IpAddr::V4(Ipv4Addr::LOCALHOST)], now)?;
    let tls = server_config(&serving, Some(&authority.identity().certificate))?;
    let random = Random::from_seed(now.as_nanosecond() as u64);
    let mut options = Options::new(Store::memory(setpoint_store::Options::default()), clock, random);
    options.service_accounts.signing = Some(SigningKey::from_pkcs8(&SigningKey::generate_pkcs8()?)?);
    options.admission.service_account = false;
    let user = |token: &str, user: UserInfo| StaticToken { token: token.to_owned(), user };
    options.tokens = vec![
        user("realadmintoken", UserInfo::admin("admin")),
        user("usertoken", UserInfo::new("alice", ["dev"])),
    ];
    let server = Server::start(options).await?;
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    let address = listener.local_addr()?;
    let kubeconfig = format!(
        "apiVersion: v1\nkind: Config\nclusters: [{{name: ours, cluster: {{server: \"https://{address}\", \
         insecure-skip-tls-verify: true}}}}]\nusers: [{{name: admin, user: {{token: realadmintoken}}}}]\n\
         contexts: [{{name: ours, context: {{cluster: ours, user: admin}}}}]\ncurrent-context: ours\n"
    );
    let file = format!("{directory}/kubeconfig");
    std::fs::write(&file, kubeconfig)?;
    println!("SERVER https://{address} KUBECONFIG {file}");
    server.serve(listener, tls, CancellationToken::new()).await;
    Ok(())
}
