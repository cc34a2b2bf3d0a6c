//! A Release at rest costs no request, neither to its target nor to convoy's API server.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "tests")]

mod rest;

#[tokio::test]
async fn a_look_at_a_release_at_rest_makes_no_request() {
    for objects in [1, 50] {
        let (looks, key, world) = rest::at_rest(objects).await;
        let before = world.requests();
        assert!(before > objects, "it was delivered");
        for _ in 0..3 {
            looks.look(&key).await;
        }
        assert_eq!(world.requests(), before);
    }
}
