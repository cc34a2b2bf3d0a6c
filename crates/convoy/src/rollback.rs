//! `convoy rollback`: a Release goes back to an earlier revision.

use std::path::PathBuf;

use anyhow::Context as _;
use convoy_api::{API_VERSION, GROUP, Release, ReleaseRollback, field_manager};
use convoy_runtime::{ProcessIdentity, context_client};
use kube::Client;
use serde_json::Value;

use crate::arguments::{ObjectOutput, Rollback};

/// Asks the API server for the rollback, and prints what it answers.
pub(crate) async fn run(arguments: &Rollback) -> anyhow::Result<()> {
    let identity = ProcessIdentity { process: "rollback", replica_id: "cli".to_owned() };
    let target = &arguments.target;
    // As kubectl does when it is told nothing.
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".kube/config"));
    let kubeconfig = target.kubeconfig.clone().or_else(|| home().filter(|path| path.exists()));
    let client = context_client(kubeconfig.as_deref(), target.context.as_deref(), &identity)
        .await
        .context("connecting to the API server")?;
    let namespace = target.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
    let answer = ask(&client, &namespace, arguments).await?;
    print!("{}", text(&answer, arguments)?);
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a person asks, who owns no shard; the API server decides")]
async fn ask(client: &Client, namespace: &str, arguments: &Rollback) -> anyhow::Result<Value> {
    let name = arguments.release.as_str();
    let body = ReleaseRollback { revision: arguments.to, ..ReleaseRollback::default() }.body(namespace, name);
    let dry_run = if arguments.dry_run { "&dryRun=All" } else { "" };
    let path = format!(
        "/apis/{API_VERSION}/namespaces/{namespace}/{}/{name}/{}?fieldManager={}{dry_run}",
        Release::PLURAL,
        ReleaseRollback::SUBRESOURCE,
        field_manager::CLI,
    );
    let request = http::Request::post(path)
        .header("Content-Type", "application/json")
        .body(body.to_string().into_bytes())
        .context("making the request")?;
    let answer = client.request::<Value>(request).await;
    answer.with_context(|| format!("rolling back the Release {namespace}/{name}"))
}

fn text(answer: &Value, arguments: &Rollback) -> anyhow::Result<String> {
    let name = format!("release.{GROUP}/{}", arguments.release);
    Ok(match arguments.output {
        Some(ObjectOutput::Name) => format!("{name}\n"),
        Some(ObjectOutput::Json) => format!("{}\n", serde_json::to_string_pretty(answer)?),
        Some(ObjectOutput::Yaml) => convoy_yaml::to_yaml(answer)?,
        None => {
            let revision = answer.get("revision").and_then(Value::as_i64).unwrap_or_default();
            let source = answer.get("sourceRevision").and_then(Value::as_str).unwrap_or_default();
            let dry = if arguments.dry_run { " (server dry run)" } else { "" };
            format!("{name} goes back to revision {revision} ({source}){dry}\n")
        }
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use serde_json::json;

    use super::*;
    use crate::arguments::{Arguments, Command};

    fn parsed(line: &str) -> Rollback {
        match Arguments::try_parse_from(line.split(' ')).unwrap().command {
            Command::Rollback(rollback) => rollback,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_answer_is_printed_as_asked_for() {
        let answer = ReleaseRollback { revision: Some(2), source_revision: "main@sha1:a".to_owned() }
            .body("team", "web");
        let printed = |line: &str| text(&answer, &parsed(line)).unwrap();
        let plain = printed("convoy rollback web --to 2 -n team");
        assert_eq!(plain, "release.convoy.kumodo.io/web goes back to revision 2 (main@sha1:a)\n");
        assert!(printed("convoy rollback web --dry-run").ends_with("(server dry run)\n"));
        assert_eq!(printed("convoy rollback web -o name"), "release.convoy.kumodo.io/web\n");
        let json_text: Value = serde_json::from_str(&printed("convoy rollback web -o json")).unwrap();
        assert_eq!((&json_text["kind"], &json_text["revision"]), (&json!("ReleaseRollback"), &json!(2)));
        assert!(printed("convoy rollback web -o yaml").contains("revision: 2\n"));
    }

    #[test]
    fn a_revision_is_a_number_from_one_on() {
        for line in ["convoy rollback web --to 0", "convoy rollback web --to two", "convoy rollback"] {
            assert!(Arguments::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
    }
}
