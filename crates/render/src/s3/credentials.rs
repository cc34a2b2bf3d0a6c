//! Credentials in a file as the AWS tools have it, read anew for each request: a mounted Secret changes while the
//! process runs.

use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use object_store::CredentialProvider;
use object_store::aws::AwsCredential;

/// The largest file that is read.
const MOST_BYTES: u64 = 64 << 10;

/// Why there are no credentials. Says nothing that is in the file.
#[derive(Debug, thiserror::Error)]
pub(super) enum CredentialsError {
    #[error("cannot read the credentials file {file}: {why}")]
    Read { file: String, why: String },
    #[error(
        "the credentials file {file} has no aws_access_key_id and aws_secret_access_key in its section [{profile}]"
    )]
    Incomplete { file: String, profile: String },
}

/// The credentials of one section of a file.
#[derive(Debug, Clone)]
pub(super) struct CredentialsFile {
    pub(super) file: PathBuf,
    pub(super) profile: String,
}

impl CredentialsFile {
    /// Reads it.
    pub(super) fn read(&self) -> Result<AwsCredential, CredentialsError> {
        let name = || self.file.display().to_string();
        let mut text = String::new();
        std::fs::File::open(&self.file)
            .and_then(|file| file.take(MOST_BYTES).read_to_string(&mut text))
            .map_err(|error| CredentialsError::Read { file: name(), why: error.to_string() })?;
        parse(&text, &self.profile)
            .ok_or_else(|| CredentialsError::Incomplete { file: name(), profile: self.profile.clone() })
    }
}

#[async_trait]
impl CredentialProvider for CredentialsFile {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        self.read()
            .map(Arc::new)
            .map_err(|error| object_store::Error::Generic { store: "S3", source: Box::new(error) })
    }
}

fn parse(text: &str, profile: &str) -> Option<AwsCredential> {
    let (mut key_id, mut secret_key, mut token) = (None, None, None);
    let mut is_ours = false;
    for line in text.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            is_ours = section.trim_end_matches(']').trim() == profile;
        } else if let Some((name, value)) = line.split_once('=').filter(|_| is_ours) {
            let value = Some(value.trim().to_owned()).filter(|value| !value.is_empty());
            match name.trim() {
                "aws_access_key_id" => key_id = value,
                "aws_secret_access_key" => secret_key = value,
                "aws_session_token" => token = value,
                _ => {}
            }
        }
    }
    Some(AwsCredential { key_id: key_id?, secret_key: secret_key?, token })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# of the AWS tools\n[other]\naws_access_key_id = no\naws_secret_access_key = no\n\n[default]\naws_access_key_id=AK\n aws_secret_access_key = S/K=\n; comment = x\n[empty]\naws_access_key_id =\naws_secret_access_key = CANARY\n";

    #[test]
    fn the_section_of_the_profile_is_read() {
        let found = parse(FILE, "default").unwrap();
        assert_eq!((found.key_id.as_str(), found.secret_key.as_str(), found.token), ("AK", "S/K=", None));
        let with_token = format!("{FILE}[default]\naws_session_token = T\n");
        assert_eq!(parse(&with_token, "default").unwrap().token.as_deref(), Some("T"));
        assert!(parse(FILE, "nobody").is_none());
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said_without_what_is_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("credentials");
        let read = |profile: &str| {
            let file = CredentialsFile { file: file.clone(), profile: profile.to_owned() };
            file.read().unwrap_err().to_string()
        };
        assert!(read("default").contains("No such file"));
        std::fs::write(&file, FILE).unwrap();
        let said = read("empty");
        assert!(said.contains("in its section [empty]") && !said.contains("CANARY"), "{said}");
    }
}
