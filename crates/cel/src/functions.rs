//! The functions that rules may call, with their signatures: those of Kubernetes 1.37 that the evaluator has.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use kube_cel::cel::common::ast::operators;

use super::ty::Ty;

/// One signature.
#[derive(Debug)]
pub(super) struct Overload {
    /// Whether it is called on a value: `value.name(…)`.
    pub(super) method: bool,
    /// The types of the arguments, the receiver first.
    pub(super) args: Vec<Ty>,
    /// The type of the result.
    pub(super) result: Ty,
    /// The overload, as far as costs tell it from the others of its name.
    pub(super) cost: Cost,
}

/// The overloads with a cost of their own. The cost of any other depends on nothing but the name of its function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cost {
    IndexList,
    IndexMap,
    InList,
    Equals,
    AddText,
    AddList,
    CompareText,
    StringToBytes,
    BytesToString,
    Quote,
    Prefix,
    Matches,
    Contains,
    Format,
    Logical,
    Conditional,
    /// The address of a CIDR: `ip` is also the name of a parser.
    Field,
    /// An argument that is text is parsed first.
    Parses,
    Sets(u8),
    Slice,
    Flatten,
    Range,
    Reverse,
    Distinct,
    Sort,
    SortText,
    Other,
}

impl Cost {
    /// Whether the function compares each item with each other, so that its cost has to be known before it runs.
    pub(super) fn is_of_pairs(self) -> bool {
        matches!(self, Cost::Sets(_) | Cost::Distinct)
    }
}

/// The overload of a function for arguments of these types.
fn cost(name: &str, args: &[Ty]) -> Cost {
    match (name, args) {
        (operators::INDEX, [Ty::List(_), _]) => Cost::IndexList,
        (operators::INDEX, [Ty::Map(..), _]) => Cost::IndexMap,
        (operators::IN, [_, Ty::List(_)]) => Cost::InList,
        (operators::EQUALS | operators::NOT_EQUALS, _) => Cost::Equals,
        (operators::ADD, [Ty::String | Ty::Bytes, _]) => Cost::AddText,
        (operators::ADD, [Ty::List(_), _]) => Cost::AddList,
        (
            operators::LESS | operators::LESS_EQUALS | operators::GREATER | operators::GREATER_EQUALS,
            [Ty::String | Ty::Bytes, _],
        ) => Cost::CompareText,
        ("bytes", [Ty::String]) => Cost::StringToBytes,
        ("string", [Ty::Bytes]) => Cost::BytesToString,
        ("strings.quote", _) => Cost::Quote,
        ("startsWith" | "endsWith", _) => Cost::Prefix,
        ("matches", _) => Cost::Matches,
        ("contains", _) => Cost::Contains,
        ("format", _) => Cost::Format,
        (operators::LOGICAL_AND | operators::LOGICAL_OR, _) => Cost::Logical,
        (operators::CONDITIONAL, _) => Cost::Conditional,
        ("ip", [Ty::Opaque(_)]) => Cost::Field,
        ("containsIP" | "containsCIDR", [_, Ty::String]) => Cost::Parses,
        ("sets.contains" | "sets.intersects", _) => Cost::Sets(1),
        ("sets.equivalent", _) => Cost::Sets(2),
        ("slice", _) => Cost::Slice,
        ("flatten", _) => Cost::Flatten,
        ("lists.range", _) => Cost::Range,
        ("reverse", [Ty::List(_)]) => Cost::Reverse,
        ("distinct", _) => Cost::Distinct,
        ("sort", [Ty::List(item)]) | ("@sortByAssociatedKeys", [_, Ty::List(item)]) => match **item {
            Ty::String | Ty::Bytes => Cost::SortText,
            _ => Cost::Sort,
        },
        _ => Cost::Other,
    }
}

fn overload(name: &str, method: bool, args: Vec<Ty>, result: Ty) -> Overload {
    let cost = cost(name, &args);
    Overload { method, args, result, cost }
}

/// Written as `name(args) result`, or `.name(receiver, args) result` for methods. Capital letters stand for any type.
const SIGNATURES: &str = "
!_(bool) bool
-_(int) int; -_(double) double
_&&_(bool, bool) bool; _||_(bool, bool) bool; _?_:_(bool, A, A) A
_==_(A, A) bool; _!=_(A, A) bool
_+_(int, int) int; _+_(uint, uint) uint; _+_(double, double) double; _+_(string, string) string
_+_(bytes, bytes) bytes; _+_(list<A>, list<A>) list<A>; _+_(timestamp, duration) timestamp
_+_(duration, timestamp) timestamp; _+_(duration, duration) duration
_-_(int, int) int; _-_(uint, uint) uint; _-_(double, double) double; _-_(timestamp, timestamp) duration
_-_(timestamp, duration) timestamp; _-_(duration, duration) duration
_*_(int, int) int; _*_(uint, uint) uint; _*_(double, double) double
_/_(int, int) int; _/_(uint, uint) uint; _/_(double, double) double
_%_(int, int) int; _%_(uint, uint) uint
_[_](list<A>, int) A; _[_](map<A, B>, A) B
_[_](optional<list<A>>, int) optional<A>; _[_](optional<map<A, B>>, A) optional<B>
_[?_](list<A>, int) optional<A>; _[?_](map<A, B>, A) optional<B>
_[?_](optional<list<A>>, int) optional<A>; _[?_](optional<map<A, B>>, A) optional<B>
@in(A, list<A>) bool; @in(A, map<A, B>) bool
size(string) int; size(bytes) int; size(list<A>) int; size(map<A, B>) int
.size(string) int; .size(bytes) int; .size(list<A>) int; .size(map<A, B>) int
.contains(string, string) bool; .startsWith(string, string) bool; .endsWith(string, string) bool
.matches(string, string) bool; matches(string, string) bool
string(int) string; string(uint) string; string(double) string; string(string) string; string(bool) string
string(bytes) string; string(timestamp) string; string(duration) string; string(net.IP) string; string(net.CIDR) string
bytes(string) bytes; bytes(bytes) bytes; dyn(A) dyn; type(A) type
int(int) int; int(uint) int; int(double) int; int(string) int; int(timestamp) int; int(duration) int
uint(uint) uint; uint(int) uint; uint(double) uint; uint(string) uint
double(double) double; double(int) double; double(uint) double; double(string) double
bool(bool) bool; bool(string) bool
duration(string) duration; duration(duration) duration; timestamp(string) timestamp; timestamp(timestamp) timestamp
timestamp(int) timestamp
.getFullYear(timestamp) int; .getMonth(timestamp) int; .getDayOfYear(timestamp) int; .getDayOfMonth(timestamp) int
.getDate(timestamp) int; .getDayOfWeek(timestamp) int; .getHours(timestamp) int; .getMinutes(timestamp) int
.getSeconds(timestamp) int; .getMilliseconds(timestamp) int; .getHours(duration) int; .getMinutes(duration) int
.getSeconds(duration) int; .getMilliseconds(duration) int
.getFullYear(timestamp, string) int; .getMonth(timestamp, string) int; .getDayOfYear(timestamp, string) int
.getDayOfMonth(timestamp, string) int; .getDate(timestamp, string) int; .getDayOfWeek(timestamp, string) int
.getHours(timestamp, string) int; .getMinutes(timestamp, string) int; .getSeconds(timestamp, string) int
.getMilliseconds(timestamp, string) int
optional.of(A) optional<A>; optional.none() optional<A>; optional.ofNonZeroValue(A) optional<A>
.hasValue(optional<A>) bool; .value(optional<A>) A; .orValue(optional<A>, A) A; .or(optional<A>, optional<A>) optional<A>
.charAt(string, int) string; .indexOf(string, string) int; .indexOf(string, string, int) int
.lastIndexOf(string, string) int; .lastIndexOf(string, string, int) int; .lowerAscii(string) string
.upperAscii(string) string; .replace(string, string, string) string; .replace(string, string, string, int) string
.split(string, string) list<string>; .split(string, string, int) list<string>; .substring(string, int) string
.substring(string, int, int) string; .trim(string) string; .join(list<string>) string
.join(list<string>, string) string; .format(string, list<dyn>) string; strings.quote(string) string
.find(string, string) string; .findAll(string, string) list<string>; .findAll(string, string, int) list<string>
.sum(list<int>) int; .sum(list<uint>) uint; .sum(list<double>) double
.sum(list<duration>) duration; .indexOf(list<A>, A) int; .lastIndexOf(list<A>, A) int
.slice(list<A>, int, int) list<A>; .flatten(list<list<A>>) list<A>; .flatten(list<dyn>, int) list<dyn>
.distinct(list<A>) list<A>; .reverse(list<A>) list<A>; lists.range(int) list<int>
.first(list<A>) optional<A>; .last(list<A>) optional<A>
optional.unwrap(list<optional<A>>) list<A>; .unwrapOpt(list<optional<A>>) list<A>
sets.contains(list<A>, list<A>) bool; sets.equivalent(list<A>, list<A>) bool; sets.intersects(list<A>, list<A>) bool
url(string) kubernetes.URL; isURL(string) bool; .getScheme(kubernetes.URL) string; .getHost(kubernetes.URL) string
.getHostname(kubernetes.URL) string; .getPort(kubernetes.URL) string; .getEscapedPath(kubernetes.URL) string
.getQuery(kubernetes.URL) map<string, list<string>>
quantity(string) kubernetes.Quantity; isQuantity(string) bool; .isInteger(kubernetes.Quantity) bool
.asInteger(kubernetes.Quantity) int; .asApproximateFloat(kubernetes.Quantity) double; sign(kubernetes.Quantity) int
.add(kubernetes.Quantity, kubernetes.Quantity) kubernetes.Quantity; .add(kubernetes.Quantity, int) kubernetes.Quantity
.sub(kubernetes.Quantity, kubernetes.Quantity) kubernetes.Quantity; .sub(kubernetes.Quantity, int) kubernetes.Quantity
.isGreaterThan(kubernetes.Quantity, kubernetes.Quantity) bool; .isLessThan(kubernetes.Quantity, kubernetes.Quantity) bool
.compareTo(kubernetes.Quantity, kubernetes.Quantity) int
ip(string) net.IP; isIP(string) bool; ip.isCanonical(string) bool; .family(net.IP) int; .isLoopback(net.IP) bool
.isUnspecified(net.IP) bool; .isLinkLocalMulticast(net.IP) bool; .isLinkLocalUnicast(net.IP) bool
.isGlobalUnicast(net.IP) bool
cidr(string) net.CIDR; isCIDR(string) bool; .containsIP(net.CIDR, net.IP) bool; .containsIP(net.CIDR, string) bool
.containsCIDR(net.CIDR, net.CIDR) bool; .containsCIDR(net.CIDR, string) bool; .ip(net.CIDR) net.IP
.masked(net.CIDR) net.CIDR; .prefixLength(net.CIDR) int
semver(string) kubernetes.Semver; semver(string, bool) kubernetes.Semver; isSemver(string) bool
isSemver(string, bool) bool; .major(kubernetes.Semver) int; .minor(kubernetes.Semver) int; .patch(kubernetes.Semver) int
.isGreaterThan(kubernetes.Semver, kubernetes.Semver) bool; .isLessThan(kubernetes.Semver, kubernetes.Semver) bool
.compareTo(kubernetes.Semver, kubernetes.Semver) int
.path(kubernetes.authorization.Authorizer, string) kubernetes.authorization.PathCheck
.group(kubernetes.authorization.Authorizer, string) kubernetes.authorization.GroupCheck
.serviceAccount(kubernetes.authorization.Authorizer, string, string) kubernetes.authorization.Authorizer
.resource(kubernetes.authorization.GroupCheck, string) kubernetes.authorization.ResourceCheck
.subresource(kubernetes.authorization.ResourceCheck, string) kubernetes.authorization.ResourceCheck
.namespace(kubernetes.authorization.ResourceCheck, string) kubernetes.authorization.ResourceCheck
.name(kubernetes.authorization.ResourceCheck, string) kubernetes.authorization.ResourceCheck
.fieldSelector(kubernetes.authorization.ResourceCheck, string) kubernetes.authorization.ResourceCheck
.labelSelector(kubernetes.authorization.ResourceCheck, string) kubernetes.authorization.ResourceCheck
.check(kubernetes.authorization.PathCheck, string) kubernetes.authorization.Decision
.check(kubernetes.authorization.ResourceCheck, string) kubernetes.authorization.Decision
.allowed(kubernetes.authorization.Decision) bool; .reason(kubernetes.authorization.Decision) string
.errored(kubernetes.authorization.Decision) bool; .error(kubernetes.authorization.Decision) string
format.named(string) optional<kubernetes.NamedFormat>; format.dns1123Label() kubernetes.NamedFormat
format.dns1123Subdomain() kubernetes.NamedFormat; format.dns1035Label() kubernetes.NamedFormat
format.qualifiedName() kubernetes.NamedFormat; format.dns1123LabelPrefix() kubernetes.NamedFormat
format.dns1123SubdomainPrefix() kubernetes.NamedFormat; format.dns1035LabelPrefix() kubernetes.NamedFormat
format.labelValue() kubernetes.NamedFormat; format.uri() kubernetes.NamedFormat; format.uuid() kubernetes.NamedFormat
format.byte() kubernetes.NamedFormat; format.date() kubernetes.NamedFormat; format.datetime() kubernetes.NamedFormat
.validate(kubernetes.NamedFormat, string) optional<list<string>>
";

/// Every function's signatures, by name.
pub(super) static FUNCTIONS: LazyLock<BTreeMap<String, Vec<Overload>>> = LazyLock::new(|| {
    let mut functions: BTreeMap<String, Vec<Overload>> = BTreeMap::new();
    for signature in SIGNATURES.split(['\n', ';']).map(str::trim).filter(|text| !text.is_empty()) {
        let (name, overload) = parse(signature);
        functions.entry(name).or_default().push(overload);
    }
    for name in ["_<_", "_<=_", "_>_", "_>=_"] {
        functions.insert(name.into(), comparisons(name));
    }
    for item in COMPARABLE {
        let list = Ty::list(item.clone());
        let mut add = |name: &str, args: Vec<Ty>, result: Ty| {
            functions.entry(name.into()).or_default().push(overload(name, true, args, result));
        };
        add("isSorted", vec![list.clone()], Ty::Bool);
        add("min", vec![list.clone()], item.clone());
        add("max", vec![list.clone()], item);
        add("sort", vec![list.clone()], list.clone());
        let any = Ty::list(Ty::Param('A'));
        add("@sortByAssociatedKeys", vec![any.clone(), list], any);
    }
    functions
});

/// The types that have an order.
const COMPARABLE: [Ty; 8] =
    [Ty::Int, Ty::Uint, Ty::Double, Ty::Bool, Ty::Duration, Ty::Timestamp, Ty::String, Ty::Bytes];

/// Numbers compare across their types; the other types with themselves.
fn comparisons(name: &str) -> Vec<Overload> {
    let numbers = [Ty::Int, Ty::Uint, Ty::Double];
    let mut pairs: Vec<(Ty, Ty)> = numbers
        .iter()
        .flat_map(|left| numbers.iter().map(move |right| (left.clone(), right.clone())))
        .collect();
    for same in [Ty::Bool, Ty::String, Ty::Bytes, Ty::Timestamp, Ty::Duration] {
        pairs.push((same.clone(), same));
    }
    pairs.into_iter().map(|(left, right)| overload(name, false, vec![left, right], Ty::Bool)).collect()
}

fn parse(signature: &'static str) -> (String, Overload) {
    let open = signature.find('(').expect("a signature has parentheses");
    let close = signature.rfind(')').expect("a signature has parentheses");
    let name = &signature[..open];
    let args = split_arguments(&signature[open + 1..close]).into_iter().map(parse_type).collect();
    let (method, name) = (name.starts_with('.'), name.trim_start_matches('.'));
    (name.to_owned(), overload(name, method, args, parse_type(signature[close + 1..].trim())))
}

/// Splits at the commas that stand outside of angle brackets.
fn split_arguments(text: &'static str) -> Vec<&'static str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '<' => depth += 1,
            '>' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

fn parse_type(text: &'static str) -> Ty {
    if let Some((name, inner)) = text.strip_suffix('>').and_then(|text| text.split_once('<')) {
        let mut inner = split_arguments(inner).into_iter().map(parse_type);
        let mut next = || inner.next().expect("a container names its types");
        return match name {
            "list" => Ty::list(next()),
            "optional" => Ty::Optional(Arc::new(next())),
            _ => Ty::Map(Arc::new(next()), Arc::new(next())),
        };
    }
    match text {
        "dyn" => Ty::Dyn,
        "bool" => Ty::Bool,
        "int" => Ty::Int,
        "uint" => Ty::Uint,
        "double" => Ty::Double,
        "string" => Ty::String,
        "bytes" => Ty::Bytes,
        "timestamp" => Ty::Timestamp,
        "duration" => Ty::Duration,
        "type" => Ty::Type,
        single if single.len() == 1 => Ty::Param(single.chars().next().expect("one letter")),
        opaque => Ty::Opaque(opaque),
    }
}

/// How an operator is written.
pub(super) fn infix(name: &str) -> Option<&'static str> {
    Some(match name {
        operators::LOGICAL_AND => "&&",
        operators::LOGICAL_OR => "||",
        operators::EQUALS => "==",
        operators::NOT_EQUALS => "!=",
        operators::LESS => "<",
        operators::LESS_EQUALS => "<=",
        operators::GREATER => ">",
        operators::GREATER_EQUALS => ">=",
        operators::ADD => "+",
        operators::SUBSTRACT => "-",
        operators::MULTIPLY => "*",
        operators::DIVIDE => "/",
        operators::MODULO => "%",
        operators::IN => "in",
        _ => return None,
    })
}
