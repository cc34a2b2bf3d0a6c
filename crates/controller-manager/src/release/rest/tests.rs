use std::time::Duration;

use convoy_api::{ArtifactStatus, FailureStatus, RollbackStatus, WriterStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::*;

fn second(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn release() -> Release {
    let mut release = Release::default();
    release.metadata.uid = Some("u".to_owned());
    release.metadata.resource_version = Some("7".to_owned());
    let controller = WriterStatus { last_look_time: Some(Time(second(100))), ..WriterStatus::default() };
    release.status = Some(ReleaseStatus { controller: Some(controller), ..ReleaseStatus::default() });
    release
}

fn source() -> Resolved {
    let artifact = ArtifactStatus {
        revision: "main@sha1:1".to_owned(),
        digest: "sha256:1".to_owned(),
        size: 1,
        files: 1,
    };
    Resolved { artifact, path: "deploy".to_owned() }
}

fn value(from: &str, text: &str) -> ValuesText {
    ValuesText { from: from.to_owned(), text: text.into(), target_path: None, is_secret: false }
}

fn part(uid: &str, version: &str) -> (String, String) {
    (uid.to_owned(), version.to_owned())
}

/// Each thing that a look goes by, changed alone, makes the next look a whole one.
#[test]
fn another_basis_is_no_rest() {
    let serves = Arc::new(Capabilities::default());
    let values = [value("a", "b"), value("c", "d")];
    let parts = [part("1", "5"), part("2", "6")];
    let basis =
        |release: &Release,
         source: &Resolved,
         values: &[ValuesText],
         serves: &Arc<Capabilities>,
         parts: &[_]| { Basis::new(release, source, values, serves, parts.iter().cloned()) };
    let known = basis(&release(), &source(), &values, &serves, &parts);
    assert_eq!(known, basis(&release(), &source(), &values, &serves, &parts));
    let changed = |change: fn(&mut Release, &mut Resolved)| {
        let (mut release, mut source) = (release(), source());
        change(&mut release, &mut source);
        basis(&release, &source, &values, &serves, &parts)
    };
    let of_values = |values: &[ValuesText]| basis(&release(), &source(), values, &serves, &parts);
    let of_parts = |parts: &[_]| basis(&release(), &source(), &values, &serves, parts);
    let same_again = Arc::new(Capabilities::default());
    for (what, other) in [
        ("resourceVersion", changed(|release, _| release.metadata.resource_version = Some("8".to_owned()))),
        ("uid", changed(|release, _| release.metadata.uid = Some("v".to_owned()))),
        ("digest", changed(|_, source| source.artifact.digest = "sha256:2".to_owned())),
        ("revision", changed(|_, source| source.artifact.revision = "main@sha1:2".to_owned())),
        ("path", changed(|_, source| source.path = "other".to_owned())),
        ("a value", of_values(&[value("a", "b"), value("c", "e")])),
        ("where a value is from", of_values(&[value("a", "b"), value("x", "d")])),
        ("a value more", of_values(&[value("a", "b"), value("c", "d"), value("e", "f")])),
        ("what is one value", of_values(&[value("ab", ""), value("c", "d")])),
        ("no value", of_values(&[])),
        ("a part's version", of_parts(&[part("1", "5"), part("2", "7")])),
        ("a part made anew", of_parts(&[part("1", "5"), part("3", "6")])),
        ("a part more", of_parts(&[part("1", "5"), part("2", "6"), part("3", "7")])),
        ("a part less", of_parts(&[part("1", "5")])),
        ("what is served", basis(&release(), &source(), &values, &same_again, &parts)),
    ] {
        assert_ne!(known, other, "{what}");
    }
    // What a target served that is gone is not taken for what another serves at the same place in memory.
    let of_gone = |gone: Arc<Capabilities>| basis(&release(), &source(), &values, &gone, &parts);
    assert_ne!(of_gone(Arc::default()), of_gone(Arc::default()));
}

/// A minute after the last look, with nothing to do.
fn quiet(release: &Release) -> Moment<'_> {
    Moment {
        release,
        status: release.status.as_ref().unwrap(),
        is_shown: true,
        is_held: false,
        is_fought: false,
        is_source_troubled: false,
        is_observed: true,
        has_left: false,
        is_look_due: false,
        now: second(100 + 60),
    }
}

#[test]
fn rest_ends_with_its_time_and_with_all_that_another_time_may_ask_for() {
    let (release, serves) = (release(), Arc::new(Capabilities::default()));
    let basis = Basis::new(&release, &source(), &[], &serves, std::iter::empty());
    let of = |release: &Release, change: &dyn Fn(&mut Moment<'_>)| {
        let mut moment = quiet(release);
        change(&mut moment);
        at_rest(Some(&basis), &basis, &moment)
    };
    // The status has to say in 9 minutes that the Release was looked at.
    assert_eq!(of(&release, &|_| {}), Some(Next::After(Duration::from_secs(540))));
    assert_eq!(of(&release, &|moment| moment.now = second(699)), Some(Next::After(Duration::from_secs(1))));
    let mut hasty = release.clone();
    hasty.spec.interval = Some("2m".parse().unwrap());
    assert_eq!(of(&hasty, &|_| {}), Some(Next::After(Duration::from_secs(60))));
    type Change = dyn Fn(&mut Moment<'_>);
    let changes: [(&str, &Change); 7] = [
        ("a status on its way", &|moment| moment.is_shown = false),
        ("a back-off", &|moment| moment.is_held = true),
        ("a fight", &|moment| moment.is_fought = true),
        ("the source fails", &|moment| moment.is_source_troubled = true),
        ("no observer", &|moment| moment.is_observed = false),
        ("left a cluster", &|moment| moment.has_left = true),
        ("the interval is over", &|moment| moment.is_look_due = true),
    ];
    for (what, change) in changes {
        assert_eq!(of(&release, change), None, "{what}");
    }
    let with_status = |change: fn(&mut ReleaseStatus)| {
        let mut release = release.clone();
        change(release.status.as_mut().unwrap());
        of(&release, &|_| {})
    };
    assert_eq!(with_status(|status| status.failure = Some(Box::new(FailureStatus::default()))), None);
    assert_eq!(with_status(|status| status.rollback = Some(Box::new(RollbackStatus::default()))), None);
    // Who takes over knows of no look.
    assert_eq!(at_rest(None, &basis, &quiet(&release)), None);
}

#[test]
fn what_is_kept_of_a_release_at_rest_is_small() {
    assert!(size_of::<Basis>() <= 64, "{}", size_of::<Basis>());
}
