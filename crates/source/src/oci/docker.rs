//! The logins of a dockerconfigjson.

use std::collections::BTreeMap;

use base64::Engine as _;
use serde::Deserialize;

use crate::credentials::CredentialsError;

/// The key of such a Secret.
pub(super) const KEY: &str = ".dockerconfigjson";

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    auths: BTreeMap<String, Login>,
}

#[derive(Deserialize, Default)]
struct Login {
    #[serde(default)]
    username: Option<String>,
    #[serde(default)]
    password: Option<String>,
    #[serde(default)]
    auth: Option<String>,
}

/// User and password for a repository: of the entry that names it most closely.
///
/// # Errors
/// When the text is none of these files, or has no login for the host.
pub(super) fn login(text: &[u8], host: &str, repository: &str) -> Result<(String, String), CredentialsError> {
    let config: Config = serde_json::from_slice(text).map_err(|_| CredentialsError::DockerConfig)?;
    let wanted = format!("{host}/{repository}");
    let names_it =
        |key: &str| wanted == key || wanted.strip_prefix(key).is_some_and(|rest| rest.starts_with('/'));
    let found = config
        .auths
        .iter()
        .map(|(key, login)| (place(key), login))
        .filter(|(place, _)| names_it(place))
        .max_by_key(|(place, _)| place.len());
    let Some((_, login)) = found else {
        return Err(CredentialsError::NoLogin { host: host.to_owned() });
    };
    let pair = match login {
        Login { username: Some(username), password: Some(password), .. } => {
            Some((username.clone(), password.clone()))
        }
        Login { auth: Some(auth), .. } => decoded(auth),
        Login { .. } => None,
    };
    pair.ok_or(CredentialsError::DockerConfig)
}

fn decoded(auth: &str) -> Option<(String, String)> {
    let bytes = base64::engine::general_purpose::STANDARD.decode(auth.trim()).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    let (username, password) = text.split_once(':')?;
    Some((username.to_owned(), password.to_owned()))
}

/// Host and path of an entry's key: `https://index.docker.io/v1/` is how the Docker Hub stands there.
fn place(key: &str) -> String {
    let key = key.split_once("://").map_or(key, |(_, rest)| rest);
    let key = key.trim_end_matches('/').to_ascii_lowercase();
    let key = ["/v1", "/v2"].iter().find_map(|end| key.strip_suffix(end)).unwrap_or(&key);
    match key {
        "index.docker.io" | "docker.io" => super::repository::DOCKER_HUB.to_owned(),
        key => key.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_entry_is_taken() {
        let text = r#"{"auths": {
            "r.example": {"auth": "aG9zdDpwOnc="},
            "https://r.example/team": {"username": "team", "password": "pw"},
            "https://index.docker.io/v1/": {"username": "hub", "password": "pw"},
            "r.example/bad": {"auth": "!"},
            "r.example/empty": {}
        }}"#;
        let user = |host, repository| login(text.as_bytes(), host, repository).map(|(user, _)| user);
        assert_eq!(login(text.as_bytes(), "r.example", "x"), Ok(("host".to_owned(), "p:w".to_owned())));
        assert_eq!(user("r.example", "team/web"), Ok("team".to_owned()));
        assert_eq!(user("r.example", "teams/web"), Ok("host".to_owned()));
        assert_eq!(user("registry-1.docker.io", "library/x"), Ok("hub".to_owned()));
        assert_eq!(user("r.example", "bad"), Err(CredentialsError::DockerConfig));
        assert_eq!(user("r.example", "empty/x"), Err(CredentialsError::DockerConfig));
        assert_eq!(
            user("r.example.evil", "x"),
            Err(CredentialsError::NoLogin { host: "r.example.evil".to_owned() })
        );
        assert_eq!(login(b"CANARY", "r.example", "x"), Err(CredentialsError::DockerConfig));
    }
}
