//! LimitRanges.

use serde_json::Value;

use super::check::Causes;
use super::pod;
use crate::access::{at, entries, is_empty, items, text};
use crate::limits::is_exact;
use setpoint_api::cause::{Cause, Path};
use setpoint_api::name;
use setpoint_api::quantity::Quantity;

pub(super) fn limit_range(causes: &mut Causes, object: &Value) {
    let mut types: Vec<&str> = Vec::new();
    for (index, limit) in items(object, "spec.limits").iter().enumerate() {
        let path = Path::new("spec.limits").index(index);
        let kind = text(limit, "type");
        let wrong = name::qualified_name(kind);
        causes.wrong(&path.child("type"), kind, &wrong);
        let standard = kind.contains('/') || matches!(kind, "Pod" | "Container" | "PersistentVolumeClaim");
        if wrong.is_empty() && !standard {
            let detail = "must be a standard limit type or fully qualified";
            causes.invalid(&path.child("type"), kind, detail);
        }
        if types.contains(&kind) {
            causes.push(Cause::duplicate(&path.child("type"), kind));
        }
        types.push(kind);
        names(causes, limit, &path);
        bounds(causes, limit, &path);
    }
}

/// Which resources may be limited, and how.
fn names(causes: &mut Causes, limit: &Value, path: &Path) {
    let kind = text(limit, "type");
    let named = |causes: &mut Causes, field: &str| {
        for (resource, _) in entries(limit, field) {
            let path = path.child(field).key(resource);
            if matches!(kind, "Pod" | "Container") {
                pod::container_resource(causes, resource, &path);
            } else {
                pod::resource_name(causes, resource, &path);
            }
        }
    };
    named(causes, "max");
    named(causes, "min");
    for field in ["default", "defaultRequest"] {
        if kind != "Pod" {
            named(causes, field);
        } else if !is_empty(limit, field) {
            causes.forbidden(&path.child(field), "may not be specified when `type` is 'Pod'");
        }
    }
    let bounded = |field: &str| at(limit, field).get("storage").is_some();
    if kind == "PersistentVolumeClaim" && !bounded("min") && !bounded("max") {
        let detail = "either minimum or maximum storage value is required, but neither was provided";
        causes.required(&path.child("limits"), detail);
    }
    named(causes, "maxLimitRequestRatio");
}

/// Least, most, default and ratio of each resource are in order.
fn bounds(causes: &mut Causes, limit: &Value, path: &Path) {
    // The defaults of pods are refused already.
    let fields: &[&str] = match text(limit, "type") {
        "Pod" => &["max", "min", "maxLimitRequestRatio"],
        _ => &["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"],
    };
    let mut resources: Vec<&String> =
        fields.iter().flat_map(|field| entries(limit, field).map(|(resource, _)| resource)).collect();
    resources.sort();
    resources.dedup();
    for resource in resources {
        let amount = |field: &str| {
            let known = at(limit, field).get(resource).filter(|_| fields.contains(&field));
            known.and_then(|one| Quantity::from_json(one).ok())
        };
        Bounds {
            least: amount("min"),
            most: amount("max"),
            default: amount("default"),
            request: amount("defaultRequest"),
            ratio: amount("maxLimitRequestRatio"),
        }
        .check(causes, resource, path);
    }
}

/// The bounds of one resource.
struct Bounds {
    least: Option<Quantity>,
    most: Option<Quantity>,
    default: Option<Quantity>,
    request: Option<Quantity>,
    ratio: Option<Quantity>,
}

impl Bounds {
    fn check(&self, causes: &mut Causes, resource: &str, path: &Path) {
        let mut wrong = |field: &str, shown: Quantity, detail: String| {
            causes.invalid(&path.child(field).key(resource), shown.to_string(), &detail);
        };
        let more = |a: Option<Quantity>, b: Option<Quantity>| a.zip(b).filter(|(a, b)| a > b);
        if let Some((a, b)) = more(self.least, self.most) {
            wrong("min", a, format!("min value {a} is greater than max value {b}"));
        }
        if let Some((a, b)) = more(self.least, self.request) {
            wrong("defaultRequest", b, format!("min value {a} is greater than default request value {b}"));
        }
        if let Some((a, b)) = more(self.request, self.most) {
            wrong("defaultRequest", a, format!("default request value {a} is greater than max value {b}"));
        }
        if let Some((a, b)) = more(self.request, self.default) {
            let detail = format!("default request value {a} is greater than default limit value {b}");
            wrong("defaultRequest", a, detail);
        }
        if let Some((a, b)) = more(self.least, self.default) {
            wrong("default", a, format!("min value {a} is greater than default value {b}"));
        }
        if let Some((a, b)) = more(self.default, self.most) {
            wrong("default", b, format!("default value {a} is greater than max value {b}"));
        }
        if let Some(ratio) = self.ratio.filter(|ratio| *ratio < Quantity::whole(1)) {
            wrong("maxLimitRequestRatio", ratio, format!("ratio {ratio} is less than 1"));
        }
        if let Some((ratio, possible)) = self.impossible_ratio() {
            let detail = format!("ratio {ratio} is greater than max/min = {possible:.6}");
            wrong("maxLimitRequestRatio", ratio, detail);
        }
        if let (Some(default), Some(request)) = (self.default, self.request)
            && default != request
            && !pod::may_overcommit(resource)
        {
            let detail =
                format!("default value {default} must equal to defaultRequest value {request} in {resource}");
            wrong("defaultRequest", request, detail);
        }
    }

    /// The ratio, if no amounts within the bounds are so far apart, and how far they can be.
    fn impossible_ratio(&self) -> Option<(Quantity, f64)> {
        let (ratio, least, most) = (self.ratio?, self.least?, self.most?);
        let exact = [ratio, least, most].into_iter().all(is_exact);
        let number = |amount: Quantity| if exact { amount.milli_value() } else { amount.value() } as f64;
        let wanted = if exact { ratio.milli_value() as f64 / 1000.0 } else { ratio.value() as f64 };
        let possible = number(most) / number(least);
        (wanted > possible).then_some((ratio, possible))
    }
}
