//! Reads from the server itself.

use bytes::Bytes;
use http::Method;
use kube::core::{ApiResource, DynamicResourceScope};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::intercept::{Intercepted, Verb};
use super::transport::{Call, Doubt};
use super::write::decode;
use super::{Client, Kind, Query};
use crate::error::{ClientError, NotFoundExt};
use crate::key::{Key, KeyFor};
use crate::request_path::{Parameters, path};

/// How many objects one page of a live list has.
const PAGE: u32 = 500;

/// Reads from the server, past the cache: for what no informer keeps, and for the rare decision that needs the very
/// newest state.
#[derive(Clone, Copy, Debug)]
pub struct Live<'a>(&'a Client);

#[derive(Deserialize)]
struct Page<T> {
    #[serde(default)]
    metadata: PageMeta,
    #[serde(default = "Vec::new")]
    items: Vec<T>,
}

#[derive(Default, Deserialize)]
struct PageMeta {
    #[serde(default, rename = "continue")]
    continue_: String,
}

impl Client {
    /// Reads from the server.
    pub fn live(&self) -> Live<'_> {
        Live(self)
    }

    pub(super) fn check_live(
        &self,
        verb: Verb,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: Option<&str>,
        subresource: Option<&str>,
    ) -> Result<(), ClientError> {
        self.check_place(resource, namespace, name)?;
        let kind = &resource.kind;
        self.interceptors.check(&Intercepted { verb, kind, namespace, name, subresource, live: true })
    }

    async fn read(&self, path: String) -> Result<Bytes, ClientError> {
        let call = Call {
            method: Method::GET,
            path,
            content_type: "",
            body: Bytes::new(),
            sender: self.sender(),
            doubt: Doubt::default(),
        };
        // Reading does no harm, so it needs no lease.
        self.core.transport.call(None, &call).await
    }

    pub(super) async fn live_get<T: DeserializeOwned>(
        &self,
        resource: &ApiResource,
        key: &Key,
        subresource: Option<&str>,
    ) -> Result<Option<T>, ClientError> {
        self.check_live(Verb::Get, resource, key.namespace(), Some(key.name()), subresource)?;
        let answer = self.read(path(resource, key.namespace(), Some(key.name()), subresource)).await;
        answer.ignore_not_found()?.map(|json| decode(&resource.kind, &json)).transpose()
    }

    pub(super) async fn live_list<T: DeserializeOwned>(
        &self,
        resource: &ApiResource,
        query: &Query,
    ) -> Result<Vec<T>, ClientError> {
        query.check_for_server()?;
        let namespace = query.namespace.as_deref();
        self.check_live(Verb::List, resource, namespace, None, None)?;
        let mut objects = Vec::new();
        let mut token = String::new();
        let mut limit = Some(PAGE.to_string());
        loop {
            let mut parameters = Parameters::default();
            parameters.push_some("limit", limit.as_deref());
            parameters.push_some("labelSelector", query.selector.as_deref());
            parameters.push_some("fieldSelector", query.fields.as_deref());
            parameters.push_some("continue", Some(token.as_str()).filter(|token| !token.is_empty()));
            let mut target = path(resource, namespace, None, None);
            parameters.append_to(&mut target);
            let page: Page<T> = match self.read(target).await {
                Ok(json) => decode(&resource.kind, &json)?,
                // The pages expired under our hands. As client-go: all at once, because other pages would expire too.
                Err(error) if error.code() == Some(410) && !token.is_empty() && limit.is_some() => {
                    objects.clear();
                    token.clear();
                    limit = None;
                    continue;
                }
                Err(error) => return Err(error),
            };
            objects.extend(page.items);
            token = page.metadata.continue_;
            if token.is_empty() {
                return Ok(objects);
            }
        }
    }
}

impl Live<'_> {
    /// One object; `None` if there is none.
    ///
    /// Dropping the future ends the read and changes nothing.
    ///
    /// # Errors
    /// An error from the server.
    pub async fn get<K: Kind>(&self, key: impl KeyFor<K::Scope>) -> Result<Option<K>, ClientError> {
        self.0.live_get(&K::api_resource(), &self.0.key_for::<K>(key)?, None).await
    }

    /// All objects that the query selects by namespace, label or field.
    ///
    /// Dropping the future ends the read and changes nothing.
    ///
    /// # Errors
    /// An error from the server.
    pub async fn list<K: Kind>(&self, query: Query) -> Result<Vec<K>, ClientError> {
        self.0.live_list(&K::api_resource(), &self.0.query_for::<K>(query)).await
    }

    /// One object of a kind that is known at run time.
    ///
    /// Dropping the future ends the read and changes nothing.
    ///
    /// # Errors
    /// An error from the server.
    pub async fn get_value(
        &self,
        resource: &ApiResource,
        key: impl KeyFor<DynamicResourceScope>,
    ) -> Result<Option<serde_json::Value>, ClientError> {
        self.0.live_get(resource, &key.into_key(), None).await
    }

    /// Objects of a kind that is known at run time.
    ///
    /// Dropping the future ends the read and changes nothing.
    ///
    /// # Errors
    /// An error from the server.
    pub async fn list_values(
        &self,
        resource: &ApiResource,
        query: Query,
    ) -> Result<Vec<serde_json::Value>, ClientError> {
        self.0.live_list(resource, &self.0.query_within(query)).await
    }
}
