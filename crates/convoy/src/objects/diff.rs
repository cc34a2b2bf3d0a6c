//! `convoy diff`: how what would be applied of a Release differs from what is on its target.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Context as _;
use convoy_api::ReleaseDiff;
use convoy_runtime::Clock;
use serde_json::Value;

use super::arguments::{Diff, DiffOutput};
use super::markdown::markdown;
use super::server::Server;
use super::watched::{Shown, shown_once, watch};
use crate::terminal::{Colour, Display};

/// How wide both sides are together when the terminal does not say.
const WIDTH: usize = 160;

/// How often it is asked anew with `--watch`. What the target said of objects that stayed as they are is kept by the
/// observer.
const LOOK: Duration = Duration::from_secs(5);

/// Prints the differences. True when there are none.
pub(super) async fn run(arguments: &Diff, clock: &dyn Clock) -> anyhow::Result<bool> {
    let server = Server::connect(&arguments.connection).await?;
    let ask = async || look(&server, arguments).await;
    if arguments.watch { watch(LOOK, clock, ask).await } else { shown_once(&ask().await?) }
}

async fn look(server: &Server, arguments: &Diff) -> anyhow::Result<Shown> {
    let answer = match &arguments.source {
        None => server.observed(&arguments.release, ReleaseDiff::SUBRESOURCE, "").await?,
        // Each time anew: who edits the files wants to see what that comes to.
        Some(source) => {
            let archive = super::handed_in::archive(source)?;
            server.observed_of(&arguments.release, ReleaseDiff::SUBRESOURCE, archive).await?
        }
    };
    let diff = read(answer.clone())?;
    let text = match arguments.output {
        DiffOutput::Json => format!("{}\n", serde_json::to_string_pretty(&answer)?),
        DiffOutput::Yaml => convoy_yaml::to_yaml(&answer)?,
        DiffOutput::Summary => diff.short(),
        DiffOutput::Markdown => markdown(&arguments.release, &diff),
        DiffOutput::Unified if arguments.side_by_side => side_by_side(&diff, width(), Display::detect()),
        DiffOutput::Unified => painted(&diff.unified(), Display::detect()),
    };
    // What could not be compared is no agreement.
    if !diff.problems.is_empty() && diff.is_empty() && !arguments.watch {
        print!("{text}");
        let said: Vec<&str> = diff.problems.iter().map(|problem| problem.message.as_str()).collect();
        anyhow::bail!("{}", said.join("; "));
    }
    Ok(Shown { text, is_good: diff.is_empty() && diff.problems.is_empty(), is_last: false })
}

pub(super) fn read(answer: Value) -> anyhow::Result<ReleaseDiff> {
    serde_json::from_value(answer).context("the API server's answer is no diff")
}

/// A unified diff in colours.
pub(super) fn painted(text: &str, display: Display) -> String {
    text.lines().fold(String::new(), |mut out, line| {
        let colour = match line.get(..1) {
            _ if line.starts_with("+++") || line.starts_with("---") || line.starts_with('#') => {
                Some(Colour::Bold)
            }
            Some("+") => Some(Colour::Good),
            Some("-") => Some(Colour::Bad),
            Some("@") => Some(Colour::Place),
            _ => None,
        };
        out.push_str(&colour.map_or_else(|| line.to_owned(), |colour| display.paint(colour, line)));
        out.push('\n');
        out
    })
}

fn width() -> usize {
    std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()).unwrap_or(WIDTH).clamp(40, 1000)
}

/// Both sides beside each other.
fn side_by_side(diff: &ReleaseDiff, width: usize, display: Display) -> String {
    let column = (width - 3) / 2;
    let mut out = String::new();
    for problem in &diff.problems {
        let line = format!("{}: {}", problem.reason, problem.message);
        _ = writeln!(out, "{}", display.paint(Colour::Bad, &line));
    }
    for object in &diff.objects {
        let head = format!("{} {}: {}", object.action.as_words(), object.named(), object.reason);
        _ = writeln!(out, "{}", display.paint(Colour::Bold, &head));
        let (mut old, mut new): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
        for line in object.diff.lines() {
            match (line.get(..1), line.get(1..).unwrap_or_default()) {
                (Some("-"), text) => old.push(text),
                (Some("+"), text) => new.push(text),
                (mark, text) => {
                    pairs(&mut out, &mut old, &mut new, column, display);
                    if mark == Some(" ") {
                        _ = writeln!(out, "{} | {}", padded(text, column), padded(text, column).trim_end());
                    } else {
                        _ = writeln!(out, "{}", display.paint(Colour::Place, line));
                    }
                }
            }
        }
        pairs(&mut out, &mut old, &mut new, column, display);
    }
    diff.remarks.iter().for_each(|remark| _ = writeln!(out, "# {remark}"));
    out
}

fn pairs(out: &mut String, old: &mut Vec<&str>, new: &mut Vec<&str>, column: usize, display: Display) {
    for index in 0..old.len().max(new.len()) {
        let side = |lines: &[&str], colour| {
            let line = padded(lines.get(index).copied().unwrap_or_default(), column);
            if line.trim().is_empty() { line } else { display.paint(colour, &line) }
        };
        let (left, right) = (side(old, Colour::Bad), side(new, Colour::Good));
        let mark = match (old.get(index), new.get(index)) {
            (Some(_), Some(_)) => '!',
            (Some(_), None) => '<',
            _ => '>',
        };
        _ = writeln!(out, "{left} {mark} {}", right.trim_end());
    }
    old.clear();
    new.clear();
}

/// The text in a column; what is longer is cut.
fn padded(text: &str, column: usize) -> String {
    let count = text.chars().count();
    if count > column {
        let mut cut: String = text.chars().take(column.saturating_sub(1)).collect();
        cut.push('…');
        return cut;
    }
    format!("{text}{}", " ".repeat(column - count))
}

#[cfg(test)]
mod tests {
    use convoy_api::{PreviewAction, PreviewObject};

    use super::*;

    fn diff() -> ReleaseDiff {
        let object = PreviewObject {
            action: PreviewAction::Change,
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            namespace: "web".to_owned(),
            name: "a".to_owned(),
            reason: "because of <b>".to_owned(),
            diff: "@@ -1,3 +1,3 @@\n data:\n-  a: ```\n+  a: 2\n+  b: 3\n kind: ConfigMap\n".to_owned(),
            ..PreviewObject::default()
        };
        ReleaseDiff {
            cluster: "prod".to_owned(),
            summary: "1 to change".to_owned(),
            objects: vec![object],
            ..ReleaseDiff::default()
        }
    }

    #[test]
    fn sides_stand_beside_each_other() {
        let want = "\
change ConfigMap web/a: because of <b>
@@ -1,3 +1,3 @@
data:              | data:
  a: ```           !   a: 2
                   >   b: 3
kind: ConfigMap    | kind: ConfigMap
";
        assert_eq!(side_by_side(&diff(), 40, Display::Plain), want);
        assert_eq!(padded("abcdef", 4), "abc…");
    }

    #[test]
    fn added_and_removed_lines_have_their_colours_on_a_terminal_alone() {
        let text = painted("--- a\n-x\n+y\n z\n", Display::Terminal);
        assert_eq!(text, "\x1b[1m--- a\x1b[0m\n\x1b[31m-x\x1b[0m\n\x1b[32m+y\x1b[0m\n z\n");
        assert_eq!(painted("-x\n", Display::Plain), "-x\n");
    }
}
