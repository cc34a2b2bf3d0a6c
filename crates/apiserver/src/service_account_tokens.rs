//! Tokens of ServiceAccounts: issued through `serviceaccounts/token`, signed with a key that only this
//! server has, and valid as long as the ServiceAccount lives.

use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use convoy_meta::{FieldError, GetOptions, GroupKind, Object, Status};
use convoy_registry::{Registry, Resource};
use http::{Method, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::authentication::{Authenticator, Credentials, Refused};
use crate::call::Call;
use crate::decode;
use crate::handlers::Connect;
use crate::negotiation::accept;
use crate::response::{self, Response};
use crate::user::User;

/// The issuer named in tokens.
const ISSUER: &str = "https://convoy.kumodo.io";
const DEFAULT_SECONDS: i64 = 3600;
const MIN_SECONDS: i64 = 600;
const MAX_SECONDS: i64 = 1 << 32;
const MAX_TOKEN: usize = 8 * 1024;

/// Issues tokens and recognises them.
pub struct ServiceAccountTokens {
    registry: Arc<Registry>,
    key: [u8; 32],
}

impl std::fmt::Debug for ServiceAccountTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServiceAccountTokens").finish_non_exhaustive()
    }
}

#[derive(Serialize, Deserialize)]
struct Claims {
    iss: String,
    sub: String,
    aud: Vec<String>,
    exp: i64,
    iat: i64,
    namespace: String,
    name: String,
    uid: String,
}

impl ServiceAccountTokens {
    /// Signs with `key`: random bytes that stay the same over restarts and are told to nobody.
    pub fn new(registry: Arc<Registry>, key: [u8; 32]) -> Self {
        Self { registry, key }
    }

    /// A token of a ServiceAccount.
    fn sign(&self, claims: &Claims) -> Result<String, Status> {
        let head = URL_SAFE_NO_PAD.encode(br#"{"alg":"HS256","typ":"JWT"}"#);
        let body = serde_json::to_vec(claims).map_err(Status::internal)?;
        let signed = format!("{head}.{}", URL_SAFE_NO_PAD.encode(body));
        let signature = URL_SAFE_NO_PAD.encode(hmac(&self.key, signed.as_bytes()));
        Ok(format!("{signed}.{signature}"))
    }

    /// The claims of a token that this server signed and that has not expired. `None` for what is not a
    /// token of this issuer at all.
    fn claims(&self, token: &str, now: jiff::Timestamp) -> Result<Option<Claims>, Refused> {
        if token.len() > MAX_TOKEN {
            return Ok(None);
        }
        let Some((signed, signature)) = token.rsplit_once('.') else { return Ok(None) };
        let Some((_, body)) = signed.split_once('.') else { return Ok(None) };
        let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).ok();
        let claims = decode(body).and_then(|body| serde_json::from_slice::<Claims>(&body).ok());
        let Some(claims) = claims.filter(|claims| claims.iss == ISSUER) else { return Ok(None) };
        let expected = hmac(&self.key, signed.as_bytes());
        if !decode(signature).is_some_and(|signature| equal(&signature, &expected)) {
            return Err(Refused("ServiceAccount token with a wrong signature".into()));
        }
        if now.as_second() >= claims.exp {
            return Err(Refused("ServiceAccount token has expired".into()));
        }
        Ok(Some(claims))
    }

    async fn account(&self, namespace: &str, name: &str) -> Result<Value, Status> {
        let table = self.registry.table();
        let accounts = table.find("", "v1", "serviceaccounts").ok_or_else(Status::unknown_resource)?;
        let entry = self.registry.get(&accounts, namespace, name, &GetOptions::default()).await?;
        Ok(entry.to_value())
    }
}

/// HMAC-SHA-256, RFC 2104.
fn hmac(key: &[u8; 32], message: &[u8]) -> [u8; 32] {
    let mut padded = [0_u8; 64];
    padded.iter_mut().zip(key).for_each(|(into, from)| *into = *from);
    let with = |mask: u8| padded.map(|byte| byte ^ mask);
    let inner = Sha256::new().chain_update(with(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(with(0x5c)).chain_update(inner).finalize().into()
}

/// Compares in a time that says nothing about where they differ.
fn equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

#[async_trait]
impl Authenticator for ServiceAccountTokens {
    async fn authenticate(&self, credentials: &Credentials<'_>) -> Result<Option<User>, Refused> {
        let Some(token) = credentials.bearer_token() else { return Ok(None) };
        let Some(claims) = self.claims(token, credentials.now)? else { return Ok(None) };
        let account = self.account(&claims.namespace, &claims.name).await;
        match account {
            Ok(account) if account.uid() == claims.uid && !account.is_deleting() => {
                Ok(Some(User::service_account(&claims.namespace, &claims.name, &claims.uid)))
            }
            Ok(_) => Err(Refused("the token is of a ServiceAccount that was deleted".into())),
            Err(status) => Err(Refused(format!("the token's ServiceAccount: {status}"))),
        }
    }
}

#[async_trait]
impl Connect for ServiceAccountTokens {
    async fn connect(&self, call: &Call, _resource: &Resource) -> Response {
        let accepted = accept(&call.headers, &call.query, &[]).unwrap_or_default();
        match self.issue(call).await {
            Ok(answer) => response::value(StatusCode::CREATED, &answer, &accepted),
            Err(status) => response::status(&status, &accepted),
        }
    }
}

impl ServiceAccountTokens {
    async fn issue(&self, call: &Call) -> Result<Value, Status> {
        if call.method != Method::POST {
            return Err(Status::method_not_allowed());
        }
        let request = call.resource();
        let mut answer = decode::object_of(&call.headers, &call.body, "TokenRequest")?.object;
        let account = self.account(&request.namespace, &request.name).await?;
        let asked = answer.pointer("/spec/expirationSeconds").and_then(Value::as_i64);
        let seconds = asked.unwrap_or(DEFAULT_SECONDS);
        let path = "spec.expirationSeconds";
        let fault = if seconds < MIN_SECONDS {
            Some("may not specify a duration less than 10 minutes")
        } else if seconds > MAX_SECONDS {
            Some("may not specify a duration larger than 2^32 seconds")
        } else {
            None
        };
        if let Some(fault) = fault {
            let kind = GroupKind::new("authentication.k8s.io", "TokenRequest");
            return Err(Status::invalid(&kind, "", &[FieldError::invalid(path, seconds, fault)]));
        }
        let audiences = answer.pointer("/spec/audiences").and_then(Value::as_array).cloned();
        let mut audiences: Vec<String> =
            audiences.into_iter().flatten().filter_map(|one| one.as_str().map(str::to_owned)).collect();
        if audiences.is_empty() {
            audiences.push(ISSUER.to_owned());
        }
        let expires = call.now.as_second().saturating_add(seconds);
        let claims = Claims {
            iss: ISSUER.into(),
            sub: format!("system:serviceaccount:{}:{}", request.namespace, request.name),
            aud: audiences.clone(),
            exp: expires,
            iat: call.now.as_second(),
            namespace: request.namespace.clone(),
            name: request.name.clone(),
            uid: account.uid().to_owned(),
        };
        let token = self.sign(&claims)?;
        let expires = jiff::Timestamp::from_second(expires).map_err(Status::internal)?;
        answer.set_gvk(&convoy_meta::GroupVersionKind::new("authentication.k8s.io", "v1", "TokenRequest"));
        answer.set_name(&request.name);
        answer.set_namespace(&request.namespace);
        answer.set_creation_timestamp(call.now);
        if let Some(map) = answer.as_object_mut() {
            map.insert("spec".into(), json!({"audiences": audiences, "expirationSeconds": seconds}));
            let status = json!({"token": token, "expirationTimestamp": convoy_meta::time::format(expires)});
            map.insert("status".into(), status);
        }
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use convoy_registry::{RegistryOptions, ResourceTable};
    use convoy_storage::memory::MemoryStorage;

    use super::*;

    fn tokens(key: u8) -> ServiceAccountTokens {
        let table = Arc::new(ResourceTable::default());
        let storage = Arc::new(MemoryStorage::default());
        let registry = Arc::new(Registry::new(storage, table, RegistryOptions::default()));
        ServiceAccountTokens::new(registry, [key; 32])
    }

    fn claims(exp: i64) -> Claims {
        Claims {
            iss: ISSUER.into(),
            sub: String::new(),
            aud: Vec::new(),
            exp,
            iat: 0,
            namespace: "x".into(),
            name: "y".into(),
            uid: "u".into(),
        }
    }

    /// Test case 1 of RFC 4231, whose key is 20 bytes and padded with zeros here as there.
    #[test]
    fn the_signature_is_hmac_sha_256() {
        let mut key = [0_u8; 32];
        key[..20].fill(0x0b);
        let hex: String = hmac(&key, b"Hi There").iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    }

    #[tokio::test]
    async fn only_own_unexpired_tokens_are_taken() {
        let now = jiff::Timestamp::from_second(1000).unwrap();
        let token = tokens(1).sign(&claims(2000)).unwrap();
        assert_eq!(tokens(1).claims(&token, now).unwrap().unwrap().name, "y");
        assert!(tokens(2).claims(&token, now).is_err(), "another key");
        let expired = tokens(1).sign(&claims(1000)).unwrap();
        assert!(tokens(1).claims(&expired, now).is_err(), "expired");
        let none = format!("{}.e30.", URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#));
        assert!(tokens(1).claims(&none, now).unwrap().is_none(), "not ours");
        let (head, rest) = token.split_once('.').unwrap();
        let (body, _) = rest.split_once('.').unwrap();
        assert!(tokens(1).claims(&format!("{head}.{body}."), now).is_err(), "no signature");
    }
}
