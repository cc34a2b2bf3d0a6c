//! Objects that looks are about to create, so that no two Releases create the same one.
//!
//! Two looks at the same moment both find that an object is not there, and the apply of each would be taken: the later one
//! would be the owner of what the earlier one made. All Releases of a Cluster are one replica's, so that it is enough to know
//! what this process is about to do. What was created bears its Release's label, and is found by the next look.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use convoy_plan::ObjectKey;
use convoy_runtime::StoreKey;
use parking_lot::Mutex;

/// An object on the target of a Cluster.
type Place = (StoreKey, ObjectKey);

/// Who is about to create what.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claims {
    all: Arc<Mutex<HashMap<Place, StoreKey>>>,
}

impl Claims {
    /// What a look at a Release claims of a Cluster: nothing yet.
    pub(crate) fn of(&self, release: &StoreKey, cluster: &StoreKey) -> Claimed {
        let (release, cluster) = (release.clone(), cluster.clone());
        Claimed { claims: self.clone(), release, cluster, places: Vec::new() }
    }
}

/// What a look has claimed; it lets go of it in the end.
#[derive(Debug)]
pub(crate) struct Claimed {
    claims: Claims,
    release: StoreKey,
    cluster: StoreKey,
    places: Vec<Place>,
}

impl Claimed {
    /// Claims objects, before it is looked whether they are there; or says which others are about to create, and claims
    /// none.
    pub(crate) fn add<'a>(
        &mut self,
        objects: impl Iterator<Item = &'a ObjectKey>,
    ) -> Result<(), Vec<(ObjectKey, StoreKey)>> {
        let mut all = self.claims.all.lock();
        let (mut new, mut taken) = (Vec::new(), Vec::new());
        for object in objects {
            let place = (self.cluster.clone(), object.clone());
            match all.entry(place.clone()) {
                Entry::Vacant(entry) => {
                    entry.insert(self.release.clone());
                    new.push(place);
                }
                Entry::Occupied(entry) if *entry.get() == self.release => {}
                Entry::Occupied(entry) => taken.push((place.1, entry.get().clone())),
            }
        }
        if taken.is_empty() {
            self.places.extend(new);
            return Ok(());
        }
        new.iter().for_each(|place| _ = all.remove(place));
        Err(taken)
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        let mut all = self.claims.all.lock();
        self.places.iter().for_each(|place| _ = all.remove(place));
        if all.is_empty() {
            all.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str) -> ObjectKey {
        ObjectKey {
            group: String::new(),
            kind: "ConfigMap".to_owned(),
            namespace: "web".to_owned(),
            name: name.to_owned(),
        }
    }

    #[test]
    fn an_object_is_claimed_by_one_release_of_its_cluster_until_the_look_ends() {
        let claims = Claims::default();
        let (a, b) = (StoreKey::new("team", "a"), StoreKey::new("team", "b"));
        let (prod, test) = (StoreKey::new("team", "prod"), StoreKey::new("team", "test"));
        let [one, two, three] = ["1", "2", "3"].map(object);
        let mut of_a = claims.of(&a, &prod);
        assert_eq!(of_a.add([&one, &two].into_iter()), Ok(()));
        assert_eq!(of_a.add([&one].into_iter()), Ok(()), "it is its own");
        let mut of_b = claims.of(&b, &prod);
        assert_eq!(of_b.add([&three, &two].into_iter()), Err(vec![(two.clone(), a)]));
        assert_eq!(of_a.add([&three].into_iter()), Ok(()), "who was refused claims nothing");
        assert_eq!(claims.of(&b, &test).add([&two].into_iter()), Ok(()), "that is another cluster");
        drop(of_a);
        assert_eq!(of_b.add([&three, &two].into_iter()), Ok(()));
        drop(of_b);
        assert!(claims.all.lock().is_empty());
    }
}
