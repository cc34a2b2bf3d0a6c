//! `convoy preview`: what the next delivery of a Release would do.

use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;
use convoy_api::{
    API_VERSION, PreviewAction, PreviewChange, PreviewObject, PreviewStep, Release, ReleasePreview,
    field_manager,
};
use serde_json::Value;

use super::Misuse;
use super::arguments::Preview;
use super::server::Server;
use crate::arguments::Output;
use crate::terminal::{Cell, Colour, Display, Table};

/// The longest file that is read.
const LONGEST_FILE: u64 = 3 << 20;

/// Prints the preview. False when something is in the way of the delivery.
pub(super) async fn run(arguments: &Preview) -> anyhow::Result<bool> {
    let given = match (&arguments.filename, &arguments.release) {
        (Some(file), _) => Some(given(file)?),
        (None, Some(_)) => None,
        (None, None) => {
            return Err(Misuse("give the name of a Release, or --filename with one".to_owned()).into());
        }
    };
    let server = Server::connect(&arguments.connection).await?;
    let metadata = |field: &str| {
        let found = given.as_ref().and_then(|given| given.pointer(&format!("/metadata/{field}")));
        found.and_then(Value::as_str).map(str::to_owned)
    };
    let name = match (&arguments.release, metadata("name")) {
        (Some(name), Some(own)) if *name != own => {
            return Err(Misuse(format!("the Release in the file is {own}, not {name}")).into());
        }
        (Some(name), _) => name.clone(),
        (None, Some(own)) => own,
        (None, None) => return Err(Misuse("the Release in the file has no metadata.name".to_owned()).into()),
    };
    // As kubectl has it: what the file says, unless a namespace was asked for, too.
    let namespace = match (&arguments.connection.namespace, metadata("namespace")) {
        (Some(asked), Some(own)) if *asked != own => {
            return Err(Misuse(format!("the Release in the file is in namespace {own}, not {asked}")).into());
        }
        (_, Some(own)) => own,
        (_, None) => server.namespace.clone().unwrap_or_default(),
    };
    let answer = ask(&server, (&namespace, &name), given.as_ref()).await?;
    let preview: ReleasePreview =
        serde_json::from_value(answer.clone()).context("the API server's answer is no preview")?;
    let text = match arguments.output {
        Output::Json => format!("{}\n", serde_json::to_string_pretty(&answer)?),
        Output::Yaml => convoy_yaml::to_yaml(&answer)?,
        Output::Name => names(&preview),
        Output::Table => table(&preview, false, Display::detect()),
        Output::Wide => table(&preview, true, Display::detect()),
    };
    print!("{text}");
    Ok(preview.problems.is_empty())
}

/// The Release in a file; `-` is standard input.
fn given(file: &Path) -> anyhow::Result<Value> {
    let mut text = Vec::new();
    let shown = file.display();
    let read = if file == Path::new("-") {
        std::io::stdin().lock().take(LONGEST_FILE).read_to_end(&mut text)
    } else {
        std::fs::File::open(file).and_then(|opened| opened.take(LONGEST_FILE).read_to_end(&mut text))
    };
    read.with_context(|| format!("reading {shown}"))?;
    let mut documents = Vec::new();
    for document in convoy_yaml::documents(&text) {
        let document = document.with_context(|| format!("reading {shown}"))?;
        let value = convoy_yaml::to_json(&document).with_context(|| format!("reading {shown}"))?;
        documents.push(value);
    }
    documents.retain(|document| !document.is_null());
    match documents.as_slice() {
        [one] if one["kind"] == "Release" => Ok(one.clone()),
        [_] => Err(Misuse(format!("{shown} holds no Release")).into()),
        several => {
            let count = several.len();
            Err(Misuse(format!("{shown} holds {count} documents; give one Release")).into())
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "it changes nothing: the API server answers what would be done"
)]
async fn ask(
    server: &Server,
    (namespace, name): (&str, &str),
    given: Option<&Value>,
) -> anyhow::Result<Value> {
    let path = format!(
        "/apis/{API_VERSION}/namespaces/{namespace}/{}/{name}/{}",
        Release::PLURAL,
        ReleasePreview::SUBRESOURCE,
    );
    let request = match given {
        None => http::Request::get(path).body(Vec::new()),
        Some(release) => http::Request::post(format!("{path}?fieldManager={}", field_manager::CLI))
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(release.to_string().into_bytes()),
    };
    let answer = server.client.request::<Value>(request.context("making the request")?).await;
    answer.with_context(|| format!("previewing the Release {namespace}/{name}"))
}

fn names(preview: &ReleasePreview) -> String {
    preview.objects.iter().map(|object| format!("{}\n", named(object))).collect()
}

/// `Deployment web/front`.
fn named(object: &PreviewObject) -> String {
    let slash = if object.namespace.is_empty() { "" } else { "/" };
    format!("{} {}{slash}{}", object.kind, object.namespace, object.name)
}

fn colour(action: PreviewAction) -> Option<Colour> {
    match action {
        PreviewAction::Create | PreviewAction::Adopt => Some(Colour::Good),
        PreviewAction::Change | PreviewAction::RunHook => Some(Colour::Changed),
        PreviewAction::Recreate | PreviewAction::Delete => Some(Colour::Bad),
        PreviewAction::Keep => None,
    }
}

fn table(preview: &ReleasePreview, is_wide: bool, display: Display) -> String {
    let mut text = String::new();
    let mut line = |line: &str| {
        text.push_str(line);
        text.push('\n');
    };
    let operation = preview.operation.map_or_else(|| "nothing new".to_owned(), |known| format!("{known:?}"));
    line(&format!(
        "{}: {operation} on Cluster {}",
        display.paint(Colour::Bold, &preview.summary),
        preview.cluster
    ));
    if !preview.source_revision.is_empty() {
        line(&format!("revision {}", preview.source_revision));
    }
    section(&mut line, "Problems", &preview.problems, |problem| {
        display.paint(Colour::Bad, &format!("{}: {}", problem.reason, problem.message))
    });
    section(&mut line, "Waits for, before anything is done", &preview.waits, String::clone);
    let number = |step: Option<i64>| step.map(|step| step.to_string()).unwrap_or_default();
    if !preview.steps.is_empty() {
        let mut steps = Table::new(&["STEP", "WHAT", "OBJECTS", "AFTER"]);
        for (index, PreviewStep { name, objects, waits_for }) in preview.steps.iter().enumerate() {
            let row = [(index + 1).to_string(), name.clone(), objects.to_string(), waits_for.clone()];
            steps.row(row.map(Cell::from).to_vec());
        }
        line(&format!("\n{}", steps.render(display).trim_end()));
    }
    let shown: Vec<&PreviewObject> = match is_wide {
        true => preview.objects.iter().collect(),
        false => preview.objects.iter().filter(|object| object.action != PreviewAction::Keep).collect(),
    };
    if !shown.is_empty() {
        let mut objects = match is_wide {
            true => Table::new(&["ACTION", "STEP", "OBJECT", "WHY", "SOURCE"]),
            false => Table::new(&["ACTION", "STEP", "OBJECT", "WHY"]),
        };
        for object in &shown {
            let action = object.action.as_words();
            let mut row: Vec<Cell> = vec![
                colour(object.action).map_or_else(|| action.into(), |colour| Cell::coloured(action, colour)),
                number(object.step).into(),
                named(object).into(),
                object.reason.clone().into(),
            ];
            if is_wide {
                row.push(object.source.clone().into());
            }
            objects.row(row);
        }
        line(&format!("\n{}", objects.render(display).trim_end()));
    }
    if is_wide {
        for object in shown.iter().filter(|object| !object.changes.is_empty()) {
            section(&mut line, &named(object), &object.changes, |change| told(change, display));
            if object.omitted_changes > 0 {
                line(&format!("  and {} more fields", object.omitted_changes));
            }
        }
    }
    section(&mut line, "Remarks", &preview.remarks, String::clone);
    text
}

/// A field that would change.
fn told(change: &PreviewChange, display: Display) -> String {
    let PreviewChange { path, before, after } = change;
    let painted = |colour, text: &str| display.paint(colour, text);
    match (before.as_str(), after.as_str()) {
        ("", after) => painted(Colour::Good, &format!("+ {path}: {after}")),
        (before, "") => painted(Colour::Bad, &format!("- {path}: {before}")),
        (before, after) => painted(Colour::Changed, &format!("~ {path}: {before} → {after}")),
    }
}

fn section<T>(line: &mut impl FnMut(&str), heading: &str, all: &[T], shown: impl Fn(&T) -> String) {
    if !all.is_empty() {
        line(&format!("\n{heading}:"));
        all.iter().for_each(|one| line(&format!("  {}", shown(one))));
    }
}

#[cfg(test)]
mod tests {
    use convoy_api::{Operation, PreviewCounts, PreviewProblem};

    use super::*;

    fn preview() -> ReleasePreview {
        let object = |action, kind: &str, name: &str, step| PreviewObject {
            action,
            kind: kind.to_owned(),
            namespace: "web".to_owned(),
            name: name.to_owned(),
            reason: "because".to_owned(),
            step,
            ..PreviewObject::default()
        };
        let change = |path: &str, before: &str, after: &str| PreviewChange {
            path: path.to_owned(),
            before: before.to_owned(),
            after: after.to_owned(),
        };
        let mut changed = object(PreviewAction::Change, "Deployment", "front", Some(2));
        changed.changes = vec![change("spec.replicas", "1", "2"), change("spec.paused", "", "true")];
        changed.omitted_changes = 3;
        let step = |name: &str, objects, waits: &str| PreviewStep {
            name: name.to_owned(),
            objects,
            waits_for: waits.to_owned(),
        };
        ReleasePreview {
            cluster: "prod".to_owned(),
            source_revision: "main@sha1:1".to_owned(),
            operation: Some(Operation::Upgrade),
            summary: "2 to change".to_owned(),
            counts: PreviewCounts { change: 1, keep: 1, run_hook: 1, ..PreviewCounts::default() },
            steps: vec![step("pre-upgrade hooks", 1, ""), step("wave 0", 1, "the hooks have ended well")],
            objects: vec![
                object(PreviewAction::RunHook, "Job", "migrate", Some(1)),
                changed,
                object(PreviewAction::Keep, "ConfigMap", "same", None),
            ],
            remarks: vec!["a remark".to_owned()],
            ..ReleasePreview::default()
        }
    }

    #[test]
    fn a_table_says_what_why_and_in_which_order() {
        let want = "\
2 to change: Upgrade on Cluster prod
revision main@sha1:1

STEP   WHAT                OBJECTS   AFTER
1      pre-upgrade hooks   1
2      wave 0              1         the hooks have ended well

ACTION     STEP   OBJECT                 WHY
run hook   1      Job web/migrate        because
change     2      Deployment web/front   because

Remarks:
  a remark
";
        assert_eq!(table(&preview(), false, Display::Plain), want);
        let wide = table(&preview(), true, Display::Plain);
        assert!(wide.contains("keep              ConfigMap web/same     because\n"), "{wide}");
        let fields = "
Deployment web/front:
  ~ spec.replicas: 1 → 2
  + spec.paused: true
  and 3 more fields
";
        assert!(wide.contains(fields), "{wide}");
        let coloured = table(&preview(), false, Display::Terminal);
        assert!(coloured.contains("\x1b[33mchange\x1b[0m"), "{coloured}");
    }

    #[test]
    fn problems_come_first() {
        let problem =
            |text: &str| PreviewProblem { reason: "PlanFailed".to_owned(), message: text.to_owned() };
        let problems = vec![problem("one"), problem("two")];
        let text = table(
            &ReleasePreview {
                problems,
                summary: "2 problems are in the way".to_owned(),
                ..Default::default()
            },
            false,
            Display::Plain,
        );
        assert!(text.contains("Problems:\n  PlanFailed: one\n  PlanFailed: two\n"), "{text}");
    }
}
