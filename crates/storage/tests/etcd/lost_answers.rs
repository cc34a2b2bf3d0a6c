//! A link that breaks when etcd answers: the write was carried out, and who made it does not know.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use convoy_storage::etcd::EtcdStorage;
use convoy_storage::{Storage, StorageError};
use convoy_testkit::Etcd;

use super::options;

/// Carries everything; when told to, it ends the connection instead of delivering the next answer.
struct Link {
    url: String,
    lose: Arc<AtomicBool>,
}

impl Link {
    fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let lose = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&lose);
        std::thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                let Ok(server) = TcpStream::connect(server) else { return };
                let (told, mut up, mut down) = (Arc::clone(&told), client, server);
                let (mut to_server, mut to_client) = (down.try_clone().unwrap(), up.try_clone().unwrap());
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut up, &mut to_server);
                    let _ = to_server.shutdown(Shutdown::Both);
                });
                std::thread::spawn(move || {
                    let mut buffer = [0; 16 * 1024];
                    while let Ok(read @ 1..) = down.read(&mut buffer) {
                        // Only what is long enough to be more than a frame that says that something came.
                        if read > 40 && told.swap(false, Ordering::SeqCst) {
                            break;
                        }
                        if to_client.write_all(&buffer[..read]).is_err() {
                            break;
                        }
                    }
                    let _ = to_client.shutdown(Shutdown::Both);
                    let _ = down.shutdown(Shutdown::Both);
                });
            }
        });
        Self { url, lose }
    }

    fn lose_the_next_answer(&self) {
        self.lose.store(true, Ordering::SeqCst);
    }

    /// Whether it was lost.
    fn has_lost(&self) -> bool {
        !self.lose.swap(false, Ordering::SeqCst)
    }
}

fn start() -> Option<(Etcd, Link, EtcdStorage)> {
    let etcd = Etcd::start_or_leave_out()?;
    let server = etcd.urls()[0].trim_start_matches("http://").parse().unwrap();
    let link = Link::to(server);
    let storage = EtcdStorage::open(&options(vec![link.url.clone()])).unwrap();
    Some((etcd, link, storage))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_whose_answer_was_lost_is_done_once_and_told_rightly() {
    let Some((_etcd, link, storage)) = start() else { return };
    let key = "/registry/a/x";
    let mut lost = 0;
    for i in 0..20 {
        storage.revision().await.unwrap();
        link.lose_the_next_answer();
        let created = storage.create(key, format!("{i}-created").into()).await.unwrap();
        lost += usize::from(link.has_lost());
        assert_eq!(storage.revision().await.unwrap(), created, "more than one write was made");

        link.lose_the_next_answer();
        let updated = storage.update(key, created, format!("{i}-updated").into()).await.unwrap();
        lost += usize::from(link.has_lost());
        assert_eq!((storage.revision().await.unwrap(), updated), (created + 1, created + 1));

        link.lose_the_next_answer();
        let deleted = storage.delete(key, updated).await.unwrap();
        lost += usize::from(link.has_lost());
        assert_eq!(
            (deleted.revision, &*deleted.previous.value),
            (updated + 1, format!("{i}-updated").as_bytes())
        );
    }
    assert!(lost > 30, "only {lost} of 60 answers were lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_lost_its_race_and_its_answer_is_a_conflict() {
    let Some((_etcd, link, storage)) = start() else { return };
    let created = storage.create("/registry/a/x", "1".into()).await.unwrap();
    let updated = storage.update("/registry/a/x", created, "2".into()).await.unwrap();
    link.lose_the_next_answer();
    let error = storage.update("/registry/a/x", created, "3".into()).await.unwrap_err();
    assert!(
        matches!(&error, StorageError::Conflict { current, .. } if current.revision == updated),
        "{error}"
    );
    link.lose_the_next_answer();
    let error = storage.delete("/registry/a/x", created).await.unwrap_err();
    assert!(
        matches!(&error, StorageError::Conflict { current, .. } if current.revision == updated),
        "{error}"
    );
}
