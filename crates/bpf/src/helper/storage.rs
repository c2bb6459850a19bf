// SPDX-License-Identifier: GPL-2.0-only
//! Local storage of kernel objects that go away.

use super::object::drop_fields;
use crate::engine::vm::Vm;
use crate::engine::world::World;
use crate::fault::Fault;
use crate::map::kind;

impl<W: World> Vm<W> {
    /// An object of the kernel goes away: forgets what local-storage maps hold for it.
    pub fn free_owner(world: &mut W, owner: u64) {
        for index in 0..world.vm().maps().len() {
            if matches!(
                world.vm().maps()[index].def().kind,
                kind::TASK_STORAGE | kind::CGRP_STORAGE
            ) {
                // The only error is that there is nothing to drop.
                let _ = Vm::drop_storage(world, index, owner);
            }
        }
    }

    /// Drops what map number `index` holds for an object. 0 or a negative error.
    pub(crate) fn drop_storage(world: &mut W, index: usize, owner: u64) -> Result<i64, Fault> {
        let value = world.vm().maps()[index].storage_get(world.region(), owner, None, false)?;
        if value != 0 && !world.vm().maps()[index].def().fields.is_empty() {
            let fields = world.vm().maps()[index].def().fields.clone();
            drop_fields(world, &fields, value);
        }
        world.vm().maps()[index].storage_delete(world.region(), owner)
    }
}
