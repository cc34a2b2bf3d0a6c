//! The query of a request URL.

/// Name–value pairs of a query, decoded, in order. Malformed pairs are dropped, as Go's
/// `net/url` drops them for Kubernetes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Reads the text after the `?`.
    pub fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';'));
        let decoded = pairs.filter_map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decode(name, true)?, decode(value, true)?))
        });
        Self(decoded.collect())
    }

    /// Of pairs that are already decoded.
    pub fn from_pairs<N: Into<String>, V: Into<String>>(pairs: impl IntoIterator<Item = (N, V)>) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }

    /// The first value of a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// All values of a name, in order.
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.0.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str()).collect()
    }

    /// The first value of a name, empty when absent.
    pub fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    /// A flag as Kubernetes reads it: absent, `false` (any case) and `0` are no, all else is yes.
    pub fn flag(&self, name: &str) -> bool {
        self.optional_flag(name).unwrap_or(false)
    }

    /// A flag that may be absent.
    pub fn optional_flag(&self, name: &str) -> Option<bool> {
        self.get(name).map(|value| !(value == "0" || value.eq_ignore_ascii_case("false")))
    }

    /// A number that may be absent.
    ///
    /// # Errors
    /// The text of Go's `strconv.ParseInt` for anything but a decimal 64-bit number.
    pub fn number(&self, name: &str) -> Result<Option<i64>, String> {
        let Some(text) = self.get(name) else { return Ok(None) };
        match text.parse::<i64>() {
            Ok(number) => Ok(Some(number)),
            Err(error) => {
                let why = match error.kind() {
                    std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => {
                        "value out of range"
                    }
                    _ => "invalid syntax",
                };
                Err(format!("strconv.ParseInt: parsing {}: {why}", crate::field_error::go_quote(text)))
            }
        }
    }

    /// All pairs.
    pub fn pairs(&self) -> &[(String, String)] {
        &self.0
    }
}

/// Decodes percent escapes, and `+` as a space when `plus`. `None` for a broken escape or what is
/// not UTF-8.
pub fn decode(text: &str, plus: bool) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'+' if plus => out.push(b' '),
            b'%' => {
                let high = char::from(bytes.next()?).to_digit(16)?;
                let low = char::from(bytes.next()?).to_digit(16)?;
                out.push(u8::try_from(high * 16 + low).ok()?);
            }
            byte => out.push(byte),
        }
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_decoded_and_broken_pairs_are_dropped() {
        let query = Query::parse("labelSelector=a%3Db%2Cc&watch&limit=5&x=%zz&a;b=1&labelSelector=d+e");
        assert_eq!(query.all("labelSelector"), ["a=b,c", "d e"]);
        assert_eq!(query.get("x"), None);
        assert_eq!(query.pairs().len(), 4);
        assert!(query.flag("watch"));
        assert_eq!(query.number("limit"), Ok(Some(5)));
    }

    #[test]
    fn flags_read_as_kubernetes_reads_them() {
        for (text, want) in [("w=1", true), ("w=0", false), ("w=False", false), ("w=", true), ("", false)] {
            assert_eq!(Query::parse(text).flag("w"), want, "{text}");
        }
    }

    #[test]
    fn a_bad_number_says_so_in_go_words() {
        let error = Query::parse("limit=x").number("limit").unwrap_err();
        assert_eq!(error, "strconv.ParseInt: parsing \"x\": invalid syntax");
    }
}
