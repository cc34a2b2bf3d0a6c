//! Rows of the Table that `kubectl get` prints.

use convoy_meta::Table;
use convoy_meta::TableColumn;
use jiff::Timestamp;
use serde_json::Value;

use crate::ResourceDef;

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

impl ResourceDef {
    /// The columns of the Table.
    pub fn table_columns(&self) -> Vec<TableColumn> {
        self.strategy.table_columns().unwrap_or_default()
    }

    /// An empty Table with the columns of the resource.
    pub fn table(&self) -> Table {
        Table::new(self.table_columns())
    }

    /// The cells of one object, one per column.
    pub fn table_cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        self.strategy.cells(object, now)
    }
}
