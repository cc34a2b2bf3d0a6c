//! How long a look takes at a Release of which nothing is to be done: all of it, from the caches to the decision when to look
//! again, with its bundle and its plan. It makes no request. `cargo bench -p convoy-controller-manager`.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "a benchmark")]
#![allow(clippy::print_stdout, reason = "its answer")]

#[path = "../tests/rest/mod.rs"]
mod rest;

use std::time::{Duration, Instant};

/// Looks that are measured; as a test, without `--bench`, a few.
const LOOKS: usize = 5000;

fn main() {
    let looks = if std::env::args().any(|argument| argument == "--bench") { LOOKS } else { 5 };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for objects in [1, 5, 50, 500] {
        let (controller, key, world) = runtime.block_on(rest::at_rest(objects));
        let before = world.requests();
        let mut times: Vec<Duration> = (0..looks + looks / 10)
            .map(|_| {
                let began = Instant::now();
                runtime.block_on(controller.look(&key));
                began.elapsed()
            })
            .skip(looks / 10)
            .collect();
        assert_eq!(world.requests(), before, "it asked for something");
        times.sort_unstable();
        let at = |percent: usize| times[(times.len() - 1) * percent / 100];
        println!("{objects} objects: p50 {:?}, p99 {:?}, {looks} looks", at(50), at(99));
    }
}
