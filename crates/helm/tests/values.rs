//! What Helm v4.2.4 made of the charts, values and `--set` arguments in `data/`: how they come together.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking, as tests do")]

use convoy_helm::{Chart, Entropy, Environment, TemplateFlags, template};
use serde_json::Value;

/// The template of every chart in `data/values.jsonl`.
const TEMPLATE: &str = r#"kind: K
metadata: {name: n}
v: |
  {{ printf "%#v" .Values }}
w: |
 {{ range .Chart.Dependencies }}{{ .Name }}={{ .Enabled }}/{{ .ImportValues }} {{ end }}
"#;

struct Zeros;

impl Entropy for Zeros {
    fn fill(&mut self, bytes: &mut [u8]) {
        bytes.fill(0);
    }
}

fn environment() -> Environment {
    Environment::new(jiff::Timestamp::UNIX_EPOCH, Zeros)
}

fn cases(text: &str) -> impl Iterator<Item = Value> + '_ {
    text.lines().map(|line| serde_json::from_str(line).unwrap())
}

/// Helm gives the values of a subchart another type name.
fn without_type(output: &str) -> String {
    output.replace("common.Values{", "map[string]interface {}{")
}

fn check(case: &Value, files: Vec<(String, String)>, flags: &TemplateFlags, values: &str) {
    let mut read = |_: &str| Ok(values.as_bytes().to_vec());
    let outcome = template("r", flags, &mut read, || Chart::load(files), &mut environment());
    match (case.get("output").and_then(Value::as_str), outcome) {
        (Some(wanted), Ok(found)) => {
            let found = String::from_utf8(found).unwrap();
            assert_eq!(without_type(&found), without_type(wanted), "{case}");
        }
        (None, Err(error)) => {
            assert_eq!(error.to_string(), case.get("error").and_then(Value::as_str).unwrap(), "{case}");
        }
        (_, found) => panic!("{case}\ngave {:?}", found.map(String::from_utf8)),
    }
}

#[test]
fn values_of_charts_parents_and_users_come_together_as_in_helm() {
    for case in cases(include_str!("data/values.jsonl")) {
        let own = case.get("files").and_then(Value::as_object).unwrap();
        let mut files: Vec<(String, String)> =
            own.iter().map(|(name, text)| (name.clone(), text.as_str().unwrap().to_owned())).collect();
        for chart in case.get("charts").and_then(Value::as_array).unwrap() {
            let folder = chart.as_str().filter(|folder| *folder != ".");
            let folder = folder.map(|folder| format!("{folder}/")).unwrap_or_default();
            files.push((format!("{folder}templates/t.yaml"), TEMPLATE.to_owned()));
        }
        let flags = TemplateFlags { values: vec!["v.yaml".to_owned()], ..TemplateFlags::default() };
        check(&case, files, &flags, case.get("values").and_then(Value::as_str).unwrap());
    }
}

#[test]
fn set_arguments_are_read_as_in_helm() {
    for case in cases(include_str!("data/set.jsonl")) {
        let files = [
            ("Chart.yaml", "apiVersion: v2\nname: sc\nversion: 0.1.0\n"),
            ("values.yaml", "a: {b: 1}\nl: [1,{x: 2}]\ns: t\n"),
            ("templates/t.yaml", "v: |\n  {{ printf \"%#v\" .Values }}\n"),
        ];
        let files = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        let mut flags = TemplateFlags::default();
        let mut arguments =
            case.get("args").and_then(Value::as_array).unwrap().iter().map(|a| a.as_str().unwrap());
        while let (Some(flag), Some(argument)) = (arguments.next(), arguments.next()) {
            let list = match flag {
                "--set" => &mut flags.set,
                "--set-string" => &mut flags.set_string,
                "--set-json" => &mut flags.set_json,
                "--set-literal" => &mut flags.set_literal,
                other => panic!("{other}"),
            };
            list.push(argument.to_owned());
        }
        check(&case, files, &flags, "");
    }
}
