//! The estimated costs of functions: those of Kubernetes' own estimator, of cel-go's list and set libraries, and of
//! cel-go itself.

use kube_cel::cel::Value;
use kube_cel::cel::common::ast::operators;

use super::declaration::{Declaration, declared};
use super::functions::Cost;
use super::size::{Place, Size, scaled};
use super::tree::{Kind, Node};
use super::ty::Ty;

/// The cost of a letter that is read.
pub(super) const TEXT: f64 = 0.1;
/// The cost of a letter of a regular expression.
pub(super) const PATTERN: f64 = 0.25;
/// The longest pattern that Kubernetes reckons with in a named format.
const FORMAT_PATTERN: f64 = 128.0;
/// The longest name of a format.
const FORMAT_NAME: u64 = 64;
/// The base costs of a list and of a structure.
pub(super) const LIST: u64 = 10;
const REQUIREMENT: f64 = 50.0;
/// A check by the authorizer.
pub(super) const CHECK: u64 = 350_000;

/// An argument or a target of a call.
pub(super) struct Argument<'n> {
    pub(super) node: &'n Node,
    pub(super) size: Option<Size>,
    pub(super) place: Place,
}

impl Argument<'_> {
    pub(super) fn size_or_unknown(&self) -> Size {
        self.size.unwrap_or(Size::UNKNOWN)
    }

    fn size(&self, root: &Declaration) -> Size {
        self.size.or_else(|| declared(root, &self.place)).unwrap_or(Size::UNKNOWN)
    }

    /// The whole number that it is, if it is written as one.
    fn number(&self, otherwise: u64) -> u64 {
        match &self.node.kind {
            Kind::Literal(Value::Int(number)) => u64::try_from(*number).unwrap_or(0),
            _ => otherwise,
        }
    }
}

type Estimate = (u64, Option<Size>);

/// The cost that Kubernetes, or a library, gives a call. The size is that of its result.
pub(super) fn of(
    root: &Declaration,
    name: &str,
    overload: Cost,
    target: Option<&Argument<'_>>,
    args: &[Argument<'_>],
) -> Option<Estimate> {
    if let Some(estimate) = library(root, overload, target, args) {
        return Some(estimate);
    }
    if is_accessor(name) {
        return Some((1, None));
    }
    match (name, target, args) {
        ("check", ..) => Some((CHECK, None)),
        ("fieldSelector" | "labelSelector", _, [text]) => {
            let size = text.size(root).most;
            let cost = LIST.saturating_add(scaled(size, TEXT));
            Some((cost.saturating_add(scaled(scaled(size, 0.5), REQUIREMENT)), None))
        }
        ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf", Some(list), _) => {
            Some((over_items(root, list), None))
        }
        ("url" | "jsonpatch.escapeKey", _, [text]) => {
            let size = text.size(root);
            Some((size.cost(TEXT), Some(size)))
        }
        ("lowerAscii" | "upperAscii" | "substring" | "trim", Some(text), _) => {
            let size = text.size(root);
            Some((size.cost(TEXT), Some(size)))
        }
        ("replace", Some(text), [from, to, ..]) => {
            let size = text.size(root);
            Some((size.cost(2.0 * TEXT), Some(replaced(size, from.size(root), to.size(root)))))
        }
        ("split", Some(text), args) => {
            let size = text.size(root);
            let most = match args.get(1).map(|most| &most.node.kind) {
                Some(Kind::Literal(Value::Int(most))) => most.cast_unsigned(),
                _ => size.most,
            };
            Some((size.cost(2.0 * TEXT), Some(Size::at_most(most))))
        }
        ("join", Some(list), args) => {
            let size = joined(root, list, args.first());
            Some((size.cost(TEXT), Some(size)))
        }
        ("find" | "findAll", Some(text), [pattern, ..]) => {
            let size = text.size(root);
            let walk = size.add(Size::exactly(1)).cost(TEXT);
            let cost = walk.saturating_mul(pattern.size(root).cost(PATTERN));
            Some((cost, Some(Size::at_most(size.most))))
        }
        ("ip", ..) if overload == Cost::Field => Some((1, None)),
        ("ip.isCanonical", _, [text, ..]) => Some((text.size(root).cost(2.0 * TEXT), None)),
        (
            "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver",
            _,
            [text, ..],
        ) => Some((text.size(root).cost(TEXT), None)),
        ("containsIP", _, [other, ..]) => Some((4_u64.saturating_add(parsed(root, overload, other)), None)),
        ("containsCIDR", _, [other, ..]) => Some((7_u64.saturating_add(parsed(root, overload, other)), None)),
        ("validate", _, [text, ..]) => {
            Some((scaled(text.size(root).cost(TEXT), FORMAT_PATTERN * PATTERN), None))
        }
        (operators::EQUALS, _, [left, right]) if left.node.ty == right.node.ty => {
            equality(&left.node.ty, right).map(|cost| (cost, None))
        }
        _ => None,
    }
}

/// The functions that only read a part of a value, or have a small bound.
pub(super) fn is_accessor(name: &str) -> bool {
    matches!(
        name,
        "serviceAccount"
            | "path"
            | "group"
            | "resource"
            | "subresource"
            | "namespace"
            | "name"
            | "allowed"
            | "reason"
            | "error"
            | "errored"
            | "masked"
            | "prefixLength"
            | "family"
            | "isUnspecified"
            | "isLoopback"
            | "isLinkLocalMulticast"
            | "isLinkLocalUnicast"
            | "isGlobalUnicast"
            | "format.named"
            | "sign"
            | "asInteger"
            | "isInteger"
            | "asApproximateFloat"
            | "isGreaterThan"
            | "isLessThan"
            | "compareTo"
            | "add"
            | "sub"
            | "major"
            | "minor"
            | "patch"
            | "getScheme"
            | "getHostname"
            | "getHost"
            | "getPort"
            | "getEscapedPath"
            | "getQuery"
    )
}

/// The cost of comparing two values of a type of Kubernetes.
fn equality(ty: &Ty, right: &Argument<'_>) -> Option<u64> {
    let Ty::Opaque(name) = ty else { return None };
    Some(match *name {
        "kubernetes.NamedFormat" => scaled(FORMAT_NAME, TEXT),
        "kubernetes.URL" => scaled(right.size.map_or(1, |size| size.most), TEXT),
        _ => 1,
    })
}

/// The cost of parsing an argument that is text.
fn parsed(root: &Declaration, overload: Cost, text: &Argument<'_>) -> u64 {
    if overload == Cost::Parses { text.size(root).cost(TEXT) } else { 0 }
}

/// The type and the size of the items of a list.
fn items<'t>(root: &Declaration, list: &'t Argument<'_>) -> Option<(&'t Ty, Size)> {
    let item = match &list.node.ty {
        Ty::List(item) | Ty::Optional(item) => item,
        // The first parameter of a map is its key.
        Ty::Map(key, _) => key,
        _ => return None,
    };
    let place = if list.place.is_empty() { Place::default() } else { list.place.copied("@items") };
    Some((item, declared(root, &place).unwrap_or(Size::UNKNOWN)))
}

fn over_items(root: &Declaration, list: &Argument<'_>) -> u64 {
    let size = list.size(root);
    match items(root, list) {
        Some((Ty::String | Ty::Bytes, item)) => {
            size.most.saturating_mul(1_u64.saturating_add(item.cost(TEXT)))
        }
        Some(_) => size.most,
        None => size.cost(TEXT),
    }
}

fn joined(root: &Declaration, list: &Argument<'_>, separator: Option<&Argument<'_>>) -> Size {
    let count = list.size(root);
    let size = items(root, list).map_or(Size::exactly(0), |(_, item)| count.times(item));
    let Some(separator) = separator else { return size };
    let gaps = Size { least: count.least.saturating_sub(1), most: count.most.saturating_sub(1) };
    size.add(separator.size(root).times(gaps))
}

/// The size of a text of this size in which each `from` became `to`.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "Kubernetes computes with the same floats"
)]
fn replaced(text: Size, from: Size, to: Size) -> Size {
    let times = |size: u64, part: u64| (size as f64 / part as f64).ceil() as u64;
    let (most_times, most_kept) = match from.least {
        0 => (text.most.saturating_add(1), text.most),
        least if to.most <= least => (0, text.most),
        least => (times(text.most, least), 0),
    };
    let (least_times, least_kept) = match from.most {
        0 => (text.least.saturating_add(1), text.least),
        most if most <= to.least => (0, text.least),
        most => (times(text.least, most), 0),
    };
    Size { least: least_times, most: most_times }.times(to).add(Size { least: least_kept, most: most_kept })
}

/// The cost of a function of the list and set libraries.
fn library(
    root: &Declaration,
    overload: Cost,
    target: Option<&Argument<'_>>,
    args: &[Argument<'_>],
) -> Option<Estimate> {
    let allocating = |factor: f64, size: Size| (size.cost(factor).saturating_add(1 + LIST), Some(size));
    let squared = |size: Size| size.times(size);
    Some(match (overload, target, args) {
        (Cost::Sets(factor), _, [left, right]) => {
            let size = left.size(root).times(right.size(root));
            (size.cost(f64::from(factor)).saturating_add(1), None)
        }
        (Cost::Slice, Some(list), [start, end]) => {
            let most = list.size(root).most;
            allocating(1.0, Size::exactly(end.number(most).wrapping_sub(start.number(0))))
        }
        (Cost::Range, None, [count]) => allocating(1.0, Size::exactly(count.number(u64::MAX))),
        (Cost::Reverse, Some(list), []) => allocating(1.0, list.size(root)),
        #[allow(clippy::cast_precision_loss, reason = "cel-go computes with the same float")]
        (Cost::Flatten, Some(list), args) => {
            let depth = args.first().map_or(1, |depth| depth.number(u64::MAX));
            allocating(depth as f64, list.size(root))
        }
        (Cost::Distinct, Some(list), []) => allocating(2.0, squared(list.size(root))),
        (Cost::Sort, Some(list), []) => allocating(2.0, squared(list.size(root))),
        (Cost::SortText, Some(list), []) => allocating(2.0 + TEXT, squared(list.size(root))),
        (Cost::Sort, Some(_), [keys]) => allocating(2.0, squared(keys.size(root))),
        (Cost::SortText, Some(_), [keys]) => allocating(2.0 + TEXT, squared(keys.size(root))),
        _ => return None,
    })
}

/// The cost of a standard function beside its arguments, and the size of its result.
pub(super) fn standard(overload: Cost, target: Option<&Argument<'_>>, args: &[Argument<'_>]) -> Estimate {
    let size = |argument: &Argument<'_>| argument.size_or_unknown();
    match (overload, target, args) {
        (Cost::Format, Some(text), _) => (size(text).cost(TEXT), None),
        (Cost::StringToBytes, _, [text]) => {
            let size = size(text);
            (size.cost(TEXT), Some(Size { least: size.least, most: size.most.wrapping_mul(4) }))
        }
        (Cost::BytesToString, _, [bytes]) => {
            let size = size(bytes);
            (size.cost(TEXT), Some(Size { least: size.least / 4, most: size.most }))
        }
        (Cost::Quote, _, [text]) => {
            let size = size(text);
            let most = size.most.wrapping_mul(2).wrapping_add(2);
            (size.cost(TEXT), Some(Size { least: size.least.wrapping_add(2), most }))
        }
        (Cost::Prefix, _, [part]) => (size(part).cost(TEXT), None),
        (Cost::InList, _, [_, list]) => (size(list).most, None),
        (Cost::Matches, Some(text), [pattern]) | (Cost::Matches, None, [text, pattern]) => {
            let walk = size(text).add(Size::exactly(1)).cost(TEXT);
            (walk.saturating_mul(size(pattern).cost(PATTERN)), None)
        }
        (Cost::Contains, Some(text), [part]) => {
            (size(text).cost(TEXT).saturating_mul(size(part).cost(TEXT)), None)
        }
        (Cost::CompareText | Cost::Equals, _, [left, right]) => {
            (scaled(size(left).most.min(size(right).most), TEXT), None)
        }
        _ => (1, None),
    }
}
