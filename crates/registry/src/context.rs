//! Who asks, when, and how.

use convoy_meta::FieldValidation;
use jiff::Timestamp;

/// The authenticated user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserInfo {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: Vec<(String, Vec<String>)>,
}

/// What the registry has to know of a request besides its object.
#[derive(Debug, Clone)]
pub struct RequestContext {
    pub user: UserInfo,
    /// Under which name the fields of this write are owned; never empty. The server takes it from
    /// `fieldManager` or the User-Agent.
    pub field_manager: String,
    /// Do everything but store.
    pub dry_run: bool,
    pub field_validation: FieldValidation,
    /// Whether an apply of what does not exist may create it: who may change objects may not therefore create any.
    /// Without it such an apply answers 404.
    pub may_create: bool,
    /// The time of the request.
    pub now: Timestamp,
}

impl RequestContext {
    /// A request of the server itself.
    pub fn internal(user: &str, now: Timestamp) -> Self {
        Self {
            user: UserInfo { name: user.to_owned(), ..UserInfo::default() },
            field_manager: user.to_owned(),
            dry_run: false,
            field_validation: FieldValidation::Ignore,
            may_create: true,
            now,
        }
    }
}

/// Where uids and the ends of generated names come from.
pub trait Identity: Send + Sync + std::fmt::Debug {
    /// A new uid, unique for ever.
    fn uid(&self) -> String;
    /// Five characters to make a generated name unique.
    fn suffix(&self) -> String;
}

/// Random identity, as Kubernetes makes it.
#[derive(Debug, Clone, Copy, Default)]
pub struct RandomIdentity;

impl Identity for RandomIdentity {
    fn uid(&self) -> String {
        uuid::Uuid::new_v4().to_string()
    }

    fn suffix(&self) -> String {
        // No vowels and no look-alikes: no words, nothing to mistype.
        const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        let bytes: [u8; 5] = rand::random();
        bytes
            .iter()
            .filter_map(|byte| ALPHABET.get(usize::from(*byte) % ALPHABET.len()))
            .map(|c| char::from(*c))
            .collect()
    }
}
