//! Tables: the columns that `kubectl get` shows for a kind, and the cells of an object.

mod columns;
mod cluster;
mod custom;
mod pod;
mod workload;
mod cells;
mod age;

use jiff::Timestamp;
use serde_json::{Value, json};

pub use age::{age, human_duration};
pub use custom::CustomPrinter;

use crate::access::text;

/// One column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its title.
    pub name: String,
    /// `string`, `integer`, `boolean`, `number`, `date`.
    pub type_: String,
    /// `name` for the column that names the object.
    pub format: String,
    /// For people.
    pub description: String,
    /// Larger than zero: shown by `-o wide` only.
    pub priority: i64,
}

impl Column {
    /// As `columnDefinitions` of a Table has it.
    pub fn to_value(&self) -> Value {
        json!({"name": self.name, "type": self.type_, "format": self.format,
            "description": self.description, "priority": self.priority})
    }
}

/// The printer of a kind's objects.
#[derive(Clone, Debug)]
pub enum Printer {
    /// A kind with columns of its own.
    Builtin(&'static columns::Kind),
    /// A kind without: name and time of creation.
    Plain,
    /// A custom resource.
    Custom(CustomPrinter),
}

impl Printer {
    /// The printer of a built-in kind.
    pub fn builtin(group: &str, kind: &str) -> Printer {
        let group = if kind == "Event" { "" } else { group };
        columns::find(group, kind).map_or(Printer::Plain, Printer::Builtin)
    }

    /// The printer of a custom resource: `columns` is `additionalPrinterColumns` of its version.
    pub fn custom(columns: &Value) -> Printer {
        Printer::Custom(CustomPrinter::new(columns))
    }

    /// The columns, all priorities.
    pub fn columns(&self) -> Vec<Column> {
        match self {
            Printer::Builtin(kind) => kind.columns.iter().map(columns::Spec::column).collect(),
            Printer::Plain => columns::PLAIN.iter().map(columns::Spec::column).collect(),
            Printer::Custom(custom) => custom.columns(),
        }
    }

    /// The cells of one object, as many as there are columns.
    pub fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        match self {
            Printer::Builtin(kind) => (kind.cells)(object, now),
            Printer::Plain => {
                vec![text(object, "metadata.name").into(), text(object, "metadata.creationTimestamp").into()]
            }
            Printer::Custom(custom) => custom.cells(object, now),
        }
    }

    /// The rows of a list: as each object's own, but that the storage class which claims get by default is
    /// marked, the newest if several say so.
    pub fn rows(&self, objects: &[Value], now: Timestamp) -> Vec<Vec<Value>> {
        let mut rows: Vec<Vec<Value>> = objects.iter().map(|object| self.cells(object, now)).collect();
        if let Printer::Builtin(kind) = self
            && kind.kind == "StorageClass"
            && let Some(at) = cluster::default_class(objects)
        {
            let name = text(&objects[at], "metadata.name");
            rows[at][0] = format!("{name} (default)").into();
        }
        rows
    }

    /// The conditions of a row: a finished pod is marked as completed.
    pub fn conditions(&self, object: &Value) -> Option<Value> {
        let Printer::Builtin(kind) = self else { return None };
        if kind.kind != "Pod" {
            return None;
        }
        let phase = text(object, "status.phase");
        let message = match phase {
            "Succeeded" => "The pod has completed successfully.",
            "Failed" => "The pod failed.",
            _ => return None,
        };
        Some(json!([{"type": "Completed", "status": "True", "reason": phase, "message": message}]))
    }
}
