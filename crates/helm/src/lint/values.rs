//! values.yaml, with the values that are laid over it.

use super::Severity::{Error, Info};
use super::{LintChart, LintOptions, Linter};
use crate::coalesce::{Nulls, coalesce_tables};
use crate::schema;
use crate::values::{ValuesError, read_document, to_map};
use crate::watch::Watch;
use convoy_gotemplate::{Map, Str};

const FILE: &str = "values.yaml";

pub(super) fn lint(linter: &mut Linter, chart: &LintChart, options: &LintOptions) {
    let text = chart.file(FILE);
    let exists = text.is_some() || chart.folders.contains(FILE);
    if !linter.rule(Info, FILE, if exists { Ok(()) } else { Err("file does not exist".to_owned()) }) {
        return;
    }
    let found = match text {
        Some(text) => validate(chart, text, options),
        None => Err(format!("unable to parse YAML: read {}/{FILE}: is a directory", chart.folder)),
    };
    linter.rule(Error, FILE, found);
}

fn validate(chart: &LintChart, text: &[u8], options: &LintOptions) -> Result<(), String> {
    let values = read_document(text).map_err(|error| {
        let problem = match &error {
            ValuesError::Yaml(cause) => format!("{error}: {cause}"),
            _ => error.to_string().replace("map[string]interface {}", "common.Values"),
        };
        format!("unable to parse YAML: {problem}")
    })?;
    // Values of subcharts are not looked at here.
    let (merged, watch) = (Map::default(), Watch::endless());
    coalesce_tables(&merged, &to_map(&options.values, &watch), Nulls::Remove);
    coalesce_tables(&merged, &to_map(&values, &watch), Nulls::Remove);
    match chart.file("values.schema.json") {
        Some(schema) if !schema.is_empty() && !options.skip_schema => {
            schema::validate_values(&Str::from(schema), &merged)
        }
        _ => Ok(()),
    }
}
