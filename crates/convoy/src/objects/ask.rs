//! `convoy reconcile`, `suspend` and `resume`: a person asks, and the controllers act.

use std::time::Duration;

use anyhow::Context as _;
use convoy_api::{KindInfo, annotation, condition_type, reason};
use convoy_runtime::Clock;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::Misuse;
use super::arguments::{Reconcile, Suspend};
use super::server::Server;
use super::what::{Wanted, parse, shown};

/// How often an object that is waited for is read. A command of a person is no load.
const LOOK: Duration = Duration::from_millis(250);

/// Sets `spec.suspend`. False when one that was named is not there.
pub(super) async fn suspend(arguments: &Suspend, is_suspended: bool) -> anyhow::Result<bool> {
    let wanted = parse(&arguments.what)?;
    let server = Server::select(&arguments.selection).await?;
    server.check(&wanted, false)?;
    let mut is_all = true;
    for one in &wanted {
        if one.info.schema.pointer("/properties/spec/properties/suspend").is_none() {
            return Err(Misuse(format!("a {} cannot be suspended", one.info.kind)).into());
        }
        let (objects, has_all) = server.objects(one).await?;
        is_all &= has_all;
        for object in objects {
            let name = shown(&one.info, object.metadata.name.as_deref().unwrap_or_default());
            let word = if is_suspended { "suspended" } else { "resumed" };
            let is_so = object.data.pointer("/spec/suspend").and_then(Value::as_bool).unwrap_or(false);
            if is_so == is_suspended {
                println!("{name} unchanged");
                continue;
            }
            // Absent is what was before: whoever applies the spec without it then owns no less.
            let value = if is_suspended { Value::Bool(true) } else { Value::Null };
            server.patch(&one.info, &object, &json!({"spec": {"suspend": value}})).await?;
            println!("{name} {word}");
        }
    }
    Ok(is_all)
}

/// Asks for a look, and waits for what it comes to. False when not all are ready then.
pub(super) async fn reconcile(arguments: &Reconcile, clock: &dyn Clock) -> anyhow::Result<bool> {
    let wanted = parse(&arguments.what)?;
    let server = Server::select(&arguments.selection).await?;
    server.check(&wanted, false)?;
    let is_of_releases = wanted.iter().all(|wanted| wanted.info.kind == "Release");
    if (arguments.force || arguments.with_source) && !is_of_releases {
        return Err(Misuse("--force and --with-source are for Releases".to_owned()).into());
    }
    let deadline = clock.monotonic() + arguments.timeout.as_std();
    let (mut is_good, mut asked) = (true, Vec::new());
    for one in &wanted {
        if one.info.schema.pointer("/properties/status/properties/lastHandledReconcileAt").is_none() {
            return Err(Misuse(format!("a {} is not reconciled", one.info.kind)).into());
        }
        let (objects, has_all) = server.objects(one).await?;
        is_good &= has_all;
        for object in objects {
            if arguments.with_source {
                is_good &= source(&server, &object, clock, deadline, arguments.no_wait).await?;
            }
            let value = ask(&server, &one.info, &object, arguments.force, clock).await?;
            asked.push((one, object, value));
        }
    }
    if arguments.no_wait {
        return Ok(is_good);
    }
    for (one, object, value) in asked {
        is_good &= wait(&server, &one.info, &object, &value, clock, deadline).await?;
    }
    Ok(is_good)
}

/// Writes the annotations, and answers with the value that is echoed.
async fn ask(
    server: &Server,
    info: &KindInfo,
    object: &DynamicObject,
    is_forced: bool,
    clock: &dyn Clock,
) -> anyhow::Result<String> {
    let name = shown(info, object.metadata.name.as_deref().unwrap_or_default());
    if object.data.pointer("/spec/suspend").and_then(Value::as_bool) == Some(true) {
        anyhow::bail!("{name} is suspended; resume it first");
    }
    let value = clock.now().to_string();
    let mut annotations = json!({annotation::RECONCILE_AT: value});
    if is_forced && let Some(all) = annotations.as_object_mut() {
        all.insert(annotation::FORCE_AT.to_owned(), value.clone().into());
    }
    server.patch(info, object, &json!({"metadata": {"annotations": annotations}})).await?;
    println!("{name} asked");
    Ok(value)
}

/// Asks the source of a Release.
async fn source(
    server: &Server,
    release: &DynamicObject,
    clock: &dyn Clock,
    deadline: Duration,
    no_wait: bool,
) -> anyhow::Result<bool> {
    let Some((plural, name)) = source_of(&release.data) else { return Ok(true) };
    let wanted = parse(&[plural.to_owned(), name])?;
    // It is in the namespace of its Release.
    for Wanted { info, names } in &wanted {
        let api = server.api_beside(info, release);
        for name in names {
            let found = api.get_opt(name).await.with_context(|| format!("reading {}", shown(info, name)))?;
            let Some(object) = found else {
                eprintln!("convoy: there is no {}", shown(info, name));
                return Ok(false);
            };
            let value = ask(server, info, &object, false, clock).await?;
            if !no_wait && !wait(server, info, &object, &value, clock, deadline).await? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Kind and name of the source that a Release names.
fn source_of(release: &Value) -> Option<(&'static str, String)> {
    let ways = [
        ("gitrepositories", "/spec/source/git/repositoryRef/name"),
        ("helmregistries", "/spec/source/helm/registryRef/name"),
        ("ociregistries", "/spec/source/oci/registryRef/name"),
    ];
    ways.into_iter()
        .find_map(|(plural, pointer)| Some((plural, release.pointer(pointer)?.as_str()?.to_owned())))
}

/// Waits for what a look comes to, and tells on the way what is waited for.
async fn wait(
    server: &Server,
    info: &KindInfo,
    object: &DynamicObject,
    value: &str,
    clock: &dyn Clock,
    deadline: Duration,
) -> anyhow::Result<bool> {
    let short = object.metadata.name.as_deref().unwrap_or_default();
    let name = shown(info, short);
    let api = server.api_beside(info, object);
    let mut told = String::new();
    loop {
        let now = api.get_opt(short).await.with_context(|| format!("reading {name}"))?;
        let Some(now) = now.filter(|now| now.metadata.uid == object.metadata.uid) else {
            eprintln!("convoy: {name} was deleted");
            return Ok(false);
        };
        let answer = answer(&now.data, now.metadata.generation, value);
        match &answer {
            Answer::Ready(message) => {
                println!("{name} is ready: {message}");
                return Ok(true);
            }
            Answer::Stopped(reason, message) => {
                eprintln!("convoy: {name} is not ready ({reason}): {message}");
                return Ok(false);
            }
            Answer::UnderWay(message) => {
                if *message != told {
                    eprintln!("{name}: {message}");
                    told.clone_from(message);
                }
            }
        }
        if clock.monotonic() >= deadline {
            eprintln!("convoy: {name} is not done within the time of --timeout: {told}");
            return Ok(false);
        }
        clock.sleep_until((clock.monotonic() + LOOK).min(deadline)).await;
    }
}

/// What an object says of the look that was asked for.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Ready(String),
    /// Nothing more comes by itself.
    Stopped(String, String),
    UnderWay(String),
}

fn answer(object: &Value, generation: Option<i64>, value: &str) -> Answer {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    if text("/status/lastHandledReconcileAt") != value {
        return Answer::UnderWay("waits for its controller".to_owned());
    }
    let observed = object.pointer("/status/observedGeneration").and_then(Value::as_i64);
    if observed != generation {
        return Answer::UnderWay("its spec has changed; waits for its controller".to_owned());
    }
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let find = |type_: &str| {
        let found = conditions.into_iter().flatten().find(|condition| condition["type"] == type_);
        let part = |name: &str| {
            let text = found.and_then(|found| found.get(name)).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        (part("status"), part("reason"), part("message"))
    };
    let (ready, why, message) = find(condition_type::READY);
    let is_stalled = find(condition_type::STALLED).0 == "True";
    let is_reconciling = find(condition_type::RECONCILING).0 == "True";
    match ready.as_str() {
        "True" if !is_reconciling => Answer::Ready(message),
        "False" if is_stalled || why == reason::SUSPENDED || !is_reconciling => Answer::Stopped(why, message),
        _ if message.is_empty() => Answer::UnderWay("is being looked at".to_owned()),
        _ => Answer::UnderWay(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(value: &str, conditions: &[(&str, &str, &str)]) -> Answer {
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|(type_, status, reason)| json!({"type": type_, "status": status, "reason": reason, "message": "m"}))
            .collect();
        let status =
            json!({"lastHandledReconcileAt": value, "observedGeneration": 2, "conditions": conditions});
        answer(&json!({"status": status}), Some(2), "now")
    }

    #[test]
    fn a_look_is_over_when_it_is_echoed_and_nothing_more_comes() {
        let m = || "m".to_owned();
        let stopped = |reason: &str| Answer::Stopped(reason.to_owned(), m());
        assert_eq!(says("now", &[("Ready", "True", "Succeeded")]), Answer::Ready(m()));
        let under_way = Answer::UnderWay("waits for its controller".to_owned());
        assert_eq!(says("earlier", &[("Ready", "True", "Succeeded")]), under_way);
        let waits = [("Ready", "False", "WaitingForHealth"), ("Reconciling", "True", "Progressing")];
        assert_eq!(says("now", &waits), Answer::UnderWay(m()));
        assert_eq!(
            says("now", &[("Ready", "False", "RenderFailed"), ("Stalled", "True", "RenderFailed")]),
            stopped("RenderFailed")
        );
        assert_eq!(says("now", &[("Ready", "False", "HealthTimeout")]), stopped("HealthTimeout"));
        assert_eq!(says("now", &[("Ready", "Unknown", "ObserverMissing")]), Answer::UnderWay(m()));
        assert_eq!(says("now", &[]), Answer::UnderWay("is being looked at".to_owned()));
        let changed = answer(
            &json!({"status": {"lastHandledReconcileAt": "now", "observedGeneration": 1}}),
            Some(2),
            "now",
        );
        assert!(matches!(changed, Answer::UnderWay(_)));
    }

    #[test]
    fn a_release_has_one_source() {
        let of = |source: Value| source_of(&json!({"spec": {"source": source}}));
        let apps = || "apps".to_owned();
        assert_eq!(
            of(json!({"git": {"repositoryRef": {"name": "apps"}}})),
            Some(("gitrepositories", apps()))
        );
        assert_eq!(of(json!({"helm": {"registryRef": {"name": "apps"}}})), Some(("helmregistries", apps())));
        assert_eq!(of(json!({"oci": {"registryRef": {"name": "apps"}}})), Some(("ociregistries", apps())));
        assert_eq!(of(json!({})), None);
    }
}
