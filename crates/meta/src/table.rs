//! meta.k8s.io/v1 Table and PartialObjectMetadata: what kubectl prints, and metadata alone.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// meta.k8s.io/v1 Table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Table {
    /// Always `Table`.
    pub kind: String,
    /// Always `meta.k8s.io/v1`.
    pub api_version: String,
    /// ListMeta: resourceVersion, continue, remainingItemCount.
    pub metadata: Map<String, Value>,
    /// The columns.
    pub column_definitions: Vec<TableColumn>,
    /// One row per object.
    pub rows: Vec<TableRow>,
}

impl Table {
    /// An empty table with these columns.
    pub fn new(columns: Vec<TableColumn>) -> Self {
        Self {
            kind: "Table".into(),
            api_version: "meta.k8s.io/v1".into(),
            metadata: Map::new(),
            column_definitions: columns,
            rows: Vec::new(),
        }
    }
}

/// A column of a Table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TableColumn {
    /// The header, such as `Name`.
    pub name: String,
    /// An OpenAPI type: `string`, `integer`, `number`, `boolean`, `date`.
    #[serde(rename = "type")]
    pub type_: String,
    /// An OpenAPI format, `name` for the column of names.
    pub format: String,
    /// What the column says.
    pub description: String,
    /// 0 is printed always, higher only with `-o wide`.
    pub priority: i32,
}

impl TableColumn {
    /// A column that is printed always.
    pub fn new(name: &str, type_: &str, description: &str) -> Self {
        Self { name: name.into(), type_: type_.into(), description: description.into(), ..Self::default() }
    }

    /// The column of names.
    pub fn name_column() -> Self {
        Self { format: "name".into(), ..Self::new("Name", "string", NAME_DESCRIPTION) }
    }

    /// The column of ages.
    pub fn age_column() -> Self {
        Self::new("Age", "string", "The time since the object was created.")
    }

    /// The same, printed only with `-o wide`.
    #[must_use]
    pub fn wide(mut self) -> Self {
        self.priority = 1;
        self
    }
}

const NAME_DESCRIPTION: &str = "The object's name, unique among its kind in its namespace.";

/// A row of a Table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TableRow {
    /// One cell per column.
    pub cells: Vec<Value>,
    /// The object, its metadata, or null, as the client asked.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub object: Value,
}

/// meta.k8s.io/v1 PartialObjectMetadata of an object: its metadata alone.
pub fn partial_object_metadata(object: &Value) -> Value {
    let metadata = object.get("metadata").cloned().unwrap_or_else(|| json!({}));
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_the_fields_that_kubectl_reads() {
        let mut table = Table::new(vec![TableColumn::name_column(), TableColumn::age_column().wide()]);
        table.rows.push(TableRow { cells: vec![json!("a"), json!("5s")], object: Value::Null });
        let value = serde_json::to_value(&table).unwrap();
        assert_eq!(value["columnDefinitions"][0]["format"], "name");
        assert_eq!(value["columnDefinitions"][1]["priority"], 1);
        assert_eq!(value["rows"][0], json!({"cells": ["a", "5s"]}));
    }

    #[test]
    fn partial_metadata_keeps_only_the_metadata() {
        let partial = partial_object_metadata(&json!({"metadata": {"name": "a"}, "spec": {}}));
        assert_eq!(partial["metadata"]["name"], "a");
        assert!(partial.get("spec").is_none());
    }
}
