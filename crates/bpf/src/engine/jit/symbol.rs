// SPDX-License-Identifier: GPL-2.0-only
//! Names for the addresses that compiled code contains.
//!
//! The addresses of Rust functions differ from process to process. So does the address at which the
//! host maps the region. A later process may use the compiled code, so the code must not contain
//! such addresses. It refers to [`Symbol`]s instead. When the code is loaded, the values of the
//! symbols are written into it.

/// A number that is known only when the code is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Symbol {
    /// A function of this crate, by its number in [`Runtime`](super::runtime::Runtime).
    Runtime(u32),
    /// A helper, by its number.
    Helper(u32),
    /// A kfunc, by its index in [`Code::kfuncs`](crate::image::Code::kfuncs).
    Kfunc(u32),
    /// Number that is added to an address in the region to get the host's address of the same
    /// memory.
    Delta,
    /// Bias of the cache model: the address of the model's word for cache line `n` is this number
    /// plus 8 times `n`; see [`Lines`](crate::cache::Lines).
    Lines,
    /// Address of the shadow of the BPF stack, in which the sanitizer records spilled pointers.
    Shadow,
}

impl Symbol {
    /// Returns the symbol as two numbers, as in Cranelift's external names and in stored code.
    pub fn parts(self) -> (u32, u32) {
        match self {
            Symbol::Runtime(number) => (1, number),
            Symbol::Helper(number) => (2, number),
            Symbol::Kfunc(index) => (3, index),
            Symbol::Delta => (4, 0),
            Symbol::Lines => (5, 0),
            Symbol::Shadow => (6, 0),
        }
    }

    /// Returns the symbol for which [`Symbol::parts`] returns these two numbers, if there is one.
    pub fn from_parts(kind: u32, number: u32) -> Option<Symbol> {
        match (kind, number) {
            (1, number) => Some(Symbol::Runtime(number)),
            (2, number) => Some(Symbol::Helper(number)),
            (3, index) => Some(Symbol::Kfunc(index)),
            (4, 0) => Some(Symbol::Delta),
            (5, 0) => Some(Symbol::Lines),
            (6, 0) => Some(Symbol::Shadow),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_parts_inverts_parts() {
        let all = [
            Symbol::Runtime(3),
            Symbol::Helper(1),
            Symbol::Kfunc(7),
            Symbol::Delta,
            Symbol::Lines,
            Symbol::Shadow,
        ];
        for symbol in all {
            let (kind, number) = symbol.parts();
            assert_eq!(Symbol::from_parts(kind, number), Some(symbol));
        }
        assert_eq!(Symbol::from_parts(0, 0), None);
        assert_eq!(Symbol::from_parts(4, 1), None);
    }
}
