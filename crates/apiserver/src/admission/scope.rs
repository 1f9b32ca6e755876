//! Matching of requests to webhooks and policies, and the resource as which each sees a request.

use setpoint_api::selector::SelectorError;

use super::attributes::Attributes;
use super::review::EquivalentResource;
use super::selected::{in_selected_namespace, selects_object};
use crate::configured::scope::{Rule, Scope, Target};
use crate::context::RequestContext;
use crate::error::{ApiError, Result};

impl Scope {
    /// Whether the scope may match the request. Errors in the scope are found when the webhook or policy is asked.
    pub(crate) fn concerns(&self, ctx: &RequestContext, attributes: &Attributes) -> bool {
        self.equivalent(ctx, attributes).map_or(true, |equivalent| equivalent.is_some())
    }

    /// Matches the request by rules and selectors. Returns the resource as which the webhook or policy sees it.
    pub(crate) fn equivalent(
        &self,
        ctx: &RequestContext,
        attributes: &Attributes,
    ) -> Result<Option<EquivalentResource>> {
        let broken = |error: &SelectorError| ApiError::internal(error);
        let in_namespace = self.namespaces.as_ref().map_err(broken).and_then(|selector| {
            in_selected_namespace(selector, attributes)
                .map_err(|_| ApiError::namespace_not_found(&attributes.namespace))
        });
        let selected = self.objects.as_ref().map_err(broken);
        let selected = selected.map(|selector| selects_object(selector, attributes));
        if matches!(in_namespace, Ok(false)) || matches!(selected, Ok(false)) {
            return Ok(None);
        }
        if self.by_rules(ctx, &self.excluded, attributes).is_some() {
            return Ok(None);
        }
        // Errors in the selectors count only if the rules match.
        let equivalent = if self.open && self.rules.is_empty() {
            Some(own(attributes))
        } else {
            self.by_rules(ctx, &self.rules, attributes)
        };
        let Some(equivalent) = equivalent else { return Ok(None) };
        in_namespace?;
        selected?;
        Ok(Some(equivalent))
    }

    fn by_rules(
        &self,
        ctx: &RequestContext,
        rules: &[Rule],
        attributes: &Attributes,
    ) -> Option<EquivalentResource> {
        let target = Target {
            group: &attributes.group,
            version: &attributes.version,
            resource: &attributes.resource,
            subresource: &attributes.subresource,
            namespace: &attributes.namespace,
            operation: attributes.operation.as_str(),
        };
        let named = |rule: &&Rule| rule.names(&attributes.name);
        if rules.iter().filter(named).any(|rule| rule.matches(&target)) {
            return Some(own(attributes));
        }
        if self.exact || rules.is_empty() {
            return None;
        }
        let others = ctx.server.0.registry.all();
        let others: Vec<_> = others
            .into_iter()
            .filter(|other| other.prefix == ctx.resource.prefix)
            .filter(|other| (&other.group, &other.version) != (&attributes.group, &attributes.version))
            .filter(|other| target.subresource.is_empty() || other.subresource(target.subresource).is_some())
            .collect();
        rules.iter().filter(named).find_map(|rule| {
            let other = others.iter().find(|other| {
                rule.matches(&Target {
                    group: &other.group,
                    version: &other.version,
                    resource: &other.plural,
                    ..target
                })
            })?;
            let mut kind = attributes.kind.clone();
            if attributes.is_own_kind {
                kind.group.clone_from(&other.group);
                kind.version.clone_from(&other.version);
            }
            Some(EquivalentResource {
                group: other.group.clone(),
                version: other.version.clone(),
                resource: other.plural.clone(),
                kind,
            })
        })
    }
}

/// The request as it was asked.
fn own(attributes: &Attributes) -> EquivalentResource {
    EquivalentResource {
        group: attributes.group.clone(),
        version: attributes.version.clone(),
        resource: attributes.resource.clone(),
        kind: attributes.kind.clone(),
    }
}
