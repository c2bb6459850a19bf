// SPDX-License-Identifier: GPL-2.0-only
//! Declares a kernel struct once, and makes from this declaration both a Rust type and BTF; see
//! [`kstruct!`](macro@crate::kstruct).

use crate::btf::build::Builder;
use crate::btf::{Composite, Member};
use input::index;

/// A Rust type with a C counterpart.
pub trait KernelType {
    /// Returns the id of the type in `types`. Adds the type if necessary.
    fn btf(types: &mut Builder) -> u32;
}

impl Builder {
    /// Adds a Rust type and returns its id.
    pub fn add<T: KernelType>(&mut self) -> u32 {
        T::btf(self)
    }
}

macro_rules! named {
    ($($rust:ty = $c:literal,)*) => {$(
        impl KernelType for $rust {
            fn btf(types: &mut Builder) -> u32 {
                types.by_name($c).unwrap_or(0)
            }
        }
    )*};
}

named! {
    u8 = "u8",
    u16 = "u16",
    u32 = "u32",
    u64 = "u64",
    i8 = "char",
    i16 = "s16",
    i32 = "s32",
    i64 = "s64",
    bool = "bool",
}

impl<T: KernelType, const N: usize> KernelType for [T; N] {
    fn btf(types: &mut Builder) -> u32 {
        let element = T::btf(types);
        types.array(element, index(N))
    }
}

impl<T: KernelType> KernelType for *mut T {
    fn btf(types: &mut Builder) -> u32 {
        let to = T::btf(types);
        types.ptr(to)
    }
}

impl<T: KernelType> KernelType for *const T {
    fn btf(types: &mut Builder) -> u32 {
        let to = T::btf(types);
        let to = types.constant(to);
        types.ptr(to)
    }
}

/// The type `void`, which is used only for pointers to it.
impl KernelType for () {
    fn btf(_: &mut Builder) -> u32 {
        0
    }
}

/// A member that points to a function, such as a callback of a struct_ops.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Callback(
    /// Address of the function.
    pub u64,
);

impl KernelType for Callback {
    fn btf(types: &mut Builder) -> u32 {
        let proto = types.func_proto(0, Vec::new());
        types.ptr(proto)
    }
}

/// A C `bool` that programs may write. They can write any byte, but only 0 and 1 are valid values
/// of Rust's type `bool`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bool(u8);

impl Bool {
    pub fn is_set(self) -> bool {
        self.0 != 0
    }
}

impl KernelType for Bool {
    fn btf(types: &mut Builder) -> u32 {
        bool::btf(types)
    }
}

/// A field of a Rust struct from which BTF is made.
#[doc(hidden)]
pub struct Field {
    pub name: &'static str,
    pub offset: usize,
    pub ty: u32,
    /// Names and widths of the bitfields that this Rust field contains, lowest bits first.
    pub bits: &'static [(&'static str, u8)],
}

/// Defines a struct or union, unless it is already defined. Only if the struct must be defined,
/// calls `fields`, which returns the struct's fields. The fields may refer to the struct itself.
#[doc(hidden)]
pub fn define(
    types: &mut Builder,
    name: &str,
    union: bool,
    size: usize,
    fields: impl FnOnce(&mut Builder) -> Vec<Field>,
) -> u32 {
    let id = types.forward(name, union);
    if !types.begin(id) {
        return id;
    }
    let mut members = Vec::new();
    for Field { name, offset, ty, bits } in fields(types) {
        let mut bit_offset = index(offset) * 8;
        if bits.is_empty() {
            members.push(Member {
                name: name.trim_start_matches("r#").into(),
                ty,
                bit_offset,
                bit_size: 0,
            });
        }
        for &(name, bit_size) in bits {
            members.push(Member {
                name: name.trim_start_matches("r#").into(),
                ty,
                bit_offset,
                bit_size,
            });
            bit_offset += u32::from(bit_size);
        }
    }
    types.define(
        id,
        Composite {
            size: index(size),
            members,
        },
    );
    id
}

/// Declares kernel structs or unions under their Linux names. For each of them, defines a
/// `#[repr(C)]` Rust type and the BTF of this type.
///
/// ```
/// use bpf::btf::build::Builder;
///
/// bpf::kstruct! {
///     /// A list.
///     pub struct node {
///         pub next: *mut node,
///         /// Text replaces a name that is a keyword in Rust or differs from the C name.
///         pub type_: u32 as "type",
///         /// The C type is an enumeration, which matters for CO-RE.
///         pub kind: u32 as enum node_kind,
///         /// Bitfields share a Rust field.
///         pub flags: u32 as { on_queue: 1, state: 3 },
///         pub name: [i8; 16],
///     }
/// }
///
/// let mut types = Builder::new();
/// let id = types.add::<node>();
/// assert_eq!(types.btf().size_of(id), Some(40));
/// ```
#[macro_export]
macro_rules! kstruct {
    () => {};
    ($(#[$doc:meta])* $vis:vis struct $($rest:tt)*) => {
        $crate::kstruct!(@item struct false [$(#[$doc])*] [$vis] $($rest)*);
    };
    ($(#[$doc:meta])* $vis:vis union $($rest:tt)*) => {
        $crate::kstruct!(@item union true [$(#[$doc])* #[derive(Clone, Copy)]] [$vis] $($rest)*);
    };
    (@item $word:ident $union:literal [$($attribute:tt)*] [$vis:vis] $name:ident {
        $($(#[$fdoc:meta])* $fvis:vis $field:ident : $ty:ty $(as $cname:literal)? $(as enum $enum:ident)? $(as { $($bit:ident : $bits:literal),* $(,)? })?),*
        $(,)?
    } $($rest:tt)*) => {
        $($attribute)*
        #[repr(C)]
        #[allow(non_camel_case_types, non_snake_case)]
        $vis $word $name {
            $($(#[$fdoc])* $fvis $field: $ty,)*
        }

        impl $crate::kstruct::KernelType for $name {
            fn btf(types: &mut $crate::btf::build::Builder) -> u32 {
                $crate::kstruct::define(types, stringify!($name), $union, ::std::mem::size_of::<$name>(), |_types| {
                    ::std::vec![$($crate::kstruct::Field {
                        name: $crate::kstruct!(@name $field $($cname)?),
                        offset: ::std::mem::offset_of!($name, $field),
                        ty: $crate::kstruct!(@type _types $ty $(, $enum)?),
                        bits: &[$($((stringify!($bit), $bits)),*)?],
                    }),*]
                })
            }
        }

        $crate::kstruct!($($rest)*);
    };
    (@type $types:ident $ty:ty) => { <$ty as $crate::kstruct::KernelType>::btf($types) };
    (@type $types:ident $ty:ty, $enum:ident) => { $types.named_enum(stringify!($enum), ::std::mem::size_of::<$ty>() as u32) };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $cname:literal) => { $cname };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::btf::Btf;

    kstruct! {
        /// Points to itself and to a struct that is defined later.
        pub struct first {
            pub next: *mut first,
            pub other: *const second,
            pub self_: u16 as "self",
            pub bits: u32 as { low: 3, high: 5 },
            pub mode: u32 as enum fast_or_slow,
            pub r#type: i32,
            pub call: Callback,
        }

        pub struct second {
            values: [u64; 3],
            shared: both,
            tail: [i8; 0],
        }

        pub union both {
            word: u64,
            bytes: [u8; 8],
        }

        struct empty {}
    }

    #[test]
    fn structs_have_the_layout_of_their_rust_types() {
        let mut types = Builder::new();
        let id = types.add::<first>();
        types.add::<empty>();
        types.enumeration("fast_or_slow", 4, false, &[("FAST", 1)]);
        assert_eq!(types.add::<first>(), id);
        let btf = Btf::parse(&types.finish().encode()).unwrap();
        let text = |name| btf.c_definition(btf.find_struct(name).unwrap());
        assert_eq!(
            text("first"),
            "struct first {\n\
             \tstruct first *next; /* 0 */\n\
             \tconst struct second *other; /* 8 */\n\
             \tu16 self; /* 16 */\n\
             \tu32 low : 3; /* 20:0 */\n\
             \tu32 high : 5; /* 20:3 */\n\
             \tenum fast_or_slow mode; /* 24 */\n\
             \ts32 type; /* 28 */\n\
             \tvoid (*call)(void); /* 32 */\n\
             }; /* 40 bytes */"
        );
        assert_eq!(
            text("second"),
            "struct second {\n\tu64 values[3]; /* 0 */\n\tunion both shared; /* 24 */\n\tchar tail[0]; /* 32 */\n}; /* 32 bytes */"
        );
        let id = btf.find("fast_or_slow", |_| true).unwrap();
        assert_eq!(btf.c_definition(id), "enum fast_or_slow {\n\tFAST = 0x1,\n};");
        assert_eq!(text("empty"), "struct empty {\n}; /* 0 bytes */");
    }
}
