//! `convoy get`.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::Duration;

use anyhow::Context as _;
use convoy_meta::{Table as ServerTable, TableColumn};
use convoy_runtime::watch_events;
use futures::StreamExt as _;
use kube::runtime::watcher;
use serde_json::{Value, json};

use super::Misuse;
use super::arguments::Get;
use super::server::{Server, object_of};
use super::what::{Wanted, parse, shown};
use crate::arguments::Output;
use crate::terminal::{Cell, Colour, Display, Table};

/// Changes that come together are printed together.
const TOGETHER: Duration = Duration::from_millis(200);

/// Prints the objects. False when one that was named is not there.
pub(super) async fn run(arguments: &Get) -> anyhow::Result<bool> {
    let wanted = parse(&arguments.what)?;
    let server = Server::select(&arguments.selection).await?;
    server.check(&wanted, true)?;
    if arguments.watch {
        return match wanted.as_slice() {
            [wanted] => watch(&server, wanted, arguments.output).await,
            _ => Err(Misuse("--watch takes one kind".to_owned()).into()),
        };
    }
    match arguments.output {
        Output::Table | Output::Wide => tables(&server, &wanted, arguments.output == Output::Wide).await,
        output => documents(&server, &wanted, output).await,
    }
}

async fn tables(server: &Server, wanted: &[Wanted], is_wide: bool) -> anyhow::Result<bool> {
    let (mut is_all, mut is_first) = (true, true);
    let display = Display::detect();
    for one in wanted {
        let (table, has_all) = server.table(one).await?;
        is_all &= has_all;
        if table.rows.is_empty() {
            continue;
        }
        if !is_first {
            println!();
        }
        is_first = false;
        let printed =
            Printed { is_wide, has_namespace: server.namespace.is_none(), has_kind: wanted.len() > 1 };
        print!("{}", printed.text(one, &table, display));
    }
    if is_first && is_all {
        nothing(server, wanted);
    }
    Ok(is_all)
}

/// As kubectl says it.
fn nothing(server: &Server, wanted: &[Wanted]) {
    let kinds: Vec<&str> = wanted.iter().map(|wanted| wanted.info.plural).collect();
    let kinds = kinds.join(", ");
    match &server.namespace {
        Some(namespace) => eprintln!("No {kinds} found in {namespace} namespace."),
        None => eprintln!("No {kinds} found."),
    }
}

async fn documents(server: &Server, wanted: &[Wanted], output: Output) -> anyhow::Result<bool> {
    let (mut items, mut names, mut is_all) = (Vec::new(), String::new(), true);
    for one in wanted {
        let (objects, has_all) = server.objects(one).await?;
        is_all &= has_all;
        for object in objects {
            let name = object.metadata.name.as_deref().unwrap_or_default();
            names.push_str(&format!("{}\n", shown(&one.info, name)));
            items.push(serde_json::to_value(&object).context("writing an object")?);
        }
    }
    if output == Output::Name {
        print!("{names}");
        return Ok(is_all);
    }
    // One that was named stands alone, all else in a list, as kubectl has it.
    let is_one = wanted.iter().map(|wanted| wanted.names.len()).sum::<usize>() == 1;
    match (items.len(), is_one) {
        (0, true) => {}
        (1, true) => print!("{}", document(items.first().unwrap_or(&Value::Null), output)?),
        _ => {
            let list = json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": items});
            print!("{}", document(&list, output)?);
        }
    }
    Ok(is_all)
}

fn document(value: &Value, output: Output) -> anyhow::Result<String> {
    Ok(match output {
        Output::Yaml => convoy_yaml::to_yaml(value)?,
        _ => format!("{}\n", serde_json::to_string_pretty(value)?),
    })
}

/// How a table is printed.
#[derive(Debug, Clone, Copy)]
struct Printed {
    is_wide: bool,
    has_namespace: bool,
    has_kind: bool,
}

impl Printed {
    fn columns<'a>(&self, table: &'a ServerTable) -> Vec<(usize, &'a TableColumn)> {
        let columns = table.column_definitions.iter().enumerate();
        columns.filter(|(_, column)| self.is_wide || column.priority == 0).collect()
    }

    fn text(&self, wanted: &Wanted, table: &ServerTable, display: Display) -> String {
        let rows = self.rows(wanted, table).into_iter().map(|row| row.cells);
        self.table(table, rows).render(display)
    }

    fn table(&self, table: &ServerTable, rows: impl Iterator<Item = Vec<Cell>>) -> Table {
        let mut headings: Vec<String> = Vec::new();
        if self.has_namespace {
            headings.push("NAMESPACE".to_owned());
        }
        headings.extend(self.columns(table).iter().map(|(_, column)| column.name.to_uppercase()));
        let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
        let mut printed = Table::new(&headings);
        rows.for_each(|row| printed.row(row));
        printed
    }

    fn rows(&self, wanted: &Wanted, table: &ServerTable) -> Vec<Row> {
        let columns = self.columns(table);
        let rows = table.rows.iter().map(|row| {
            let (namespace, name) = object_of(row);
            let mut cells: Vec<Cell> = Vec::new();
            let mut said: Vec<String> = Vec::new();
            let mut standing = Standing::InProgress;
            if self.has_namespace {
                cells.push(namespace.clone().into());
            }
            // Also of columns that are not printed.
            for (index, column) in table.column_definitions.iter().enumerate() {
                let text = text_of(row.cells.get(index));
                match column.name.as_str() {
                    "Ready" if text == "True" => standing = Standing::Ready,
                    "Status" if text == "Suspended" => standing = Standing::Suspended,
                    "Ready" if text == "False" => standing = Standing::Failed,
                    "Status" if is_in_progress(&text) => standing = Standing::InProgress,
                    _ => {}
                }
            }
            for (index, column) in &columns {
                let mut text = text_of(row.cells.get(*index));
                // Ages move without news.
                if column.type_ != "date" && column.name != "Age" {
                    said.push(text.clone());
                }
                if self.has_kind && column.format == "name" {
                    text = shown(&wanted.info, &text);
                }
                cells.push(match column.name.as_str() {
                    "Ready" | "Status" => match standing.colour() {
                        Some(colour) => Cell::coloured(text, colour),
                        None => text.into(),
                    },
                    _ => text.into(),
                });
            }
            Row { key: (namespace, name), cells, said, standing }
        });
        rows.collect()
    }
}

/// A row, and what of it is news when it changes.
struct Row {
    key: (String, String),
    cells: Vec<Cell>,
    said: Vec<String>,
    standing: Standing,
}

/// How an object stands, by its condition Ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Ready,
    InProgress,
    Failed,
    Suspended,
}

impl Standing {
    fn colour(self) -> Option<Colour> {
        match self {
            Standing::Ready => Some(Colour::Good),
            Standing::Failed => Some(Colour::Bad),
            Standing::InProgress | Standing::Suspended => None,
        }
    }
}

/// Reasons of a condition that is not true, but not for a failure either.
fn is_in_progress(reason: &str) -> bool {
    use convoy_api::reason;
    ["", reason::PROGRESSING, reason::WAITING_FOR_HEALTH, reason::DEPENDENCY_NOT_READY, reason::DELETING]
        .contains(&reason)
}

fn text_of(cell: Option<&Value>) -> String {
    match cell {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// `5 releases: 3 ready, 1 in progress, 1 failed`.
fn summary(wanted: &Wanted, rows: &[Row]) -> String {
    let count = |standing: Standing| rows.iter().filter(|row| row.standing == standing).count();
    let kinds = if rows.len() == 1 { wanted.info.singular } else { wanted.info.plural };
    let parts = [
        (count(Standing::Ready), "ready"),
        (count(Standing::InProgress), "in progress"),
        (count(Standing::Failed), "failed"),
        (count(Standing::Suspended), "suspended"),
    ];
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    format!("{} {kinds}: {}", rows.len(), parts.join(", "))
}

/// Prints what changes, until the stream ends, which it does not.
async fn watch(server: &Server, wanted: &Wanted, output: Output) -> anyhow::Result<bool> {
    let is_wide = match output {
        Output::Table => false,
        Output::Wide => true,
        _ => return Err(Misuse("--watch prints tables: -o table or wide".to_owned()).into()),
    };
    let printed = Printed { is_wide, has_namespace: server.namespace.is_none(), has_kind: false };
    let display = Display::detect();
    let params = server.params();
    let mut config = watcher::Config::default();
    if let Some(labels) = &params.label_selector {
        config = config.labels(labels);
    }
    let mut events = watch_events(server.api(&wanted.info), config);
    let mut known: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    let (mut is_first, mut lines) = (true, 0);
    loop {
        // A named object that is not there yet may come.
        let (table, _) = server.table(wanted).await?;
        let rows = printed.rows(wanted, &table);
        let mut out = std::io::stdout().lock();
        if display == Display::Terminal {
            let summary = summary(wanted, &rows);
            let text = printed.table(&table, rows.into_iter().map(|row| row.cells)).render(display);
            let text = format!("{text}{summary}\n");
            // Back to where the last table began, and away with it.
            let back = if lines > 0 { format!("\x1b[{lines}A\x1b[J") } else { String::new() };
            lines = text.lines().count();
            write!(out, "{back}{text}").context("printing")?;
        } else {
            let is_news = |row: &Row| known.get(&row.key) != Some(&row.said);
            let (news, said): (Vec<Vec<Cell>>, Vec<_>) =
                rows.into_iter().filter(is_news).map(|row| (row.cells, (row.key, row.said))).unzip();
            known.extend(said);
            if !news.is_empty() {
                let text = printed.table(&table, news.into_iter()).render(display);
                let text = if is_first {
                    text
                } else {
                    text.split_once('\n').map_or(text.clone(), |(_, rest)| rest.to_owned())
                };
                is_first = false;
                write!(out, "{text}").context("printing")?;
            }
        }
        out.flush().context("printing")?;
        drop(out);
        match events.next().await {
            Some(event) => {
                if let Err(error) = event {
                    eprintln!("convoy: watching {}: {error}; it is tried again", wanted.info.plural);
                }
            }
            None => return Ok(true),
        }
        // What comes right after belongs to it, but for no longer than a second.
        for _ in 0..5 {
            let mut more = false;
            while tokio::time::timeout(Duration::ZERO, events.next()).await.is_ok_and(|event| event.is_some())
            {
                more = true;
            }
            tokio::time::sleep(TOGETHER).await;
            if !more {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> (Wanted, ServerTable) {
        let wanted = parse(&["releases".to_owned()]).unwrap().remove(0);
        let table = serde_json::from_value(json!({
            "columnDefinitions": [
                {"name": "Name", "type": "string", "format": "name", "priority": 0},
                {"name": "Ready", "type": "string", "priority": 0},
                {"name": "Status", "type": "string", "priority": 0},
                {"name": "Objects", "type": "integer", "priority": 0},
                {"name": "Age", "type": "date", "priority": 0},
                {"name": "Message", "type": "string", "priority": 1},
            ],
            "rows": [
                {"cells": ["web", "True", "Succeeded", 3, "5m", "main@sha1:1"],
                 "object": {"metadata": {"name": "web", "namespace": "team"}}},
                {"cells": ["shop", "False", "ApplyRejected", null, "1h", "no"],
                 "object": {"metadata": {"name": "shop", "namespace": "team"}}},
                {"cells": ["db", "False", "WaitingForHealth", 1, "1h", "waits"],
                 "object": {"metadata": {"name": "db", "namespace": "team"}}},
                {"cells": ["old", "False", "Suspended", 1, "1h", "spec.suspend is true"],
                 "object": {"metadata": {"name": "old", "namespace": "team"}}},
                {"cells": ["new", null, null, null, "1s", null],
                 "object": {"metadata": {"name": "new", "namespace": "team"}}},
            ],
        }));
        (wanted, table.unwrap())
    }

    #[test]
    fn tables_have_the_servers_columns() {
        let (wanted, table) = table();
        let text = |is_wide, has_namespace, has_kind| {
            let printed = Printed { is_wide, has_namespace, has_kind };
            printed.text(&wanted, &table, Display::Plain).lines().take(2).collect::<Vec<_>>().join("\n")
        };
        assert_eq!(
            text(false, false, false),
            "NAME   READY   STATUS             OBJECTS   AGE\nweb    True    Succeeded          3         5m"
        );
        let wide = text(true, true, true);
        assert!(wide.starts_with("NAMESPACE   NAME "), "{wide}");
        assert!(wide.contains("\nteam        release.convoy.kumodo.io/web "), "{wide}");
        assert!(wide.ends_with("main@sha1:1"), "{wide}");
    }

    #[test]
    fn how_far_all_are_is_told_in_a_line() {
        let (wanted, table) = table();
        let printed = Printed { is_wide: false, has_namespace: false, has_kind: false };
        let rows = printed.rows(&wanted, &table);
        assert_eq!(summary(&wanted, &rows), "5 releases: 1 ready, 2 in progress, 1 failed, 1 suspended");
        let coloured = printed.text(&wanted, &table, Display::Terminal);
        assert!(
            coloured.contains("\x1b[32mTrue\x1b[0m") && coloured.contains("\x1b[31mApplyRejected\x1b[0m")
        );
        assert!(!coloured.contains("\x1b[31mWaitingForHealth"), "{coloured:?}");
    }

    #[test]
    fn an_age_alone_is_no_news() {
        let (wanted, mut table) = table();
        let printed = Printed { is_wide: true, has_namespace: false, has_kind: false };
        let before: Vec<_> = printed.rows(&wanted, &table).into_iter().map(|row| row.said).collect();
        table.rows[0].cells[4] = json!("6m");
        let after: Vec<_> = printed.rows(&wanted, &table).into_iter().map(|row| row.said).collect();
        assert_eq!(before, after);
        table.rows[0].cells[3] = json!(4);
        assert_ne!(before[0], printed.rows(&wanted, &table)[0].said);
    }
}
