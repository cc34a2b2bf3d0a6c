//! `convoy history`: what was delivered of a Release.

use std::time::Duration;

use anyhow::Context as _;
use convoy_api::{Outcome, ReleaseHistory};
use convoy_runtime::Clock;
use serde_json::Value;

use super::arguments::{DocumentOutput, History};
use super::diff::{painted, read};
use super::server::Server;
use super::watched::{Shown, shown_once, watch};
use crate::terminal::{Cell, Colour, Display, Table};

/// How often it is asked anew with `--watch`.
const LOOK: Duration = Duration::from_secs(2);

/// Prints the history; always true.
pub(super) async fn run(arguments: &History, clock: &dyn Clock) -> anyhow::Result<bool> {
    let server = Server::connect(&arguments.connection).await?;
    let ask = async || look(&server, arguments).await;
    if arguments.watch { watch(LOOK, clock, ask).await } else { shown_once(&ask().await?) }
}

async fn look(server: &Server, arguments: &History) -> anyhow::Result<Shown> {
    let named = [("revision", arguments.revision), ("to", arguments.to)];
    let query: Vec<String> =
        named.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", value?))).collect();
    let answer = server.observed(&arguments.release, ReleaseHistory::SUBRESOURCE, &query.join("&")).await?;
    let text = text(answer, arguments, Display::detect())?;
    // Another revision may always come.
    Ok(Shown { text, is_good: true, is_last: false })
}

fn text(answer: Value, arguments: &History, display: Display) -> anyhow::Result<String> {
    match arguments.output {
        Some(output) => return document(&answer, output),
        None if arguments.to.is_some() => return Ok(painted(&read(answer)?.unified(), display)),
        None => {}
    }
    let history: ReleaseHistory =
        serde_json::from_value(answer).context("the API server's answer is no history")?;
    if arguments.revision.is_some() { Ok(manifests(&history)) } else { Ok(table(&history, display)) }
}

pub(super) fn document(answer: &Value, output: DocumentOutput) -> anyhow::Result<String> {
    Ok(match output {
        DocumentOutput::Json => format!("{}\n", serde_json::to_string_pretty(answer)?),
        DocumentOutput::Yaml => convoy_yaml::to_yaml(answer)?,
    })
}

fn table(history: &ReleaseHistory, display: Display) -> String {
    let mut table = Table::new(&["REVISION", "OUTCOME", "SOURCE", "CLUSTER", "STARTED", "MESSAGE"]);
    for entry in &history.revisions {
        let outcome = format!("{:?}", entry.outcome);
        let outcome: Cell = match entry.outcome {
            Outcome::Succeeded => Cell::coloured(outcome, Colour::Good),
            Outcome::Failed => Cell::coloured(outcome, Colour::Bad),
            _ => outcome.into(),
        };
        let message = match entry.rollback_to {
            Some(to) => format!("back to {to}; {}", entry.message).trim_end_matches("; ").to_owned(),
            None => entry.message.clone(),
        };
        table.row(vec![
            entry.revision.to_string().into(),
            outcome,
            entry.source_revision.clone().into(),
            entry.cluster_ref.as_ref().map(|cluster| cluster.name.clone()).unwrap_or_default().into(),
            entry.started.as_ref().map(|time| time.0.to_string()).unwrap_or_default().into(),
            message.lines().next().unwrap_or_default().into(),
        ]);
    }
    table.render(display)
}

/// The manifests as YAML documents.
fn manifests(history: &ReleaseHistory) -> String {
    let mut text = String::new();
    history.remarks.iter().for_each(|remark| text.push_str(&format!("# {remark}\n")));
    for manifest in &history.manifests {
        let hook = if manifest.hook { " (hook)" } else { "" };
        text.push_str(&format!("---\n# Source: {}{hook}\n{}", manifest.source, manifest.text));
    }
    if history.omitted_manifests > 0 {
        text.push_str(&format!("# {} more objects were left out\n", history.omitted_manifests));
    }
    text
}

#[cfg(test)]
mod tests {
    use convoy_api::{HistoryEntry, HistoryManifest};

    use super::*;

    #[test]
    fn revisions_are_a_table_and_one_of_them_is_documents() {
        let entry = |revision, outcome, rollback_to| HistoryEntry {
            revision,
            outcome,
            rollback_to,
            source_revision: "1.0.0".to_owned(),
            message: "said\nmore".to_owned(),
            ..HistoryEntry::default()
        };
        let history = ReleaseHistory {
            revisions: vec![entry(2, Outcome::Failed, Some(1)), entry(1, Outcome::Succeeded, None)],
            manifests: vec![HistoryManifest {
                source: "a.yaml".to_owned(),
                hook: true,
                text: "a: 1\n".to_owned(),
            }],
            remarks: vec!["hidden".to_owned()],
            ..ReleaseHistory::default()
        };
        let want = "\
REVISION   OUTCOME     SOURCE   CLUSTER   STARTED   MESSAGE
2          Failed      1.0.0                        back to 1; said
1          Succeeded   1.0.0                        said
";
        assert_eq!(table(&history, Display::Plain), want);
        assert_eq!(manifests(&history), "# hidden\n---\n# Source: a.yaml (hook)\na: 1\n");
    }
}
