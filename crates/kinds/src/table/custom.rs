//! Custom resources: columns by JSONPath.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Column;
use super::age::{human_duration, parse};
use crate::access::{int, text};
use crate::jsonpath::JsonPath;
use setpoint_api::go_format;

/// Prints a custom resource.
#[derive(Clone, Debug)]
pub struct CustomPrinter {
    columns: Vec<(Column, Option<JsonPath>)>,
}

impl CustomPrinter {
    /// From `additionalPrinterColumns`; without any, the age is shown.
    pub fn new(columns: &Value) -> Self {
        let age = json!([{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp",
            "description": "When the object was created."}]);
        let columns = match columns.as_array() {
            Some(columns) if !columns.is_empty() => columns,
            _ => age.as_array().expect("it is written as a list"),
        };
        let columns = columns.iter().map(|column| {
            let path = text(column, "jsonPath");
            let description = match text(column, "description") {
                "" => format!("Custom resource definition column (in JSONPath format): {path}"),
                description => description.to_owned(),
            };
            let shown = Column {
                name: text(column, "name").to_owned(),
                type_: text(column, "type").to_owned(),
                format: text(column, "format").to_owned(),
                description,
                priority: int(column, "priority").unwrap_or_default(),
            };
            (shown, JsonPath::parse(path).ok())
        });
        CustomPrinter { columns: columns.collect() }
    }

    pub(super) fn columns(&self) -> Vec<Column> {
        let name = Column {
            name: "Name".to_owned(),
            type_: "string".to_owned(),
            format: "name".to_owned(),
            description: "The object's name, unique within its scope.".to_owned(),
            priority: 0,
        };
        std::iter::once(name).chain(self.columns.iter().map(|(column, _)| column.clone())).collect()
    }

    pub(super) fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let mut cells = vec![text(object, "metadata.name").into()];
        for (column, path) in &self.columns {
            let found = path.as_ref().and_then(|path| path.find(object).into_iter().next());
            cells.push(found.map_or(Value::Null, |value| cell(&column.type_, value, now)));
        }
        cells
    }
}

fn cell(type_: &str, value: &Value, now: Timestamp) -> Value {
    match (type_, value) {
        ("string", Value::Null) => "<no value>".into(),
        ("string", Value::String(text)) => text.clone().into(),
        ("string", value) => go_format::json(value).into(),
        ("integer", Value::Number(number)) => {
            number.as_i64().or_else(|| number.as_f64().map(|float| float as i64)).into()
        }
        ("number", Value::Number(number)) => number.as_f64().map_or(Value::Null, |float| {
            if float.fract() == 0.0 && float.abs() < 1e15 { json!(float as i64) } else { json!(float) }
        }),
        ("boolean", Value::Bool(truth)) => (*truth).into(),
        ("date", Value::String(_)) => match parse(value) {
            Some(then) => human_duration(now.as_nanosecond() - then.as_nanosecond()).into(),
            None => "<invalid>".into(),
        },
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_follow_the_type_of_their_column() {
        let printer = CustomPrinter::new(&json!([
            {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
            {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas"},
            {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
            {"name": "Since", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
            {"name": "Map", "type": "string", "jsonPath": ".spec.map"},
        ]));
        let now = "2026-01-01T00:10:00Z".parse().unwrap();
        let object = json!({"metadata": {"name": "x", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"replicas": 3, "map": {"a": 1}},
            "status": {"conditions": [{"type": "Other", "status": "False"}, {"type": "Ready", "status": "True"}]}});
        assert_eq!(
            printer.cells(&object, now),
            [json!("x"), Value::Null, json!(3), json!("True"), json!("10m"), json!("{\"a\":1}")]
        );
        assert_eq!(CustomPrinter::new(&Value::Null).columns().len(), 2);
    }
}
