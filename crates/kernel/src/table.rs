// SPDX-License-Identifier: GPL-2.0-only
//! A table whose indices are numbers that the machine itself gave out: CPUs, task slots, DSQs.
//!
//! Such a number is right by construction: a number that a policy or a workload names is checked once, where it comes in, and
//! programs cannot store to the memory that the simulator reads numbers back from ([`bpf::region::Region::may_store`]).
//! Builds with debug assertions (all tests) check each index. Others do not: looking a number up is what the simulation
//! does most, and checks cost 5 % to 7 % of the instructions of a run.

use bpf::region::want_huge_pages;
use std::ops::{Deref, DerefMut, Index, IndexMut};

pub struct Table<T>(Vec<T>);

impl<T> Table<T> {
    /// With room for `nr` items, which many of will be used.
    pub fn with_capacity(nr: usize) -> Table<T> {
        let items: Vec<T> = Vec::with_capacity(nr);
        want_huge_pages(items.as_ptr().cast(), nr * size_of::<T>());
        Table(items)
    }

    pub fn push(&mut self, item: T) {
        self.0.push(item);
    }

    pub fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }
}

impl<T: Clone> Table<T> {
    pub fn resize(&mut self, len: usize, item: T) {
        self.0.resize(len, item);
    }
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table(Vec::new())
    }
}

impl<T> FromIterator<T> for Table<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Table<T> {
        Table(items.into_iter().collect())
    }
}

impl<T> Deref for Table<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> DerefMut for Table<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

impl<T> Index<usize> for Table<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, index: usize) -> &T {
        debug_assert!(index < self.0.len(), "{index} of {}", self.0.len());
        // SAFETY: see above.
        unsafe { self.0.get_unchecked(index) }
    }
}

impl<T> IndexMut<usize> for Table<T> {
    #[inline(always)]
    fn index_mut(&mut self, index: usize) -> &mut T {
        debug_assert!(index < self.0.len(), "{index} of {}", self.0.len());
        // SAFETY: see above.
        unsafe { self.0.get_unchecked_mut(index) }
    }
}

impl<'a, T> IntoIterator for &'a Table<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<'a, T> IntoIterator for &'a mut Table<T> {
    type Item = &'a mut T;
    type IntoIter = std::slice::IterMut<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter_mut()
    }
}
