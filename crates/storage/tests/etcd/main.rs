//! The etcd backend on real etcds: TLS, dead members, changes of leader, lost answers, compaction, lost data.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed step fails the test")]

mod cluster;
mod lost_answers;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use convoy_storage::etcd::{EtcdOptions, EtcdStorage, OpenError, Operation, TlsFiles};
use convoy_storage::{ListOptions, Storage, StorageError};
use convoy_testkit::Etcd;
use tokio::time::{Instant, timeout};

fn options(servers: Vec<String>) -> EtcdOptions {
    EtcdOptions {
        servers,
        tls: TlsFiles::default(),
        prefix: "/test".to_owned(),
        replaces: "/registry".to_owned(),
        compaction_interval: Duration::ZERO,
        measure: None,
    }
}

/// A URL at which nobody listens.
fn dead() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[tokio::test]
async fn sc57_a_dead_first_server_is_passed_over_at_the_start_and_later() {
    let Some(etcd) = Etcd::start_or_leave_out() else { return };
    let servers = [vec![dead(), dead()], etcd.urls()].concat();
    let storage = EtcdStorage::open(&options(servers)).unwrap();
    let started = Instant::now();
    let first = storage.create("/registry/a/x", "1".into()).await.unwrap();
    let mut watch = storage.watch("/registry/a/", first).await.unwrap();
    storage.update("/registry/a/x", first, "2".into()).await.unwrap();
    assert_eq!(watch.next().await.unwrap().events.len(), 1);
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    storage.check(Duration::from_secs(2)).await.unwrap();
}

#[tokio::test]
async fn every_call_ends_when_no_server_is_there() {
    let storage = EtcdStorage::open(&options(vec![dead()])).unwrap();
    let calls = async {
        let error = storage.get("/registry/a").await.unwrap_err();
        assert!(error.to_string().contains("etcd is not reached"), "{error}");
        let error = storage.create("/registry/a", "1".into()).await.unwrap_err();
        assert!(matches!(error, StorageError::Unavailable { .. }), "{error}");
        assert!(storage.check(Duration::from_millis(100)).await.is_err());
    };
    timeout(Duration::from_secs(30), calls).await.expect("a call has no deadline");
}

#[tokio::test]
async fn keys_lie_under_the_prefix_and_read_as_before() {
    let Some(etcd) = Etcd::start_or_leave_out() else { return };
    let storage = EtcdStorage::open(&options(etcd.urls())).unwrap();
    storage.create("/registry/a/x", "1".into()).await.unwrap();
    let plain = EtcdOptions { prefix: "/registry".to_owned(), ..options(etcd.urls()) };
    let plain = EtcdStorage::open(&plain).unwrap();
    assert!(plain.get("/registry/a/x").await.unwrap().found.is_none());
    plain.create("/registry/a/y", "2".into()).await.unwrap();
    let list = storage.list("/registry/a/", ListOptions::default()).await.unwrap();
    let keys: Vec<_> = list.items.iter().map(|item| &*item.key).collect();
    assert_eq!(keys, ["/registry/a/x"]);
    assert_eq!(storage.count("/registry/a/").await.unwrap(), 1);
}

#[tokio::test]
async fn sc57_tls_shows_the_client_certificate_and_trusts_only_the_given_ca() {
    let Some(etcd) = Etcd::with_tls_or_leave_out() else { return };
    let file = |name: &str| Some(etcd.folder().join(name));
    let tls = TlsFiles { ca: file("ca.crt"), certificate: file("client.crt"), key: file("client.key") };
    let open = |tls: TlsFiles| EtcdStorage::open(&EtcdOptions { tls, ..options(etcd.urls()) });
    let storage = open(tls.clone()).unwrap();
    storage.create("/registry/a/x", "1".into()).await.unwrap();

    let within = Duration::from_secs(5);
    let without = TlsFiles { certificate: None, key: None, ..tls.clone() };
    assert!(open(without).unwrap().check(within).await.is_err(), "a client without a certificate was served");
    let distrusting = TlsFiles { ca: None, ..tls.clone() };
    assert!(open(distrusting).unwrap().check(within).await.is_err(), "a CA of nobody was trusted");
    let missing = TlsFiles { ca: file("none.crt"), ..tls };
    assert!(matches!(open(missing), Err(OpenError::File { .. })));
}

#[tokio::test]
async fn certificates_that_were_replaced_are_read_without_a_restart() {
    let Some(etcd) = Etcd::with_tls_or_leave_out() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (own, etcds) = (|name: &str| folder.path().join(name), |name: &str| etcd.folder().join(name));
    for name in ["ca.crt", "client.crt", "client.key"] {
        std::fs::copy(etcds(name), own(name)).unwrap();
    }
    // The server's certificate is of the right CA, but not for clients.
    std::fs::copy(etcds("server.crt"), own("client.crt")).unwrap();
    std::fs::copy(etcds("server.key"), own("client.key")).unwrap();
    let tls = TlsFiles {
        ca: Some(own("ca.crt")),
        certificate: Some(own("client.crt")),
        key: Some(own("client.key")),
    };
    let storage = EtcdStorage::open(&EtcdOptions { tls, ..options(etcd.urls()) }).unwrap();
    storage.check(Duration::from_secs(5)).await.unwrap_err();
    std::fs::copy(etcds("client.crt"), own("client.crt")).unwrap();
    std::fs::copy(etcds("client.key"), own("client.key")).unwrap();
    storage.check(Duration::from_secs(10)).await.unwrap();
}

#[tokio::test]
async fn several_compactors_forget_what_is_old_once_and_not_what_is_young() {
    let Some(etcd) = Etcd::start_or_leave_out() else { return };
    let measured = Arc::new(AtomicU64::new(0));
    let interval = Duration::from_secs(1);
    let replicas: Vec<_> = (0..3)
        .map(|_| {
            let compactions = Arc::clone(&measured);
            let measure = move |operation, _, _| {
                if operation == Operation::Compact {
                    compactions.fetch_add(1, Ordering::Relaxed);
                }
            };
            EtcdStorage::open(&EtcdOptions {
                compaction_interval: interval,
                measure: Some(Arc::new(measure)),
                ..options(etcd.urls())
            })
            .unwrap()
        })
        .collect();
    let storage = replicas.first().unwrap();
    let begun = Instant::now();
    let first = storage.create("/registry/a/x", "0".into()).await.unwrap();
    let mut last = first;
    let wait = timeout(Duration::from_secs(30), async {
        while storage.oldest().await.unwrap() <= first {
            last = storage.update("/registry/a/x", last, "1".into()).await.unwrap();
        }
    });
    wait.await.expect("nothing was compacted");
    let error = storage.watch("/registry/a/", first - 1).await.unwrap_err();
    assert!(matches!(error, StorageError::Compacted { .. }), "{error}");
    // What was written just now is younger than the interval.
    storage.watch("/registry/a/", last - 1).await.unwrap();
    let turns = begun.elapsed().as_millis() / interval.as_millis();
    let made = u128::from(measured.load(Ordering::Relaxed));
    assert!(made >= 1 && made <= turns + 1, "{made} compactions in {turns} intervals");
}

#[tokio::test]
async fn an_etcd_that_lost_its_data_ends_watches_instead_of_letting_them_wait() {
    let Some(mut etcd) = Etcd::start_or_leave_out() else { return };
    let storage = EtcdStorage::open(&options(etcd.urls())).unwrap();
    let mut revision = storage.create("/registry/a/x", "0".into()).await.unwrap();
    for _ in 0..10 {
        revision = storage.update("/registry/a/x", revision, "1".into()).await.unwrap();
    }
    let mut watch = storage.watch("/registry/a/", revision - 1).await.unwrap();
    assert_eq!(watch.next().await.unwrap().revision, revision);
    etcd.kill(0);
    etcd.restart_empty(0).unwrap();
    let ended = timeout(Duration::from_secs(30), watch.next()).await.expect("it waits for ever");
    assert!(ended.unwrap_err().to_string().contains("it has lost data"));
}
