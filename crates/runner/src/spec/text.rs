// SPDX-License-Identifier: GPL-2.0-only
//! Serialises values as the texts of the command line, for example "500ms".

/// Defines a module for serde's attribute `with`.
macro_rules! as_text {
    ($name:ident, $type:ty, $format:expr, $parse:expr) => {
        pub(super) mod $name {
            use serde::de::Error as _;
            use serde::{Deserialize, Deserializer, Serialize, Serializer};

            pub fn serialize<S: Serializer>(value: &$type, serializer: S) -> Result<S::Ok, S::Error> {
                $format(*value).serialize(serializer)
            }

            pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                $parse(Deserialize::deserialize(deserializer)?).map_err(D::Error::custom)
            }
        }
    };
}

as_text!(
    duration,
    Option<u64>,
    |ns: Option<u64>| ns.map(input::duration::format),
    |text: Option<String>| text.map(|text| input::duration::parse_some(&text)).transpose()
);
as_text!(size, u64, input::size::format, |text: String| input::size::parse(&text));
as_text!(
    release,
    kernel::release::Release,
    |release: kernel::release::Release| release.to_string(),
    |text: String| text
        .parse::<kernel::release::Release>()
        .map_err(|error| format!("kernel {text}: {error}"))
);
