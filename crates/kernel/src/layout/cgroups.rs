// SPDX-License-Identifier: GPL-2.0-only
//! What a policy sees of cgroups: `cgroup` and what hangs on it.

use bpf::kstruct;

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
