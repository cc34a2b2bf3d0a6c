//! Users by bearer tokens that the host knows.

use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use kube::Api;
use sha2::{Digest as _, Sha256};

use super::expiring::Expiring;
use super::{NoAnswer, asked};
use crate::authentication::{Authenticator, Credentials, Refused};
use crate::user::User;

/// Asks the host with a TokenReview. Answers are remembered for a while, under the digest of the token.
#[derive(Debug)]
pub struct TokenReviews {
    reviews: Api<TokenReview>,
    known: Expiring<Option<User>>,
    lasts: Duration,
}

impl TokenReviews {
    /// Remembers answers for this long: `--authentication-token-webhook-cache-ttl`.
    pub fn new(host: kube::Client, lasts: Duration) -> Self {
        Self { reviews: Api::all(host), known: Expiring::default(), lasts }
    }

    async fn ask(&self, token: &str) -> Result<Option<User>, Refused> {
        let review = TokenReview {
            spec: TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() },
            ..TokenReview::default()
        };
        match asked(&self.reviews, &review).await {
            Ok(answer) => Ok(user_of(answer)),
            Err(NoAnswer::InTime) => Err(Refused("the host did not review a token in time".to_owned())),
            // The token is in no message: errors say what the host answered.
            Err(NoAnswer::Failed(failure)) => {
                Err(Refused(format!("the host cannot review tokens: {failure}")))
            }
        }
    }
}

fn user_of(review: TokenReview) -> Option<User> {
    let status = review.status?;
    if status.authenticated != Some(true) {
        return None;
    }
    let user = status.user?;
    Some(User {
        name: user.username?,
        uid: user.uid.unwrap_or_default(),
        groups: user.groups.unwrap_or_default(),
        extra: user.extra.unwrap_or_default(),
    })
}

#[async_trait]
impl Authenticator for TokenReviews {
    async fn authenticate(&self, credentials: &Credentials<'_>) -> Result<Option<User>, Refused> {
        let Some(token) = credentials.bearer_token() else { return Ok(None) };
        let question: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        let user = match self.known.get(&question) {
            Some(known) => known,
            None => {
                let user = self.ask(token).await?;
                self.known.put(question, user.clone(), self.lasts);
                user
            }
        };
        user.map(Some).ok_or_else(|| Refused("the host does not know the bearer token".to_owned()))
    }
}
