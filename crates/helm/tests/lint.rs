//! Charts with faults, and what helm v4.2.4 finds in them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking, as tests do")]

use convoy_helm::{Entropy, Environment, KubeVersion, LintChart, LintOptions, Severity, TemplateFlags, lint};
use serde_json::Value as Json;

struct Zeros;

impl Entropy for Zeros {
    fn fill(&mut self, bytes: &mut [u8]) {
        bytes.fill(0);
    }
}

fn strings(json: &Json) -> Vec<String> {
    json.as_array().into_iter().flatten().map(|text| text.as_str().unwrap().to_owned()).collect()
}

#[test]
fn charts_with_faults_are_found_out_as_helm_does() {
    let mut wrong = Vec::new();
    for case in include_str!("data/lint-4.2.jsonl").lines() {
        let case: Json = serde_json::from_str(case).unwrap();
        let files = case["files"].as_object().unwrap().iter();
        let chart = LintChart {
            folder: "/chart".to_owned(),
            files: files.map(|(name, text)| (name.clone(), text.as_str().unwrap().into())).collect(),
            folders: strings(&case["folders"]).into_iter().collect(),
        };
        let mut options = LintOptions { namespace: "default".to_owned(), ..LintOptions::default() };
        let flags = strings(&case["flags"]);
        match flags.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            [] => {}
            ["--kube-version", version] => options.kube_version = Some(KubeVersion::parse(version).unwrap()),
            ["--skip-schema-validation"] => options.skip_schema = true,
            ["--set", values] => {
                let flags = TemplateFlags { set: vec![(*values).to_owned()], ..TemplateFlags::default() };
                options.values = flags.merge_values(&mut |_| Err("no files".to_owned())).unwrap();
            }
            other => panic!("{other:?}"),
        }
        let mut environment = Environment::new(jiff::Timestamp::UNIX_EPOCH, Zeros);
        let messages = lint(&chart, &options, &mut environment);
        // Violations of a schema come in the order of a Go map.
        let shown = messages.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        let mut lines: Vec<&str> = shown.trim_end().split('\n').filter(|_| !shown.is_empty()).collect();
        lines.sort_unstable();
        let failed = messages.iter().any(|message| message.severity == Severity::Error);
        if lines != strings(&case["messages"]) || failed != (case["failed"] == true) {
            let wanted = strings(&case["messages"]).join("\n");
            wrong.push(format!("{} {flags:?}\nhelm:\n{wanted}\nours:\n{}\n", case["name"], lines.join("\n")));
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}
