//! The backend of the Service `kubernetes`: its Endpoints and EndpointSlice name the address that this server listens
//! on.

use std::convert::Infallible;
use std::net::SocketAddr;

use serde_json::{Value, json};
use setpoint_store::{Snapshot, Txn};

use crate::bootstrap;
use crate::bootstrap::StartError;
use crate::key;
use crate::object::{self, Encoded};
use crate::options::Options;
use crate::server::Server;

impl Server {
    /// Makes the Service `kubernetes` lead to `address`. Later calls keep the first address.
    pub async fn advertise(&self, address: SocketAddr) -> Result<(), StartError> {
        let address = *self.0.advertised.get_or_init(|| address);
        keep(self.options(), address).await
    }

    /// The address at which clients inside the cluster reach this server, once it is known.
    pub(crate) fn advertised(&self) -> Option<SocketAddr> {
        self.options().advertise.or_else(|| self.0.advertised.get().copied())
    }
}

/// One object as it should be. In a stored object only these fields are compared.
struct Wanted {
    key: Vec<u8>,
    object: Value,
    fields: &'static [&'static str],
}

/// Writes the objects that are missing or differ.
pub(crate) async fn keep(options: &Options, address: SocketAddr) -> Result<(), StartError> {
    let wanted = wanted(address);
    let snapshot = options.store.snapshot();
    if wanted.iter().all(|wanted| matches!(compare(wanted, &snapshot), Difference::None)) {
        return Ok(());
    }
    let decide = |snapshot: &Snapshot, txn: &mut Txn| -> Result<(), Infallible> {
        for wanted in &wanted {
            let object = match compare(wanted, snapshot) {
                Difference::None => continue,
                Difference::Differs(changed) => changed,
                Difference::Missing => {
                    let mut object = wanted.object.clone();
                    bootstrap::system_fields(options, &mut object);
                    object
                }
            };
            let encoded = Encoded::new(&object);
            txn.put_with(wanted.key.clone(), move |revision| encoded.at(revision));
        }
        Ok(())
    };
    options.store.transact(decide).await.map(|_| ()).map_err(|error| StartError::Bootstrap(error.to_string()))
}

enum Difference {
    None,
    Missing,
    Differs(Value),
}

fn compare(wanted: &Wanted, snapshot: &Snapshot) -> Difference {
    let Some(entry) = snapshot.get(&wanted.key) else { return Difference::Missing };
    let Ok(mut object) = serde_json::from_slice::<Value>(&entry.value) else { return Difference::Missing };
    if wanted.fields.iter().all(|field| object[*field] == wanted.object[*field]) {
        return Difference::None;
    }
    for field in wanted.fields {
        object[*field] = wanted.object[*field].clone();
    }
    Difference::Differs(object)
}

fn wanted(address: SocketAddr) -> [Wanted; 2] {
    let ip = address.ip();
    let family = if ip.is_ipv4() { "IPv4" } else { "IPv6" };
    let ports = json!([{"name": "https", "port": address.port(), "protocol": "TCP"}]);
    let endpoints = json!({"kind": "Endpoints", "apiVersion": "v1",
        "metadata": {"name": "kubernetes", "namespace": "default",
            "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
        "subsets": [{"addresses": [{"ip": ip}], "ports": ports}]});
    let slice = json!({"kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1",
        "metadata": {"name": "kubernetes", "namespace": "default", "generation": 1,
            "labels": {"kubernetes.io/service-name": "kubernetes"}},
        "addressType": family, "ports": ports,
        "endpoints": [{"addresses": [ip], "conditions": {"ready": true}}]});
    let at = |group, plural| key::object(group, plural, "default", object::name(&endpoints));
    [
        Wanted { key: at("", "endpoints"), object: endpoints.clone(), fields: &["subsets"] },
        Wanted {
            key: at("discovery.k8s.io", "endpointslices"),
            object: slice,
            fields: &["addressType", "endpoints", "ports"],
        },
    ]
}
