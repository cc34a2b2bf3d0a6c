//! Many Clusters and Releases on three replicas as processes: labels, restarts with the same ids, and what
//! is said when nobody looks any more.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests fail by panicking, and look at the clock"
)]

use std::collections::BTreeMap;
use std::time::Duration;

use convoy_e2e::convoy_program;
use convoy_e2e::fleet::{Fleet, FleetOptions, Part, Timing, condition, convoy_path, shard_of, wait};
use convoy_e2e::load::{Load, Pace};
use convoy_testkit::{GitServer, leave_out};
use jiff::Timestamp;
use serde_json::{Value, json};

const CLUSTERS: u16 = 50;
const RELEASES: usize = 100;
/// Shorter than the defaults; long enough for a machine that is busy with other tests.
const TIMING: Timing = Timing {
    duration: Duration::from_secs(9),
    interval: Duration::from_secs(3),
    observe: Some(Duration::from_millis(500)),
};

/// The shard label of each object.
fn labels(fleet: &Fleet, plural: &str) -> BTreeMap<String, Option<u32>> {
    let objects = fleet.list_convoy(plural).unwrap();
    let label = |object: &Value| {
        let label = object["metadata"]["labels"]["convoy.kumodo.io/shard"].as_str()?;
        label.parse().ok()
    };
    objects
        .iter()
        .map(|object| (object["metadata"]["name"].as_str().unwrap().to_owned(), label(object)))
        .collect()
}

fn delete(fleet: &Fleet, plural: &str, name: &str) {
    let answer =
        fleet.host.send("DELETE", &format!("{}/{name}", convoy_path(plural)), "application/json", &json!({}));
    let answer = answer.unwrap();
    assert!((200..300).contains(&answer.status), "{}", answer.text());
}

fn release(fleet: &Fleet, name: &str) -> Value {
    fleet.host.get(&format!("{}/{name}", convoy_path("releases"))).unwrap().json()
}

#[test]
fn case_401_sc11_i12_every_shard_has_its_owner_and_nobody_looks_away_unseen() {
    let folder = tempfile::tempdir().unwrap();
    // convoy fetches from no loopback address.
    if let Err(error) = GitServer::start(folder.path()) {
        return leave_out(&error);
    }
    let mut fleet = Fleet::start(FleetOptions {
        convoy: convoy_program(),
        beside: None,
        folder: folder.path().join("fleet"),
        clusters: CLUSTERS,
        timing: TIMING,
        flags: Vec::new(),
    })
    .unwrap();
    fleet.create_clusters().unwrap();
    for number in 0..3 {
        fleet.add(Part::ControllerManager, &format!("cm-{number}")).unwrap();
        fleet.add(Part::Observer, &format!("obs-{number}")).unwrap();
    }
    let pace = Pace { pause: Duration::from_millis(200), changes_for_a_commit: u64::MAX, git_interval: 3600 };
    let load = Load::start(&fleet, RELEASES, pace).unwrap();
    load.pause().unwrap();
    // Looked at every few seconds, so that it is soon overdue.
    let spec = json!({"clusterRef": {"name": "cluster-7"}, "interval": "5s",
                      "source": {"git": {"repositoryRef": {"name": "apps"}, "path": "chart"}}});
    fleet.create_convoy("releases", "Release", "often", &spec).unwrap();
    let patience = Duration::from_secs(60);
    fleet.await_balance(patience).unwrap();
    let mut late = Vec::new();
    let all_ready = wait(Duration::from_secs(120), || {
        late = load.late(&fleet).unwrap();
        late.is_empty().then_some(())
    });
    assert!(all_ready.is_some(), "{late:#?}");

    labels_stay(&fleet);
    restarts_with_the_same_ids(&mut fleet, patience);

    // All controller-managers end: what they said is taken back, with its age.
    wait(patience, || (condition(&release(&fleet, "often"), "Ready").0 == "True").then_some(())).unwrap();
    fleet.replicas.retain(|replica| replica.part == Part::Observer);
    let said = wait(Duration::from_secs(120), || {
        let often = release(&fleet, "often");
        (condition(&often, "Ready") == ("Unknown", "ControllerMissing")).then_some(often)
    });
    let said = said.unwrap_or_else(|| panic!("still {}", release(&fleet, "often")["status"]));
    let conditions = said["status"]["conditions"].as_array().unwrap();
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready").unwrap();
    let message = ready["message"].as_str().unwrap();
    assert!(message.chars().any(|c| c.is_ascii_digit()), "no age in {message:?}");
    // And given again when one comes back.
    fleet.add(Part::ControllerManager, "cm-9").unwrap();
    let back = wait(patience, || (condition(&release(&fleet, "often"), "Ready").0 == "True").then_some(()));
    assert!(back.is_some(), "still {}", release(&fleet, "often")["status"]);
    let often = release(&fleet, "often");
    let of = |part: &str| often["status"][part]["replica"].as_str().unwrap_or_default().to_owned();
    assert!(of("controller") == "cm-9" && of("observer").starts_with("obs-"), "{often}");

    // The same with all observers: how the objects are is not known.
    fleet.replicas.retain(|replica| replica.part == Part::ControllerManager);
    let said = wait(Duration::from_secs(120), || {
        (condition(&release(&fleet, "often"), "Ready") == ("Unknown", "ObserverMissing")).then_some(())
    });
    assert!(said.is_some(), "still {}", release(&fleet, "often")["status"]);
    // Its interval and 40 s after the last look, what they had said is taken back, too.
    let said = wait(Duration::from_secs(120), || {
        let often = release(&fleet, "often");
        let said = of_observer(&often);
        said.iter().all(|(status, reason)| (*status, *reason) == ("Unknown", "ObserverMissing")).then_some(())
    });
    assert!(said.is_some(), "still {}", release(&fleet, "often")["status"]);
    fleet.add(Part::Observer, "obs-9").unwrap();
    let back = wait(patience, || {
        let often = release(&fleet, "often");
        let said = of_observer(&often).map(|(status, _)| status);
        (condition(&often, "Ready").0 == "True" && said == ["True", "False"]).then_some(())
    });
    assert!(back.is_some(), "still {}", release(&fleet, "often")["status"]);
}

/// What the observers say.
fn of_observer(release: &Value) -> [(&str, &str); 2] {
    ["Healthy", "Drifted"].map(|type_| condition(release, type_))
}

/// Clusters that come and go at the start, in the middle and at the end of the order of names move no other.
fn labels_stay(fleet: &Fleet) {
    let clusters = labels(fleet, "clusters");
    assert_eq!(clusters.len(), usize::from(CLUSTERS));
    for (name, label) in &clusters {
        assert_eq!(*label, Some(shard_of(name)), "{name}");
    }
    let releases = labels(fleet, "releases");
    for (number, (name, label)) in releases.iter().filter(|(name, _)| *name != "often").enumerate() {
        let cluster = format!("cluster-{}", number % usize::from(CLUSTERS) + 1);
        assert_eq!(*label, Some(shard_of(&cluster)), "{name} of {cluster}");
    }
    let added = ["a", "cluster-25-more", "z"];
    for name in added {
        fleet.create_cluster(name, "cluster-1").unwrap();
    }
    let mut more = labels(fleet, "clusters");
    for name in added {
        assert_eq!(more.remove(name), Some(Some(shard_of(name))), "{name}");
    }
    assert_eq!(more, clusters);
    for name in added {
        delete(fleet, "clusters", name);
    }
    let gone = wait(Duration::from_secs(60), || (labels(fleet, "clusters") == clusters).then_some(()));
    assert!(gone.is_some(), "{:?}", labels(fleet, "clusters"));
    assert_eq!(labels(fleet, "releases"), releases);
}

/// Two replicas die and come back at once with their ids, while their old leases still stand.
fn restarts_with_the_same_ids(fleet: &mut Fleet, patience: Duration) {
    let timing = fleet.timing();
    let ids = ["cm-0", "cm-2"];
    let shards: Vec<(u32, &str)> = ids
        .into_iter()
        .flat_map(|id| {
            let held = fleet.leases(Part::ControllerManager, |leases| leases.held_by(id));
            held.into_iter().map(move |shard| (shard, id))
        })
        .collect();
    assert!(shards.len() >= 20, "{shards:?}");
    let boots: Vec<String> = shards
        .iter()
        .filter_map(|(shard, _)| {
            fleet.leases(Part::ControllerManager, |leases| leases.boot(*shard).map(str::to_owned))
        })
        .collect();
    let at = Timestamp::now();
    for id in ids {
        let replica = fleet.remove(id).unwrap();
        replica.process.signal("KILL").unwrap();
    }
    for id in ids {
        fleet.add(Part::ControllerManager, id).unwrap();
    }
    // A renewal of just before the kill may be carried out just after it.
    let covered = |shard| {
        fleet.leases(Part::ControllerManager, |leases| {
            leases.covered_after(shard, at, |sighting| !boots.contains(&sighting.boot))
        })
    };
    let times = wait(patience, || {
        shards.iter().map(|(shard, _)| covered(*shard)).collect::<Option<Vec<Timestamp>>>()
    });
    let worst = times.expect("not all shards are owned again").into_iter().max().unwrap();
    let took = worst.duration_since(at).unsigned_abs();
    // A second for the looks at the leases.
    assert!(took <= timing.bound() + Duration::from_secs(1), "owned again only after {took:?}");
    fleet.await_balance(patience).unwrap();
}
