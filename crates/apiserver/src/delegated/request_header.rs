//! Users whom a front proxy names in headers.

use std::collections::BTreeMap;

use http::HeaderMap;
use rustls_pki_types::CertificateDer;

use crate::authentication::{ClientCaError, Credentials, Refused, TrustedClients, client_common_name};
use crate::user::User;

/// Which headers name a user. The names are compared without case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHeaderNames {
    /// Common names of the proxy's certificate; any if empty.
    pub allowed_names: Vec<String>,
    /// Where the name is, the first that is there.
    pub username: Vec<String>,
    /// Where the uid is.
    pub uid: Vec<String>,
    /// Where groups are, one a header.
    pub group: Vec<String>,
    /// What headers with more begin with.
    pub extra_prefix: Vec<String>,
}

impl Default for RequestHeaderNames {
    fn default() -> Self {
        let one = |name: &str| vec![name.to_owned()];
        Self {
            allowed_names: Vec::new(),
            username: one("X-Remote-User"),
            uid: one("X-Remote-Uid"),
            group: one("X-Remote-Group"),
            extra_prefix: one("X-Remote-Extra-"),
        }
    }
}

impl RequestHeaderNames {
    /// Whether a request says who makes it.
    pub(super) fn are_in(&self, headers: &HeaderMap) -> bool {
        let named = [&self.username, &self.uid, &self.group].into_iter().flatten();
        named.into_iter().any(|name| headers.contains_key(name.as_str()))
            || headers.keys().any(|name| self.extra_of(name.as_str()).is_some())
    }

    fn extra_of<'a>(&self, name: &'a str) -> Option<&'a str> {
        self.extra_prefix.iter().find_map(|prefix| {
            let (head, rest) = name.split_at_checked(prefix.len())?;
            (!rest.is_empty() && head.eq_ignore_ascii_case(prefix)).then_some(rest)
        })
    }
}

/// A configuration of the front proxy that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RequestHeaderError {
    /// Its CA.
    #[error("the CA of the front proxy")]
    Ca(#[source] ClientCaError),
    /// No header has the user's name.
    #[error("no header for the name of the user")]
    NoUsername,
}

/// The front proxy that is trusted.
#[derive(Debug)]
pub struct RequestHeader {
    clients: TrustedClients,
    names: RequestHeaderNames,
}

impl RequestHeader {
    /// Trusts who has a certificate of these CAs and one of the allowed names.
    ///
    /// # Errors
    /// When a CA cannot be used, or no header names the user.
    pub fn new(
        cas: &[CertificateDer<'static>],
        names: RequestHeaderNames,
    ) -> Result<Self, RequestHeaderError> {
        if names.username.is_empty() {
            return Err(RequestHeaderError::NoUsername);
        }
        let clients = TrustedClients::new(cas).map_err(RequestHeaderError::Ca)?;
        Ok(Self { clients, names })
    }

    pub(super) fn names(&self) -> &RequestHeaderNames {
        &self.names
    }

    /// The user whom the proxy names; none when this is the proxy and it names nobody.
    ///
    /// # Errors
    /// When this is not the proxy.
    pub(super) fn user(&self, credentials: &Credentials<'_>) -> Result<Option<User>, Refused> {
        let leaf = self.clients.verify(credentials)?;
        let name = client_common_name(leaf)?;
        let allowed = &self.names.allowed_names;
        if !allowed.is_empty() && !allowed.contains(&name) {
            return Err(Refused(format!("{name:?} is not one of the front proxy's names")));
        }
        self.named(credentials.headers)
    }

    fn named(&self, headers: &HeaderMap) -> Result<Option<User>, Refused> {
        let texts = |names: &[String]| -> Result<Vec<String>, Refused> {
            let values = names.iter().flat_map(|name| headers.get_all(name.as_str()));
            let text = |value: &http::HeaderValue| {
                std::str::from_utf8(value.as_bytes())
                    .map(str::to_owned)
                    .map_err(|_| Refused("a header of the front proxy holds other than text".to_owned()))
            };
            values.map(text).collect()
        };
        let first = |names: &[String]| -> Result<String, Refused> {
            Ok(texts(names)?.into_iter().find(|text| !text.is_empty()).unwrap_or_default())
        };
        let name = first(&self.names.username)?;
        if name.is_empty() {
            return Ok(None);
        }
        let groups = texts(&self.names.group)?;
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (header, value) in headers {
            let Some(key) = self.names.extra_of(header.as_str()) else { continue };
            let value = std::str::from_utf8(value.as_bytes())
                .map_err(|_| Refused("a header of the front proxy holds other than text".to_owned()))?;
            extra.entry(unescaped(&key.to_ascii_lowercase())).or_default().push(value.to_owned());
        }
        Ok(Some(User { uid: first(&self.names.uid)?, extra, ..User::new(name, groups) }))
    }
}

/// Undoes %-encoding; what is not well-formed stays as it is, as in Kubernetes.
fn unescaped(key: &str) -> String {
    let mut bytes = Vec::with_capacity(key.len());
    let mut rest = key.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        if *first != b'%' {
            bytes.push(*first);
            rest = tail;
            continue;
        }
        let digits = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let Some(byte) = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) else {
            return key.to_owned();
        };
        bytes.push(byte);
        rest = tail.get(2..).unwrap_or_default();
    }
    String::from_utf8(bytes).unwrap_or_else(|_| key.to_owned())
}

#[cfg(test)]
mod tests {
    use rustls_pki_types::pem::PemObject as _;

    use super::*;
    use crate::pki::{Authority, CertificateAndKey};

    fn now() -> jiff::Timestamp {
        jiff::Timestamp::from_second(1_790_000_000).unwrap()
    }

    fn ders(pem: &str) -> Vec<CertificateDer<'static>> {
        CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<_, _>>().unwrap()
    }

    struct World {
        proxies: Authority,
        header: RequestHeader,
    }

    impl World {
        fn new(allowed: &[&str]) -> Self {
            let proxies = Authority::generate("front-proxy-ca", now()).unwrap();
            let names = RequestHeaderNames {
                allowed_names: allowed.iter().map(|name| (*name).to_owned()).collect(),
                ..RequestHeaderNames::default()
            };
            let header = RequestHeader::new(&ders(&proxies.files().certificate), names).unwrap();
            Self { proxies, header }
        }

        fn ask(
            &self,
            certificate: Option<&CertificateAndKey>,
            headers: &[(&str, &str)],
        ) -> Result<Option<User>, Refused> {
            let certificates = certificate.map(|one| ders(&one.certificate)).unwrap_or_default();
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.append(http::HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
            }
            self.header.user(&Credentials {
                headers: &map,
                certificates: &certificates,
                remote: ([127, 0, 0, 1], 1).into(),
                now: now(),
            })
        }
    }

    const JANE: (&str, &str) = ("x-ReMoTe-uSeR", "jane");

    #[test]
    fn only_the_proxy_with_an_allowed_name_says_who_a_user_is() {
        let world = World::new(&["front-proxy-client"]);
        let proxy = world.proxies.client("front-proxy-client", &[], now()).unwrap();
        assert_eq!(world.ask(Some(&proxy), &[JANE]).unwrap().unwrap().name, "jane");
        assert_eq!(world.ask(Some(&proxy), &[("x-remote-user", "")]).unwrap(), None);
        world.ask(None, &[JANE]).unwrap_err();
        let other = world.proxies.client("somebody", &[], now()).unwrap();
        world.ask(Some(&other), &[JANE]).unwrap_err();
        let foreign = Authority::generate("front-proxy-ca", now()).unwrap();
        let foreign = foreign.client("front-proxy-client", &[], now()).unwrap();
        world.ask(Some(&foreign), &[JANE]).unwrap_err();
        let serving = world.proxies.serving(&["front-proxy-client".to_owned()], now()).unwrap();
        world.ask(Some(&serving), &[JANE]).unwrap_err();

        let any = World::new(&[]);
        let other = any.proxies.client("somebody", &[], now()).unwrap();
        assert_eq!(any.ask(Some(&other), &[JANE]).unwrap().unwrap().name, "jane");
    }

    #[test]
    fn an_expired_certificate_is_none() {
        let world = World::new(&[]);
        let long_ago = jiff::Timestamp::from_second(1_690_000_000).unwrap();
        let expired = world.proxies.client("front-proxy-client", &[], long_ago).unwrap();
        world.ask(Some(&expired), &[JANE]).unwrap_err();
    }

    #[test]
    fn groups_uid_and_more_are_taken_as_kubernetes_writes_them() {
        let world = World::new(&[]);
        let proxy = world.proxies.client("front-proxy-client", &[], now()).unwrap();
        let headers = [
            JANE,
            ("X-Remote-User", "not the first"),
            ("x-remote-uid", "17"),
            ("X-Remote-Group", "devs"),
            ("x-remote-group", "ops"),
            ("X-Remote-Extra-Acme.Org%2fProject", "a"),
            ("x-remote-extra-acme.org%2Fproject", "b"),
            ("x-remote-extra-%zz", "c"),
        ];
        let user = world.ask(Some(&proxy), &headers).unwrap().unwrap();
        let extra = BTreeMap::from([
            ("acme.org/project".to_owned(), vec!["a".to_owned(), "b".to_owned()]),
            ("%zz".to_owned(), vec!["c".to_owned()]),
        ]);
        assert_eq!(user, User { uid: "17".into(), extra, ..User::new("jane", ["devs", "ops"]) });
    }
}
