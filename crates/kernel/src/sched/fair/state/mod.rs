// SPDX-License-Identifier: GPL-2.0-only
//! State of the fair class: entities, queues, task groups, domains and averages.

pub mod clock;
pub mod domains;
pub mod entity;
pub mod group;
pub(crate) mod leaf;
pub mod numa;
pub mod pelt;
pub mod quota;
pub mod sched_cache;
pub(crate) mod slices;
pub mod snapshot;
pub mod task_group;
pub mod timeline;
