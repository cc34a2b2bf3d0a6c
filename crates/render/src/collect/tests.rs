//! Collections against every order in which requests can arrive.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use futures::stream::BoxStream;
use parking_lot::Mutex;
use proptest::prelude::*;

use super::*;
use crate::shelf::{Shelved, touch};

const GRACE: u64 = 1000;
/// The longest time from when an object is touched to when its reference is there.
const LONGEST_LOOK: u64 = 300;

/// A simulated backend: each request arrives at once or a while later, and is answered another while later.
#[derive(Default)]
struct World {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    blobs: BTreeMap<String, u64>,
    now: u64,
}

/// Lets others go on.
async fn others() {
    let mut is_polled = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut is_polled, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

fn at(time: u64) -> Timestamp {
    Timestamp::from_second(i64::try_from(time).unwrap()).unwrap()
}

impl Shelf for World {
    async fn read(&self, name: &Path) -> Result<Option<Bytes>, object_store::Error> {
        others().await;
        let found = self.inner.lock().blobs.get(name.as_ref()).map(|_| Bytes::new());
        others().await;
        Ok(found)
    }

    async fn has(&self, name: &Path) -> Result<bool, object_store::Error> {
        Ok(self.read(name).await?.is_some())
    }

    async fn write(&self, name: &Path, _: Bytes) -> Result<(), object_store::Error> {
        others().await;
        {
            let mut inner = self.inner.lock();
            let now = inner.now;
            inner.blobs.insert(name.to_string(), now);
        }
        others().await;
        Ok(())
    }

    async fn delete(&self, name: &Path) -> Result<(), object_store::Error> {
        others().await;
        self.inner.lock().blobs.remove(name.as_ref());
        others().await;
        Ok(())
    }

    fn list(&self, folder: &Path) -> BoxStream<'_, Result<Shelved, object_store::Error>> {
        let folder = format!("{folder}/");
        futures::stream::once(async move {
            others().await;
            let listed: Vec<_> = self
                .inner
                .lock()
                .blobs
                .iter()
                .filter(|(name, _)| name.starts_with(&folder))
                .map(|(name, written)| {
                    Ok(Shelved { name: Path::from(name.as_str()), size: 1, written: at(*written) })
                })
                .collect();
            others().await;
            futures::stream::iter(listed)
        })
        .flatten()
        .boxed()
    }

    async fn now(&self) -> Result<Timestamp, object_store::Error> {
        Ok(at(self.inner.lock().now))
    }
}

fn digest(number: u8) -> String {
    text(&[number; 32])
}

fn name(number: u8) -> Path {
    Path::from_iter([BUNDLES, hex_of(&digest(number)).unwrap()])
}

/// What is referenced, and how often.
type Referenced = Mutex<BTreeMap<u8, u32>>;

/// Somebody who uses a bundle, references it, reads it, and lets go of it, again and again.
async fn user(world: &World, referenced: &Referenced, script: Vec<(u8, u16, u16)>) {
    for (number, hold, rest) in script {
        let began = world.inner.lock().now;
        if !touch(world, &name(number)).await.unwrap() {
            world.write(&name(number), Bytes::new()).await.unwrap();
        }
        while world.inner.lock().now < began + u64::from(hold) % LONGEST_LOOK {
            others().await;
        }
        *referenced.lock().entry(number).or_default() += 1;
        let until = world.inner.lock().now + u64::from(hold);
        while world.inner.lock().now < until {
            assert!(
                find(world, &name(number)).await.unwrap().is_some(),
                "bundle {number} is referenced and not there at {}",
                world.inner.lock().now
            );
        }
        *referenced.lock().get_mut(&number).unwrap() -= 1;
        let until = world.inner.lock().now + u64::from(rest);
        while world.inner.lock().now < until {
            others().await;
        }
    }
}

async fn collector(world: &World, referenced: &Referenced, is_over: &Mutex<bool>) {
    while !*is_over.lock() {
        let mut references = References::default();
        let began = world.inner.lock().now;
        for (number, count) in referenced.lock().iter() {
            if *count > 0 {
                references.add(&digest(*number));
            }
        }
        others().await;
        let may_go_on = || world.inner.lock().now < began + GRACE / 4;
        let terms = Terms { grace: Duration::from_secs(GRACE), may_go_on: &may_go_on };
        collect(world, references, &terms).await.unwrap();
        others().await;
    }
}

/// How much time passes between two steps: mostly little, so that collections come to their end.
fn time() -> impl Strategy<Value = u64> {
    prop_oneof![40 => 0..6_u64, 1 => 100..700_u64]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, max_shrink_iters: 300, ..ProptestConfig::default() })]
    #[test]
    fn nothing_that_is_referenced_is_ever_missed(
        scripts in proptest::collection::vec(
            proptest::collection::vec((0..3_u8, 0..1500_u16, 0..4000_u16), 1..6), 1..4),
        order in proptest::collection::vec((any::<u8>(), time()), 300),
    ) {
        let (world, referenced, is_over) = (World::default(), Referenced::default(), Mutex::new(false));
        let mut users: Vec<Pin<Box<dyn Future<Output = ()>>>> = Vec::new();
        for script in scripts {
            users.push(Box::pin(user(&world, &referenced, script)));
        }
        let mut collecting: Pin<Box<dyn Future<Output = ()>>> = Box::pin(collector(&world, &referenced, &is_over));
        let mut context = Context::from_waker(Waker::noop());
        let mut order = order.iter().cycle();
        while !users.is_empty() {
            let (turn, passes) = order.next().unwrap();
            world.inner.lock().now += passes;
            let turn = usize::from(*turn) % (users.len() * 2);
            match users.get_mut(turn) {
                Some(user) => {
                    if user.as_mut().poll(&mut context).is_ready() {
                        drop(users.remove(turn));
                    }
                }
                // As likely as all users together: most of what matters happens in collections.
                None => prop_assert!(collecting.as_mut().poll(&mut context).is_pending()),
            }
        }
        // Nothing is referenced any more: all goes.
        let mut left = 0;
        while !world.inner.lock().blobs.is_empty() {
            world.inner.lock().now += 2;
            let _ = collecting.as_mut().poll(&mut context);
            left += 1;
            prop_assert!(left < 10_000, "{:?}", world.inner.lock().blobs);
        }
        *is_over.lock() = true;
    }
}

#[test]
fn an_object_is_judged_by_where_it_lies_by_its_age_and_by_who_references_it() {
    let (young, old, grace) = (Duration::from_secs(9), Duration::from_secs(10), Duration::from_secs(10));
    let both = Place::Live { also_aside: true };
    for (place, is_referenced, age, wanted) in [
        (LIVE, true, old, Verdict::Keep),
        (LIVE, false, young, Verdict::Keep),
        (LIVE, false, old, Verdict::SetAside),
        (both, false, old, Verdict::Keep),
        (Place::Aside, true, young, Verdict::PutBack),
        (Place::Aside, true, old, Verdict::PutBack),
        (Place::Aside, false, young, Verdict::Keep),
        (Place::Aside, false, old, Verdict::Delete),
    ] {
        assert_eq!(verdict(place, is_referenced, age, grace), wanted, "{place:?} {is_referenced} {age:?}");
    }
}
