//! One suite for every backend of the storage trait.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed step fails the test")]

mod suite;
mod watching;

use std::sync::Arc;
use std::time::Duration;

use convoy_storage::embedded::{EmbeddedOptions, EmbeddedStorage};
use convoy_storage::etcd::{EtcdOptions, EtcdStorage, TlsFiles};
use convoy_storage::{HistoryLimits, Storage, memory::MemoryStorage};
use convoy_testkit::Etcd;

/// Makes one test per behaviour and backend.
macro_rules! conformance {
    ($backend:ident, $make:expr; $($module:ident :: $case:ident),* $(,)?) => {
        mod $backend {
            $(
                #[tokio::test]
                async fn $case() {
                    let Some((storage, _keep)) = $make else { return };
                    crate::$module::$case(storage).await;
                }
            )*
        }
    };
}

macro_rules! backends {
    (
        all: $($module:ident :: $case:ident),* ;
        history_is_bounded_by_count: $($bounded:ident :: $bounded_case:ident),* $(,)?
    ) => {
        conformance!(memory, Some((crate::memory_storage(), ()));
            $($module :: $case,)* $($bounded :: $bounded_case),*);
        conformance!(embedded, Some(crate::embedded_storage());
            $($module :: $case,)* $($bounded :: $bounded_case),*);
        // History ends there by age, which `tests/etcd/` shows.
        conformance!(etcd, crate::etcd_storage(); $($module :: $case),*);
    };
}

/// Little history, so that its end is reached in tests.
fn limits() -> HistoryLimits {
    HistoryLimits { events: 64, bytes: 1 << 20 }
}

fn memory_storage() -> Arc<dyn Storage> {
    Arc::new(MemoryStorage::new(limits()))
}

fn embedded_storage() -> (Arc<dyn Storage>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let options = EmbeddedOptions { history: limits(), ..EmbeddedOptions::default() };
    let storage = EmbeddedStorage::open(&folder.path().join("store"), options).unwrap();
    (Arc::new(storage), folder)
}

/// An etcd of its own: the suite counts revisions and compacts.
fn etcd_storage() -> Option<(Arc<dyn Storage>, Etcd)> {
    let etcd = Etcd::start_or_leave_out()?;
    let options = EtcdOptions {
        servers: etcd.urls(),
        tls: TlsFiles::default(),
        prefix: "/conformance".to_owned(),
        replaces: String::new(),
        compaction_interval: Duration::ZERO,
        measure: None,
    };
    Some((Arc::new(EtcdStorage::open(&options).unwrap()), etcd))
}

backends! {
    all:
    suite::a_created_value_is_read_back_at_its_revision,
    suite::creating_an_existing_key_shows_what_is_there,
    suite::a_missing_key_reads_as_nothing_at_the_current_revision,
    suite::an_update_needs_the_revision_that_was_read,
    suite::an_update_of_a_missing_key_is_not_found,
    suite::a_delete_returns_the_last_value_and_its_own_revision,
    suite::a_delete_needs_the_revision_that_was_read,
    suite::a_key_can_be_created_again_after_its_deletion,
    suite::one_revision_counter_serves_all_prefixes,
    suite::a_failed_write_takes_no_revision,
    suite::a_list_shows_the_prefix_in_key_order_and_nothing_else,
    suite::an_empty_list_has_the_revision_of_the_store,
    suite::pages_at_one_revision_show_each_key_once_while_writes_go_on,
    suite::a_list_of_the_past_shows_deleted_and_older_values,
    suite::a_list_of_the_future_is_refused,
    suite::a_list_before_the_compaction_is_refused,
    suite::compacting_twice_or_into_the_future_is_safe,
    suite::too_large_keys_and_values_are_refused,
    suite::concurrent_updates_of_one_key_lose_no_increment,
    suite::concurrent_creates_of_one_key_have_one_winner,
    watching::a_watch_delivers_what_follows_its_revision,
    watching::a_watch_from_zero_delivers_the_whole_history,
    watching::a_watch_sees_only_its_prefix,
    watching::a_deletion_carries_the_last_value_and_the_revision_of_the_deletion,
    watching::a_watch_before_the_compaction_is_refused,
    watching::an_idle_watch_survives_any_number_of_foreign_events,
    watching::a_cancelled_wait_loses_no_event,
    watching::many_watches_see_the_same_events_in_order,
    watching::progress_says_when_a_watch_is_up_to_date,
    watching::what_others_wrote_before_a_watch_began_is_not_waited_for,
    watching::a_watch_ends_when_the_store_is_closed;
    history_is_bounded_by_count:
    suite::history_is_bounded_by_count,
    watching::a_watch_that_fell_behind_the_history_ends_with_compacted,
}
