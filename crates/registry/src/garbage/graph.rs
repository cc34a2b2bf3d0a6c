use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use convoy_meta::object_validation::{FINALIZER_FOREGROUND, FINALIZER_ORPHAN};
use convoy_meta::{Object, PropagationPolicy};
use serde_json::Value;

/// An entry of `metadata.ownerReferences`, as far as garbage collection goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    pub uid: Arc<str>,
    pub api_version: Box<str>,
    pub kind: Box<str>,
    /// Whether a foreground deletion of the owner waits for this dependent.
    pub blocks: bool,
}

/// An object as garbage collection sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Key in the storage.
    pub key: Arc<str>,
    pub owners: Box<[Owner]>,
    pub deleting: bool,
    /// Has the finalizer `orphan`.
    pub orphans: bool,
    /// Has the finalizer `foregroundDeletion`.
    pub waits: bool,
}

impl Node {
    /// The node of an object; `None` if it has no uid.
    pub fn of(key: &Arc<str>, object: &Value) -> Option<(Arc<str>, Self)> {
        let uid = object.uid();
        if uid.is_empty() {
            return None;
        }
        let owners = object.owner_references().into_iter().map(|owner| Owner {
            uid: owner.uid.into(),
            api_version: owner.api_version.into(),
            kind: owner.kind.into(),
            blocks: owner.block_owner_deletion == Some(true),
        });
        let node = Self {
            key: Arc::clone(key),
            owners: owners.collect(),
            deleting: object.is_deleting(),
            orphans: object.has_finalizer(FINALIZER_ORPHAN),
            waits: object.has_finalizer(FINALIZER_FOREGROUND),
        };
        Some((uid.into(), node))
    }
}

/// What is to be done to one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Delete it, if it still has this uid.
    Delete { key: Arc<str>, uid: Arc<str>, policy: PropagationPolicy },
    /// Take these owners out of its owner references.
    DropOwners { key: Arc<str>, uid: Arc<str>, owners: Vec<Arc<str>> },
    /// Take out a finalizer.
    RemoveFinalizer { key: Arc<str>, uid: Arc<str>, finalizer: &'static str },
}

/// Who owns whom.
#[derive(Debug, Default)]
pub struct Graph {
    nodes: HashMap<Arc<str>, Node>,
    dependents: HashMap<Arc<str>, BTreeSet<Arc<str>>>,
    by_key: BTreeMap<Arc<str>, Arc<str>>,
    /// Uids to look at.
    dirty: BTreeSet<Arc<str>>,
}

impl Graph {
    /// Takes note of an object as it is now.
    pub fn observe(&mut self, key: &Arc<str>, object: &Value) {
        let Some((uid, node)) = Node::of(key, object) else { return self.forget(key) };
        if self.by_key.get(key).is_some_and(|known| *known != uid) {
            self.forget(key);
        }
        let before = self.nodes.get(&uid);
        if before == Some(&node) {
            return;
        }
        for owner in before.into_iter().flat_map(|node| &node.owners) {
            if let Some(dependents) = self.dependents.get_mut(&owner.uid) {
                dependents.remove(&uid);
                // The owner may have waited for this one.
                self.dirty.insert(Arc::clone(&owner.uid));
            }
        }
        for owner in &node.owners {
            self.dependents.entry(Arc::clone(&owner.uid)).or_default().insert(Arc::clone(&uid));
        }
        if !node.owners.is_empty() || node.deleting {
            self.dirty.insert(Arc::clone(&uid));
        }
        self.by_key.insert(Arc::clone(key), Arc::clone(&uid));
        self.nodes.insert(uid, node);
    }

    /// Takes note that nothing is at a key any more.
    pub fn forget(&mut self, key: &Arc<str>) {
        let Some(uid) = self.by_key.remove(key) else { return };
        let Some(node) = self.nodes.remove(&uid) else { return };
        for owner in &node.owners {
            if let Some(dependents) = self.dependents.get_mut(&owner.uid) {
                dependents.remove(&uid);
                if dependents.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
            self.dirty.insert(Arc::clone(&owner.uid));
        }
        self.dirty.extend(self.dependents.get(&uid).into_iter().flatten().cloned());
    }

    /// Looks at an object again, because an action on it failed.
    pub fn retry(&mut self, uid: &Arc<str>) {
        self.dirty.insert(Arc::clone(uid));
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// What is to be done now. `served` says whether a kind (apiVersion, kind) is known: an owner of
    /// another kind may exist where this collector cannot see it, so it counts as there.
    pub fn actions(&mut self, served: impl Fn(&str, &str) -> bool) -> Vec<Action> {
        let mut actions = Vec::new();
        while let Some(uid) = self.dirty.pop_first() {
            self.decide(&uid, &served, &mut actions);
        }
        actions
    }

    fn decide(&mut self, uid: &Arc<str>, served: &impl Fn(&str, &str) -> bool, actions: &mut Vec<Action>) {
        let Some(node) = self.nodes.get(uid) else { return };
        let key = Arc::clone(&node.key);
        let finalize =
            |finalizer| Action::RemoveFinalizer { key: Arc::clone(&key), uid: Arc::clone(uid), finalizer };
        if node.deleting {
            if node.orphans {
                let dependents = self.dependents_of(uid);
                if dependents.is_empty() {
                    actions.push(finalize(FINALIZER_ORPHAN));
                }
                actions.extend(dependents.into_iter().map(|(dependent, node)| Action::DropOwners {
                    key: Arc::clone(&node.key),
                    uid: Arc::clone(dependent),
                    owners: vec![Arc::clone(uid)],
                }));
            } else if node.waits {
                let blocked = self
                    .dependents_of(uid)
                    .iter()
                    .any(|(_, node)| node.owners.iter().any(|owner| owner.uid == *uid && owner.blocks));
                if !blocked {
                    actions.push(finalize(FINALIZER_FOREGROUND));
                }
                // Dependents see an owner that waits, and go.
                let todo: Vec<_> = self
                    .dependents_of(uid)
                    .into_iter()
                    .filter(|(_, node)| !node.deleting)
                    .map(|(dependent, _)| Arc::clone(dependent))
                    .collect();
                for dependent in todo {
                    self.judge(&dependent, served, actions);
                }
            }
            return;
        }
        self.judge(uid, served, actions);
    }

    /// Decides about an object that is not being deleted, by its owners.
    fn judge(&self, uid: &Arc<str>, served: &impl Fn(&str, &str) -> bool, actions: &mut Vec<Action>) {
        let Some(node) = self.nodes.get(uid).filter(|node| !node.deleting && !node.owners.is_empty()) else {
            return;
        };
        let (mut solid, mut waiting, mut gone) = (false, Vec::new(), Vec::new());
        for owner in &node.owners {
            match self.nodes.get(&owner.uid) {
                // An owner that orphans will take itself out.
                Some(found) if found.deleting && found.waits && !found.orphans => {
                    waiting.push(Arc::clone(&owner.uid));
                }
                Some(_) => solid = true,
                None if served(&owner.api_version, &owner.kind) => gone.push(Arc::clone(&owner.uid)),
                None => solid = true,
            }
        }
        let (key, uid) = (Arc::clone(&node.key), Arc::clone(uid));
        if solid {
            gone.extend(waiting);
            if !gone.is_empty() {
                actions.push(Action::DropOwners { key, uid, owners: gone });
            }
            return;
        }
        // A deletion in the foreground goes on below.
        let policy = if !waiting.is_empty() && !self.dependents_of(&uid).is_empty() || node.waits {
            PropagationPolicy::Foreground
        } else if node.orphans {
            PropagationPolicy::Orphan
        } else {
            PropagationPolicy::Background
        };
        actions.push(Action::Delete { key, uid, policy });
    }

    fn dependents_of(&self, uid: &Arc<str>) -> Vec<(&Arc<str>, &Node)> {
        let dependents = self.dependents.get(uid).into_iter().flatten();
        dependents.filter_map(|uid| self.nodes.get_key_value(uid)).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(uid: &str, owners: &[(&str, bool)], finalizers: &[&str], deleting: bool) -> Value {
        let owners: Vec<_> = owners
            .iter()
            .map(|(uid, blocks)| json!({"apiVersion": "v1", "kind": "K", "name": uid, "uid": uid, "blockOwnerDeletion": blocks}))
            .collect();
        let mut object =
            json!({"metadata": {"uid": uid, "ownerReferences": owners, "finalizers": finalizers}});
        if deleting {
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        object
    }

    fn key(uid: &str) -> Arc<str> {
        format!("/k/{uid}").into()
    }

    fn act(graph: &mut Graph) -> Vec<String> {
        let mut texts: Vec<_> = graph
            .actions(|_, kind| kind == "K")
            .into_iter()
            .map(|action| match action {
                Action::Delete { uid, policy, .. } => format!("delete {uid} {policy:?}"),
                Action::DropOwners { uid, owners, .. } => format!("drop {} of {uid}", owners.join(",")),
                Action::RemoveFinalizer { uid, finalizer, .. } => format!("finalize {uid} {finalizer}"),
            })
            .collect();
        texts.sort();
        texts.dedup();
        texts
    }

    fn graph(objects: &[(&str, Value)]) -> Graph {
        let mut graph = Graph::default();
        for (uid, object) in objects {
            graph.observe(&key(uid), object);
        }
        graph
    }

    #[test]
    fn a_dependent_goes_when_its_last_owner_is_gone() {
        let mut graph = graph(&[
            ("a", object("a", &[], &[], false)),
            ("b", object("b", &[], &[], false)),
            ("d", object("d", &[("a", false), ("b", false)], &[], false)),
        ]);
        assert_eq!(act(&mut graph), [""; 0]);
        graph.forget(&key("a"));
        assert_eq!(act(&mut graph), ["drop a of d"]);
        graph.observe(&key("d"), &object("d", &[("b", false)], &[], false));
        assert_eq!(act(&mut graph), [""; 0]);
        graph.forget(&key("b"));
        assert_eq!(act(&mut graph), ["delete d Background"]);
    }

    #[test]
    fn a_dependent_of_what_never_was_goes_and_one_of_an_unknown_kind_stays() {
        let mut stranger = object("e", &[("x", false)], &[], false);
        stranger["metadata"]["ownerReferences"][0]["kind"] = json!("Foreign");
        let mut graph = graph(&[("d", object("d", &[("x", false)], &[], false)), ("e", stranger)]);
        assert_eq!(act(&mut graph), ["delete d Background"]);
    }

    #[test]
    fn an_owner_that_was_made_anew_under_its_name_is_another_owner() {
        let mut graph =
            graph(&[("a", object("a", &[], &[], false)), ("d", object("d", &[("a", false)], &[], false))]);
        act(&mut graph);
        graph.observe(&key("a"), &object("a2", &[], &[], false));
        assert_eq!(act(&mut graph), ["delete d Background"]);
    }

    #[test]
    fn orphaning_takes_the_owner_out_of_all_dependents_first() {
        let mut graph = graph(&[
            ("a", object("a", &[], &["orphan"], true)),
            ("d", object("d", &[("a", true)], &[], false)),
        ]);
        assert_eq!(act(&mut graph), ["drop a of d"]);
        graph.observe(&key("d"), &object("d", &[], &[], false));
        assert_eq!(act(&mut graph), ["finalize a orphan"]);
    }

    #[test]
    fn a_foreground_deletion_waits_for_dependents_that_block_it() {
        let mut graph = graph(&[
            ("a", object("a", &[], &["foregroundDeletion"], true)),
            ("d", object("d", &[("a", true)], &[], false)),
            ("e", object("e", &[("d", true)], &[], false)),
            ("f", object("f", &[("a", false)], &[], false)),
        ]);
        assert_eq!(act(&mut graph), ["delete d Foreground", "delete f Background"]);
        graph.observe(&key("d"), &object("d", &[("a", true)], &["foregroundDeletion"], true));
        graph.forget(&key("f"));
        assert_eq!(act(&mut graph), ["delete e Background"]);
        graph.forget(&key("e"));
        assert_eq!(act(&mut graph), ["finalize d foregroundDeletion"]);
        graph.forget(&key("d"));
        assert_eq!(act(&mut graph), ["finalize a foregroundDeletion"]);
    }

    #[test]
    fn a_failed_action_is_decided_again() {
        let mut graph = graph(&[("d", object("d", &[("x", false)], &[], false))]);
        assert_eq!(act(&mut graph).len(), 1);
        assert_eq!(act(&mut graph).len(), 0);
        graph.retry(&"d".into());
        assert_eq!(act(&mut graph), ["delete d Background"]);
    }

    #[test]
    fn a_circle_of_owners_stays_until_somebody_breaks_it() {
        let mut graph = graph(&[
            ("a", object("a", &[("b", true)], &[], false)),
            ("b", object("b", &[("a", true)], &[], false)),
        ]);
        act(&mut graph);
        graph.forget(&key("a"));
        assert_eq!(act(&mut graph), ["delete b Background"]);
    }
}
