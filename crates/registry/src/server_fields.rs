//! Fields that only the server writes: what a client is told that asked for something else.

use serde_json::Value;

use crate::resource::ResourceDef;

fn at<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, part| value.get(part)).filter(|value| !value.is_null())
}

/// `metadata.labels[example.com/x]`.
fn shown(path: &[String]) -> String {
    path.iter().fold(String::new(), |mut text, part| {
        if part.contains(['.', '/']) {
            text.push_str(&format!("[{part}]"));
        } else {
            if !text.is_empty() {
                text.push('.');
            }
            text.push_str(part);
        }
        text
    })
}

/// These fields of an object, in the order of the definition.
pub(crate) fn pick(def: &ResourceDef, object: &Value) -> Vec<Option<Value>> {
    def.server_fields.iter().map(|path| at(object, path).cloned()).collect()
}

/// A text for each field of which the client wants another value than the server gave it. `asked` is what it
/// wants; what is as it was in `old` was not asked for. With `counts_absence` a field that was there and is not
/// any more was taken away on purpose, as by a patch; who sends a whole object may just not know of it.
pub(crate) fn warnings(
    def: &ResourceDef,
    asked: &[Option<Value>],
    old: Option<&Value>,
    given: &Value,
    counts_absence: bool,
) -> Vec<String> {
    let one = |(path, wanted): (&Vec<String>, &Option<Value>)| {
        let (wanted, old, given) = (wanted.as_ref(), old.and_then(|old| at(old, path)), at(given, path));
        if wanted == given || wanted == old || wanted.is_none() && !counts_absence {
            return None;
        }
        let name = shown(path);
        let wanted = wanted.map_or_else(|| "its removal".to_owned(), Value::to_string);
        let stays = given.map_or_else(|| "unset".to_owned(), Value::to_string);
        Some(format!("{name} is written by the API server alone: {wanted} was not taken, it is {stays}"))
    };
    def.server_fields.iter().zip(asked).filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Scope;

    #[test]
    fn what_was_not_taken_is_named_with_both_values() {
        let mut def = ResourceDef::new("g", "v1", "Thing", "things", Scope::Cluster);
        def.server_fields = vec![["metadata", "labels", "g.io/x"].map(str::to_owned).to_vec()];
        let with = |value: &str| json!({"metadata": {"labels": {"g.io/x": value}}});
        let told =
            "metadata.labels[g.io/x] is written by the API server alone: \"3\" was not taken, it is \"14\"";
        let (none, given) = (json!({}), with("14"));
        let ask = |asked: &Value, old: Option<&Value>, counts_absence| {
            warnings(&def, &pick(&def, asked), old, &given, counts_absence)
        };
        for counts_absence in [true, false] {
            assert_eq!(ask(&with("3"), Some(&given), counts_absence), [told]);
            assert_eq!(ask(&with("3"), None, counts_absence), [told]);
            assert!(ask(&given, Some(&given), counts_absence).is_empty());
            // What is stored is put right; the client did not ask for it.
            assert!(ask(&with("3"), Some(&with("3")), counts_absence).is_empty());
            assert!(ask(&none, Some(&none), counts_absence).is_empty());
        }
        assert!(ask(&none, Some(&given), false).is_empty());
        assert!(ask(&none, Some(&given), true)[0].contains("its removal was not taken"));
    }
}
