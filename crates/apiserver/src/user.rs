//! Who makes a request.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The group whose members may do everything.
pub const SYSTEM_MASTERS: &str = "system:masters";
/// The group of everyone who proved who they are.
pub const SYSTEM_AUTHENTICATED: &str = "system:authenticated";
/// The group of everyone else.
pub const SYSTEM_UNAUTHENTICATED: &str = "system:unauthenticated";
/// The name of everyone else.
pub const SYSTEM_ANONYMOUS: &str = "system:anonymous";

/// A user as authentication found it. Written as `authentication.k8s.io` UserInfo.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct User {
    /// The name.
    #[serde(rename = "username", skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// A stable identifier, when the source has one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// What else the source said.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// A user with groups.
    pub fn new<G: Into<String>>(name: impl Into<String>, groups: impl IntoIterator<Item = G>) -> Self {
        Self { name: name.into(), groups: groups.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Someone who proved nothing.
    pub fn anonymous() -> Self {
        Self::new(SYSTEM_ANONYMOUS, [SYSTEM_UNAUTHENTICATED])
    }

    /// The same, known to be authenticated.
    #[must_use]
    pub fn authenticated(mut self) -> Self {
        let known = [SYSTEM_AUTHENTICATED, SYSTEM_UNAUTHENTICATED];
        if !self.groups.iter().any(|group| known.contains(&group.as_str())) {
            self.groups.push(SYSTEM_AUTHENTICATED.into());
        }
        self
    }

    /// Whether the user is in a group.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|one| one == group)
    }

    /// The user of a ServiceAccount.
    pub fn service_account(namespace: &str, name: &str, uid: &str) -> Self {
        let groups = ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
        Self { uid: uid.into(), ..Self::new(format!("system:serviceaccount:{namespace}:{name}"), groups) }
    }
}
