//! Macros that the parser leaves as calls: comprehensions with two variables, `sortBy` and `optMap`.

use kube_cel::cel::common::ast::{CallExpr, Expr, IdedExpr};

/// A call that is one of these macros.
pub(super) struct Macro<'e> {
    pub(super) kind: Kind,
    pub(super) range: &'e IdedExpr,
    pub(super) variables: Vec<&'e str>,
    pub(super) bodies: &'e [IdedExpr],
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    All,
    Exists,
    ExistsOne,
    TransformList,
    TransformMap,
    TransformMapEntry,
    SortBy,
    OptMap,
    OptFlatMap,
}

/// Reads a call as a macro, if it is one.
pub(super) fn read(call: &CallExpr) -> Option<Macro<'_>> {
    let kind = match call.func_name.as_str() {
        "all" => Kind::All,
        "exists" => Kind::Exists,
        "existsOne" | "exists_one" => Kind::ExistsOne,
        "transformList" => Kind::TransformList,
        "transformMap" => Kind::TransformMap,
        "transformMapEntry" => Kind::TransformMapEntry,
        "sortBy" => Kind::SortBy,
        "optMap" => Kind::OptMap,
        "optFlatMap" => Kind::OptFlatMap,
        _ => return None,
    };
    let count = if matches!(kind, Kind::OptMap | Kind::OptFlatMap | Kind::SortBy) { 1 } else { 2 };
    let (variables, bodies) = call.args.split_at_checked(count)?;
    let transforms = matches!(kind, Kind::TransformList | Kind::TransformMap | Kind::TransformMapEntry);
    let allowed = if transforms { 1..=2 } else { 1..=1 };
    if !allowed.contains(&bodies.len()) {
        return None;
    }
    let variables = variables.iter().map(|arg| match &arg.expr {
        Expr::Ident(name) => Some(name.as_str()),
        _ => None,
    });
    Some(Macro { kind, range: call.target.as_deref()?, variables: variables.collect::<Option<_>>()?, bodies })
}
