// SPDX-License-Identifier: GPL-2.0-only
//! State of sched_ext: the loaded policy, its callbacks, dispatch queues and idle masks.

pub(crate) mod caps;
pub mod cids;
pub mod core;
pub mod dsq;
pub mod dump_text;
pub mod entity;
pub mod events;
pub mod exit_info;
pub mod idle_masks;
pub mod loaded;
pub mod ops_table;
pub(crate) mod rescue;
pub mod scheds;
pub mod sub_costs;
