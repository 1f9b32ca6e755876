//! Why a strategic merge patch does not apply.

use serde_json::Value;

use setpoint_api::go_format;

/// Why a strategic merge patch does not apply.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// The object or the patch is no JSON object.
    #[error("invalid JSON document")]
    BadDocument,
    /// `$deleteFromPrimitiveList` without a field.
    #[error("invalid patch format of primitive list")]
    BadPrimitiveList,
    /// `$retainKeys` is no list or misses a field of the patch.
    #[error("invalid patch format of retainKeys")]
    BadRetainKeys,
    /// `$setElementOrder` without a field.
    #[error("invalid patch format of setElementOrder list")]
    BadElementOrder,
    /// A list of lists.
    #[error("lists of lists are not supported")]
    ListOfLists,
    /// An item lacks the field that tells items apart.
    #[error("map: {} does not contain declared merge key: {key}", go_format::plain(map))]
    NoMergeKey {
        /// The item.
        map: Value,
        /// The merge key.
        key: String,
    },
    /// A value of another JSON type was needed.
    #[error("expected a {expected}, but received a {actual}")]
    WrongType {
        /// The Go type that was needed.
        expected: &'static str,
        /// The Go type that came.
        actual: &'static str,
    },
    /// `$patch` with an unknown word.
    #[error("unknown patch type: {directive} in map: {}", go_format::plain(map))]
    UnknownDirective {
        /// The word.
        directive: String,
        /// The object that holds it.
        map: Value,
    },
    /// `$patch: merge` inside a list.
    #[error("merging lists cannot yet be specified in the patch")]
    MergeDirectiveInList,
    /// A list of objects that nothing tells apart.
    #[error("cannot merge lists without merge key for {0}")]
    NoMergeKeyDeclared(&'static str),
    /// Items of several types.
    #[error("list element types are not identical: {0}")]
    MixedItems(String),
    /// An item of a keyed list is no object.
    #[error("value for key {0} is not a map")]
    ItemNotAMap(usize),
    /// The patch list and `$setElementOrder` disagree.
    #[error("The order in patch list:\n{list}\n doesn't match $setElementOrder list:\n{order}\n")]
    OrderMismatch {
        /// The patch list.
        list: String,
        /// The directive's list.
        order: String,
    },
    /// Ordering was asked for and there is nothing to order.
    #[error("no elements in any of the given slices")]
    NoElements,
    /// The type has no such field.
    #[error("unable to find api field in struct {owner} for the json field {}", go_format::quote(field))]
    UnknownField {
        /// The type's short name.
        owner: String,
        /// The field.
        field: String,
    },
    /// Fields were looked up in something that has none.
    #[error("merging an object in json but data type is not struct, instead is: {0}")]
    NotAStruct(&'static str),
    /// A list directive for a field that is no list.
    #[error("expected slice or array type, but got: struct")]
    NotAList,
}

/// Which answer an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// 400.
    BadRequest,
    /// 422.
    Unprocessable,
    /// 500: kube-apiserver does not classify the rest.
    Internal,
}

impl Error {
    /// Which answer this is.
    pub fn class(&self) -> ErrorClass {
        match self {
            Error::BadDocument | Error::BadPrimitiveList | Error::BadRetainKeys | Error::BadElementOrder => {
                ErrorClass::BadRequest
            }
            Error::ListOfLists => ErrorClass::Unprocessable,
            _ => ErrorClass::Internal,
        }
    }
}
