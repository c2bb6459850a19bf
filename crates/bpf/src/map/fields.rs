// SPDX-License-Identifier: GPL-2.0-only
//! Names of the data that caused transfers of cache lines: fields of maps, global variables and
//! kernel objects.

use super::Map;
use crate::cache::{Moves, Place};
use crate::link::Image;
use crate::memory::Region;
use std::collections::BTreeMap;

/// Name of all memory without a name of its own, for example objects that a policy allocates.
const OTHER: &str = "other memory";

/// A policy whose data can be named.
pub struct Owner<'a> {
    /// Text before the names of the policy's data.
    pub prefix: String,
    /// The policy's linked object.
    pub image: &'a Image,
    pub maps: &'a [Map],
}

/// Returns the transfers of cache lines that each field caused, by the names of the fields. `owners`
/// are the loaded policies.
pub fn transfers(owners: &[Owner], region: &Region) -> BTreeMap<String, Moves> {
    let mut fields: BTreeMap<String, Moves> = BTreeMap::new();
    for (place, moves) in region.lines().moved() {
        let total = fields.entry(name(owners, region, place, &moves)).or_default();
        total.loads += moves.loads;
        total.stores += moves.stores;
        total.ns += moves.ns;
        total.by_program += moves.by_program;
    }
    fields
}

fn name(owners: &[Owner], region: &Region, place: Place, moves: &Moves) -> String {
    match place {
        Place::Value { handle, offset } => {
            let field = owners.iter().find_map(|owner| {
                let map = owner.maps.iter().find(|map| map.addr() == handle)?;
                Some(owner.prefix.clone() + &field_of(owner.image, map, offset))
            });
            field.unwrap_or_else(|| "a map of an earlier policy".to_owned())
        }
        Place::Address(addr) => match region.kernel_field(addr) {
            // Helpers and the kernel name an object, not a field.
            Some((object, _)) if moves.by_program == 0 => object.to_owned(),
            Some((object, field)) => format!("{object}.{field}"),
            None => {
                let named = owners
                    .iter()
                    .find_map(|owner| Some(owner.prefix.clone() + &variable(owner, addr)?));
                named.unwrap_or_else(|| OTHER.to_owned())
            }
        },
        Place::Elsewhere => OTHER.to_owned(),
    }
}

/// Returns the name of the field at `offset` in a map's value, for example `task_ctx[].deadline`.
fn field_of(image: &Image, map: &Map, offset: u64) -> String {
    let index = if map.def().max_entries == 1 { "" } else { "[]" };
    let path = map.def().value_type.map(|ty| image.btf.field_at(ty, offset));
    format!("{}{index}{}", map.name(), path.unwrap_or_default())
}

/// Returns the name of the global variable at an address, with the path to its field, or `arena`.
fn variable(owner: &Owner, addr: u64) -> Option<String> {
    let mut arenas = owner.maps.iter().filter_map(Map::arena_range);
    if arenas.any(|arena| arena.contains(&addr)) {
        return Some("arena".to_owned());
    }
    let image = owner.image;
    image.live_variables().find_map(|(variable, start)| {
        let size = u64::from(image.btf.size_of(variable.ty)?);
        let inside = addr.checked_sub(start).filter(|&inside| inside < size)?;
        Some(variable.name.clone() + &image.btf.field_at(variable.ty, inside))
    })
}
