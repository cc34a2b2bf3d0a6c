//! Versions and constraints as Helm reads them: `Masterminds/semver` 3.5, which is laxer than SemVer.

use regex::Regex;
use std::cmp::Ordering;
use std::fmt;
use std::sync::LazyLock;

const MAX_VERSION: usize = 256;
const MAX_CONSTRAINT: usize = 512;
const MAX_GROUPS: usize = 32;

/// Why a version or a constraint cannot be read; the texts are those of the Go library.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SemverError {
    /// The text is no version.
    #[error("invalid semantic version")]
    Invalid,
    /// A number does not fit 64 bits.
    #[error("error parsing version segment: strconv.ParseUint: parsing \"{0}\": value out of range")]
    Segment(String),
    /// A number of the prerelease starts with a zero.
    #[error("version segment starts with 0")]
    SegmentStartsWithZero,
    /// The text is longer than 256 bytes.
    #[error("version string is too long (max {MAX_VERSION} bytes)")]
    VersionTooLong,
    /// The text is no constraint.
    #[error("improper constraint: {0:?}")]
    Constraint(String),
    /// The text is longer than 512 bytes.
    #[error("constraint string is too long (max {MAX_CONSTRAINT} bytes)")]
    ConstraintTooLong,
    /// There are more than 32 alternatives.
    #[error("too many constraint groups (max {MAX_GROUPS})")]
    TooManyGroups,
    /// A version inside a constraint cannot be read.
    #[error("constraint parser error")]
    ConstraintVersion,
}

/// A version. Minor and patch may be missing and are 0 then; a `v` may stand before it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Version {
    /// The first number.
    pub major: u64,
    /// The second number.
    pub minor: u64,
    /// The third number.
    pub patch: u64,
    /// What stands after `-`.
    pub prerelease: String,
    /// What stands after `+`.
    pub metadata: String,
    /// The text that was read.
    pub original: String,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if !self.prerelease.is_empty() {
            write!(f, "-{}", self.prerelease)?;
        }
        if !self.metadata.is_empty() {
            write!(f, "+{}", self.metadata)?;
        }
        Ok(())
    }
}

impl Version {
    /// Reads a version as `semver.NewVersion` does.
    ///
    /// # Errors
    ///
    /// When the text is no version.
    pub fn parse(text: &str) -> Result<Self, SemverError> {
        if text.len() > MAX_VERSION {
            return Err(SemverError::VersionTooLong);
        }
        let rest = text.strip_prefix('v').unwrap_or(text);
        let (rest, metadata) = split_suffix(rest, '+')?;
        let (numbers, prerelease) = split_suffix(rest, '-')?;
        let mut segments = numbers.split('.');
        let mut segment = |required: bool| match segments.next() {
            None if required => Err(SemverError::Invalid),
            None => Ok(0),
            Some(digits) if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) => {
                Err(SemverError::Invalid)
            }
            Some(digits) => digits.parse().map_err(|_| SemverError::Segment(digits.to_owned())),
        };
        let (major, minor, patch) = (segment(true)?, segment(false)?, segment(false)?);
        if segments.next().is_some() {
            return Err(SemverError::Invalid);
        }
        let zero_led = |part: &str| {
            part.len() > 1 && part.starts_with('0') && part.bytes().all(|byte| byte.is_ascii_digit())
        };
        if prerelease.split('.').any(zero_led) {
            return Err(SemverError::SegmentStartsWithZero);
        }
        Ok(Self {
            major,
            minor,
            patch,
            prerelease: prerelease.to_owned(),
            metadata: metadata.to_owned(),
            original: text.to_owned(),
        })
    }

    /// Order of precedence; what stands after `+` does not count.
    pub fn compare(&self, other: &Self) -> Ordering {
        (self.major, self.minor, self.patch).cmp(&(other.major, other.minor, other.patch)).then_with(
            || match (self.prerelease.is_empty(), other.prerelease.is_empty()) {
                (true, true) => Ordering::Equal,
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => compare_prerelease(&self.prerelease, &other.prerelease),
            },
        )
    }
}

/// The text before the mark, and what stands after it: words of letters, digits and dashes, with dots between.
fn split_suffix(text: &str, mark: char) -> Result<(&str, &str), SemverError> {
    let Some((before, after)) = text.split_once(mark) else { return Ok((text, "")) };
    let word = |word: &str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    if after.split('.').all(word) { Ok((before, after)) } else { Err(SemverError::Invalid) }
}

fn compare_prerelease(a: &str, b: &str) -> Ordering {
    let mut a = a.split('.');
    let mut b = b.split('.');
    loop {
        let (x, y) = match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(x), Some(y)) => (x, y),
        };
        let order = match (x.parse::<u64>(), y.parse::<u64>()) {
            _ if x == y => Ordering::Equal,
            (Ok(x), Ok(y)) => x.cmp(&y),
            (Ok(_), Err(_)) => Ordering::Less,
            (Err(_), Ok(_)) => Ordering::Greater,
            (Err(_), Err(_)) => x.cmp(y),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

/// Conditions on a version: alternatives with `||`, and inside one all conditions must hold.
#[derive(Debug, Clone)]
pub struct Constraints {
    groups: Vec<Group>,
}

#[derive(Debug, Clone)]
struct Group {
    conditions: Vec<Condition>,
    /// One of the conditions names a prerelease, so prereleases are looked at.
    prereleases: bool,
}

#[derive(Debug, Clone)]
struct Condition {
    operator: Operator,
    version: Version,
    /// A part is missing or a wildcard: any, and which.
    dirty: bool,
    minor_dirty: bool,
    patch_dirty: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Greater,
    Less,
    GreaterEqual,
    LessEqual,
    Tilde,
    Caret,
}

const OPERATORS: &str = r"=||!=|>|<|>=|=>|<=|=<|~|~>|\^";
const VERSION: &str = concat!(
    r"v?([0-9|x|X|\*]+)(\.[0-9|x|X|\*]+)?(\.[0-9|x|X|\*]+)?",
    r"(-([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?",
    r"(\+([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?",
);
const SPACE: &str = r"[\t\n\f\r ]";

/// The patterns are constants; one that does not compile matches nothing, and tests fail.
fn pattern(text: &str) -> Option<Regex> {
    Regex::new(text).ok()
}

static CONDITION: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern(&format!("^{SPACE}*({OPERATORS}){SPACE}*({VERSION}){SPACE}*$")));
static RANGE: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern(&format!("{SPACE}*({VERSION}){SPACE}+-{SPACE}+({VERSION}){SPACE}*")));
static FIND: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern(&format!("({OPERATORS}){SPACE}*({VERSION})")));
static VALID: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let condition = format!("({OPERATORS}){SPACE}*({VERSION}){SPACE}*");
    pattern(&format!("^({SPACE}*{condition})((?:{SPACE}+|,{SPACE}*){condition})*$"))
});

impl Constraints {
    /// Reads constraints as `semver.NewConstraint` does.
    ///
    /// # Errors
    ///
    /// When the text is no constraint.
    pub fn parse(text: &str) -> Result<Self, SemverError> {
        if text.len() > MAX_CONSTRAINT {
            return Err(SemverError::ConstraintTooLong);
        }
        let text = rewrite_ranges(text);
        let alternatives: Vec<&str> = text.split("||").collect();
        if alternatives.len() > MAX_GROUPS {
            return Err(SemverError::TooManyGroups);
        }
        let groups = alternatives.into_iter().map(Group::parse).collect::<Result<_, _>>()?;
        Ok(Self { groups })
    }

    /// Whether a version fulfils them.
    pub fn check(&self, version: &Version) -> bool {
        self.groups
            .iter()
            .any(|group| group.conditions.iter().all(|condition| condition.check(version, group.prereleases)))
    }
}

/// Whether a version lies in a range; texts that cannot be read do not.
pub fn is_compatible(constraint: &str, version: &str) -> bool {
    match (Version::parse(version), Constraints::parse(constraint)) {
        (Ok(version), Ok(constraints)) => constraints.check(&version),
        _ => false,
    }
}

/// `1.2 - 3.4` is `>= 1.2, <= 3.4`.
fn rewrite_ranges(text: &str) -> String {
    let mut rewritten = text.to_owned();
    if !text.as_bytes().windows(2).any(|pair| matches!(pair, [space, b'-'] if is_space(*space))) {
        return rewritten;
    }
    let Some(range) = RANGE.as_ref() else { return rewritten };
    for found in range.captures_iter(text) {
        let part = |i| found.get(i).map_or("", |part| part.as_str());
        rewritten = rewritten.replacen(part(0), &format!(">= {}, <= {} ", part(1), part(11)), 1);
    }
    rewritten
}

/// The parts of one condition, as they are written.
#[derive(Debug, PartialEq, Eq)]
struct Parts<'t> {
    operator: &'t str,
    version: &'t str,
    /// Major, minor and patch; the last two with the dot before them.
    numbers: [&'t str; 3],
    /// With the hyphen.
    prerelease: &'t str,
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | 0x0c | b'\r' | b' ')
}

impl<'t> Parts<'t> {
    /// What most constraints are: one condition on plain numbers. `None` leaves the text to the patterns, which take a
    /// millisecond to compile.
    fn plain(text: &'t str) -> Option<Self> {
        let text = text.trim_matches(|c| u8::try_from(c).is_ok_and(is_space));
        let operator = text.find(|c: char| !matches!(c, '=' | '!' | '<' | '>' | '~' | '^'))?;
        let (operator, version) = text.split_at(operator);
        if !matches!(operator, "" | "=" | "!=" | ">" | "<" | ">=" | "=>" | "<=" | "=<" | "~" | "~>" | "^") {
            return None;
        }
        let version = version.trim_start_matches(|c| u8::try_from(c).is_ok_and(is_space));
        let (core, prerelease) = match version.find('-') {
            Some(at) => version.split_at(at),
            None => (version, ""),
        };
        if !prerelease.is_empty() {
            let words = prerelease.strip_prefix('-')?.split('.');
            let is_word = |word: &str| {
                !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            };
            words.into_iter().all(is_word).then_some(())?;
        }
        let mut rest = core.strip_prefix('v').unwrap_or(core);
        let mut numbers = [""; 3];
        for (at, number) in numbers.iter_mut().enumerate() {
            let dot = usize::from(at > 0 && rest.starts_with('.'));
            if at > 0 && dot == 0 {
                break;
            }
            let digits = rest.bytes().skip(dot).take_while(u8::is_ascii_digit).count();
            if digits == 0 {
                return None;
            }
            (*number, rest) = rest.split_at(dot + digits);
        }
        rest.is_empty().then_some(Self { operator, version, numbers, prerelease })
    }

    fn by_pattern(text: &'t str) -> Option<Self> {
        let found = CONDITION.as_ref()?.captures(text)?;
        let part = |i| found.get(i).map_or("", |part| part.as_str());
        Some(Self {
            operator: part(1),
            version: part(2),
            numbers: [part(3), part(4), part(5)],
            prerelease: part(6),
        })
    }
}

impl Group {
    fn parse(text: &str) -> Result<Self, SemverError> {
        if let Some(parts) = Parts::plain(text) {
            let condition = Condition::new(&parts)?;
            let prereleases = !condition.version.prerelease.is_empty();
            return Ok(Self { conditions: vec![condition], prereleases });
        }
        if !VALID.as_ref().is_some_and(|valid| valid.is_match(text)) {
            return Err(SemverError::Constraint(text.to_owned()));
        }
        let conditions = FIND
            .iter()
            .flat_map(|find| find.find_iter(text))
            .map(|found| Condition::parse(found.as_str()))
            .collect::<Result<Vec<_>, _>>()?;
        let prereleases = conditions.iter().any(|condition| !condition.version.prerelease.is_empty());
        Ok(Self { conditions, prereleases })
    }
}

impl Condition {
    fn parse(text: &str) -> Result<Self, SemverError> {
        let parts = Parts::by_pattern(text).ok_or_else(|| SemverError::Constraint(text.to_owned()))?;
        Self::new(&parts)
    }

    fn new(parts: &Parts<'_>) -> Result<Self, SemverError> {
        let open = |part: &str| matches!(part.strip_prefix('.').unwrap_or(part), "" | "x" | "X" | "*");
        let Parts { operator, version, numbers: [major, minor, patch], prerelease } = *parts;
        let mut condition = Self {
            operator: Operator::parse(operator),
            version: Version::default(),
            dirty: true,
            minor_dirty: false,
            patch_dirty: false,
        };
        let version = if open(major) {
            format!("0.0.0{prerelease}")
        } else if open(minor) {
            condition.minor_dirty = true;
            format!("{major}.0.0{prerelease}")
        } else if open(patch) {
            condition.patch_dirty = true;
            format!("{major}{minor}.0{prerelease}")
        } else {
            condition.dirty = false;
            version.to_owned()
        };
        condition.version = Version::parse(&version).map_err(|_| SemverError::ConstraintVersion)?;
        Ok(condition)
    }

    fn check(&self, version: &Version, prereleases: bool) -> bool {
        if !version.prerelease.is_empty() && !prereleases {
            return false;
        }
        let order = version.compare(&self.version);
        match self.operator {
            Operator::Equal if self.dirty => self.check_tilde(version),
            Operator::Equal => order.is_eq(),
            Operator::NotEqual => self.check_not_equal(version),
            Operator::Greater => self.check_greater(version),
            Operator::Less => order.is_lt(),
            Operator::GreaterEqual => order.is_ge(),
            Operator::LessEqual if self.dirty => {
                version.major < self.version.major
                    || (version.major == self.version.major
                        && (version.minor <= self.version.minor || self.minor_dirty))
            }
            Operator::LessEqual => order.is_le(),
            Operator::Tilde => self.check_tilde(version),
            Operator::Caret => self.check_caret(version),
        }
    }

    fn check_not_equal(&self, version: &Version) -> bool {
        if self.dirty {
            if self.version.major != version.major {
                return true;
            }
            if self.minor_dirty {
                return false;
            }
            if self.version.minor != version.minor {
                return true;
            }
            if self.patch_dirty {
                return (!version.prerelease.is_empty() || !self.version.prerelease.is_empty())
                    && compare_prerelease(&version.prerelease, &self.version.prerelease).is_ne();
            }
            if self.version.patch != version.patch {
                return true;
            }
        }
        version.compare(&self.version).is_ne()
    }

    fn check_greater(&self, version: &Version) -> bool {
        if !self.dirty || version.major != self.version.major {
            return version.compare(&self.version).is_gt()
                && (!self.dirty || version.major > self.version.major);
        }
        if self.minor_dirty {
            return false;
        }
        if self.patch_dirty {
            return version.minor > self.version.minor;
        }
        version.compare(&self.version).is_gt()
    }

    fn check_tilde(&self, version: &Version) -> bool {
        let Self { version: wanted, minor_dirty, patch_dirty, .. } = self;
        if version.compare(wanted).is_lt() {
            return false;
        }
        if (wanted.major, wanted.minor, wanted.patch) == (0, 0, 0) && !minor_dirty && !patch_dirty {
            return true;
        }
        version.major == wanted.major && (version.minor == wanted.minor || *minor_dirty)
    }

    fn check_caret(&self, version: &Version) -> bool {
        let wanted = &self.version;
        if version.compare(wanted).is_lt() {
            return false;
        }
        if wanted.major > 0 || self.minor_dirty {
            return version.major == wanted.major;
        }
        if version.major > 0 {
            return false;
        }
        if wanted.minor > 0 || self.patch_dirty {
            return version.minor == wanted.minor;
        }
        version.minor == 0 && wanted.patch == version.patch
    }
}

impl Operator {
    fn parse(text: &str) -> Self {
        match text {
            "!=" => Self::NotEqual,
            ">" => Self::Greater,
            "<" => Self::Less,
            ">=" | "=>" => Self::GreaterEqual,
            "<=" | "=<" => Self::LessEqual,
            "~" | "~>" => Self::Tilde,
            "^" => Self::Caret,
            _ => Self::Equal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_conditions_are_what_the_patterns_make_of_them() {
        let operators =
            ["", "=", "!=", ">", "<", ">=", "=>", "<=", "=<", "~", "~>", "^", "==", "=!", "v", "< ="];
        let versions = [
            "1",
            "v1.2",
            "1.2.3",
            "01.2.3",
            "1.2.3.4",
            "1.x",
            "1.2-a",
            "1.2.3-a.b-0",
            "1.2.3-",
            "1.2.3-a..b",
            "1.",
            ".1",
            "",
            "-1",
            "1.2.3+m",
            "1-2 ",
        ];
        for operator in operators {
            for version in versions {
                for text in [format!("{operator}{version}"), format!("  {operator}\t {version}\n")] {
                    let Some(plain) = Parts::plain(&text) else { continue };
                    assert!(VALID.as_ref().unwrap().is_match(&text), "{text:?}");
                    let found: Vec<_> = FIND.as_ref().unwrap().find_iter(&text).collect();
                    assert_eq!(found.len(), 1, "{text:?}");
                    assert_eq!(Parts::by_pattern(found[0].as_str()), Some(plain), "{text:?}");
                }
            }
        }
        assert!(
            Parts::plain(">=1.23.0-0").is_some()
                && Parts::plain("1.x").is_none()
                && Parts::plain("1 - 2").is_none()
        );
    }

    /// Answers of `Masterminds/semver` v3.5.0.
    #[test]
    fn constraints_hold_as_in_the_go_library() {
        let table = [
            (">=1.2", "1.2.0", true),
            (">= 1.19.0-0", "1.36.0", true),
            (">=1.20", "v1.20.1-gke.5", false),
            (">=1.20-0", "v1.20.1-gke.5", true),
            ("1.x", "1.9.9", true),
            ("^0.2.3", "0.3.0", false),
            ("^0", "0.9.0", true),
            ("~1.2.3", "1.2.9", true),
            ("~1", "1.9.0", true),
            ("1.2 - 1.4", "1.4.9", true),
            ("1.2.0 - 1.4.0", "1.4.1", false),
            (">1", "1.5.0", false),
            (">1.2", "1.2.9", false),
            (">1.2", "1.3.0", true),
            ("<1.5.0 || >=2.0.0", "1.9.0", false),
            (">=1.0, !=1.3.x", "1.3.4", false),
            ("*", "0.0.1", true),
            ("", "0.0.1", false),
            ("<=1", "1.9.0", true),
            ("=1.2.3", "1.2.3+build", true),
        ];
        for (constraint, version, wanted) in table {
            assert_eq!(is_compatible(constraint, version), wanted, "{version} in {constraint}");
        }
    }

    #[test]
    fn versions_are_read_laxly_but_not_at_any_price() {
        for good in ["1", "v1.2", "1.2.3-rc.1+x", "01.2.3"] {
            assert!(Version::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "v", "1.2.3.4", "1.2.3-", "1.2.3-01", "one", "1..2", "1.2.3+", "1.2.3-a_b"] {
            assert!(Version::parse(bad).is_err(), "{bad}");
        }
    }
}
