//! The ConfigMap `extension-apiserver-authentication`: by it API servers beside this one know whom this one takes for
//! its clients.

use std::convert::Infallible;
use std::sync::Arc;

use serde_json::{Value, json};
use setpoint_store::{Snapshot, Txn};

use crate::object::Encoded;
use crate::options::Options;
use crate::registry::{self, key};
use crate::server::{Server, StartError};
use crate::{bootstrap, managed};

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";
const FIELD: &str = "client-ca-file";

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
    if published(stored(&options.store.snapshot()).as_ref(), authority).is_none() {
        return Ok(());
    }
    let decide = |snapshot: &Snapshot, txn: &mut Txn| -> Result<(), Infallible> {
        let live = stored(snapshot);
        let Some(mut new) = published(live.as_ref(), authority) else { return Ok(()) };
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

/// The ConfigMap with this authority among its others; none if it is there already.
fn published(live: Option<&Value>, authority: &str) -> Option<Value> {
    let known = live.and_then(|live| live.pointer("/data")?.get(FIELD)?.as_str()).unwrap_or("");
    if known.contains(authority.trim_end()) {
        return None;
    }
    let mut new = live.cloned().unwrap_or_else(|| {
        json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": NAME, "namespace": NAMESPACE}})
    });
    let before = if known.is_empty() || known.ends_with('\n') { "" } else { "\n" };
    let bundle = json!(format!("{known}{before}{authority}"));
    match new.get_mut("data") {
        Some(Value::Object(data)) => drop(data.insert(FIELD.to_owned(), bundle)),
        _ => new["data"] = json!({FIELD: bundle}),
    }
    Some(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_is_added_once_to_those_that_are_known() {
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
}
