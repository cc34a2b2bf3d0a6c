//! What an aggregated API server leaves to the kube-apiserver in front of it, its host: who users are and what they may do,
//! and which namespaces there are.
//!
//! The host's aggregator authenticates a user and says who that is in headers of its request ([`Trust`]); whether that is the
//! aggregator shows its client certificate. Others come with a client certificate or a token that the host knows
//! ([`TokenReviews`]). What somebody may do the host is asked ([`AccessReviews`]). What cannot be found out is refused.

mod access_reviews;
mod expiring;
mod host_namespaces;
mod request_header;
#[cfg(test)]
mod tests;
mod token_reviews;
mod trust;

use std::fmt::Debug;
use std::time::Duration;

use kube::Api;
use kube::api::PostParams;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use access_reviews::{AccessReviews, AlwaysAllowedPaths};
pub use host_namespaces::HostNamespaces;
pub use request_header::{RequestHeader, RequestHeaderError, RequestHeaderNames};
pub use token_reviews::TokenReviews;
pub use trust::{Given, HostConfiguration, Trust, TrustError};

/// How long the host may take to answer a question about a user.
const ANSWER: Duration = Duration::from_secs(10);
/// How often a question is asked that got no answer, and how long to wait in between.
const TRIES: usize = 3;
const PAUSE: Duration = Duration::from_millis(200);
/// How long to wait before a watch of the host that failed is begun anew.
const WATCH_AGAIN: Duration = Duration::from_secs(1);

/// Why the host's answer to a question is not known.
enum NoAnswer {
    /// It did not come within [`ANSWER`].
    InTime,
    /// Each try failed; this is what the last one came to.
    Failed(String),
}

/// Asks the host with a review, of which it stores nothing.
async fn asked<K>(reviews: &Api<K>, review: &K) -> Result<K, NoAnswer>
where
    K: Clone + Debug + Serialize + DeserializeOwned,
{
    let mut failure = String::new();
    for attempt in 0..TRIES {
        if attempt > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        let parameters = PostParams::default();
        #[expect(clippy::disallowed_methods, reason = "a question, of which nothing is stored")]
        let answer = tokio::time::timeout(ANSWER, reviews.create(&parameters, review)).await;
        match answer {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => failure = error.to_string(),
            Err(_) => return Err(NoAnswer::InTime),
        }
    }
    Err(NoAnswer::Failed(failure))
}
