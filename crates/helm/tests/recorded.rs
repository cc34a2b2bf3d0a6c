//! Charts with what helm v4.2.4 prints for them, and what differs between Helm 3 and 4 with what helm v3.22.0 prints.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking, as tests do")]

use convoy_helm::{Chart, Entropy, Environment, HelmVersion, TemplateFlags, template};
use serde_json::Value as Json;

struct Zeros;

impl Entropy for Zeros {
    fn fill(&mut self, bytes: &mut [u8]) {
        bytes.fill(0);
    }
}

fn print(case: &Json, helm: HelmVersion) -> Result<String, String> {
    let files = case["files"].as_object().unwrap().iter();
    let files = files.map(|(name, text)| (name.clone(), text.as_str().unwrap().to_owned()));
    let mut flags = TemplateFlags { helm, ..TemplateFlags::default() };
    let texts: Vec<&str> = case["flags"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
    let mut rest = texts.into_iter();
    while let Some(flag) = rest.next() {
        let mut next = || rest.next().unwrap().to_owned();
        match flag {
            "--set" => flags.set.push(next()),
            "--set-json" => flags.set_json.push(next()),
            "--kube-version" => flags.kube_version = Some(next()),
            "--include-crds" => flags.include_crds = true,
            "-s" => flags.show_only.push(next()),
            other => panic!("{other}"),
        }
    }
    let name = case["release"].as_str().unwrap_or("rel");
    let mut environment = Environment::new(jiff::Timestamp::UNIX_EPOCH, Zeros);
    let load = || Chart::load_for(files, helm);
    let printed = template(name, &flags, &mut |_| Err("no files".to_owned()), load, &mut environment);
    printed.map(|text| String::from_utf8(text).unwrap()).map_err(|error| error.to_string())
}

fn wanted(case: &Json) -> Result<String, String> {
    match (&case["out"], &case["error"]) {
        (Json::String(out), _) => Ok(out.clone()),
        (_, Json::String(error)) => Err(error.clone()),
        _ => panic!("{case}"),
    }
}

fn compare(case: &Json, helm: HelmVersion) -> Result<(), String> {
    let (wanted, found) = (wanted(case), print(case, helm));
    match found == wanted {
        true => Ok(()),
        false => Err(format!("{}\nhelm: {wanted:?}\nours: {found:?}\n", case["name"])),
    }
}

#[test]
fn charts_render_and_fail_as_in_helm_4() {
    let cases = include_str!("data/helm-4.2.jsonl").lines().map(|case| serde_json::from_str(case).unwrap());
    let wrong: Vec<String> = cases.filter_map(|case: Json| compare(&case, HelmVersion::V4).err()).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn charts_for_helm_3_render_and_fail_as_in_helm_3() {
    let (mut wrong, mut alike) = (Vec::new(), Vec::new());
    for case in include_str!("data/helm-3.22.jsonl").lines() {
        let case: Json = serde_json::from_str(case).unwrap();
        wrong.extend(compare(&case, HelmVersion::V3).err());
        if print(&case, HelmVersion::V4) == wanted(&case) {
            alike.push(case["name"].as_str().unwrap().to_owned());
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // The others are what the version is for.
    let both = [
        "mustToJson is there",
        "an error in tpl is one line",
        "fail and required",
        "a manifest that is no YAML",
    ];
    assert_eq!(alike, both);
}
