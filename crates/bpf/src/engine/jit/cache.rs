// SPDX-License-Identifier: GPL-2.0-only
//! Cache of the machine code of the BPF programs that this process has compiled so far. The key of
//! an entry is the hash of all inputs on which the code depends.
//!
//! Several threads may need the same code at the same time. The first one compiles it, and the
//! others wait for it. If the cache is full, it drops the code whose last use is longest ago. This
//! does not affect programs that run the dropped code, because each program has its own copy.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::Error;
use super::compiled::Template;
use super::inputs::Key;
use super::stored;
use crate::engine::code_cache::{Origin, store};

/// Maximum size of the cache in bytes. The code of the largest known policy has less than 4 MiB.
const MAX_SIZE: usize = 256 << 20;

/// Size in bytes that each entry is assumed to have in addition to its code.
const ENTRY: usize = 512;

type Slot = Arc<OnceLock<Result<Arc<Template>, Error>>>;

struct Entry {
    slot: Slot,
    /// Size in bytes, or 0 while the code is being compiled.
    size: usize,
    /// Number of the last use: the value of [`Cache::uses`] at that time.
    used: u64,
}

struct Cache {
    entries: BTreeMap<Key, Entry>,
    /// Sum of the sizes of all entries.
    size: usize,
    max: usize,
    /// Number of uses of all entries so far.
    uses: u64,
}

static CACHE: Mutex<Cache> = Mutex::new(Cache::new(MAX_SIZE));

/// Returns the code for a key, and where it comes from. Calls `compile` only if neither this cache
/// nor the process's [`Store`](crate::engine::code_cache::Store) has the code.
///
/// # Errors
/// The errors of `compile`. If a program is too large for the compiler, the cache remembers this
/// error, too.
pub(super) fn find(
    key: Key,
    compile: impl FnOnce() -> Result<Template, Error>,
) -> Result<(Arc<Template>, Origin), Error> {
    find_in(&CACHE, key, || {
        let Some(store) = store() else {
            return (compile(), Origin::Compiled);
        };
        if let Some(template) = (store.load)(&key).and_then(|bytes| stored::decode(&key, &bytes)) {
            return (Ok(template), Origin::Stored);
        }
        let compiled = compile();
        if let Ok(template) = &compiled {
            (store.save)(&key, &stored::encode(&key, template));
        }
        (compiled, Origin::Compiled)
    })
}

fn find_in(
    cache: &Mutex<Cache>,
    key: Key,
    make: impl FnOnce() -> (Result<Template, Error>, Origin),
) -> Result<(Arc<Template>, Origin), Error> {
    // A poisoned lock is ignored. No code that can panic runs while the cache is locked, so the
    // cache is consistent.
    let lock = || cache.lock().unwrap_or_else(PoisonError::into_inner);
    let slot = lock().slot(key);
    let mut origin = Origin::Shared;
    let result = slot.get_or_init(|| {
        let made;
        (made, origin) = make();
        made.map(Arc::new)
    });
    if origin != Origin::Shared {
        match result {
            Err(Error::Failed(_)) => lock().remove(&key),
            result => lock().charge(&key, ENTRY + result.as_ref().map_or(0, |template| template.size())),
        }
    }
    result.clone().map(|template| (template, origin))
}

impl Cache {
    const fn new(max: usize) -> Cache {
        Cache {
            entries: BTreeMap::new(),
            size: 0,
            max,
            uses: 0,
        }
    }

    fn slot(&mut self, key: Key) -> Slot {
        self.uses += 1;
        let entry = self.entries.entry(key).or_insert_with(|| Entry {
            slot: Slot::default(),
            size: 0,
            used: 0,
        });
        entry.used = self.uses;
        entry.slot.clone()
    }

    fn remove(&mut self, key: &Key) {
        if let Some(entry) = self.entries.remove(key) {
            self.size -= entry.size;
        }
    }

    /// Sets the size of an entry whose code is complete. Then drops entries until the cache is not
    /// larger than its maximum.
    fn charge(&mut self, key: &Key, size: usize) {
        if let Some(entry) = self.entries.get_mut(key) {
            self.size += size - entry.size;
            entry.size = size;
        }
        while self.size > self.max {
            let complete = self.entries.iter().filter(|(_, entry)| entry.size > 0);
            let Some(oldest) = complete.min_by_key(|(_, entry)| entry.used).map(|(&key, _)| key) else {
                return;
            };
            self.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u8) -> Key {
        [number; 32]
    }

    fn code(bytes: usize) -> (Result<Template, Error>, Origin) {
        let template = Template {
            code: vec![0; bytes],
            ..Template::default()
        };
        (Ok(template), Origin::Compiled)
    }

    fn origin(cache: &Mutex<Cache>, number: u8, bytes: usize) -> Origin {
        let found = find_in(cache, key(number), || code(bytes));
        found.expect("the compiler does not fail").1
    }

    #[test]
    fn the_code_that_was_used_longest_ago_is_dropped() {
        let cache = Mutex::new(Cache::new(10_000));
        assert_eq!(origin(&cache, 1, 4000), Origin::Compiled);
        assert_eq!(origin(&cache, 2, 4000), Origin::Compiled);
        assert_eq!(origin(&cache, 1, 4000), Origin::Shared);
        assert_eq!(origin(&cache, 3, 4000), Origin::Compiled);
        assert_eq!(origin(&cache, 1, 4000), Origin::Shared);
        assert_eq!(origin(&cache, 2, 4000), Origin::Compiled);
        let cache = cache.into_inner().expect("no thread has panicked");
        assert!(cache.size <= 10_000, "{}", cache.size);
    }

    #[test]
    fn code_larger_than_the_cache_is_used_but_not_kept() {
        let cache = Mutex::new(Cache::new(10_000));
        assert_eq!(origin(&cache, 1, 20_000), Origin::Compiled);
        assert_eq!(origin(&cache, 1, 20_000), Origin::Compiled);
        assert_eq!(cache.into_inner().expect("no thread has panicked").size, 0);
    }

    #[test]
    fn threads_that_need_the_same_code_compile_it_once() {
        let cache = Mutex::new(Cache::new(10_000));
        let origins: Vec<Origin> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| origin(&cache, 1, 100))).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().expect("the thread does not panic"))
                .collect()
        });
        let compiled = origins.iter().filter(|&&origin| origin == Origin::Compiled).count();
        assert_eq!(compiled, 1, "{origins:?}");
    }

    #[test]
    fn a_limit_of_the_compiler_is_remembered_and_a_failure_is_not() {
        let cache = Mutex::new(Cache::new(10_000));
        let attempts = std::cell::Cell::new(0);
        let attempt = |number, error: fn(String) -> Error| {
            attempts.set(0);
            for _ in 0..2 {
                let found = find_in(&cache, key(number), || {
                    attempts.set(attempts.get() + 1);
                    (Err(error("why".into())), Origin::Compiled)
                });
                assert!(found.is_err());
            }
            attempts.get()
        };
        assert_eq!(attempt(1, Error::TooLarge), 1);
        assert_eq!(attempt(2, Error::Failed), 2);
    }
}
