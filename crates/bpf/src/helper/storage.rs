// SPDX-License-Identifier: GPL-2.0-only
//! Deletes local storage: the values that TASK_STORAGE and CGRP_STORAGE maps keep for a kernel
//! object. These values must be deleted when the object is removed.

use super::object::drop_fields;
use crate::engine::vm::Vm;
use crate::engine::world::World;
use crate::fault::Fault;
use crate::map::kind;

impl<W: World> Vm<W> {
    /// Deletes all local storage of a kernel object that is about to be removed.
    pub fn free_owner(world: &mut W, owner: u64) {
        for index in 0..world.vm().maps().len() {
            if matches!(
                world.vm().maps()[index].def().kind,
                kind::TASK_STORAGE | kind::CGRP_STORAGE
            ) {
                // The only possible error is that there is no value to delete.
                let _ = Vm::drop_storage(world, index, owner);
            }
        }
    }

    /// Deletes the value that map number `index` stores for a kernel object. Returns 0 or a
    /// negative error number.
    pub(crate) fn drop_storage(world: &mut W, index: usize, owner: u64) -> Result<i64, Fault> {
        let value = world.vm().maps()[index].storage_get(world.region(), owner, None, false)?;
        if value != 0 && !world.vm().maps()[index].def().fields.is_empty() {
            let fields = world.vm().maps()[index].def().fields.clone();
            drop_fields(world, &fields, value);
        }
        if value != 0 {
            let size = world.vm().maps()[index].def().value_size;
            world.storage_freed(value, size.into());
        }
        world.vm().maps()[index].storage_delete(world.region(), owner)
    }
}
