//! Where in a bundle values stand that came from Secrets.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::{Bundle, SecretValues};

/// Places by object, as `Kind/name`; each is a JSON pointer.
pub type SecretPlaces = BTreeMap<String, Vec<String>>;

/// How often text may be encoded in base64 over itself.
const MOST_CODES: usize = 3;
/// Longer texts are not decoded to look into them.
const LONGEST_CODE: usize = 1 << 20;

/// The places of all values in which a secret one stands, as it is or encoded.
pub(crate) fn secret_places(bundle: &Bundle, secrets: &SecretValues) -> SecretPlaces {
    let mut places = SecretPlaces::new();
    let objects = bundle.objects.iter().map(|object| &object.object);
    for object in objects.chain(bundle.hooks.iter().map(|hook| &hook.object)) {
        let items = object["items"].as_array().filter(|_| is_list(object));
        let all: Vec<&Value> = items.map_or_else(|| vec![object], |items| items.iter().collect());
        for object in all {
            let mut found = Vec::new();
            look(object, "", secrets, &mut found);
            if !found.is_empty() {
                places.entry(name_of(object)).or_default().extend(found);
            }
        }
    }
    places
}

fn is_list(object: &Value) -> bool {
    object["kind"].as_str().is_some_and(|kind| kind.ends_with("List"))
}

fn name_of(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!("{}/{}", text(&object["kind"]), text(&object["metadata"]["name"]))
}

fn look(value: &Value, at: &str, secrets: &SecretValues, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if holds(name, secrets) {
                    // The pointer would tell it: all of the map is hidden.
                    found.push(at.to_owned());
                    return;
                }
                let step = name.replace('~', "~0").replace('/', "~1");
                look(value, &format!("{at}/{step}"), secrets, found);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                look(value, &format!("{at}/{index}"), secrets, found);
            }
        }
        Value::String(text) if holds(text, secrets) => found.push(at.to_owned()),
        Value::Number(number) if holds(&number.to_string(), secrets) => found.push(at.to_owned()),
        Value::String(_) | Value::Number(_) | Value::Null | Value::Bool(_) => {}
    }
}

/// Whether a secret value is in a text, or in what the text is the code of.
fn holds(text: &str, secrets: &SecretValues) -> bool {
    if secrets.masked(text) != text {
        return true;
    }
    let mut text = text.trim().to_owned();
    for _ in 0..MOST_CODES {
        if text.len() > LONGEST_CODE || text.len() < 4 {
            return false;
        }
        let joined: String = text.split_whitespace().collect();
        let Ok(decoded) = STANDARD.decode(&joined) else { return false };
        let Ok(decoded) = String::from_utf8(decoded) else { return false };
        if secrets.masked(&decoded) != decoded {
            return true;
        }
        text = decoded;
    }
    false
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{RenderedObject, ValuesText};

    #[test]
    fn values_are_found_wherever_they_stand_and_however_they_are_encoded() {
        let twice = STANDARD.encode(STANDARD.encode("user:CANARY-1"));
        let object = json!({"kind": "ConfigMap", "metadata": {"name": "a"}, "data": {
            "plain": "shown", "whole": "CANARY-1", "within": "x CANARY-1 y", "encoded": twice,
            "a/b~": ["no", {"c": "CANARY-1"}], "keyed": {"CANARY-1": 1}, "number": 123_456,
        }});
        let list = json!({"kind": "List", "items": [{"kind": "Odd", "metadata": {"name": "b"}, "spec": "CANARY-1"}]});
        let rendered = |object: Value| RenderedObject { source: String::new(), object, early: false };
        let bundle = Bundle { objects: vec![rendered(object), rendered(list)], ..Bundle::default() };
        let values = ValuesText {
            from: String::new(),
            text: b"a: CANARY-1\nb: 123456".to_vec(),
            target_path: None,
            is_secret: true,
        };
        let places = secret_places(&bundle, &SecretValues::of(&[values]));
        let mut map = places["ConfigMap/a"].clone();
        map.sort();
        assert_eq!(
            map,
            [
                "/data/a~1b~0/1/c",
                "/data/encoded",
                "/data/keyed",
                "/data/number",
                "/data/whole",
                "/data/within"
            ]
        );
        assert_eq!(places["Odd/b"], ["/spec"]);
    }
}
