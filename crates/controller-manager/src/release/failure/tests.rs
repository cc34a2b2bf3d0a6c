use convoy_api::{FailurePolicy, Release, RollbackRequest, annotation};

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn entry(revision: i64, bundle: &str, outcome: Outcome) -> HistoryEntry {
    HistoryEntry {
        revision,
        source_revision: format!("main@{bundle}"),
        bundle_digest: bundle.to_owned(),
        outcome,
        ..HistoryEntry::default()
    }
}

fn facts(digest: &str) -> BundleFacts {
    BundleFacts { revision: format!("main@{digest}"), digest: digest.to_owned(), ..BundleFacts::default() }
}

fn spec(action: FailureAction, retries: Option<u32>) -> ReleaseSpec {
    let on_failure = Some(FailurePolicy { action: Some(action), retries });
    ReleaseSpec { on_failure, ..ReleaseSpec::default() }
}

/// Fails as often as it is tried; answers with the last consequence and the number of failures.
fn fail_to_the_end(spec: &ReleaseSpec, status: &ReleaseStatus, is_terminal: bool) -> (Consequence, i64) {
    let bundle = facts("b");
    let failed = Failed {
        bundle: &bundle,
        reason: "ApplyRejected",
        message: "words",
        is_terminal,
        wait: Duration::from_secs(30),
    };
    let mut status = status.clone();
    for second in 0..20 {
        let consequence = after(spec, &status, &failed, at(second));
        status.failure = Some(consequence.failure.clone());
        if consequence.failure.next_time.is_none() {
            return (consequence, second + 1);
        }
    }
    (after(spec, &status, &failed, at(20)), 21)
}

#[test]
fn each_action_ends_as_it_says_after_its_retries() {
    use FailureAction::{Retry, Rollback, Stop};
    let healthy = ReleaseStatus {
        history: vec![entry(2, "b", Outcome::Failed), entry(1, "a", Outcome::Succeeded)],
        ..ReleaseStatus::default()
    };
    let nothing = ReleaseStatus::default();
    // action, retries, terminal, an earlier healthy revision → failures until the end, is it the end, back to
    for (action, retries, is_terminal, status, failures, is_over, back) in [
        (Retry, None, false, &healthy, 21, false, None),
        (Retry, None, true, &healthy, 21, false, None),
        (Retry, Some(2), false, &healthy, 3, true, None),
        (Retry, Some(0), false, &healthy, 1, true, None),
        (Rollback, None, false, &healthy, 4, true, Some(1)),
        (Rollback, Some(0), false, &healthy, 1, true, Some(1)),
        (Rollback, Some(5), true, &healthy, 1, true, Some(1)),
        (Rollback, Some(1), false, &nothing, 2, true, None),
        (Stop, None, false, &healthy, 4, true, None),
        (Stop, Some(1), false, &healthy, 2, true, None),
        (Stop, Some(9), true, &healthy, 1, true, None),
    ] {
        let case = format!("{action:?} {retries:?} {is_terminal} {}", status.history.len());
        let (end, count) = fail_to_the_end(&spec(action, retries), status, is_terminal);
        assert_eq!(count, failures, "{case}");
        assert_eq!(end.failure.count, failures, "{case}");
        assert_eq!(end.failure.next_time.is_none(), is_over, "{case}");
        assert_eq!(end.rollback.as_ref().map(|rollback| rollback.revision), back, "{case}");
        assert_eq!(end.is_final(), is_over && back.is_none(), "{case}");
    }
}

#[test]
fn the_last_healthy_revision_is_never_the_bundle_that_failed() {
    let status = ReleaseStatus {
        history: vec![
            entry(4, "b", Outcome::Failed),
            entry(3, "b", Outcome::Succeeded),
            entry(2, "c", Outcome::Superseded),
            entry(1, "a", Outcome::Succeeded),
        ],
        ..ReleaseStatus::default()
    };
    let (end, _) = fail_to_the_end(&spec(FailureAction::Rollback, Some(0)), &status, false);
    let rollback = end.rollback.unwrap();
    assert_eq!((rollback.revision, rollback.bundle_digest.as_str()), (1, "a"));
    assert_eq!(rollback.instead_of, "b");
}

fn failing() -> ReleaseStatus {
    ReleaseStatus {
        observed_generation: Some(3),
        failure: Some(Box::new(FailureStatus {
            revision: 2,
            source_revision: "main@b".to_owned(),
            bundle_digest: "b".to_owned(),
            count: 4,
            ..FailureStatus::default()
        })),
        rollback: Some(Box::new(RollbackStatus {
            revision: 1,
            bundle_digest: "a".to_owned(),
            instead_of: "b".to_owned(),
            ..RollbackStatus::default()
        })),
        history: vec![entry(2, "b", Outcome::Failed), entry(1, "a", Outcome::Succeeded)],
        ..ReleaseStatus::default()
    }
}

fn release(generation: i64, annotations: &[(&str, &str)]) -> Release {
    let mut release = Release::default();
    release.metadata.generation = Some(generation);
    release.metadata.annotations =
        Some(annotations.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect());
    release
}

#[test]
fn a_failure_and_its_rollback_hold_until_something_is_new() {
    let holds = |status: &ReleaseStatus| (status.failure.is_some(), status.rollback.is_some());
    assert_eq!(holds(&renewed(&release(3, &[]), &failing()).0), (true, true));
    assert_eq!(holds(&renewed(&release(4, &[]), &failing()).0), (false, false), "another spec");
    for name in [annotation::RECONCILE_AT, annotation::FORCE_AT] {
        assert_eq!(holds(&renewed(&release(3, &[(name, "now")]), &failing()).0), (false, false), "{name}");
    }
    let handled = ReleaseStatus { last_handled_reconcile_at: Some("then".to_owned()), ..failing() };
    let asked_before = release(3, &[(annotation::RECONCILE_AT, "then")]);
    assert_eq!(holds(&renewed(&asked_before, &handled).0), (true, true));

    for (bundle, expected) in [("b", (true, true)), ("c", (false, false))] {
        let mut status = failing();
        arrived(&mut status, bundle);
        assert_eq!(holds(&status), expected, "{bundle}");
    }
}

fn request(revision: i64, generation: i64, second: i64) -> String {
    let request =
        RollbackRequest { revision, generation, instead_of: "b".to_owned(), requested_at: at(second) };
    serde_json::to_string(&request).unwrap()
}

#[test]
fn a_rollback_that_is_asked_for_begins_once_and_ends_with_the_spec_the_source_or_the_annotation() {
    let text = request(1, 3, 5);
    let asked = release(3, &[(annotation::ROLLBACK, &text)]);
    let calm = ReleaseStatus { failure: None, rollback: None, ..failing() };
    let (begun, refused) = renewed(&asked, &calm);
    let rollback = begun.rollback.clone().unwrap();
    assert_eq!((refused, rollback.revision, rollback.requested), (None, 1, true));

    let again = renewed(&asked, &begun).0;
    assert_eq!(again.rollback, begun.rollback, "it goes on");
    let reconcile = release(3, &[(annotation::ROLLBACK, &text), (annotation::RECONCILE_AT, "now")]);
    assert!(renewed(&reconcile, &begun).0.rollback.is_some(), "a look that was asked for is no end");

    let mut ended = begun.clone();
    arrived(&mut ended, "c");
    assert_eq!(ended.rollback, None, "another bundle of the source");
    assert_eq!(renewed(&asked, &ended).0.rollback, None, "it does not come back with the old bundle");
    assert_eq!(renewed(&release(3, &[]), &begun).0.rollback, None, "the annotation was removed");
    let changed = release(4, &[(annotation::ROLLBACK, &text)]);
    assert_eq!(renewed(&changed, &begun).0.rollback, None, "another spec");

    let mut unknown = begun.clone();
    unknown.rollback.as_mut().unwrap().instead_of.clear();
    arrived(&mut unknown, "c");
    assert_eq!(unknown.rollback.unwrap().instead_of, "c", "the first that comes is what it stands for");

    let anew = request(2, 3, 6);
    let (other, _) = renewed(&release(3, &[(annotation::ROLLBACK, &anew)]), &begun);
    assert_eq!(other.rollback.unwrap().revision, 2, "another request takes its place");
}

#[test]
fn a_rollback_that_cannot_be_made_is_refused_once() {
    for (text, why) in [
        (request(9, 3, 1), "revision 9 is not in the history"),
        (request(1, 2, 1), "the spec changed"),
        ("3".to_owned(), "holds no request"),
    ] {
        let asked = release(3, &[(annotation::ROLLBACK, &text)]);
        let (status, refused) = renewed(&asked, &failing());
        assert!(refused.as_ref().unwrap().contains(why), "{refused:?}");
        assert!(status.failure.is_some() && status.rollback.is_some(), "what holds goes on");
        assert_eq!(renewed(&asked, &status).1, None);
    }
}

#[test]
fn a_retry_waits_for_its_time_also_on_another_replica_whose_clock_is_wrong() {
    let with = |next: Option<i64>| {
        let mut status = failing();
        status.failure.as_mut().unwrap().next_time = next.map(|second| Time(at(second)));
        status
    };
    assert_eq!(turn(&with(Some(50)), "c", at(10)), Turn::First);
    assert_eq!(turn(&with(Some(50)), "b", at(10)), Turn::Waits(Duration::from_secs(40)));
    assert_eq!(turn(&with(Some(50)), "b", at(50)), Turn::Again);
    assert_eq!(turn(&with(Some(50_000)), "b", at(10)), Turn::Waits(LONGEST_WAIT));
    assert_eq!(turn(&with(None), "b", at(10)), Turn::Over);
}

#[test]
fn the_history_keeps_what_a_rollback_needs() {
    let revisions = |mut history: Vec<HistoryEntry>, limit| {
        bounded(&mut history, limit);
        history.iter().map(|entry| entry.revision).collect::<Vec<_>>()
    };
    let history = || {
        vec![
            entry(5, "e", Outcome::Failed),
            entry(4, "d", Outcome::Failed),
            entry(3, "c", Outcome::Failed),
            entry(2, "b", Outcome::Succeeded),
            entry(1, "a", Outcome::Succeeded),
        ]
    };
    assert_eq!(revisions(history(), 5), [5, 4, 3, 2, 1]);
    assert_eq!(revisions(history(), 4), [5, 4, 3, 2]);
    assert_eq!(revisions(history(), 2), [5, 4, 2]);
    assert_eq!(revisions(history(), 1), [5, 2]);
}
