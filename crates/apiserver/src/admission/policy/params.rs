//! The params of a binding.

use serde_json::Value;
use setpoint_api::kind::GroupVersionKind;
use setpoint_api::selector::SelectorError;
use setpoint_machinery::apply::ConversionError;
use setpoint_store::{KeyRange, Snapshot};

use crate::configured::ParamRef;
use crate::context::RequestContext;
use crate::registry::{self, Resource};
use crate::versions::conversion;
use crate::versions::present;

/// The reason why a binding has no params.
#[derive(Debug, thiserror::Error)]
pub(super) enum ParamError {
    #[error("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")]
    Namespaced,
    #[error("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")]
    ClusterScoped,
    #[error(transparent)]
    Selector(#[from] SelectorError),
    #[error("no params found for policy binding with `Deny` parameterNotFoundAction")]
    NotFound,
    #[error(transparent)]
    Conversion(#[from] ConversionError),
}

/// The error of a policy whose `paramKind` is not served.
pub(super) fn unknown(kind: &GroupVersionKind) -> String {
    let GroupVersionKind { group, version, kind } = kind;
    format!("failed to find resource referenced by paramKind: '{group}/{version}, Kind={kind}'")
}

/// The params that a binding selects for a request in this namespace, as they are stored. An empty list without an
/// error means that the policy is skipped.
///
/// # Errors
/// The binding cannot select params, or requires some and there are none.
pub(super) fn collect(
    snapshot: &Snapshot,
    resource: &Resource,
    param: &ParamRef,
    namespace: &str,
) -> Result<Vec<Value>, ParamError> {
    let namespace = match (resource.facts.namespaced, param.namespace.as_str()) {
        (true, "") if namespace.is_empty() => {
            return Err(ParamError::Namespaced);
        }
        (true, "") => namespace,
        (true, own) => own,
        (false, "") => "",
        (false, _) => {
            return Err(ParamError::ClusterScoped);
        }
    };
    let found: Vec<Value> = match &param.selector {
        None => {
            let entry = snapshot.get(&resource.key(namespace, &param.name));
            entry.iter().map(|entry| registry::value(entry)).collect()
        }
        Some(selector) => {
            let selector = selector.as_ref().map_err(Clone::clone)?;
            let range = KeyRange::prefix(resource.range(namespace));
            let all = snapshot.range(&range, None).map(|entry| registry::value(entry));
            all.filter(|object| selector.matches_object(object)).collect()
        }
    };
    if found.is_empty() && param.required {
        return Err(ParamError::NotFound);
    }
    Ok(found)
}

/// A param in the version that the policy asks for.
///
/// # Errors
/// It cannot be converted.
pub(super) async fn shown(
    ctx: &RequestContext,
    resource: &Resource,
    param: Value,
) -> Result<Value, ParamError> {
    let wanted = resource.api_version();
    match &resource.custom {
        Some(custom) if custom.conversion().is_some() && param["apiVersion"] != wanted => {
            let converted = conversion::convert(&ctx.server, custom, &wanted, &[&param]).await.pop();
            Ok(converted.unwrap_or_else(|| Err(conversion::nothing()))?)
        }
        _ => Ok(present::value(resource, param)),
    }
}
