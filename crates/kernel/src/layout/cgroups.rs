// SPDX-License-Identifier: GPL-2.0-only
//! What a policy sees of cgroups: `cgroup` and what hangs on it.

use super::{Layout, ROOT_CGROUP_ID};
use bpf::kstruct;
use bpf::region::Region;

kstruct! {
    pub struct kernfs_node {
        pub id: u64,
        /// Last part of the path, "/" for the root.
        pub name: *mut i8,
    }

    pub struct percpu_ref {
        /// 0: alive.
        pub percpu_count_ptr: u64,
    }

    pub struct cgroup_subsys_state {
        pub cgroup: *mut cgroup,
        pub parent: *mut cgroup_subsys_state,
        pub refcnt: percpu_ref,
        pub id: i32,
    }

    pub struct cgroup {
        /// First, so that a css is its cgroup.
        pub self_: cgroup_subsys_state as "self",
        pub kn: *mut kernfs_node,
        pub dom_cgrp: *mut cgroup,
        pub level: i32,
        /// From the root to itself: `level + 1` of them.
        pub ancestors: [*mut cgroup; 0],
    }

    /// The cgroups of a task: here one set a cgroup.
    pub struct css_set {
        pub dfl_cgrp: *mut cgroup,
    }
}

impl Layout {
    /// The cgroup with this id (`cgroup.kn->id`).
    pub fn cgroup_from_id(&self, region: &Region, id: u64) -> Option<u32> {
        let index = (id & u64::from(u32::MAX)).checked_sub(ROOT_CGROUP_ID)?;
        let index = (index < u64::from(self.nr_cgroups())).then_some(index as u32)?;
        (self.cgroup_id(region, index) == id).then_some(index)
    }

    /// `cgroup.kn->id`: the number of the inode, and above it how often that was used before.
    pub fn cgroup_id(&self, region: &Region, cgroup: u32) -> u64 {
        // SAFETY: a cgroup of the layout, and its node.
        unsafe { (*region.at::<cgroup>(self.cgroup_addr(cgroup)).kn).id }
    }

    /// A cgroup has gone; one of its name will be another.
    pub fn new_cgroup_id(&self, region: &Region, cgroup: u32) {
        // SAFETY: as above.
        unsafe { (*region.at::<cgroup>(self.cgroup_addr(cgroup)).kn).id += 1 << 32 }
    }

    /// The cgroup that a cgroup is in.
    pub fn parent_of_cgroup(&self, region: &Region, cgroup: u32) -> Option<u32> {
        // SAFETY: a cgroup of the layout.
        let parent = unsafe { region.at::<cgroup>(self.cgroup_addr(cgroup)) }.self_.parent;
        self.cgroup_from_addr(parent as u64)
    }
}
