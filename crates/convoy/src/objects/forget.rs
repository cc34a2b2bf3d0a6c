//! `convoy forget`: the way out for a Release or a Cluster whose target is gone.
//!
//! It writes no inventory and takes no finalizer itself: two who do would race. It tells the controllers to let go
//! (`deletionPolicy: Orphan`, or no Cluster any more), and waits until they have.

use std::collections::BTreeMap;
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::time::Duration;

use anyhow::Context as _;
use convoy_api::{KindInfo, label};
use convoy_runtime::Clock;
use kube::api::{DynamicObject, ListParams};
use serde_json::{Value, json};

use super::Misuse;
use super::arguments::Forget;
use super::server::Server;
use super::what::{parse, shown};

/// Objects that are named when it is asked; the rest is counted.
const SHOWN: usize = 20;
/// How often it is looked whether it is gone.
const LOOK: Duration = Duration::from_millis(250);

/// Lets go. False when it was not wanted after all, or did not end in time.
pub(super) async fn run(arguments: &Forget, clock: &dyn Clock) -> anyhow::Result<bool> {
    let wanted = parse(&arguments.what)?;
    let server = Server::connect(&arguments.connection).await?;
    server.check(&wanted, false)?;
    let deadline = clock.monotonic() + arguments.timeout.as_std();
    let mut is_good = true;
    for one in &wanted {
        if !["Release", "Cluster"].contains(&one.info.kind) {
            let message = format!("a {} has nothing on a target: delete it", one.info.kind);
            return Err(Misuse(message).into());
        }
        let (objects, has_all) = server.objects(one).await?;
        is_good &= has_all;
        for object in objects {
            is_good &= forget(&server, &one.info, &object, arguments.yes, (clock, deadline)).await?;
        }
    }
    Ok(is_good)
}

async fn forget(
    server: &Server,
    info: &KindInfo,
    object: &DynamicObject,
    is_agreed: bool,
    (clock, deadline): (&dyn Clock, Duration),
) -> anyhow::Result<bool> {
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let is_release = info.kind == "Release";
    let inventories = match is_release {
        true => inventories(server, object).await?,
        false => inventories_on(server, object).await?,
    };
    eprint!("{}", what_happens(info, object, &inventories));
    if !is_agreed && !agrees(name)? {
        eprintln!("convoy: nothing was done");
        return Ok(false);
    }
    if is_release {
        let patch = json!({"metadata": {"uid": object.metadata.uid}, "spec": {"apply": {"deletionPolicy": "Orphan"}}});
        server.patch(info, object, &patch).await?;
    }
    server.delete(info, object).await?;
    let api = server.api_beside(info, object);
    let name = shown(info, name);
    loop {
        let short = object.metadata.name.as_deref().unwrap_or_default();
        let now = api.get_opt(short).await.with_context(|| format!("reading {name}"))?;
        let now = now.filter(|now| now.metadata.uid == object.metadata.uid);
        let Some(now) = now else {
            println!("{name} forgotten");
            return Ok(true);
        };
        if clock.monotonic() >= deadline {
            let finalizers = now.metadata.finalizers.unwrap_or_default().join(", ");
            eprintln!(
                "convoy: {name} is being deleted, but still there after the time of --timeout (finalizers: {finalizers}); \
                 a controller-manager ends it: `convoy shards` shows whether one has its shard"
            );
            return Ok(false);
        }
        clock.sleep_until((clock.monotonic() + LOOK).min(deadline)).await;
    }
}

/// All inventories of a Release.
pub(super) async fn inventories(server: &Server, release: &DynamicObject) -> anyhow::Result<Vec<Value>> {
    let uid = release.metadata.uid.as_deref().unwrap_or_default();
    let labels = format!("{}={uid}", label::INVENTORY_OF);
    list(server, release, &ListParams::default().labels(&labels)).await
}

/// All inventories of Releases on a Cluster: also those of other namespaces, as far as they may be read.
async fn inventories_on(server: &Server, cluster: &DynamicObject) -> anyhow::Result<Vec<Value>> {
    let info = parse(&["releaseinventories".to_owned()])?.remove(0).info;
    let all = match server.api_everywhere(&info).list(&ListParams::default()).await {
        Ok(listed) => listed
            .items
            .iter()
            .map(|item| serde_json::to_value(item).context("reading an inventory"))
            .collect::<anyhow::Result<Vec<_>>>()?,
        Err(kube::Error::Api(status)) if status.code == 403 => {
            list(server, cluster, &ListParams::default()).await?
        }
        Err(error) => return Err(error).context("listing releaseinventories"),
    };
    let own = cluster.metadata.namespace.as_deref().unwrap_or_default();
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    Ok(all.into_iter().filter(|inventory| cluster_of(inventory) == (own, name)).collect())
}

/// Namespace and name of the Cluster that an object names.
fn cluster_of(object: &Value) -> (&str, &str) {
    let of = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
    let namespace = of("/spec/clusterRef/namespace").or_else(|| of("/metadata/namespace"));
    (namespace.unwrap_or_default(), of("/spec/clusterRef/name").unwrap_or_default())
}

/// The Cluster that an object names, with its namespace when that is another one.
pub(super) fn named_cluster(object: &Value) -> String {
    let own = object.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
    match cluster_of(object) {
        (namespace, name) if namespace == own => name.to_owned(),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}

async fn list(server: &Server, beside: &DynamicObject, params: &ListParams) -> anyhow::Result<Vec<Value>> {
    let info = parse(&["releaseinventories".to_owned()])?.remove(0).info;
    let listed = server.api_beside(&info, beside).list(params).await.context("listing releaseinventories")?;
    listed.items.iter().map(|item| serde_json::to_value(item).context("reading an inventory")).collect()
}

/// The objects of inventories by Cluster: kind with its group, namespace, name.
pub(super) fn listed(inventories: &[Value]) -> BTreeMap<String, Vec<[String; 3]>> {
    let mut by_cluster: BTreeMap<String, Vec<[String; 3]>> = BTreeMap::new();
    for inventory in inventories {
        let of = |value: &Value, name: &str| {
            value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let entries = inventory.pointer("/spec/entries").and_then(Value::as_array);
        let objects = by_cluster.entry(named_cluster(inventory)).or_default();
        for entry in
            entries.into_iter().flatten().filter(|entry| entry.get("gone") != Some(&Value::Bool(true)))
        {
            let kind = match of(entry, "group").as_str() {
                "" => of(entry, "kind"),
                group => format!("{}.{group}", of(entry, "kind")),
            };
            objects.push([kind, of(entry, "namespace"), of(entry, "name")]);
        }
    }
    by_cluster
}

fn what_happens(info: &KindInfo, object: &DynamicObject, inventories: &[Value]) -> String {
    let name = shown(info, object.metadata.name.as_deref().unwrap_or_default());
    let by_cluster = listed(inventories);
    let count: usize = by_cluster.values().map(Vec::len).sum();
    let mut text = match info.kind {
        "Release" => {
            format!("{name} will be deleted, and convoy will not know any more what it delivered.\n")
        }
        _ => format!(
            "{name} will be deleted. Its Releases stay, and wait for a Cluster of this name; those that are being \
             deleted go, and convoy will not know any more what they delivered.\n"
        ),
    };
    if count == 0 {
        text.push_str("Nothing is left on a target by it.\n");
        return text;
    }
    for (cluster, objects) in by_cluster.iter().filter(|(_, objects)| !objects.is_empty()) {
        let plural = if objects.len() == 1 { "object stays" } else { "objects stay" };
        text.push_str(&format!(
            "On the Cluster {cluster}, {} {plural} (if that cluster is still there):\n",
            objects.len()
        ));
        for [kind, namespace, name] in objects.iter().take(SHOWN) {
            let place = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
            text.push_str(&format!("  {kind} {place}{name}\n"));
        }
        if objects.len() > SHOWN {
            text.push_str(&format!("  and {} more\n", objects.len() - SHOWN));
        }
    }
    text
}

/// Asks on a terminal; elsewhere nobody answers.
fn agrees(name: &str) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        return Err(Misuse("nobody can be asked here: give --yes".to_owned()).into());
    }
    eprint!("Type {name} to go on: ");
    std::io::stderr().flush().context("asking")?;
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).context("reading the answer")?;
    Ok(line.trim() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(kind: &str, entries: &Value) -> String {
        let info = parse(&[kind.to_owned()]).unwrap().remove(0).info;
        let object: DynamicObject = serde_json::from_value(json!({"metadata": {"name": "web"}})).unwrap();
        let inventory = json!({"spec": {"clusterRef": {"name": "here"}, "entries": entries}});
        what_happens(&info, &object, &[inventory])
    }

    #[test]
    fn it_says_what_it_leaves() {
        let many: Vec<Value> = (0..25)
            .map(|n| json!({"kind": "ConfigMap", "name": format!("c{n}"), "namespace": "web"}))
            .collect();
        let text = told("release", &json!(many));
        assert!(text.starts_with("release.convoy.kumodo.io/web will be deleted"), "{text}");
        assert!(
            text.contains("On the Cluster here, 25 objects stay") && text.contains("  and 5 more\n"),
            "{text}"
        );
        assert!(text.contains("  ConfigMap web/c0\n"), "{text}");
        let text = told(
            "cluster",
            &json!([{"kind": "Namespace", "name": "web"}, {"kind": "X", "name": "y", "gone": true}]),
        );
        assert!(text.contains("Its Releases stay") && text.contains("1 object stays"), "{text}");
        assert!(text.contains("  Namespace web\n") && !text.contains(" y\n"), "{text}");
        assert!(told("release", &json!([])).contains("Nothing is left on a target by it."));
    }
}
