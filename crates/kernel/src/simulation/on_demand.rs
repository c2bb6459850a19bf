// SPDX-License-Identifier: GPL-2.0-only
//! State that few objects have, and that is allocated when it is first changed. With a million tasks,
//! each further cache line of the host takes 64 MB.

use std::ops::{Deref, DerefMut};

/// State that has a value before it is first changed.
pub trait Unchanged: Clone + 'static {
    const UNCHANGED: &'static Self;
}

/// State that is allocated when it is first changed.
#[derive(Clone, Debug)]
pub struct OnDemand<T>(Option<Box<T>>);

impl<T> Default for OnDemand<T> {
    fn default() -> OnDemand<T> {
        OnDemand(None)
    }
}

impl<T: Unchanged> Deref for OnDemand<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or(T::UNCHANGED)
    }
}

impl<T: Unchanged> DerefMut for OnDemand<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_with(|| Box::new(T::UNCHANGED.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone)]
    struct Count(u32);

    impl Unchanged for Count {
        const UNCHANGED: &'static Count = &Count(0);
    }

    #[test]
    fn state_is_allocated_when_it_is_changed() {
        let mut count = OnDemand::<Count>::default();
        assert_eq!(count.0.as_ref().map(|count| count.0), None);
        assert_eq!(Deref::deref(&count).0, 0);
        DerefMut::deref_mut(&mut count).0 += 2;
        assert_eq!(Deref::deref(&count).0, 2);
    }
}
