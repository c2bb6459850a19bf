// SPDX-License-Identifier: GPL-2.0-only
//! A table whose items are identified by a special type of number, for example tasks by
//! [`TaskId`](super::id::TaskId).
//!
//! Only the machine creates such numbers, and only for items that exist. A number from a policy or
//! a workload is checked when it is converted ([`Table::id`]). BPF programs cannot write to the
//! memory from which the simulator reads these numbers ([`bpf::memory::Region::may_store`]).
//! Therefore release builds do not check the number when an item is accessed: in one measurement,
//! checks increased the instructions of a context switch by 13 %. Builds with debug assertions, and
//! thus all tests, check each access. An access with a plain `usize` is checked in every build.
//!
//! This is sound only inside this crate, so no other crate can name a table, and no public function
//! takes a number. Other crates use pids, numbers of CPUs and slices ([`Machine::task`],
//! [`Machine::tasks`]).
//!
//! [`Machine::task`]: crate::Machine::task
//! [`Machine::tasks`]: crate::Machine::tasks

use bpf::memory::want_huge_pages;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Index, IndexMut};

/// The number that identifies an item of a table.
pub trait Id: Copy + Eq {
    fn new(index: usize) -> Self;
    fn index(self) -> usize;
}

/// Declares a type for the numbers of a table's items.
macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl $crate::simulation::table::Id for $name {
            #[inline(always)]
            fn new(index: usize) -> $name {
                $name(index as u32)
            }

            #[inline(always)]
            fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}
pub(crate) use id;

#[derive(Debug)]
pub struct Table<I, T> {
    items: Vec<T>,
    ids: PhantomData<fn(I) -> I>,
}

impl<I, T> Table<I, T> {
    /// Creates a table with memory for `nr` items, most of which will probably be used.
    pub fn with_capacity(nr: usize) -> Table<I, T> {
        let items: Vec<T> = Vec::with_capacity(nr);
        want_huge_pages(items.as_ptr().cast(), nr * size_of::<T>());
        items.into()
    }

    pub fn resize(&mut self, len: usize, item: T)
    where
        T: Clone,
    {
        self.items.resize(len, item);
    }

    pub fn truncate(&mut self, len: usize) {
        self.items.truncate(len);
    }
}

impl<I: Id, T> Table<I, T> {
    /// Adds an item. Returns its number.
    pub fn push(&mut self, item: T) -> I {
        self.items.push(item);
        I::new(self.items.len() - 1)
    }

    /// Returns the number of the item at `index`, or `None` if there is no such item.
    #[inline]
    pub fn id(&self, index: usize) -> Option<I> {
        (index < self.items.len()).then(|| I::new(index))
    }

    /// Iterates over the numbers of all items.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = I> + ExactSizeIterator + use<I, T> {
        (0..self.items.len()).map(I::new)
    }

    /// Iterates over all items with their numbers.
    pub fn numbered(&self) -> impl DoubleEndedIterator<Item = (I, &T)> + ExactSizeIterator {
        self.items.iter().enumerate().map(|(index, item)| (I::new(index), item))
    }
}

impl<I, T> From<Vec<T>> for Table<I, T> {
    fn from(items: Vec<T>) -> Table<I, T> {
        Table {
            items,
            ids: PhantomData,
        }
    }
}

impl<I, T> Default for Table<I, T> {
    fn default() -> Table<I, T> {
        Vec::new().into()
    }
}

impl<I, T> FromIterator<T> for Table<I, T> {
    fn from_iter<S: IntoIterator<Item = T>>(items: S) -> Table<I, T> {
        Vec::from_iter(items).into()
    }
}

impl<I, T> Deref for Table<I, T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        &self.items
    }
}

impl<I, T> DerefMut for Table<I, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.items
    }
}

impl<I: Id, T> Index<I> for Table<I, T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, id: I) -> &T {
        let index = id.index();
        debug_assert!(
            index < self.items.len(),
            "item {index} does not exist: the table has {} items",
            self.items.len()
        );
        // SAFETY: numbers exist only for items of the table, see the comment at the top of this
        // file.
        unsafe { self.items.get_unchecked(index) }
    }
}

impl<I: Id, T> IndexMut<I> for Table<I, T> {
    #[inline(always)]
    fn index_mut(&mut self, id: I) -> &mut T {
        let index = id.index();
        debug_assert!(
            index < self.items.len(),
            "item {index} does not exist: the table has {} items",
            self.items.len()
        );
        // SAFETY: numbers exist only for items of the table, see the comment at the top of this
        // file.
        unsafe { self.items.get_unchecked_mut(index) }
    }
}

impl<I: Id, T> Index<usize> for Table<I, T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, index: usize) -> &T {
        &self.items[index]
    }
}

impl<I: Id, T> IndexMut<usize> for Table<I, T> {
    #[inline(always)]
    fn index_mut(&mut self, index: usize) -> &mut T {
        &mut self.items[index]
    }
}

impl<'a, I, T> IntoIterator for &'a Table<I, T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.iter()
    }
}

impl<'a, I, T> IntoIterator for &'a mut Table<I, T> {
    type Item = &'a mut T;
    type IntoIter = std::slice::IterMut<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.iter_mut()
    }
}
