//! `convoy health`: how the objects of a Release are, as a tree.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Context as _;
use convoy_api::{HealthChild, HealthObject, ReleaseHealth};
use convoy_runtime::Clock;

use super::arguments::Health;
use super::history::document;
use super::server::Server;
use super::watched::{Shown, shown_once, watch};
use crate::terminal::{Colour, Display};

/// How often it is asked anew with `--watch`.
const LOOK: Duration = Duration::from_secs(2);
const HEALTHY: &str = "Healthy";

/// Prints how the objects are. False when they are not healthy.
pub(super) async fn run(arguments: &Health, clock: &dyn Clock) -> anyhow::Result<bool> {
    let server = Server::connect(&arguments.connection).await?;
    let ask = async || look(&server, arguments).await;
    if arguments.watch { watch(LOOK, clock, ask).await } else { shown_once(&ask().await?) }
}

async fn look(server: &Server, arguments: &Health) -> anyhow::Result<Shown> {
    let answer = server.observed(&arguments.release, ReleaseHealth::SUBRESOURCE, "").await?;
    let health: ReleaseHealth =
        serde_json::from_value(answer.clone()).context("the API server's answer is no health")?;
    let text = match arguments.output {
        Some(output) => document(&answer, output)?,
        None => tree(&health, arguments.all, Display::detect()),
    };
    let is_healthy = health.state == HEALTHY;
    Ok(Shown { text, is_good: is_healthy, is_last: is_healthy })
}

fn colour(state: &str) -> Colour {
    match state {
        HEALTHY | "Suspended" => Colour::Good,
        "Degraded" | "Missing" => Colour::Bad,
        _ => Colour::Changed,
    }
}

fn tree(health: &ReleaseHealth, is_all: bool, display: Display) -> String {
    let state = display.paint(colour(&health.state), &health.state);
    let mut text = format!("{state} on Cluster {}: {}\n", health.cluster, health.summary);
    let shown: Vec<&HealthObject> =
        health.objects.iter().filter(|object| is_all || object.state != HEALTHY).collect();
    for (index, object) in shown.iter().enumerate() {
        let is_last = index + 1 == shown.len();
        branch(
            &mut text,
            ("", is_last),
            &object.named(),
            (&object.state, &object.reason, &object.message),
            display,
        );
        let below = if is_last { "   " } else { "│  " };
        children(&mut text, below, "", &object.children, display);
    }
    health.remarks.iter().for_each(|remark| _ = writeln!(text, "# {remark}"));
    if health.omitted_objects > 0 {
        _ = writeln!(text, "# {} more objects were left out", health.omitted_objects);
    }
    text
}

/// The children of one that has this name; the object itself has none.
fn children(text: &mut String, indent: &str, owner: &str, all: &[HealthChild], display: Display) {
    let own: Vec<&HealthChild> = all.iter().filter(|child| child.owner == owner).collect();
    for (index, child) in own.iter().enumerate() {
        let is_last = index + 1 == own.len();
        let name = format!("{} {}", child.kind, child.name);
        branch(text, (indent, is_last), &name, (&child.state, &child.reason, &child.message), display);
        // What made others is not made by them.
        if child.owner.is_empty() && child.kind != "Pod" && !child.name.is_empty() {
            let below = format!("{indent}{}", if is_last { "   " } else { "│  " });
            children(text, &below, &child.name, all, display);
        }
    }
}

fn branch(
    text: &mut String,
    (indent, is_last): (&str, bool),
    name: &str,
    (state, reason, message): (&str, &str, &str),
    display: Display,
) {
    let corner = if is_last { "└─ " } else { "├─ " };
    let mut line = format!("{indent}{corner}{name}: {}", display.paint(colour(state), state));
    if !reason.is_empty() && reason != state {
        _ = write!(line, " ({reason})");
    }
    if !message.is_empty() {
        _ = write!(line, ": {}", message.replace('\n', " "));
    }
    _ = writeln!(text, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_leads_to_what_is_wrong() {
        let child = |kind: &str, name: &str, owner: &str, message: &str| HealthChild {
            kind: kind.to_owned(),
            name: name.to_owned(),
            owner: owner.to_owned(),
            state: "Degraded".to_owned(),
            reason: "ImagePullBackOff".to_owned(),
            message: message.to_owned(),
        };
        let object = |name: &str, state: &str| HealthObject {
            kind: "Deployment".to_owned(),
            namespace: "web".to_owned(),
            name: name.to_owned(),
            state: state.to_owned(),
            ..HealthObject::default()
        };
        let mut front = object("front", "Progressing");
        front.children = vec![
            child("ReplicaSet", "front-1", "", ""),
            child("Pod", "front-1-a", "front-1", "no such\nimage"),
        ];
        let health = ReleaseHealth {
            cluster: "prod".to_owned(),
            state: "Progressing".to_owned(),
            summary: "1 of 3 objects are healthy".to_owned(),
            objects: vec![front, object("back", "Missing"), object("well", HEALTHY)],
            ..ReleaseHealth::default()
        };
        let want = "\
Progressing on Cluster prod: 1 of 3 objects are healthy
├─ Deployment web/front: Progressing
│  └─ ReplicaSet front-1: Degraded (ImagePullBackOff)
│     └─ Pod front-1-a: Degraded (ImagePullBackOff): no such image
└─ Deployment web/back: Missing
";
        assert_eq!(tree(&health, false, Display::Plain), want);
        assert!(tree(&health, true, Display::Plain).ends_with("└─ Deployment web/well: Healthy\n"));
    }
}
