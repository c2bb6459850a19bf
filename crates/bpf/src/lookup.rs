// SPDX-License-Identifier: GPL-2.0-only
//! Hash tables without iteration. The order of a hash table differs from run to run, so a result
//! that depends on it would not be deterministic. These types only find entries by their keys.
#![expect(
    clippy::disallowed_types,
    reason = "the tables are private, and nothing iterates over them"
)]

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

#[derive(Clone, Debug)]
pub(crate) struct LookupMap<K, V>(HashMap<K, V>);

#[derive(Clone, Debug)]
pub(crate) struct LookupSet<K>(HashSet<K>);

impl<K: Eq + Hash, V> LookupMap<K, V> {
    pub fn get(&self, key: &K) -> Option<&V> {
        self.0.get(key)
    }

    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.0.get_mut(key)
    }

    /// Returns the value of a key, which is the default value if the key was missing.
    pub fn get_or_default(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        self.0.entry(key).or_default()
    }

    pub fn contains_key(&self, key: &K) -> bool {
        self.0.contains_key(key)
    }

    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.0.insert(key, value)
    }

    pub fn remove(&mut self, key: &K) -> Option<V> {
        self.0.remove(key)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl<K: Eq + Hash> LookupSet<K> {
    pub fn contains(&self, key: &K) -> bool {
        self.0.contains(key)
    }

    pub fn insert(&mut self, key: K) -> bool {
        self.0.insert(key)
    }

    pub fn remove(&mut self, key: &K) -> bool {
        self.0.remove(key)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl<K, V> Default for LookupMap<K, V> {
    fn default() -> LookupMap<K, V> {
        LookupMap(HashMap::new())
    }
}

impl<K> Default for LookupSet<K> {
    fn default() -> LookupSet<K> {
        LookupSet(HashSet::new())
    }
}
