//! Views as text. Pure.

use std::fmt::Write as _;
use std::time::Duration;

use convoy_meta::time::human_duration;
use serde_json::{Value, json};

use super::view::{MemberRow, MemberState, ShardRow, Standing, View};
use crate::arguments::Output;
use crate::terminal::{Cell, Colour, Display, Table};

/// What is printed, with a line end.
pub(crate) fn render(views: &[View], output: Output, display: Display) -> anyhow::Result<String> {
    Ok(match output {
        Output::Table => tables(views, false, display),
        Output::Wide => tables(views, true, display),
        Output::Json => format!("{}\n", serde_json::to_string_pretty(&document(views))?),
        Output::Yaml => convoy_yaml::to_yaml(&document(views))?,
        Output::Name => names(views),
    })
}

fn tables(views: &[View], is_wide: bool, display: Display) -> String {
    let mut text = String::new();
    for (index, view) in views.iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        let _ = writeln!(text, "{}", display.paint(Colour::Bold, &heading(view)));
        text.push_str(&shards(view, is_wide).render(display));
        if is_wide && !view.members.is_empty() {
            text.push('\n');
            text.push_str(&members(view).render(display));
        }
    }
    text
}

fn heading(view: &View) -> String {
    let live = view.members.iter().filter(|member| member.standing.is_held()).count();
    let replicas = if live == 1 { "1 live replica".to_owned() } else { format!("{live} live replicas") };
    let owned = match view.unowned() {
        0 => "all owned".to_owned(),
        unowned => {
            let longest = view.longest_gap().map(|gap| format!(", the longest for {}", span(gap)));
            format!("{unowned} without an owner{}", longest.unwrap_or_default())
        }
    };
    format!("{}: {} shards, {replicas}, {owned}", view.process.as_str(), view.shards.len())
}

fn shards(view: &View, is_wide: bool) -> Table {
    let headings = ["SHARD", "OWNER", "EPOCH", "LEASE", "OBJECTS", "GAP", "RELEASES", "CLUSTERS", "SOURCES"];
    let mut table = Table::new(if is_wide { &headings } else { headings.get(..6).unwrap_or(&headings) });
    for row in &view.shards {
        let colour = if row.standing.is_held() { Colour::Good } else { Colour::Bad };
        let owner = match (&row.owner, row.standing) {
            (Some(owner), Standing::Held { .. }) => owner.clone(),
            (Some(owner), _) => format!("none (was {owner})"),
            (None, _) => "none".to_owned(),
        };
        let mut cells: Vec<Cell> = vec![
            row.shard.to_string().into(),
            owner.into(),
            row.epoch.map_or_else(|| "-".to_owned(), |epoch| epoch.to_string()).into(),
            Cell::coloured(left(row.standing), colour),
            row.objects.all().to_string().into(),
            row.standing.gap().map_or_else(|| "-".to_owned(), span).into(),
        ];
        if is_wide {
            for count in [row.objects.releases, row.objects.clusters, row.objects.sources] {
                cells.push(count.to_string().into());
            }
        }
        table.row(cells);
    }
    table
}

fn members(view: &View) -> Table {
    let headings = ["REPLICA", "STATE", "OWNS", "SHARDS", "ASSIGNMENT", "RENEWED", "LEASE"];
    let mut table = Table::new(&headings);
    let dash = || "-".to_owned();
    for member in &view.members {
        let colour = if member.state == MemberState::Acting { Colour::Good } else { Colour::Bad };
        table.row(vec![
            member.id.clone().into(),
            Cell::coloured(member.state.word(), colour),
            member.owned.to_string().into(),
            member.shards.map_or_else(dash, |shards| shards.to_string()).into(),
            member.assignment.clone().unwrap_or_else(dash).into(),
            member.renewed_ago.map_or_else(dash, |ago| format!("{} ago", span(ago))).into(),
            left(member.standing).into(),
        ]);
    }
    table
}

/// How long a lease still holds, or since when it does not.
fn left(standing: Standing) -> String {
    match standing {
        Standing::Held { left } => format!("{} left", span(left)),
        Standing::Ended { ago } => format!("ended {} ago", span(ago)),
        Standing::Released { ago: Some(ago) } => format!("released {} ago", span(ago)),
        Standing::Released { ago: None } => "released".to_owned(),
        Standing::Missing => "no lease".to_owned(),
    }
}

fn span(span: Duration) -> String {
    human_duration(i64::try_from(span.as_secs()).unwrap_or(i64::MAX))
}

fn names(views: &[View]) -> String {
    let mut text = String::new();
    for view in views {
        for row in view.shards.iter().filter(|row| row.standing != Standing::Missing) {
            let _ = writeln!(text, "lease.coordination.k8s.io/{}", row.lease);
        }
    }
    text
}

fn document(views: &[View]) -> Value {
    let process = |view: &View| {
        json!({
            "process": view.process.as_str(),
            "apiServerShards": view.counted,
            "unowned": view.unowned(),
            "longestGapSeconds": view.longest_gap().map(|gap| gap.as_secs()),
            "shards": view.shards.iter().map(shard).collect::<Vec<_>>(),
            "members": view.members.iter().map(member).collect::<Vec<_>>(),
            "warnings": view.warnings,
        })
    };
    json!({ "processes": views.iter().map(process).collect::<Vec<_>>() })
}

fn left_seconds(standing: Standing) -> Option<u64> {
    match standing {
        Standing::Held { left } => Some(left.as_secs()),
        _ => None,
    }
}

fn shard(row: &ShardRow) -> Value {
    json!({
        "shard": row.shard,
        "lease": row.lease,
        "state": row.standing.word(),
        "holder": row.owner,
        "epoch": row.epoch,
        "leftSeconds": left_seconds(row.standing),
        "gapSeconds": row.standing.gap().map(|gap| gap.as_secs()),
        "objects": {
            "releases": row.objects.releases,
            "clusters": row.objects.clusters,
            "sources": row.objects.sources,
        },
    })
}

fn member(row: &MemberRow) -> Value {
    json!({
        "replica": row.id,
        "lease": row.lease,
        "state": row.state.word(),
        "owns": row.owned,
        "shards": row.shards,
        "assignment": row.assignment,
        "renewedSecondsAgo": row.renewed_ago.map(|ago| ago.as_secs()),
        "leftSeconds": left_seconds(row.standing),
    })
}

#[cfg(test)]
mod tests {
    use super::super::view::tests::sample;
    use super::*;

    fn rendered(output: Output, display: Display) -> String {
        render(&[sample()], output, display).unwrap()
    }

    #[test]
    fn the_table_says_who_owns_what_and_for_how_long_nobody_did() {
        let expected = "\
controller-manager: 4 shards, 1 live replica, 3 without an owner, the longest for 12s
SHARD   OWNER             EPOCH   LEASE             OBJECTS   GAP
0       cm-a              4       21s left          13        -
1       none (was cm-b)   4       ended 12s ago     4         12s
2       none              4       released 5s ago   0         5s
3       none              -       no lease          0         -
";
        assert_eq!(rendered(Output::Table, Display::Plain), expected);
    }

    #[test]
    fn the_wide_table_also_counts_kinds_and_lists_the_replicas() {
        let text = rendered(Output::Wide, Display::Plain);
        assert!(text.contains("GAP   RELEASES   CLUSTERS   SOURCES\n"), "{text}");
        assert!(text.contains("13        -     10         2          1\n"), "{text}");
        let members = text.split("\n\n").nth(1).unwrap();
        let expected = "\
REPLICA   STATE    OWNS   SHARDS   ASSIGNMENT   RENEWED   LEASE
cm-a      acting   1      4        modulo       9s ago    21s left
cm-b      gone     0      4        modulo       42s ago   ended 12s ago
";
        assert_eq!(members, expected);
    }

    #[test]
    fn colour_is_for_terminals_only() {
        assert!(!rendered(Output::Wide, Display::Plain).contains('\x1b'));
        assert!(rendered(Output::Table, Display::Terminal).contains("\x1b[31mended 12s ago\x1b[0m"));
    }

    #[test]
    fn programs_get_numbers() {
        let read: Value = serde_json::from_str(&rendered(Output::Json, Display::Terminal)).unwrap();
        let process = &read["processes"][0];
        assert_eq!((&process["unowned"], &process["longestGapSeconds"]), (&json!(3), &json!(12)));
        assert_eq!(process["shards"][0]["leftSeconds"], 21);
        assert_eq!(process["shards"][1]["state"], "ended");
        assert_eq!(process["shards"][3]["epoch"], Value::Null);
        assert_eq!(process["members"][1]["state"], "gone");
        let yaml = rendered(Output::Yaml, Display::Plain);
        assert_eq!(convoy_yaml::to_json(yaml.as_bytes()).unwrap(), read);
        let names = rendered(Output::Name, Display::Plain);
        assert_eq!(names.lines().count(), 3);
        assert!(names.starts_with("lease.coordination.k8s.io/convoy-cm-shard-0\n"), "{names}");
    }
}
