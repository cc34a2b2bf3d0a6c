//! What the status says from a failure to the rollback and out of it again.

use std::time::Duration;

use convoy_api::{FailureAction, FailurePolicy, RollbackRequest, find_condition};

use super::*;
use crate::release::failure::{Failed, after, arrived, renewed};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn release(annotations: &[(&str, String)]) -> Release {
    let mut release = Release::default();
    release.metadata.generation = Some(1);
    release.metadata.annotations =
        Some(annotations.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect());
    release.spec.on_failure = Some(FailurePolicy { action: Some(FailureAction::Rollback), retries: Some(0) });
    release
}

fn bundle(digest: &str, rollback_to: Option<i64>) -> BundleFacts {
    BundleFacts {
        revision: format!("main@{digest}"),
        digest: digest.to_owned(),
        objects: 1,
        namespace: "prod".to_owned(),
        is_fresh: true,
        rollback_to,
        ..BundleFacts::default()
    }
}

fn step(release: &Release, old: &ReleaseStatus, reached: &Reached, second: i64) -> ReleaseStatus {
    next(release, old, reached, &WriterStatus::default(), at(second))
}

fn applied(bundle: BundleFacts, gate: HealthGate, course: Course) -> Reached {
    Reached::Applied { bundle, gate, message: "1 changed".to_owned(), course }
}

fn says(status: &ReleaseStatus) -> String {
    let one = |type_: &str| {
        find_condition(&status.conditions, type_)
            .map_or_else(|| "-".to_owned(), |found| format!("{}/{}", found.status, found.reason))
    };
    format!("{} {} {}", one("Ready"), one("Reconciling"), one("Stalled"))
}

fn message(status: &ReleaseStatus) -> String {
    find_condition(&status.conditions, "Ready").unwrap().message.clone()
}

/// A first healthy revision, and a second one whose object was refused.
fn failed() -> ReleaseStatus {
    let release = release(&[]);
    let first = applied(bundle("a", None), HealthGate::Open, Course::default());
    let good = step(&release, &ReleaseStatus::default(), &first, 1);
    let facts = bundle("b", None);
    let failed = Failed {
        bundle: &facts,
        reason: reason::APPLY_REJECTED,
        message: "port 99999",
        is_terminal: true,
        wait: Duration::from_secs(1800),
    };
    let consequence = after(&release.spec, &good, &failed, at(2));
    let course = Course { failure: Some(consequence.failure), rollback: consequence.rollback };
    let reached = Reached::Planned {
        bundle: facts.clone(),
        reason: reason::APPLY_REJECTED,
        message: "port 99999".to_owned(),
        is_terminal: true,
        course,
    };
    step(&release, &good, &reached, 2)
}

#[test]
fn a_failure_says_where_it_goes_back_to_and_then_that_it_is_there() {
    let release = release(&[]);
    let failed = failed();
    assert_eq!(says(&failed), "False/RollingBack True/RollingBack -");
    assert_eq!(
        message(&failed),
        "going back to revision 1 (main@a), because revision 2 (main@b) failed: ApplyRejected: port 99999"
    );
    let waiting = HealthGate::Waiting { message: "0 of 1".to_owned(), remaining: Duration::from_secs(9) };
    let going = step(&release, &failed, &applied(bundle("a", Some(1)), waiting, Course::of(&failed)), 3);
    assert_eq!(says(&going), "False/RollingBack True/RollingBack -");
    let there =
        step(&release, &going, &applied(bundle("a", Some(1)), HealthGate::Open, Course::of(&going)), 4);
    assert_eq!(says(&there), "False/RolledBack - True/RolledBack");
    assert!(message(&there).contains("because revision 2 (main@b) failed"), "{}", message(&there));
    assert_eq!(there.last_attempted_revision.as_deref(), Some("main@b"), "what was tried last failed");
    assert_eq!(
        (there.source_revision.as_deref(), there.bundle_digest.as_deref()),
        (Some("main@a"), Some("a"))
    );
    let history: Vec<_> =
        there.history.iter().map(|entry| (entry.revision, entry.rollback_to, entry.outcome)).collect();
    use Outcome::{Failed, Succeeded};
    assert_eq!(history, [(3, Some(1), Succeeded), (2, None, Failed), (1, None, Succeeded)]);
    assert!(there.history[0].message.starts_with("rollback to 1: "), "{}", there.history[0].message);
    assert_eq!(there.history[0].target_namespace.as_deref(), Some("prod"));

    // A look that finds nothing new writes nothing.
    let mut unchanged = bundle("a", Some(1));
    unchanged.is_fresh = false;
    let again = step(&release, &there, &applied(unchanged, HealthGate::Open, Course::of(&there)), 5);
    assert_eq!(owned(&again), owned(&there));
    assert_eq!(owned(&step(&release, &there, &Reached::Held, 5)), owned(&there));

    // Another revision of the source begins anew.
    let mut anew = renewed(&release, &there).0;
    arrived(&mut anew, "c");
    let good = step(&release, &there, &applied(bundle("c", None), HealthGate::Open, Course::of(&anew)), 6);
    assert_eq!(says(&good), "True/Succeeded - -");
    assert_eq!((&good.failure, &good.rollback, good.history[0].revision), (&None, &None, 4));
}

#[test]
fn a_rollback_that_was_asked_for_is_ready_and_one_that_fails_says_so() {
    let request =
        RollbackRequest { revision: 2, generation: 1, instead_of: "b".to_owned(), requested_at: at(5) };
    let text = serde_json::to_string(&request).unwrap();
    let release = release(&[(annotation::ROLLBACK, text)]);
    let (begun, refused) = renewed(&release, &failed());
    assert_eq!(refused, None);
    let there =
        step(&release, &failed(), &applied(bundle("b", Some(2)), HealthGate::Open, Course::of(&begun)), 6);
    assert_eq!(says(&there), "True/RolledBack - -");
    assert!(message(&there).contains("as was asked for"), "{}", message(&there));
    let refused = Reached::Planned {
        bundle: bundle("b", Some(2)),
        reason: reason::APPLY_FAILED,
        message: "no answer".to_owned(),
        is_terminal: false,
        course: Course::of(&begun),
    };
    let failing = step(&release, &failed(), &refused, 6);
    assert_eq!(says(&failing), "False/ApplyFailed True/Progressing -");
    assert_eq!(message(&failing), "going back to revision 2: no answer");
    assert_eq!((failing.history[0].rollback_to, failing.history[0].outcome), (Some(2), Outcome::Failed));
    assert!(failing.rollback.is_some(), "it is tried until it is there");
}

#[test]
fn while_the_source_has_trouble_what_is_under_way_goes_on_and_both_are_told() {
    let release = release(&[]);
    let trouble = Trouble {
        reason: reason::RENDER_FAILED,
        message: "x.yaml:3".to_owned(),
        revision: Some("main@c".to_owned()),
        is_terminal: true,
    };
    let under_way = BundleFacts { trouble: Some(trouble), ..bundle("b", None) };
    let waiting = HealthGate::Waiting { message: "0 of 1".to_owned(), remaining: Duration::from_secs(9) };
    let old = ReleaseStatus::default();
    let going = step(&release, &old, &applied(under_way.clone(), waiting, Course::default()), 1);
    assert_eq!(says(&going), "False/WaitingForHealth True/Progressing -");
    let rendered = find_condition(&going.conditions, "Rendered").unwrap();
    assert_eq!((rendered.status.as_str(), rendered.message.as_str()), ("False", "x.yaml:3"));
    assert_eq!(going.last_attempted_revision.as_deref(), Some("main@c"));
    let there = step(&release, &going, &applied(under_way, HealthGate::Open, Course::default()), 2);
    assert_eq!(says(&there), "False/RenderFailed - True/RenderFailed");
    assert_eq!(there.history[0].outcome, Outcome::Succeeded, "its own delivery is done");
}

#[test]
fn whatever_it_says_it_says_once() {
    let failed = failed();
    let release = release(&[]);
    let closed = |is_over| HealthGate::Closed {
        reason: reason::DEGRADED.to_owned(),
        message: "0 of 1".to_owned(),
        is_over,
        remaining: Duration::ZERO,
    };
    let waiting = HealthGate::Waiting { message: "0 of 1".to_owned(), remaining: Duration::from_secs(9) };
    let unknown =
        HealthGate::Unknown { reason: reason::OBSERVER_MISSING.to_owned(), message: "gone".to_owned() };
    let failure = |next: Option<i64>| Course {
        failure: Some(Box::new(FailureStatus {
            bundle_digest: "b".to_owned(),
            next_time: next.map(|second| Time(at(second))),
            ..FailureStatus::default()
        })),
        rollback: None,
    };
    let trouble = |is_terminal| BundleFacts {
        trouble: Some(Trouble {
            reason: reason::RENDER_FAILED,
            message: "x".to_owned(),
            revision: None,
            is_terminal,
        }),
        ..bundle("b", None)
    };
    let of = Course::of(&failed);
    let asked = Course {
        failure: None,
        rollback: of
            .rollback
            .clone()
            .map(|rollback| Box::new(RollbackStatus { requested: true, ..*rollback })),
    };
    let mut cases = Vec::new();
    for gate in [HealthGate::Open, closed(false), closed(true), waiting, unknown] {
        cases.push(applied(bundle("a", Some(1)), gate.clone(), of.clone()));
        cases.push(applied(bundle("a", Some(1)), gate.clone(), asked.clone()));
        cases.push(applied(bundle("b", None), gate.clone(), Course::default()));
        cases.push(applied(bundle("b", None), gate.clone(), failure(Some(99))));
        cases.push(applied(bundle("b", None), gate.clone(), failure(None)));
        cases.push(applied(bundle("b", None), gate.clone(), of.clone()));
        cases.push(applied(trouble(true), gate.clone(), Course::default()));
        cases.push(applied(trouble(false), gate, Course::default()));
    }
    for is_terminal in [true, false] {
        for (facts, course) in [(bundle("b", None), failure(Some(99))), (bundle("a", Some(1)), of.clone())] {
            let (reason, message) = (reason::APPLY_REJECTED, "no".to_owned());
            cases.push(Reached::Planned { bundle: facts, reason, message, is_terminal, course });
        }
    }
    for mut reached in cases {
        let first = step(&release, &failed, &reached, 10);
        if let Reached::Applied { bundle, .. } = &mut reached {
            bundle.is_fresh = false;
        }
        let second = step(&release, &first, &reached, 20);
        assert_eq!(owned(&second), owned(&first), "{reached:?}");
    }
}

#[test]
fn a_revision_that_was_on_another_cluster_says_where_it_goes() {
    let on = |name: &str, facts: BundleFacts| {
        let cluster = Some(convoy_api::ClusterReference { name: name.to_owned(), namespace: None });
        BundleFacts { cluster, ..facts }
    };
    let applied = |bundle: BundleFacts, course: Course| Reached::Applied {
        bundle,
        gate: HealthGate::Open,
        message: "2 created".to_owned(),
        course,
    };
    let look = |old: &ReleaseStatus, reached: &Reached, second: i64| {
        next(
            &Release::default(),
            old,
            reached,
            &WriterStatus::default(),
            Timestamp::from_second(second).unwrap(),
        )
    };
    let first = applied(on("a", bundle("x", None)), Course::default());
    let status = look(&ReleaseStatus::default(), &first, 1);
    // The same bundle elsewhere is another delivery.
    let status = look(&status, &applied(on("b", bundle("x", None)), Course::default()), 2);
    let status = look(&status, &applied(on("b", bundle("y", None)), Course::default()), 3);
    let shown: Vec<_> = status
        .history
        .iter()
        .map(|entry| (entry.revision, entry.cluster_ref.as_ref().unwrap().name.as_str()))
        .collect();
    assert_eq!(shown, [(3, "b"), (2, "b"), (1, "a")]);
    for (to, text) in [(1, Some("it was on the Cluster a, and goes to b")), (2, None)] {
        let entry = status.history.iter().find(|entry| entry.revision == to).unwrap();
        let rollback = RollbackStatus { requested: true, ..convoy_prepare::back_to(entry, "") };
        let course = Course { failure: None, rollback: Some(Box::new(rollback)) };
        let back = look(&status, &applied(on("b", bundle("x", Some(to))), course), 4);
        let message = &find_condition(&back.conditions, "Ready").unwrap().message;
        assert_eq!(message.contains("Cluster"), text.is_some(), "{message}");
        assert!(text.is_none_or(|text| message.contains(text)), "{message}");
    }
}
