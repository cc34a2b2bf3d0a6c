//! Requests that a user makes as somebody else, as kube-apiserver takes them: each part of who that is has to be allowed.

use http::HeaderMap;

use convoy_meta::Status;

use crate::authorization::{Attributes, Authorizer, Decision};
use crate::filters::refused;
use crate::user::{SYSTEM_ANONYMOUS, SYSTEM_AUTHENTICATED, SYSTEM_UNAUTHENTICATED, User};

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";
const AUTHENTICATION: &str = "authentication.k8s.io";
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// Whether a request is to be made as somebody else.
pub(crate) fn is_asked_for(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| {
        let name = name.as_str();
        [USER, GROUP, UID].contains(&name) || name.starts_with(EXTRA)
    })
}

/// As whom a request of `user` is made; none when it is his own.
pub(crate) async fn of(
    headers: &HeaderMap,
    user: &User,
    authorizer: &dyn Authorizer,
) -> Result<Option<User>, Status> {
    if !is_asked_for(headers) {
        return Ok(None);
    }
    let wanted = wanted(headers)?;
    for attributes in parts_of(&wanted, user) {
        match authorizer.authorize(&attributes).await {
            Decision::Allow(_) => {}
            Decision::Deny(reason) | Decision::NoOpinion(reason) => {
                return Err(refused(&attributes, &reason));
            }
        }
    }
    Ok(Some(completed(wanted)))
}

fn texts<'a>(headers: &'a HeaderMap, name: &str) -> impl Iterator<Item = Result<String, Status>> + use<'a> {
    let not_text = |_| Status::bad_request("a header of impersonation holds other than text");
    headers.get_all(name).into_iter().map(move |value| value.to_str().map(str::to_owned).map_err(not_text))
}

/// Who the headers say.
fn wanted(headers: &HeaderMap) -> Result<User, Status> {
    let mut user = User {
        name: texts(headers, USER).next().transpose()?.unwrap_or_default(),
        uid: texts(headers, UID).next().transpose()?.unwrap_or_default(),
        groups: texts(headers, GROUP).collect::<Result<_, _>>()?,
        ..User::default()
    };
    for name in headers.keys().map(http::HeaderName::as_str) {
        if let Some(key) = name.strip_prefix(EXTRA) {
            let values = texts(headers, name).collect::<Result<_, _>>()?;
            user.extra.insert(percent_decoded(key), values);
        }
    }
    if user.name.is_empty() {
        return Err(Status::internal("groups, uids and extra fields cannot be impersonated without a user"));
    }
    Ok(user)
}

/// Names of headers take no slash, for one: clients escape it.
fn percent_decoded(key: &str) -> String {
    let mut decoded = Vec::new();
    let mut rest = key.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        let escaped = more.get(..2).filter(|_| *first == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        match escaped.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                decoded.push(byte);
                rest = more.get(2..).unwrap_or_default();
            }
            None => {
                decoded.push(*first);
                rest = more;
            }
        }
    }
    String::from_utf8(decoded).unwrap_or_else(|_| key.to_owned())
}

/// The namespace and the name of a service account.
fn service_account(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix(SERVICE_ACCOUNT)?.split_once(':').filter(|(_, name)| !name.contains(':'))
}

/// What `user` has to be allowed.
fn parts_of(wanted: &User, user: &User) -> Vec<Attributes> {
    let part = |group: &str, resource: &str, name: &str| Attributes {
        user: user.clone(),
        verb: "impersonate".to_owned(),
        group: group.to_owned(),
        version: "v1".to_owned(),
        resource: resource.to_owned(),
        name: name.to_owned(),
        ..Attributes::default()
    };
    let mut parts = vec![match service_account(&wanted.name) {
        Some((namespace, name)) => {
            Attributes { namespace: namespace.to_owned(), ..part("", "serviceaccounts", name) }
        }
        None => part("", "users", &wanted.name),
    }];
    parts.extend(wanted.groups.iter().map(|group| part("", "groups", group)));
    if !wanted.uid.is_empty() {
        parts.push(part(AUTHENTICATION, "uids", &wanted.uid));
    }
    for (key, values) in &wanted.extra {
        let extra = |value: &String| Attributes {
            subresource: key.clone(),
            ..part(AUTHENTICATION, "userextras", value)
        };
        parts.extend(values.iter().map(extra));
    }
    parts
}

/// With the groups that go without saying.
fn completed(mut wanted: User) -> User {
    if wanted.groups.is_empty()
        && let Some((namespace, _)) = service_account(&wanted.name)
    {
        wanted.groups =
            vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
    }
    let is_anonymous = wanted.name == SYSTEM_ANONYMOUS;
    let all = if is_anonymous { SYSTEM_UNAUTHENTICATED } else { SYSTEM_AUTHENTICATED };
    if !wanted.is_in(all) && (is_anonymous || !wanted.is_in(SYSTEM_UNAUTHENTICATED)) {
        wanted.groups.push(all.to_owned());
    }
    wanted
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use http::{HeaderName, HeaderValue};

    use super::*;

    /// Allows what is not named, and tells what was asked.
    #[derive(Debug, Default)]
    struct Refuses(&'static str, parking_lot::Mutex<Vec<String>>);

    #[async_trait]
    impl Authorizer for Refuses {
        async fn authorize(&self, asked: &Attributes) -> Decision {
            let (resource, name) = (asked.combined_resource(), &asked.name);
            self.1.lock().push(format!("{} {resource} {}/{name}", asked.verb, asked.namespace));
            if asked.resource == self.0 {
                Decision::NoOpinion(String::new())
            } else {
                Decision::Allow(String::new())
            }
        }
    }

    fn headers(all: &[(&'static str, &'static str)]) -> HeaderMap {
        all.iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    const ACCOUNT: &str = "system:serviceaccount:team:deployer";

    #[tokio::test]
    async fn a_request_is_made_as_who_the_headers_say_with_the_groups_that_go_without_saying() {
        let admin = User::new("admin", ["system:masters"]);
        let all = Refuses::default();
        let of = |given: &[(&'static str, &'static str)]| {
            let (headers, admin, all) = (headers(given), &admin, &all);
            async move { of(&headers, admin, all).await.unwrap().map(|user| (user.name, user.groups)) }
        };
        let user = |name: &str, groups: &[&str]| {
            Some((name.to_owned(), groups.iter().map(|group| (*group).to_owned()).collect::<Vec<_>>()))
        };
        let accounts = ["system:serviceaccounts", "system:serviceaccounts:team", SYSTEM_AUTHENTICATED];
        assert_eq!(of(&[("accept", "*/*")]).await, None);
        assert_eq!(of(&[(USER, ACCOUNT)]).await, user(ACCOUNT, &accounts));
        assert_eq!(
            of(&[(USER, "jane"), (GROUP, "a"), (GROUP, "b")]).await,
            user("jane", &["a", "b", SYSTEM_AUTHENTICATED])
        );
        assert_eq!(of(&[(USER, SYSTEM_ANONYMOUS)]).await, user(SYSTEM_ANONYMOUS, &[SYSTEM_UNAUTHENTICATED]));
    }

    #[tokio::test]
    async fn each_part_of_who_it_is_has_to_be_allowed() {
        let jane = User::new("jane", ["devs"]);
        let everything = [
            (USER, ACCOUNT),
            (GROUP, "admins"),
            (UID, "u"),
            ("impersonate-extra-example.com%2fscope", "all"),
        ];
        let all = Refuses::default();
        let user = of(&headers(&everything), &jane, &all).await.unwrap().unwrap();
        assert_eq!(user.extra["example.com/scope"], ["all"]);
        let asked = [
            "impersonate serviceaccounts team/deployer",
            "impersonate groups /admins",
            "impersonate uids /u",
            "impersonate userextras/example.com/scope /all",
        ];
        assert_eq!(*all.1.lock(), asked);
        for refused in ["serviceaccounts", "groups", "uids", "userextras"] {
            let authorizer = Refuses(refused, Default::default());
            let status = of(&headers(&everything), &jane, &authorizer).await.unwrap_err();
            assert_eq!(status.code, 403);
            assert!(
                status.message.contains("User \"jane\" cannot impersonate resource"),
                "{}",
                status.message
            );
        }
        assert_eq!(of(&headers(&[(GROUP, "admins")]), &jane, &all).await.unwrap_err().code, 500);
    }
}
