//! Replicas as processes of their own that share work through leases of a real API server.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;

use convoy_e2e::{Convoy, run, until};
use convoy_runtime::{ProcessIdentity, host_client};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use serde_json::Value;

const NAMESPACE: &str = "convoy-system";
const QUICK: [&str; 8] = [
    "--shards",
    "8",
    "--lease-renew-interval",
    "1s",
    "--lease-duration",
    "3s",
    "--lease-observe-interval",
    "200ms",
];

/// An API server, and a way to read what is in it.
struct World {
    _apiserver: Convoy,
    folder: tempfile::TempDir,
    runtime: tokio::runtime::Runtime,
    client: Client,
}

impl World {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (data, audit) = (folder.path().join("convoy"), folder.path().join("audit.log"));
        let arguments = ["standalone", "--only", "apiserver", "--shards", "8", "--port", "0", "--data-dir"];
        let rest = [data.to_str().unwrap(), "--audit-log-path", audit.to_str().unwrap()];
        let apiserver = Convoy::start(&[arguments.as_slice(), rest.as_slice()].concat()).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let identity = ProcessIdentity { process: "test", replica_id: "test".to_owned() };
        let kubeconfig = data.join("admin.kubeconfig");
        let client = runtime.block_on(host_client(Some(&kubeconfig), &identity)).unwrap();
        Self { _apiserver: apiserver, folder, runtime, client }
    }

    fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("convoy/admin.kubeconfig")
    }

    /// The arguments of a replica.
    fn arguments(&self, process: &str, id: &str, more: &[&str]) -> Vec<String> {
        let kubeconfig = self.kubeconfig();
        let mut all = vec![process, "--kubeconfig", kubeconfig.to_str().unwrap(), "--replica-id", id];
        all.extend(["--health-bind-address", "127.0.0.1:0"]);
        let store = format!("file://{}", self.folder.path().join("store").display());
        if process == "controller-manager" {
            all.extend(["--render-store-url", &store]);
        }
        all.extend(QUICK);
        all.extend(more);
        all.into_iter().map(str::to_owned).collect()
    }

    fn replica(&self, process: &str, id: &str, more: &[&str]) -> Convoy {
        let arguments = self.arguments(process, id, more);
        Convoy::start(&arguments.iter().map(String::as_str).collect::<Vec<_>>()).unwrap()
    }

    fn list(&self, group: &str, kind: &str) -> Vec<Value> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), NAMESPACE, &resource);
        let list = self.runtime.block_on(api.list(&ListParams::default())).unwrap();
        list.items.into_iter().map(|object| serde_json::to_value(object).unwrap()).collect()
    }

    /// The shard leases of a process kind: for each holder its shards.
    fn holders(&self, prefix: &str) -> BTreeMap<String, BTreeSet<u32>> {
        let mut holders: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
        for lease in self.list("coordination.k8s.io", "Lease") {
            let shard = lease["metadata"]["name"].as_str().unwrap().strip_prefix(prefix);
            let Some(shard) = shard.and_then(|rest| rest.strip_prefix("-shard-")) else { continue };
            if let Some(holder) = lease["spec"]["holderIdentity"].as_str() {
                holders.entry(holder.to_owned()).or_default().insert(shard.parse().unwrap());
            }
        }
        holders
    }

    /// Requests about leases that replicas sent, as (verb, user agent, namespace).
    fn requests(&self) -> BTreeSet<(String, String, String)> {
        let log = std::fs::read_to_string(self.folder.path().join("audit.log")).unwrap();
        let events = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let of = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        events
            .filter(|event| event["objectRef"]["resource"] == "leases")
            .map(|event| (of(&event["verb"]), of(&event["userAgent"]), of(&event["objectRef"]["namespace"])))
            .filter(|(_, agent, _)| !agent.contains("(test)"))
            .collect()
    }
}

/// Status code and body of a health path.
fn health(convoy: &Convoy, path: &str) -> Option<(u16, String)> {
    let address = convoy.ready_line().rsplit("http://").next().unwrap();
    let mut stream = TcpStream::connect(address).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some((answer.split(' ').nth(1)?.parse().ok()?, answer))
}

fn metric(convoy: &Convoy, name: &str) -> Option<f64> {
    let (_, text) = health(convoy, "/metrics")?;
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

fn shards(of: &[u32]) -> BTreeSet<u32> {
    of.iter().copied().collect()
}

fn seconds(value: &Value) -> f64 {
    let time: jiff::Timestamp = value.as_str().unwrap().parse().unwrap();
    time.as_millisecond() as f64 / 1000.0
}

#[test]
fn sc02_sc03_sc04_sc18_sc24_sc25_two_replicas_share_the_shards_and_one_takes_all_when_the_other_is_killed() {
    let world = World::start();
    let one = world.replica("controller-manager", "cm-0", &[]);
    let two = world.replica("controller-manager", "cm-1", &[]);
    let halves = BTreeMap::from([
        ("cm-0".to_owned(), shards(&[0, 2, 4, 6])),
        ("cm-1".to_owned(), shards(&[1, 3, 5, 7])),
    ]);
    until("each acts for its half", || {
        let half = |replica| metric(replica, "convoy_shards_owned") == Some(4.0);
        (half(&one) && half(&two) && world.holders("convoy-cm") == halves).then_some(())
    });
    until("both are ready", || {
        (health(&one, "/readyz")?.0 == 200 && health(&two, "/readyz")?.0 == 200).then_some(())
    });

    let before = metric(&two, "convoy_shard_takeovers_total").unwrap();
    one.kill();
    let member = |world: &World| {
        let leases = world.list("coordination.k8s.io", "Lease");
        leases.into_iter().find(|lease| lease["metadata"]["name"] == "convoy-cm-member-cm-0").unwrap()
    };
    let last = seconds(&member(&world)["spec"]["renewTime"]);
    until("the other acts for all", || (metric(&two, "convoy_shards_owned") == Some(8.0)).then_some(()));
    assert_eq!(world.holders("convoy-cm").into_keys().collect::<Vec<_>>(), ["cm-1"]);
    let leases = world.list("coordination.k8s.io", "Lease");
    let acquired = leases
        .iter()
        .filter(|lease| lease["metadata"]["name"].as_str().unwrap().contains("-shard-"))
        .map(|lease| seconds(&lease["spec"]["acquireTime"]));
    let gap = acquired.fold(0.0, f64::max) - last;
    assert!(gap <= 4.0, "{gap} s without an owner, with a duration of 3 s and an interval of 1 s");
    assert_eq!(metric(&two, "convoy_shard_takeovers_total"), Some(before + 4.0));
    let message = until("an Event tells of it", || {
        let events = world.list("", "Event");
        let messages = events.iter().filter(|event| event["reason"] == "TakenOver");
        messages.filter_map(|event| Some(event["message"].as_str()?.to_owned())).next_back()
    });
    assert!(message.starts_with("cm-1 took over shards") && message.contains("of cm-0"), "{message}");
}

#[test]
fn sc10_sc34_sc35_sc36_sc52_only_get_list_create_update_delete_of_leases_are_used() {
    let world = World::start();
    let flags = ["--release-member-on-exit"];
    let manager = world.replica("controller-manager", "cm-0", &flags);
    let peer = world.replica("controller-manager", "cm-1", &flags);
    let observer = world.replica("observer", "obs-0", &flags);
    until("all act", || {
        let own = |replica, count| metric(replica, "convoy_shards_owned") == Some(count);
        (own(&manager, 4.0) && own(&peer, 4.0) && own(&observer, 8.0)).then_some(())
    });
    assert_eq!(peer.terminate(), Some(0));
    until("the shards are handed over", || {
        (metric(&manager, "convoy_shards_owned") == Some(8.0)).then_some(())
    });
    assert_eq!(metric(&manager, "convoy_shard_takeovers_total"), Some(0.0));
    assert_eq!((manager.terminate(), observer.terminate()), (Some(0), Some(0)));
    assert!(world.holders("convoy").is_empty() && world.holders("convoy-cm").is_empty());
    let leases = world.list("coordination.k8s.io", "Lease");
    assert_eq!(leases.len(), 16, "members are gone, the leases of shards stay: {leases:?}");

    let requests = world.requests();
    let verbs: BTreeSet<&str> = requests.iter().map(|(verb, _, _)| verb.as_str()).collect();
    assert_eq!(verbs, BTreeSet::from(["create", "delete", "list", "update"]), "{requests:?}");
    for (_, agent, namespace) in &requests {
        assert_eq!(namespace, NAMESPACE);
        assert!(
            agent.starts_with("convoy-controller-manager/") || agent.starts_with("convoy-observer/"),
            "{agent}"
        );
    }
}

#[test]
fn sc29_a_process_with_the_id_of_another_ends_with_the_reason_and_the_other_goes_on() {
    let world = World::start();
    let one = world.replica("observer", "obs-0", &[]);
    until("it acts", || (metric(&one, "convoy_shards_owned") == Some(8.0)).then_some(()));
    let arguments = world.arguments("observer", "obs-0", &[]);
    let twin = run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let text = String::from_utf8(twin.stderr).unwrap();
    assert_eq!(twin.status.code(), Some(1), "{text}");
    assert!(text.contains("another observer runs with --replica-id obs-0"), "{text}");
    assert_eq!(metric(&one, "convoy_shards_owned"), Some(8.0));
    assert_eq!(metric(&one, "convoy_shard_losses_total"), Some(0.0));
}

#[test]
fn sc40_i9_a_replica_with_another_assignment_waits_and_says_so() {
    let world = World::start();
    let one = world.replica("observer", "obs-0", &[]);
    until("it acts", || (metric(&one, "convoy_shards_owned") == Some(8.0)).then_some(()));
    let other = world.replica("observer", "obs-1", &["--shard-assignment", "rendezvous"]);
    until("it says why it is not ready", || {
        let (code, text) = health(&other, "/readyz")?;
        (code == 503 && text.contains("replica obs-0 runs with --shards 8 --shard-assignment modulo"))
            .then_some(())
    });
    assert_eq!(metric(&other, "convoy_lease_disagreement"), Some(1.0));
    assert_eq!(metric(&one, "convoy_shards_owned"), Some(8.0));
    one.kill();
    until("it acts alone", || (metric(&other, "convoy_shards_owned") == Some(8.0)).then_some(()));
    until("it is ready", || (health(&other, "/readyz")?.0 == 200).then_some(()));
}

#[test]
fn sc14_a_replica_that_counts_other_shards_than_the_api_server_owns_none_and_everything_says_so() {
    const TOLD: &str = "the API server counts 8 shards, this replica 16; start it with --shards 8";
    let world = World::start();
    for process in ["observer", "controller-manager"] {
        let id = format!("{process}-0");
        let arguments: Vec<String> = world
            .arguments(process, &id, &[])
            .into_iter()
            .map(|argument| if argument == "8" { "16".to_owned() } else { argument })
            .collect();
        let wrong = Convoy::start(&arguments.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
        until("it says why it is not ready", || {
            let (code, text) = health(&wrong, "/readyz")?;
            (code == 503 && text.contains(TOLD)).then_some(())
        });
        assert_eq!(metric(&wrong, "convoy_apiserver_shards"), Some(8.0));
        assert_eq!(metric(&wrong, "convoy_apiserver_shards_disagreement"), Some(1.0));
        until("an Event says so", || {
            let events = world.list("", "Event");
            let told = |event: &&Value| {
                event["reason"] == "ShardCountDisagrees"
                    && event["message"] == TOLD
                    && event["reportingInstance"] == id.as_str()
            };
            events.iter().find(told).map(|_| ())
        });
        let kubeconfig = world.kubeconfig();
        let shards = ["shards", "--kubeconfig", kubeconfig.to_str().unwrap(), "--process", process];
        until("convoy shards says so", || {
            let output = run(&[shards.as_slice(), &["--lease-namespace", NAMESPACE]].concat());
            let text = String::from_utf8(output.stderr).unwrap();
            let told =
                format!("run with another --shards and own nothing: {id} (16); start them with --shards 8");
            (output.status.code() == Some(1) && text.contains(&told)).then_some(())
        });
        // One that counts as the API server does works beside it.
        let right = world.replica(process, "right", &[]);
        until("it acts", || (metric(&right, "convoy_shards_owned") == Some(8.0)).then_some(()));
        assert_eq!(metric(&wrong, "convoy_shards_owned"), Some(0.0));
    }
}

#[test]
fn sc31_a_lease_namespace_that_does_not_exist_is_named() {
    let world = World::start();
    let replica = world.replica("observer", "obs-0", &["--lease-namespace", "nowhere"]);
    until("it says what is missing", || {
        let (code, text) = health(&replica, "/readyz")?;
        (code == 503 && text.contains("the lease namespace nowhere does not exist")).then_some(())
    });
    for name in ["convoy_shards_owned", "convoy_shards_wanted", "convoy_guard_refusals_total"] {
        assert_eq!(metric(&replica, name), Some(0.0), "{name}");
    }
}

#[test]
fn sc28_flags_that_cannot_work_end_the_process_with_the_reason_and_code_2() {
    for process in ["controller-manager", "observer"] {
        let store: &[&str] = if process == "observer" { &[] } else { &["--render-store-url", "memory://"] };
        for (flags, reason) in [
            (["--lease-renew-interval", "20s"], "--lease-renew-interval 20s is not less than half"),
            (["--replica-id", "Not_A_Label"], "is not a DNS label"),
            (["--lease-duration", "soon"], "is not a duration"),
        ] {
            let output = run(&[&[process], store, flags.as_slice()].concat());
            let text = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{text}");
            assert!(text.contains(reason), "{text}");
        }
    }
}
