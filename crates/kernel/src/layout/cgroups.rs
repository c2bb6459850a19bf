// SPDX-License-Identifier: GPL-2.0-only
//! The cgroup objects that a policy can access, and how long they exist.
//!
//! A removed cgroup remains in memory while the policy holds references to it. If a cgroup with the
//! same path is created during this time, it gets a new object. If there are no references, the new
//! cgroup reuses the memory of the old one.
//!
//! The only controller that is modelled is cpuset (kernel/cgroup/cpuset.c). All other controllers
//! are disabled.

use crate::layout::enums::{CGROUP_SUBSYS_COUNT, cpuset_cgrp_id};
use crate::layout::{Layout, MASK_BYTES, Mask, alloc, cpumask, object};
use bpf::error::Error;
use bpf::kstruct;
use bpf::memory::{Region, Slab};
use std::collections::BTreeSet;
use workload::{Action, Workload};

/// Id of the root cgroup (`cgroup.kn->id`).
pub(crate) const ROOT_CGROUP_ID: u64 = 1;

/// Id of the first other cgroup. An id is the number of an inode, and the files of the root cgroup take
/// the numbers in between: in a guest with Linux 7.3, the first cgroup has the id 24.
const NEXT_CGROUP_ID: u64 = 24;

fn first_id(cgroup: u32) -> u64 {
    match cgroup {
        0 => ROOT_CGROUP_ID,
        index => NEXT_CGROUP_ID + u64::from(index) - 1,
    }
}

/// Value of `percpu_count_ptr` for a removed cgroup: __PERCPU_REF_ATOMIC | __PERCPU_REF_DEAD.
pub(crate) const DEAD: u64 = 3;

kstruct! {
    pub struct kernfs_node {
        pub id: u64,
        /// Last component of the path; "/" for the root.
        pub name: *mut i8,
    }

    pub struct percpu_ref {
        /// 0 while the object is alive.
        pub percpu_count_ptr: u64,
    }

    pub struct cgroup_subsys_state {
        pub cgroup: *mut cgroup,
        pub parent: *mut cgroup_subsys_state,
        pub refcnt: percpu_ref,
        pub id: i32,
    }

    pub struct cgroup {
        /// The first member, so that this css has the same address as its cgroup.
        pub self_: cgroup_subsys_state as "self",
        pub kn: *mut kernfs_node,
        pub dom_cgrp: *mut cgroup,
        pub level: i32,
        /// Pointers to the data of each controller for this cgroup. A pointer is NULL if the
        /// controller is disabled.
        pub subsys: [*mut cgroup_subsys_state; CGROUP_SUBSYS_COUNT as usize],
        /// The ancestors from the root to the cgroup itself: `level + 1` pointers.
        pub ancestors: [*mut cgroup; 0],
    }

    /// The CPUs that the tasks of a cgroup may use.
    pub struct cpuset {
        /// The first member, so that this css has the same address as its cpuset.
        pub css: cgroup_subsys_state,
        /// CPUs in cpuset.cpus. The mask is empty if the CPUs of the parent apply.
        pub cpus_allowed: *mut cpumask,
        /// CPUs in cpuset.cpus.effective.
        pub effective_cpus: *mut cpumask,
    }

    /// The cgroups of a task. In the simulator, each cgroup has one css_set.
    pub struct css_set {
        pub dfl_cgrp: *mut cgroup,
    }
}

/// All cgroup objects. Data that the kernel relies on is stored here, outside of the memory that
/// BPF programs can access (the region), so that policies cannot overwrite it.
pub(crate) struct CgroupObjects {
    /// Memory for struct cgroup. The first objects belong to the cgroups of the workload. Further
    /// objects belong to cgroups that were created again while their previous object was still
    /// referenced.
    pub(crate) slab: Slab,
    pub(crate) css_sets: Slab,
    /// Memory for the cpuset of each object.
    pub(crate) cpusets: Slab,
    /// Memory for the two masks of each cpuset.
    pub(crate) cpuset_masks: Slab,
    /// For each cgroup of the workload, the address of its path, a zero-terminated text.
    pub(crate) paths: Vec<u64>,
    /// For each cgroup of the workload, the address of the last component of its path, a
    /// zero-terminated text.
    pub(crate) names: Vec<u64>,
    /// For each cgroup of the workload, the number of its parent.
    pub(crate) parents: Vec<Option<u32>>,
    /// For each cgroup of the workload, the index of its current object.
    pub(crate) current: Vec<u32>,
    /// Data about each object, in the same order as in `slab`.
    pub(crate) objects: Vec<Object>,
    /// All pairs of a parent object and a child object, including removed cgroups.
    pub(crate) below: BTreeSet<[u32; 2]>,
}

/// Data about one cgroup object.
pub(crate) struct Object {
    /// Number of the cgroup in the workload.
    pub(crate) cgroup: u32,
    /// Address of its kernfs_node.
    pub(crate) kn: u64,
    /// Id in the kernfs_node.
    pub(crate) id: u64,
    /// Number of references. These are the references of the policy and, while the cgroup is being
    /// removed, one reference of the kernel.
    pub(crate) refs: u64,
    /// Whether the cgroup was removed.
    pub(crate) dead: bool,
    /// All objects from the root to this object.
    pub(crate) chain: Vec<u32>,
}

impl CgroupObjects {
    pub fn new(region: &Region, workload: &Workload) -> Result<CgroupObjects, Error> {
        let levels = workload.cgroups.iter().map(|cgroup| level(&cgroup.path)).max();
        let size = size_of::<cgroup>() + 8 * (levels.unwrap_or(0) + 1);
        let nr_cgroups = workload.cgroups.len().max(1) as u64;
        let made = |what: &Action| matches!(what, Action::Create { .. });
        let nr_made = workload.disturbances.iter().filter(|d| made(&d.action)).count();
        let max = nr_cgroups + nr_made as u64;
        Ok(CgroupObjects {
            slab: region.slab(&object::CGROUP, size as u64, max)?,
            css_sets: region.slab(&object::CSS_SET, 64, nr_cgroups)?,
            cpusets: region.slab(&object::CPUSET, size_of::<cpuset>() as u64, max)?,
            cpuset_masks: region.slab(&object::MASK, MASK_BYTES, 2 * max)?,
            paths: Vec::new(),
            names: Vec::new(),
            parents: Vec::new(),
            current: Vec::new(),
            objects: Vec::new(),
            below: BTreeSet::new(),
        })
    }

    /// Creates the objects for the cgroups of the workload.
    pub fn lay_out(&mut self, region: &Region, workload: &Workload) {
        let paths: Vec<&str> = match workload.cgroups.is_empty() {
            true => vec!["/"],
            false => workload.cgroups.iter().map(|cgroup| cgroup.path.as_str()).collect(),
        };
        for path in &paths {
            // The parent is the nearest ancestor that is also a cgroup of the workload, otherwise
            // the root.
            let parent = (!path.trim_matches('/').is_empty()).then(|| nearest_above(&paths, path));
            self.parents.push(parent);
            self.add(region);
            self.current.push(self.objects.len() as u32 - 1);
        }
        for (cgroup, path) in paths.iter().enumerate() {
            self.paths.push(copy_text(region, path));
            let name = path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("/");
            self.names.push(copy_text(region, name));
            alloc(&mut self.css_sets, region);
            self.fill(region, cgroup as u32, first_id(cgroup as u32));
        }
    }

    /// Allocates an object without content.
    pub(crate) fn add(&mut self, region: &Region) {
        alloc(&mut self.slab, region);
        alloc(&mut self.cpusets, region);
        for _ in 0..2 {
            alloc(&mut self.cpuset_masks, region);
        }
        self.objects.push(Object {
            cgroup: 0,
            kn: 0,
            id: 0,
            refs: 0,
            dead: false,
            chain: Vec::new(),
        });
    }

    /// Initializes the current object of a cgroup.
    pub(crate) fn fill(&mut self, region: &Region, cgroup: u32, id: u64) {
        let object = self.current[cgroup as usize];
        let above = std::iter::successors(Some(cgroup), |&at| self.parents[at as usize]);
        let mut chain: Vec<u32> = above.map(|cgroup| self.current[cgroup as usize]).collect();
        chain.reverse();
        let addrs: Vec<u64> = chain.iter().map(|&object| self.slab.addr(object.into())).collect();
        let addr = self.slab.addr(object.into());
        let kn = match self.objects[object as usize].kn {
            0 => {
                let kn = region.alloc(size_of::<kernfs_node>() as u64);
                kn.expect("the region has room for a kernfs_node")
            }
            kn => kn,
        };
        // SAFETY: these are kernel objects. Each is borrowed once, and the cgroup has room for
        // `level + 1` ancestors.
        unsafe {
            *region.host::<kernfs_node>(kn) = kernfs_node {
                id,
                name: self.names[cgroup as usize] as *mut i8,
            };
            let cgrp = &mut *region.host::<cgroup>(addr);
            cgrp.kn = kn as *mut kernfs_node;
            cgrp.dom_cgrp = addr as *mut cgroup;
            cgrp.self_.cgroup = addr as *mut cgroup;
            cgrp.self_.id = 1 + cgroup as i32;
            cgrp.self_.refcnt.percpu_count_ptr = 0;
            cgrp.level = chain.len() as i32 - 1;
            let parent = addrs.iter().nth_back(1).copied();
            cgrp.self_.parent = parent.unwrap_or(0) as *mut cgroup_subsys_state;
            let ancestors = region.host::<u64>(addr + std::mem::offset_of!(cgroup, ancestors) as u64);
            for (level, &addr) in addrs.iter().enumerate() {
                ancestors.add(level).write(addr);
            }
            let above = parent_in_chain(&chain).map(|object| self.cpusets.addr(object.into()));
            cgrp.subsys[cpuset_cgrp_id as usize] = self.cpusets.addr(object.into()) as *mut cgroup_subsys_state;
            *region.host::<cpuset>(self.cpusets.addr(object.into())) = cpuset {
                css: cgroup_subsys_state {
                    cgroup: addr as *mut cgroup,
                    parent: above.unwrap_or(0) as *mut cgroup_subsys_state,
                    refcnt: percpu_ref { percpu_count_ptr: 0 },
                    id: 1 + cgroup as i32,
                },
                cpus_allowed: self.cpuset_masks.addr(2 * u64::from(object)) as *mut cpumask,
                effective_cpus: self.cpuset_masks.addr(2 * u64::from(object) + 1) as *mut cpumask,
            };
            (*self.css_sets.host::<css_set>(cgroup.into())).dfl_cgrp = addr as *mut cgroup;
        }
        if let Some(above) = parent_in_chain(&self.objects[object as usize].chain) {
            self.below.remove(&[above, object]);
        }
        if let Some(above) = parent_in_chain(&chain) {
            self.below.insert([above, object]);
        }
        self.objects[object as usize] = Object {
            cgroup,
            kn,
            id,
            refs: 0,
            dead: false,
            chain,
        };
    }

    /// Returns whether there are references to an object or one of its descendants.
    pub(crate) fn held(&self, object: u32) -> bool {
        let mut objects = self.objects.iter();
        objects.any(|other| other.refs > 0 && other.chain.contains(&object))
    }
}

impl Layout {
    /// Returns the address of a cgroup's current object.
    pub fn cgroup_addr(&self, cgroup: u32) -> u64 {
        let object = self.cgroups.current[cgroup as usize];
        self.cgroups.slab.addr(object.into())
    }

    /// Returns the address of a cgroup's cpuset.
    pub(crate) fn cpuset_addr(&self, cgroup: u32) -> u64 {
        let object = self.cgroups.current[cgroup as usize];
        self.cgroups.cpusets.addr(object.into())
    }

    /// Returns the masks `cpus_allowed` and `effective_cpus` of a cgroup's cpuset.
    pub(crate) fn cpuset_masks(&self, region: &Region, cgroup: u32) -> [Mask; 2] {
        let first = 2 * u64::from(self.cgroups.current[cgroup as usize]);
        // SAFETY: both masks were allocated together with the current object of the cgroup.
        [first, first + 1].map(|mask| unsafe { Mask::at(region, self.cgroups.cpuset_masks.addr(mask), self.nr_cpus) })
    }

    pub(crate) fn css_set_addr(&self, cgroup: u32) -> u64 {
        self.cgroups.css_sets.addr(cgroup.into())
    }

    /// Returns the address of a cgroup's path, which is a zero-terminated text.
    pub fn cgroup_path_addr(&self, cgroup: u32) -> u64 {
        self.cgroups.paths[cgroup as usize]
    }

    pub fn nr_cgroups(&self) -> u32 {
        self.cgroups.current.len() as u32
    }

    /// Returns the cgroup whose address a policy has passed: its number in the workload, and
    /// whether it was removed.
    pub fn cgroup_from_addr(&self, addr: u64) -> Option<(u32, bool)> {
        let object = &self.cgroups.objects[self.cgroup_object(addr)? as usize];
        Some((object.cgroup, object.dead))
    }

    pub(crate) fn cgroup_object(&self, addr: u64) -> Option<u32> {
        self.cgroups.slab.index(addr).map(|index| index as u32)
    }

    /// Returns the addresses of a cgroup and all its ancestors, starting with the root.
    pub fn cgroup_chain(&self, addr: u64) -> Vec<u64> {
        let Some(object) = self.cgroup_object(addr) else {
            return Vec::new();
        };
        let chain = &self.cgroups.objects[object as usize].chain;
        chain
            .iter()
            .map(|&object| self.cgroups.slab.addr(object.into()))
            .collect()
    }

    /// Returns the child of a cgroup that follows the child `after` (css_next_child()), and the
    /// number of cgroups that the search examined. If `after` is `None`, the first child is
    /// returned. Removed children are included while they are referenced. `online` says whether a
    /// cgroup of the workload exists at the moment.
    pub fn next_child(&self, parent: u64, after: Option<u64>, online: impl Fn(u32) -> bool) -> (Option<u64>, u64) {
        let from = match after {
            Some(addr) => self.cgroup_object(addr).map(|object| object + 1),
            None => Some(0),
        };
        let (Some(parent), Some(from)) = (self.cgroup_object(parent), from) else {
            return (None, 0);
        };
        let is_there = |object: u32| {
            let known = &self.cgroups.objects[object as usize];
            match known.dead {
                true => self.cgroups.held(object),
                false => online(known.cgroup),
            }
        };
        let mut below = self.cgroups.below.range([parent, from]..=[parent, u32::MAX]);
        let mut looked_at = 0;
        let found = below.find(|&&[_, object]| {
            looked_at += 1 + self.search_of(object);
            is_there(object)
        });
        let child = found.map(|&[_, object]| self.cgroups.slab.addr(object.into()));
        (child, looked_at)
    }

    /// Returns how many cgroups a search for references to a cgroup examines. The search is
    /// necessary only for removed cgroups, so the result is 0 for all others.
    pub fn cgroup_search(&self, addr: u64) -> u64 {
        self.cgroup_object(addr).map_or(0, |object| self.search_of(object))
    }

    fn search_of(&self, object: u32) -> u64 {
        match self.cgroups.objects[object as usize].dead {
            true => self.cgroups.objects.len() as u64,
            false => 0,
        }
    }

    pub fn parent_of_cgroup(&self, cgroup: u32) -> Option<u32> {
        self.cgroups.parents[cgroup as usize]
    }

    /// Returns the cgroup with an id (`cgroup.kn->id`).
    pub fn cgroup_from_id(&self, id: u64) -> Option<u32> {
        let inode = id & u64::from(u32::MAX);
        let index = match inode {
            ROOT_CGROUP_ID => 0,
            _ => inode.checked_sub(NEXT_CGROUP_ID)? + 1,
        };
        let index = (index < u64::from(self.nr_cgroups())).then_some(index as u32)?;
        (self.cgroup_id(index) == id).then_some(index)
    }

    /// Returns the id of a cgroup (`cgroup.kn->id`). The low 32 bits are the inode number. The high
    /// 32 bits say how often that number was used before.
    pub fn cgroup_id(&self, cgroup: u32) -> u64 {
        let object = self.cgroups.current[cgroup as usize];
        self.cgroups.objects[object as usize].id
    }

    /// Marks a cgroup as removed (cgroup_destroy_locked()). A reference of the kernel keeps the
    /// object until the removal is complete.
    pub(crate) fn kill_cgroup(&mut self, region: &Region, cgroup: u32) {
        let object = self.cgroups.current[cgroup as usize];
        let known = &mut self.cgroups.objects[object as usize];
        (known.dead, known.refs) = (true, known.refs + 1);
        // SAFETY: the addresses are those of the cgroup and its cpuset.
        unsafe {
            let cgrp = region.host::<cgroup>(self.cgroup_addr(cgroup));
            (*cgrp).self_.refcnt.percpu_count_ptr = DEAD;
            let cpuset = region.host::<cpuset>(self.cpuset_addr(cgroup));
            (*cpuset).css.refcnt.percpu_count_ptr = DEAD;
        }
    }

    /// Creates a cgroup (cgroup_create()). It gets a new object if the policy still holds
    /// references to the previous one.
    pub(crate) fn make_cgroup(&mut self, region: &Region, cgroup: u32) {
        let before = self.cgroups.current[cgroup as usize];
        let mut id = self.cgroup_id(cgroup);
        if self.cgroups.objects[before as usize].dead {
            id += 1 << 32;
        }
        if self.cgroups.held(before) {
            self.cgroups.add(region);
            self.cgroups.current[cgroup as usize] = self.cgroups.objects.len() as u32 - 1;
        }
        self.cgroups.fill(region, cgroup, id);
    }

    /// Acquires a reference to a cgroup for the policy (cgroup_tryget()). Returns `false` if the
    /// cgroup no longer exists.
    pub(crate) fn get_cgroup(&mut self, addr: u64) -> bool {
        let Some(object) = self.cgroup_object(addr) else {
            return false;
        };
        if self.cgroups.objects[object as usize].dead && !self.cgroups.held(object) {
            return false;
        }
        self.cgroups.objects[object as usize].refs += 1;
        true
    }

    /// Drops a reference to a cgroup. Returns the addresses of the cgroups that are no longer
    /// referenced afterwards and are freed, or `None` if the policy holds no reference.
    pub(crate) fn put_cgroup(&mut self, addr: u64) -> Option<Vec<u64>> {
        let object = self.cgroup_object(addr)?;
        let refs = &mut self.cgroups.objects[object as usize].refs;
        *refs = refs.checked_sub(1)?;
        let chain = self.cgroups.objects[object as usize].chain.iter();
        let gone = chain.filter(|&&above| self.cgroups.objects[above as usize].dead && !self.cgroups.held(above));
        Some(gone.map(|&above| self.cgroups.slab.addr(above.into())).collect())
    }

    /// Returns the number of references to the cgroup at an address.
    pub fn cgroup_refs(&self, addr: u64) -> u64 {
        let object = self.cgroup_object(addr);
        object.map_or(0, |object| self.cgroups.objects[object as usize].refs)
    }

    /// Returns whether the policy holds a reference to the cgroup at an address or to one of its
    /// descendants.
    pub fn is_cgroup_referenced(&self, addr: u64) -> bool {
        self.cgroup_object(addr).is_some_and(|object| self.cgroups.held(object))
    }

    /// Drops all references of the policy. Called when the policy has been unloaded.
    pub(crate) fn drop_all_cgroup_references(&mut self) {
        for object in &mut self.cgroups.objects {
            object.refs = 0;
        }
    }
}

/// Copies a text into the region and adds a terminating zero. Returns the address of the copy.
pub(crate) fn copy_text(region: &Region, text: &str) -> u64 {
    let addr = region
        .alloc(text.len() as u64 + 1)
        .expect("the region has room for the text");
    // SAFETY: the memory was just allocated with sufficient size.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), region.host::<u8>(addr), text.len()) };
    addr
}

/// Returns the number of components of a cgroup's path, which is its depth. It is 0 for the root.
pub(crate) fn level(path: &str) -> usize {
    path.split('/').filter(|part| !part.is_empty()).count()
}

/// Returns the index of the nearest ancestor of `path` in `paths`. Returns 0, the index of the
/// root, if `paths` contains no other ancestor.
pub(crate) fn nearest_above(paths: &[&str], path: &str) -> u32 {
    let mut above = path.trim_end_matches('/');
    while let Some((upper, _)) = above.rsplit_once('/') {
        above = upper;
        let named = |p: &&str| p.trim_end_matches('/') == above && !above.is_empty();
        if let Some(found) = paths.iter().position(named) {
            return found as u32;
        }
    }
    0
}

/// Returns the parent of a chain's last object, which is the second last object of the chain.
pub(crate) fn parent_in_chain(chain: &[u32]) -> Option<u32> {
    chain.iter().nth_back(1).copied()
}
