//! Files that stand for those of a Release's source: what somebody has on their machine, before it is anywhere else.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use convoy_api::{Artifact, Release};
use convoy_meta::Status;
use convoy_runtime::Clock;
use convoy_source::{Limits, unpack_archive};
use tokio::sync::{Semaphore, SemaphorePermit};

/// Archives that are worked on at a time.
pub(super) const AT_A_TIME: usize = 4;
/// How long a turn is waited for: less than those who ask wait for an answer.
const TURN_WITHIN: Duration = Duration::from_secs(10);
/// When to come again after that, in seconds.
const COME_AGAIN: u32 = 5;
/// Bytes of all files of an archive.
const MOST_BYTES: u64 = 32 << 20;
/// Files of an archive.
const MOST_FILES: usize = 5000;
/// How long it may take to unpack one.
const UNPACKING: Duration = Duration::from_secs(10);
/// What says that the folder that it is in is a chart.
const MARK: &str = "Chart.yaml";

/// Files, and the folder in them that is rendered.
pub(super) struct GivenFiles {
    pub(super) files: Arc<Artifact>,
    pub(super) path: String,
}

/// A turn to work on an archive. What turns bound is memory: an archive may hold much more than its bytes.
///
/// # Errors
/// 503 when there is none in time.
pub(super) async fn turn<'a>(
    turns: &'a Semaphore,
    clock: &dyn Clock,
) -> Result<Option<SemaphorePermit<'a>>, Status> {
    tokio::select! {
        biased;
        // It is never closed.
        turn = turns.acquire() => Ok(turn.ok()),
        () = clock.sleep(TURN_WITHIN) => Err(super::retry_after(
            Status::service_unavailable(format!(
                "the observer works on the files of {AT_A_TIME} others, and none was done within {} s",
                TURN_WITHIN.as_secs()
            )),
            COME_AGAIN,
        )),
    }
}

/// The files of an archive in the body of a request.
pub(super) async fn unpacked(archive: Bytes, release: &Release) -> Result<GivenFiles, Status> {
    let of_source = release.spec.source.git.as_ref().and_then(|git| git.path.clone());
    let unpacking = tokio::task::spawn_blocking(move || {
        let limits = Limits {
            max_files: MOST_FILES,
            max_file_bytes: MOST_BYTES,
            max_total_bytes: MOST_BYTES,
            ..Limits::default()
        };
        let files = unpack_archive(&archive, limits, UNPACKING).map_err(|failure| {
            Status::bad_request(format!(
                "the body has to be a tar of the source's files, packed with gzip: {failure}"
            ))
        })?;
        let path = folder(&files, &of_source.unwrap_or_default());
        let digest = convoy_api::tree_digest(&files);
        let revision = format!("given@{digest}");
        Ok(GivenFiles { files: Arc::new(Artifact::new(revision, files)), path })
    });
    unpacking.await.map_err(|_| Status::internal("unpacking the files broke down"))?
}

/// Which folder is rendered: the root, unless the files are those of a whole repository or of a packaged chart.
fn folder(files: &BTreeMap<String, Bytes>, of_source: &str) -> String {
    let of_source = of_source.trim_matches('/');
    if files.contains_key(MARK) {
        return String::new();
    }
    let holds = |folder: &str| {
        let inside = format!("{folder}/");
        files.keys().any(|path| path.starts_with(&inside))
    };
    if !of_source.is_empty() && holds(of_source) {
        return of_source.to_owned();
    }
    let first = files.keys().next().and_then(|path| path.split_once('/')).map(|(first, _)| first);
    let packaged = first.filter(|first| {
        let inside = format!("{first}/");
        files.contains_key(&format!("{inside}{MARK}")) && files.keys().all(|path| path.starts_with(&inside))
    });
    packaged.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use convoy_runtime::ManualClock;

    use super::*;

    #[test]
    fn a_folder_a_repository_and_a_packaged_chart_are_told_apart() {
        for (paths, of_source, want) in [
            (&["Chart.yaml", "charts/web/Chart.yaml"][..], "charts/web", ""),
            (&["README.md", "charts/web/Chart.yaml"], "/charts/web/", "charts/web"),
            (&["a.yaml", "b/c.yaml"], "apps/web", ""),
            (&["web/Chart.yaml", "web/values.yaml"], "", "web"),
            (&["web/Chart.yaml", "other/values.yaml"], "", ""),
            (&["web/a.yaml"], "", ""),
        ] {
            let files = paths.iter().map(|path| ((*path).to_owned(), Bytes::new())).collect();
            assert_eq!(folder(&files, of_source), want, "{paths:?}");
        }
    }

    #[tokio::test]
    async fn who_gets_no_turn_in_time_is_told_to_come_again() {
        let (turns, clock) = (Semaphore::new(1), ManualClock::at(jiff::Timestamp::UNIX_EPOCH));
        let first = turn(&turns, &clock).await.unwrap();
        let mut waiting = Box::pin(turn(&turns, &clock));
        assert!(futures::poll!(&mut waiting).is_pending());
        clock.advance(TURN_WITHIN - Duration::from_millis(1));
        assert!(futures::poll!(&mut waiting).is_pending());
        clock.advance(Duration::from_millis(1));
        let status = waiting.await.err().unwrap();
        assert_eq!((status.code, status.details.unwrap().retry_after_seconds), (503, COME_AGAIN));
        drop(first);
        assert!(turn(&turns, &clock).await.is_ok());
    }

    #[tokio::test]
    async fn what_is_no_archive_is_refused_and_names_what_has_to_be_one() {
        let refused =
            unpacked(Bytes::from_static(b"kind: ConfigMap"), &Release::default()).await.err().unwrap();
        assert_eq!(refused.code, 400);
        assert!(refused.message.contains("has to be a tar"), "{}", refused.message);
        let huge = BTreeMap::from([("a".to_owned(), Bytes::from(vec![0; MOST_BYTES as usize + 1]))]);
        let archive = convoy_source::pack_archive(&huge).unwrap();
        assert!(archive.len() < 1 << 20);
        assert_eq!(unpacked(archive.into(), &Release::default()).await.err().unwrap().code, 400);
    }
}
