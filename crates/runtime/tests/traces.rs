//! Spans reach a collector; a collector that is away costs a bounded queue, and what is dropped is counted.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests")]

use std::time::{Duration, Instant};

use convoy_runtime::traces::{self, TRACES, TraceOptions};
use convoy_runtime::{LogFormat, RealClock, init_telemetry};
use convoy_testkit::OtlpReceiver;

/// All in one: there is one subscriber in a process, and one count.
#[tokio::test(flavor = "multi_thread")]
async fn spans_wait_for_the_collector_in_a_bounded_queue_and_what_is_dropped_is_counted() {
    let receiver = OtlpReceiver::start(503).unwrap();
    let options = TraceOptions {
        endpoint: receiver.endpoint(),
        ca: None,
        sampling_ratio: 1.0,
        service: "convoy-test".to_owned(),
        version: "0",
        instance: None,
    };
    let (traces, mut export) = traces::open(&options).unwrap();
    // No log line is written, and spans are sent all the same.
    let lines = init_telemetry("off", LogFormat::Text, Some(&traces)).unwrap();
    for number in 0..5000 {
        let _span = tracing::info_span!(target: TRACES, "test", number).entered();
        let _other = tracing::info_span!("no trace").entered();
    }
    assert_eq!(traces::counted(), (0, 5000 - 4096));

    let clock = RealClock::new();
    let until = |what: &'static str, is_so: Box<dyn Fn() -> bool + Send>| async move {
        let began = Instant::now();
        while !is_so() {
            assert!(began.elapsed() < Duration::from_secs(60), "{what}");
            tokio::task::yield_now().await;
        }
    };
    // The collector comes back while the first spans are tried again: none of them is lost.
    let back = receiver.clone();
    tokio::select! {
        never = export.run(&clock) => match never {},
        () = async {
            let refused = back.clone();
            until("they are tried", Box::new(move || refused.refused() > 0)).await;
            back.set_status(200);
            until("all are sent", Box::new(|| traces::counted().0 == 4096)).await;
        } => {}
    }
    assert_eq!(traces::counted(), (4096, 904));
    let taken = receiver.taken();
    assert!(taken.iter().all(|request| request.head.starts_with("POST /v1/traces ")));
    assert!(taken.len() >= 4096 / 512, "at most 512 at once");

    // Which lines are written changes, and has nothing to do with spans.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("filter");
    std::fs::write(&file, "error").unwrap();
    assert!(!tracing::enabled!(tracing::Level::ERROR));
    tokio::select! {
        never = lines.follow(&file, &clock) => match never {},
        () = until("errors are written", Box::new(|| tracing::enabled!(tracing::Level::ERROR))) => {}
    }
    assert!(!tracing::enabled!(tracing::Level::WARN));

    // What is left when a process ends is sent, too.
    drop(tracing::info_span!(target: TRACES, "last"));
    export.finish().await;
    assert_eq!(traces::counted(), (4097, 904));
}
