//! Lets the plugins of `setpoint-kinds` see a write and the state of the store.

use serde_json::Value;
use setpoint_api::Random;
use setpoint_kinds::admission::{self, Cluster, Operation, Plugin, Request, Right};
use setpoint_store::{KeyRange, Snapshot};

use crate::auth::access::Access;
use crate::auth::authz;
use crate::context::RequestContext;
use crate::error::{ApiError, Result};
use crate::key;
use crate::object;
use crate::registry;

/// Whether a plugin is on.
pub(crate) fn is_on(ctx: &RequestContext, plugin: Plugin) -> bool {
    ctx.server.options().admission.is_on(plugin)
}

/// The state of the cluster that plugins look at: the snapshot of the transaction, and the rights of the user.
struct View<'a> {
    ctx: &'a RequestContext,
    snapshot: &'a Snapshot,
}

impl Cluster for View<'_> {
    fn get(&self, group: &str, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        let key = key::object(group, resource, namespace, name);
        self.snapshot.get(&key).map(|entry| registry::value(&entry))
    }

    fn list(&self, group: &str, resource: &str, namespace: &str) -> Vec<Value> {
        let range = KeyRange::prefix(key::object(group, resource, namespace, ""));
        self.snapshot.range(&range, None).map(|entry| registry::value(entry)).collect()
    }

    fn allows(&self, right: &Right<'_>) -> bool {
        let Right { verb, group, version, resource, subresource, namespace, name } = *right;
        let (is_resource, path) = (true, "");
        let wanted = authz::Attributes {
            verb,
            is_resource,
            group,
            version,
            resource,
            subresource,
            namespace,
            name,
            path,
        };
        Access::of(self.ctx).allows(self.snapshot, &self.ctx.user, &wanted)
    }

    fn resources_of(&self, group: &str, version: &str, kind: &str) -> Vec<(String, bool)> {
        let all = self.ctx.server.0.registry.all().into_iter();
        let of_kind = all.filter(|one| one.group == group && one.version == version && one.kind == kind);
        of_kind.map(|one| (one.plural.clone(), one.namespaced)).collect()
    }
}

/// A write as plugins see it.
#[derive(Clone, Copy)]
pub(crate) struct Write<'a> {
    pub(crate) ctx: &'a RequestContext,
    pub(crate) random: &'a Random,
    pub(crate) snapshot: &'a Snapshot,
    /// The stored object; none for a new one.
    pub(crate) live: Option<&'a Value>,
    /// The server generated the name of the object.
    pub(crate) generated: bool,
}

impl Write<'_> {
    /// Lets the plugins change the object. This comes before webhooks see it, and again after they changed it.
    pub(crate) fn mutate(&self, object: &mut Value) -> Result<()> {
        // kube-apiserver generates the name only behind these plugins.
        let name =
            if self.generated { object::meta_text(object, "generateName") } else { object::name(object) };
        let (name, view) = (name.to_owned(), self.view());
        admission::mutate(&self.request(&name), &view, object).map_err(ApiError::from)
    }

    /// Lets the plugins judge the object as it will be stored. Returns their warnings.
    pub(crate) fn validate(&self, object: &Value) -> Result<Vec<String>> {
        admission::validate(&self.request(object::name(object)), &self.view(), object).map_err(ApiError::from)
    }

    fn view(&self) -> View<'_> {
        View { ctx: self.ctx, snapshot: self.snapshot }
    }

    fn request<'r>(&'r self, name: &'r str) -> Request<'r> {
        let (ctx, resource) = (self.ctx, &self.ctx.resource);
        let options = ctx.server.options();
        Request {
            operation: if self.live.is_some() { Operation::Update } else { Operation::Create },
            group: &resource.group,
            version: &resource.version,
            resource: &resource.plural,
            kind: &resource.kind,
            subresource: &ctx.info.subresource,
            namespace: &ctx.info.namespace,
            name,
            user: &ctx.user.name,
            old: self.live,
            random: self.random,
            signs_tokens: options.service_accounts.signing.is_some(),
            configuration: &options.admission,
        }
    }
}
