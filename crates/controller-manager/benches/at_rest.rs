//! How long a look takes at a Release of which nothing is to be done: all of it, from the caches to the decision when to look
//! again. It makes no request. `cargo bench -p convoy-controller-manager`.
//!
//! `at_rest` goes by what the last look went by; `whole` decodes the bundle and plans, as the first look of a process does.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a benchmark")]

#[path = "../tests/rest/mod.rs"]
mod rest;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};

fn looks(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let key = rest::key();
    for (name, is_whole) in [("at_rest", false), ("whole", true)] {
        let mut group = criterion.benchmark_group(name);
        for objects in [1, 50, 1000] {
            let (looks, world) = runtime.block_on(rest::at_rest(objects));
            let before = world.asked();
            group.bench_function(BenchmarkId::from_parameter(objects), |bencher| {
                bencher.iter(|| {
                    if is_whole {
                        looks.forget_rest();
                    }
                    runtime.block_on(looks.look(&key))
                });
            });
            assert_eq!(world.asked(), before, "it asked for something");
        }
    }
}

criterion_group!(at_rest, looks);
criterion_main!(at_rest);
