//! Rows of the Table that `kubectl get` prints.

use convoy_meta::{Object, Table, TableColumn, time};
use jiff::Timestamp;
use serde_json::Value;

use crate::ResourceDef;
use crate::json_path::JsonPath;

/// A column of the Table, in the terms of `additionalPrinterColumns` of a CustomResourceDefinition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrinterColumn {
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub type_: String,
    pub format: String,
    pub description: String,
    /// 0 prints always, higher only with `-o wide`.
    pub priority: i32,
    /// Simple JSONPath, such as `.status.conditions[?(@.type=="Ready")].status`.
    pub json_path: String,
}

impl PrinterColumn {
    fn cell(&self, object: &Value, now: Timestamp) -> Value {
        let Some(path) = JsonPath::parse(&self.json_path) else { return Value::Null };
        let Some(value) = path.find(object) else { return Value::Null };
        match self.type_.as_str() {
            "string" => match value {
                Value::String(_) => value.clone(),
                Value::Null => Value::from("<nil>"),
                other => Value::from(other.to_string()),
            },
            "integer" => match value.as_i64() {
                Some(number) => Value::from(number),
                None => {
                    value.as_f64().filter(|n| n.is_finite()).map_or(Value::Null, |n| Value::from(n as i64))
                }
            },
            "number" if value.is_number() => value.clone(),
            "boolean" if value.is_boolean() => value.clone(),
            "date" => match value.as_str().map(time::parse) {
                Some(Ok(at)) => Value::from(time::age(at, now)),
                Some(Err(_)) => Value::from("<invalid>"),
                None => Value::Null,
            },
            _ => Value::Null,
        }
    }
}

impl ResourceDef {
    /// The columns of the Table.
    pub fn table_columns(&self) -> Vec<TableColumn> {
        if let Some(columns) = self.strategy.table_columns() {
            return columns;
        }
        let mut columns = vec![TableColumn::name_column()];
        if self.columns.is_empty() {
            columns.push(TableColumn::age_column());
        }
        columns.extend(self.columns.iter().map(|column| TableColumn {
            name: column.name.clone(),
            type_: column.type_.clone(),
            format: column.format.clone(),
            description: column.description.clone(),
            priority: column.priority,
        }));
        columns
    }

    /// An empty Table with the columns of the resource.
    pub fn table(&self) -> Table {
        Table::new(self.table_columns())
    }

    /// The cells of one object, one per column.
    pub fn table_cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        if self.strategy.table_columns().is_some() {
            return self.strategy.cells(object, now);
        }
        let mut cells = vec![Value::from(object.name())];
        if self.columns.is_empty() {
            let age = object.creation_timestamp().map(|at| time::age(at, now));
            cells.push(Value::from(age.unwrap_or_else(|| "<unknown>".to_owned())));
        }
        cells.extend(self.columns.iter().map(|column| column.cell(object, now)));
        cells
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Scope;

    fn def(columns: &[(&str, &str)]) -> ResourceDef {
        let mut def = ResourceDef::new("ex.io", "v1", "Thing", "things", Scope::Namespaced);
        def.columns = columns
            .iter()
            .map(|(type_, path)| PrinterColumn {
                name: (*path).into(),
                type_: (*type_).into(),
                json_path: (*path).into(),
                ..PrinterColumn::default()
            })
            .collect();
        def
    }

    #[test]
    fn cells_are_typed_and_missing_values_are_null() {
        let object = json!({
            "metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"n": 3, "f": 1.5, "b": true, "s": "x", "m": {"k": 1}, "bad": "soon"},
        });
        let now = "2026-01-01T02:00:00Z".parse().unwrap();
        let def = def(&[
            ("integer", ".spec.n"),
            ("integer", ".spec.f"),
            ("number", ".spec.f"),
            ("boolean", ".spec.b"),
            ("string", ".spec.s"),
            ("string", ".spec.n"),
            ("string", ".spec.m"),
            ("string", ".spec.none"),
            ("date", ".metadata.creationTimestamp"),
            ("date", ".spec.bad"),
            ("boolean", ".spec.s"),
        ]);
        assert_eq!(
            Value::Array(def.table_cells(&object, now)),
            json!(["a", 3, 1, 1.5, true, "x", "3", "{\"k\":1}", null, "120m", "<invalid>", null])
        );
        assert_eq!(def.table_columns().len(), 12);
    }

    #[test]
    fn without_columns_name_and_age_are_shown() {
        let def = def(&[]);
        let object = json!({"metadata": {"name": "a"}});
        let names: Vec<_> = def.table_columns().into_iter().map(|column| column.name).collect();
        assert_eq!(names, ["Name", "Age"]);
        assert_eq!(def.table_cells(&object, Timestamp::UNIX_EPOCH), [json!("a"), json!("<unknown>")]);
    }
}
