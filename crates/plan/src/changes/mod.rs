//! How an object would change, in words that hide what is secret.
//!
//! The comparison is made on what is really there; the mask is put on the way out. What comes out is [`Masked`]: text
//! for people, which cannot be made into an object again.
//!
//! | module | what it is |
//! |---|---|
//! | `compare` | two objects side by side, their items matched by what names them |
//! | `hidden` | what of an object is shown to nobody |
//! | `keys` | what names the items of a list |
//! | `unified` | an object, and how it would change, as lines |

mod compare;
mod hidden;
mod keys;
mod unified;

use std::collections::BTreeMap;

use serde_json::Value;

use self::compare::{Node, Pair, compare};
use self::hidden::{Hiding, Side};

/// The longest text of a value, in characters.
const LONGEST: usize = 160;
/// Fields of one object that are told.
const MOST: usize = 30;
/// What stands for a value that is not shown.
const HIDDEN: &str = "(hidden)";
/// What `kubectl apply` keeps the whole object in.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What hides values that came from Secrets, wherever they stand.
#[derive(Clone, Copy)]
pub struct Mask<'a> {
    /// Hides them in a text.
    pub text: &'a (dyn Fn(&str) -> String + Sync),
    /// Whether no value that is there is shown: it may be an earlier one, which nobody knows any more.
    pub hides_before: bool,
    /// Whether no value that would be there is shown.
    pub hides_after: bool,
    /// Where values stand that came from Secrets, as JSON pointers by object (`Kind/name`).
    pub places: &'a BTreeMap<String, Vec<String>>,
}

impl std::fmt::Debug for Mask<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mask").field("hides_before", &self.hides_before).finish_non_exhaustive()
    }
}

/// Text with all that is secret hidden. It can only be shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Masked(String);

impl Masked {
    /// The text of a value that is fit to be shown, cut to a bearable length.
    fn of(shown: &Value, mask: Mask<'_>) -> Self {
        // Masked before it is cut: a part of a secret would not be known as one.
        let text = match shown {
            Value::String(text) if text == HIDDEN => HIDDEN.to_owned(),
            shown => (mask.text)(&shown.to_string()),
        };
        match text.char_indices().nth(LONGEST) {
            Some((end, _)) => Self(format!("{}…", text.get(..end).unwrap_or_default())),
            None => Self(text),
        }
    }

    /// The text.
    pub fn into_text(self) -> String {
        self.0
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl std::fmt::Debug for Masked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// One field that would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldChange {
    /// Where.
    pub path: String,
    /// What it is; none when the field is new.
    pub before: Option<Masked>,
    /// What it would be; none when the field would go.
    pub after: Option<Masked>,
}

/// The fields that would change, and how many more there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The first of them.
    pub fields: Vec<FieldChange>,
    /// How many were left out.
    pub omitted: usize,
}

/// An object before and after.
#[derive(Clone, Copy, Debug)]
pub struct Sides<'a> {
    /// What is there; none when it is not there.
    pub before: Option<&'a Value>,
    /// What would be there; none when it would go.
    pub after: Option<&'a Value>,
    /// What the bundle says of it: the metadata of a Secret that others wrote is not shown.
    pub desired: Option<&'a Value>,
}

impl Sides<'_> {
    /// The fields that would change.
    pub fn changes(&self, mask: Mask<'_>) -> Changes {
        let hiding = Hiding::of(self, mask);
        let mut changes = Changes::default();
        changes.collect(&compare(self.before, self.after), &Pair::root(), &hiding);
        changes
    }

    /// The change as a unified diff; empty when nothing would change.
    pub fn unified(&self, mask: Mask<'_>) -> Masked {
        Masked(unified::unified(&compare(self.before, self.after), &Hiding::of(self, mask)))
    }
}

/// An object of a bundle as YAML.
pub fn manifest(object: &Value, mask: Mask<'_>) -> Masked {
    let sides = Sides { before: None, after: Some(object), desired: Some(object) };
    Masked(unified::whole(object, &Hiding::of(&sides, mask)))
}

impl Changes {
    /// What of an object would change.
    pub fn between(before: &Value, after: &Value, mask: Mask<'_>) -> Self {
        Sides { before: Some(before), after: Some(after), desired: Some(after) }.changes(mask)
    }

    /// Whether nothing would change.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    fn collect(&mut self, node: &Node<'_>, at: &Pair, hiding: &Hiding<'_>) {
        match node {
            Node::Same(_) => {}
            Node::Map(_) | Node::List(_) if hiding.hides_node(node, at) => {
                let hidden = || Some(Masked(HIDDEN.to_owned()));
                self.push(at, hiding, hidden(), hidden());
            }
            Node::Map(fields) => {
                for (name, node) in fields {
                    self.collect(node, &at.field(name), hiding);
                }
            }
            Node::List(items) => {
                for (label, node) in items {
                    // The place of an item of a set is its value.
                    let tells_value = matches!(node, Node::Changed(Some(item), None) if !item.is_object());
                    let label = if tells_value && hiding.mask.hides_before { "[(hidden)]" } else { label };
                    self.collect(node, &at.item(label), hiding);
                }
            }
            Node::Changed(before, after) => {
                let shown = |value: &Value, side| Masked::of(&hiding.shown(value, at, side), hiding.mask);
                let before = before.map(|value| shown(value, Side::Before));
                let after = after.map(|value| shown(value, Side::After));
                self.push(at, hiding, before, after);
            }
        }
    }

    fn push(&mut self, at: &Pair, hiding: &Hiding<'_>, before: Option<Masked>, after: Option<Masked>) {
        if self.fields.len() == MOST {
            self.omitted += 1;
        } else {
            self.fields.push(FieldChange { path: (hiding.mask.text)(&at.shown), before, after });
        }
    }
}

#[cfg(test)]
mod tests;
