//! Whom the host trusts to say who a user is, followed while the server runs.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use async_trait::async_trait;
use convoy_runtime::watch_events;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::runtime::watcher::{self, Event};
use parking_lot::Mutex;

use super::WATCH_AGAIN;
use super::request_header::{RequestHeader, RequestHeaderError, RequestHeaderNames};
use crate::authentication::{Authenticator, ClientCaError, ClientCertificates, Credentials, Refused};
use crate::health::Check;
use crate::tls::{TlsError, certificates};
use crate::user::User;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";

/// What says whom to trust and cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// A CA is not PEM.
    #[error("the CAs in {what}")]
    Pem {
        /// Where they are.
        what: &'static str,
        /// What is wrong.
        #[source]
        source: TlsError,
    },
    /// The front proxy.
    #[error(transparent)]
    RequestHeader(#[from] RequestHeaderError),
    /// The CA of clients.
    #[error(transparent)]
    ClientCa(#[from] ClientCaError),
    /// A list is not written as one.
    #[error("{field} is not a list of texts in JSON")]
    NoList {
        /// Where it is.
        field: &'static str,
        /// What is wrong.
        #[source]
        source: serde_json::Error,
    },
}

/// What flags say; it goes before what the host says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Given {
    /// `--client-ca-file`, in PEM.
    pub client_ca: Option<Vec<u8>>,
    /// `--requestheader-client-ca-file`, in PEM, and the flags beside it.
    pub request_header: Option<(Vec<u8>, RequestHeaderNames)>,
}

/// The ConfigMap `kube-system/extension-apiserver-authentication`, in which kube-apiserver says whom it trusts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostConfiguration {
    client_ca: Option<String>,
    request_header_ca: Option<String>,
    names: RequestHeaderNames,
}

impl HostConfiguration {
    /// Reads it.
    ///
    /// # Errors
    /// When a list in it is none.
    pub fn of(map: &ConfigMap) -> Result<Self, TrustError> {
        let text = |field: &str| {
            let text = map.data.as_ref()?.get(field)?;
            (!text.is_empty()).then(|| text.clone())
        };
        let list = |field: &'static str, default: Vec<String>| match text(field) {
            None => Ok(default),
            Some(text) => serde_json::from_str(&text).map_err(|source| TrustError::NoList { field, source }),
        };
        let default = RequestHeaderNames::default();
        Ok(Self {
            client_ca: text("client-ca-file"),
            request_header_ca: text("requestheader-client-ca-file"),
            names: RequestHeaderNames {
                allowed_names: list("requestheader-allowed-names", Vec::new())?,
                username: list("requestheader-username-headers", default.username)?,
                uid: list("requestheader-uid-headers", default.uid)?,
                group: list("requestheader-group-headers", default.group)?,
                extra_prefix: list("requestheader-extra-headers-prefix", default.extra_prefix)?,
            },
        })
    }
}

/// Knows users by what the host's front proxy says, by their client certificates, and by their tokens, in this order.
///
/// A request that says who makes it and does not come from the front proxy is refused whoever makes it: no honest client
/// sends these headers.
pub struct Trust {
    request_header: ArcSwapOption<RequestHeader>,
    client_ca: ArcSwapOption<ClientCertificates>,
    tokens: Option<Arc<dyn Authenticator>>,
    told: Mutex<Told>,
}

/// What was said about whom to trust.
#[derive(Debug, Default)]
struct Told {
    given: Given,
    host: Option<HostConfiguration>,
    /// Whether nothing is missing.
    is_known: bool,
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trust").finish_non_exhaustive()
    }
}

impl Trust {
    /// Trusts whom flags say. With `host_follows` that is not all, and [`Check`] fails until the host has said the rest.
    ///
    /// # Errors
    /// When something cannot be used.
    pub fn new(
        given: Given,
        host_follows: bool,
        tokens: Option<Arc<dyn Authenticator>>,
    ) -> Result<Self, TrustError> {
        let trust = Self {
            request_header: ArcSwapOption::empty(),
            client_ca: ArcSwapOption::empty(),
            tokens,
            told: Mutex::default(),
        };
        trust.take_over(&given, None)?;
        *trust.told.lock() = Told { given, host: None, is_known: !host_follows };
        Ok(trust)
    }

    /// Trusts whom flags say now: their files have changed.
    ///
    /// # Errors
    /// When something cannot be used; then all stays as it was.
    pub fn set_given(&self, given: Given) -> Result<(), TrustError> {
        let mut told = self.told.lock();
        self.take_over(&given, told.host.as_ref())?;
        told.given = given;
        Ok(())
    }

    fn set_host(&self, host: HostConfiguration) -> Result<(), TrustError> {
        let mut told = self.told.lock();
        if told.host.as_ref() == Some(&host) {
            return Ok(());
        }
        self.take_over(&told.given, Some(&host))?;
        (told.host, told.is_known) = (Some(host), true);
        tracing::info!("took over whom the host trusts, from ConfigMap {NAMESPACE}/{NAME}");
        Ok(())
    }

    /// What flags say goes before what the host says.
    fn take_over(&self, given: &Given, host: Option<&HostConfiguration>) -> Result<(), TrustError> {
        let read = |what, pem: &[u8]| certificates(pem).map_err(|source| TrustError::Pem { what, source });
        let request_header = match (&given.request_header, host) {
            (Some((ca, names)), _) => {
                let cas = read("--requestheader-client-ca-file", ca)?;
                Some(RequestHeader::new(&cas, names.clone())?)
            }
            (None, Some(HostConfiguration { request_header_ca: Some(ca), names, .. })) => {
                let cas = read("requestheader-client-ca-file", ca.as_bytes())?;
                Some(RequestHeader::new(&cas, names.clone())?)
            }
            _ => None,
        };
        let client_ca = match (&given.client_ca, host.and_then(|host| host.client_ca.as_ref())) {
            (Some(ca), _) => Some(read("--client-ca-file", ca)?),
            (None, Some(ca)) => Some(read("client-ca-file", ca.as_bytes())?),
            (None, None) => None,
        };
        let client_ca = client_ca.map(|cas| ClientCertificates::new(&cas)).transpose()?;
        if request_header.as_ref().is_some_and(|header| header.names().allowed_names.is_empty()) {
            tracing::warn!(
                "every certificate of the front proxy's CA may say who a user is: no names are listed"
            );
        }
        self.request_header.store(request_header.map(Arc::new));
        self.client_ca.store(client_ca.map(Arc::new));
        Ok(())
    }

    /// Follows what the host says, until it is dropped.
    pub async fn follow(&self, host: kube::Client) {
        let maps: Api<ConfigMap> = Api::namespaced(host, NAMESPACE);
        let only = watcher::Config::default().fields(&format!("metadata.name={NAME}"));
        let mut events = watch_events(maps, only);
        while let Some(event) = events.next().await {
            let map = match event {
                Ok(Event::Apply(map) | Event::InitApply(map)) => map,
                Ok(Event::Delete(_) | Event::Init | Event::InitDone) => continue,
                Err(error) => {
                    tracing::warn!(%error, "ConfigMap {NAMESPACE}/{NAME} of the host cannot be watched: is the service account bound to the Role extension-apiserver-authentication-reader?");
                    tokio::time::sleep(WATCH_AGAIN).await;
                    continue;
                }
            };
            if let Err(error) = HostConfiguration::of(&map).and_then(|told| self.set_host(told)) {
                let error: &dyn std::error::Error = &error;
                tracing::error!(
                    error,
                    "ConfigMap {NAMESPACE}/{NAME} of the host cannot be used; what was trusted before stays"
                );
            }
        }
    }
}

#[async_trait]
impl Authenticator for Trust {
    async fn authenticate(&self, credentials: &Credentials<'_>) -> Result<Option<User>, Refused> {
        let header = self.request_header.load_full();
        let default = RequestHeaderNames::default();
        let names = header.as_ref().map_or(&default, |header| header.names());
        if names.are_in(credentials.headers) {
            let Some(header) = &header else {
                return Err(Refused("no front proxy is trusted".to_owned()));
            };
            if let Some(user) = header.user(credentials)? {
                return Ok(Some(user));
            }
        }
        let mut refused = None;
        if !credentials.certificates.is_empty() {
            match self.client_ca.load_full() {
                None => refused = Some(Refused("no CA of clients is trusted".to_owned())),
                Some(ca) => match ca.authenticate(credentials).await {
                    Ok(Some(user)) => return Ok(Some(user)),
                    Ok(None) => {}
                    Err(error) => refused = Some(error),
                },
            }
        }
        if let Some(tokens) = &self.tokens
            && let Some(user) = tokens.authenticate(credentials).await?
        {
            return Ok(Some(user));
        }
        refused.map_or(Ok(None), Err)
    }
}

#[async_trait]
impl Check for Trust {
    async fn check(&self) -> Result<(), String> {
        match self.told.lock().is_known {
            true => Ok(()),
            false => Err(format!("ConfigMap {NAMESPACE}/{NAME} of the host was not read yet")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use http::HeaderMap;
    use rustls_pki_types::CertificateDer;
    use rustls_pki_types::pem::PemObject as _;

    use super::*;
    use crate::authentication::TokenTable;
    use crate::pki::Authority;

    fn now() -> jiff::Timestamp {
        jiff::Timestamp::from_second(1_790_000_000).unwrap()
    }

    fn map(fields: &[(&str, &str)]) -> ConfigMap {
        let data: BTreeMap<_, _> =
            fields.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        ConfigMap { data: Some(data), ..ConfigMap::default() }
    }

    fn told(clients: &Authority, proxies: &Authority) -> HostConfiguration {
        let map = map(&[
            ("client-ca-file", &clients.files().certificate),
            ("requestheader-client-ca-file", &proxies.files().certificate),
            ("requestheader-allowed-names", r#"["front-proxy-client"]"#),
            ("requestheader-username-headers", r#"["X-Remote-User"]"#),
        ]);
        HostConfiguration::of(&map).unwrap()
    }

    async fn who(
        trust: &Trust,
        certificate: Option<&str>,
        headers: &[(&str, &str)],
    ) -> Result<Option<User>, Refused> {
        let certificates: Vec<CertificateDer<'static>> = certificate
            .map(|pem| CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<_, _>>().unwrap())
            .unwrap_or_default();
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(http::HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
        }
        let remote = ([127, 0, 0, 1], 1).into();
        trust
            .authenticate(&Credentials { headers: &map, certificates: &certificates, remote, now: now() })
            .await
    }

    #[tokio::test]
    async fn forged_headers_are_refused_whoever_sends_them() {
        let clients = Authority::generate("client-ca", now()).unwrap();
        let proxies = Authority::generate("front-proxy-ca", now()).unwrap();
        let tokens = TokenTable::new([("secret", User::new("robot", ["bots"]))]);
        let trust = Trust::new(Given::default(), true, Some(Arc::new(tokens))).unwrap();
        trust.check().await.unwrap_err();
        let forged = [("x-remote-user", "admin"), ("x-remote-group", "system:masters")];
        who(&trust, None, &forged).await.unwrap_err();
        trust.set_host(told(&clients, &proxies)).unwrap();
        trust.check().await.unwrap();

        let jane = clients.client("jane", &["devs"], now()).unwrap().certificate;
        let proxy = proxies.client("front-proxy-client", &[], now()).unwrap().certificate;
        who(&trust, None, &forged).await.unwrap_err();
        who(&trust, None, &forged[1..]).await.unwrap_err();
        who(&trust, None, &[("x-remote-extra-scopes", "all")]).await.unwrap_err();
        // Neither a certificate of the clients' CA nor a token makes them true.
        who(&trust, Some(&jane), &forged).await.unwrap_err();
        who(&trust, None, &[forged[0], ("authorization", "Bearer secret")]).await.unwrap_err();
        assert_eq!(who(&trust, Some(&proxy), &forged).await.unwrap().unwrap().name, "admin");
        assert_eq!(who(&trust, Some(&jane), &[]).await.unwrap().unwrap().name, "jane");
        let by_token = who(&trust, None, &[("authorization", "Bearer secret")]).await.unwrap().unwrap();
        assert_eq!(by_token.name, "robot");
        assert!(who(&trust, None, &[]).await.unwrap().is_none());
        // The proxy itself is no user.
        who(&trust, Some(&proxy), &[]).await.unwrap_err();
    }

    #[tokio::test]
    async fn a_rotated_ca_counts_at_once_a_broken_one_changes_nothing_and_flags_go_first() {
        let [clients, old, new, own] =
            ["clients", "old", "new", "own"].map(|name| Authority::generate(name, now()).unwrap());
        let trust = Trust::new(Given::default(), true, None).unwrap();
        let proxy = |ca: &Authority| ca.client("front-proxy-client", &[], now()).unwrap().certificate;
        let jane = [("x-remote-user", "jane")];
        trust.set_host(told(&clients, &old)).unwrap();
        who(&trust, Some(&proxy(&old)), &jane).await.unwrap().unwrap();
        trust.set_host(told(&clients, &new)).unwrap();
        who(&trust, Some(&proxy(&old)), &jane).await.unwrap_err();
        who(&trust, Some(&proxy(&new)), &jane).await.unwrap().unwrap();
        let broken = HostConfiguration { request_header_ca: Some("no PEM".into()), ..told(&clients, &old) };
        trust.set_host(broken).unwrap_err();
        who(&trust, Some(&proxy(&new)), &jane).await.unwrap().unwrap();
        HostConfiguration::of(&map(&[("requestheader-allowed-names", "front-proxy-client")])).unwrap_err();

        let ca = own.files().certificate.clone().into_bytes();
        let given = Given { request_header: Some((ca, RequestHeaderNames::default())), client_ca: None };
        trust.set_given(given).unwrap();
        who(&trust, Some(&proxy(&new)), &jane).await.unwrap_err();
        who(&trust, Some(&proxy(&own)), &jane).await.unwrap().unwrap();
    }
}
