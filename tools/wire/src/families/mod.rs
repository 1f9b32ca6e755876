//! Scenarios that come in families, written as code where a table says more than pages of YAML.

pub mod apply;
pub mod apply_special;
pub mod corpus;
pub mod definitions;
pub mod found;
pub mod pieces;
pub mod strategic;
pub mod values;
pub mod rich;
pub mod views;
pub mod objects;

use anyhow::Result;

use crate::scenario::Scenario;

/// Every family, by the name of its transcript file.
///
/// # Errors
/// When the test data of Kubernetes cannot be read.
pub fn all() -> Result<Vec<(String, Vec<Scenario>)>> {
    Ok(vec![
        ("apply".to_owned(), apply::scenarios()),
        ("apply-special".to_owned(), apply_special::scenarios()),
        ("found".to_owned(), found::scenarios()),
        ("definitions".to_owned(), definitions::scenarios()),
        ("values".to_owned(), values::scenarios()),
        ("views".to_owned(), views::scenarios()),
        ("strategic".to_owned(), strategic::scenarios()),
        ("corpus".to_owned(), corpus::scenarios()?),
    ])
}
