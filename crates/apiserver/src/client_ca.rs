//! The ConfigMap `extension-apiserver-authentication`: by it API servers beside this one know whom this one takes for
//! its clients and for its front proxy.

use std::convert::Infallible;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use setpoint_store::{Snapshot, Txn};

use crate::bootstrap::StartError;
use crate::key;
use crate::object::Encoded;
use crate::options::{FrontProxy, Options};
use crate::registry;
use crate::server::Server;
use crate::{bootstrap, managed};

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";
const FIELD: &str = "client-ca-file";
const PROXY_FIELD: &str = "requestheader-client-ca-file";

impl Server {
    /// Remembers the authority of clients (PEM), which is published from then on. The first one told counts.
    pub(crate) fn trust_clients_of(&self, authority: &Arc<str>) {
        self.0.client_authority.get_or_init(|| authority.clone());
    }
}

/// Publishes the authority where it is not.
pub(crate) async fn keep(options: &Options, authority: &str) -> Result<(), StartError> {
    let key = key::object("", "configmaps", NAMESPACE, NAME);
    let stored = |snapshot: &Snapshot| snapshot.get(&key).map(|entry| registry::value(&entry));
    let proxy = options.front_proxy.as_ref();
    if published(stored(&options.store.snapshot()).as_ref(), authority, proxy).is_none() {
        return Ok(());
    }
    let decide = |snapshot: &Snapshot, txn: &mut Txn| -> Result<(), Infallible> {
        let live = stored(snapshot);
        let Some(mut new) = published(live.as_ref(), authority, proxy) else { return Ok(()) };
        if live.is_none() {
            bootstrap::system_fields(options, &mut new);
        }
        let kind = managed::builtin_kind("", "ConfigMap");
        managed::by_server(&kind, ("configmaps", ""), options.clock.now(), live.as_ref(), &mut new);
        let encoded = Encoded::new(&new);
        txn.put_with(key.clone(), move |revision| encoded.at(revision));
        Ok(())
    };
    options.store.transact(decide).await.map(|_| ()).map_err(|error| StartError::Bootstrap(error.to_string()))
}

/// The ConfigMap with this authority and this proxy among its others; none if they are there already.
fn published(live: Option<&Value>, authority: &str, proxy: Option<&FrontProxy>) -> Option<Value> {
    let known = live.and_then(|live| live["data"].as_object()).cloned().unwrap_or_default();
    let mut data = known.clone();
    add_authority(&mut data, FIELD, authority);
    if let Some(proxy) = proxy {
        add_authority(&mut data, PROXY_FIELD, &proxy.authority);
        add_names(&mut data, "requestheader-username-headers", &proxy.username_headers);
        if !proxy.uid_headers.is_empty() {
            add_names(&mut data, "requestheader-uid-headers", &proxy.uid_headers);
        }
        add_names(&mut data, "requestheader-group-headers", &proxy.group_headers);
        add_names(&mut data, "requestheader-extra-headers-prefix", &proxy.extra_header_prefixes);
        add_names(&mut data, "requestheader-allowed-names", &proxy.allowed_names);
    }
    if data == known {
        return None;
    }
    let mut new = live.cloned().unwrap_or_else(|| {
        json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": NAME, "namespace": NAMESPACE}})
    });
    new["data"] = Value::Object(data);
    Some(new)
}

/// Adds an authority (PEM) to those of a field.
fn add_authority(data: &mut Map<String, Value>, field: &str, authority: &str) {
    let known = data.get(field).and_then(Value::as_str).unwrap_or("");
    if !known.contains(authority.trim_end()) {
        let before = if known.is_empty() || known.ends_with('\n') { "" } else { "\n" };
        let bundle = format!("{known}{before}{authority}");
        data.insert(field.to_owned(), json!(bundle));
    }
}

/// Adds names to the list that a field holds as JSON. A text that is no list gives way to one.
fn add_names(data: &mut Map<String, Value>, field: &str, names: &[String]) {
    let known = data.get(field).and_then(Value::as_str).unwrap_or("");
    let known = serde_json::from_str::<Vec<String>>(known);
    let mut all = known.as_ref().cloned().unwrap_or_default();
    for name in names {
        if !all.contains(name) {
            all.push(name.clone());
        }
    }
    if known.is_err() || known.is_ok_and(|known| known != all) {
        data.insert(field.to_owned(), json!(json!(all).to_string()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_is_added_once_to_those_that_are_known() {
        let published = |live: Option<&Value>, authority| published(live, authority, None);
        let first = published(None, "one\n").unwrap();
        assert_eq!(first["data"], json!({FIELD: "one\n"}));
        assert_eq!(published(Some(&first), "one\n"), None);
        let mut cut = first;
        cut["data"] = json!({FIELD: "one", "other": "x"});
        assert_eq!(published(Some(&cut), "one\n"), None);
        let both = published(Some(&cut), "two\n").unwrap();
        assert_eq!(both["data"], json!({FIELD: "one\ntwo\n", "other": "x"}));
        cut["data"] = Value::Null;
        assert_eq!(published(Some(&cut), "two\n").unwrap()["data"], json!({FIELD: "two\n"}));
    }

    /// As kube-apiserver publishes what its `--requestheader-*` flags say.
    #[test]
    fn the_front_proxy_is_published_for_servers_beside_this_one() {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let mut proxy = FrontProxy {
            authority: "proxies\n".to_owned(),
            username_headers: names(&["X-Remote-User"]),
            allowed_names: names(&["front-proxy"]),
            ..FrontProxy::default()
        };
        let first = published(None, "one\n", Some(&proxy)).unwrap();
        let mut expected = json!({FIELD: "one\n", PROXY_FIELD: "proxies\n",
            "requestheader-username-headers": "[\"X-Remote-User\"]", "requestheader-group-headers": "[]",
            "requestheader-extra-headers-prefix": "[]", "requestheader-allowed-names": "[\"front-proxy\"]"});
        assert_eq!(first["data"], expected);
        assert_eq!(published(Some(&first), "one\n", Some(&proxy)), None);
        proxy.allowed_names = names(&["second"]);
        proxy.uid_headers = names(&["X-Remote-Uid"]);
        let both = published(Some(&first), "one\n", Some(&proxy)).unwrap();
        expected["requestheader-allowed-names"] = json!("[\"front-proxy\",\"second\"]");
        expected["requestheader-uid-headers"] = json!("[\"X-Remote-Uid\"]");
        assert_eq!(both["data"], expected);
    }
}
