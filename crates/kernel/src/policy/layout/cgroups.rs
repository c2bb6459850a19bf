// SPDX-License-Identifier: GPL-2.0-only
//! The cgroup objects that a policy can access, and their lifetime.
//!
//! A removed cgroup keeps its memory while the policy holds references to it. A cgroup created
//! again at the same path is then another object. Without references, the new cgroup reuses the
//! memory.
//!
//! The only modelled controller is cpuset (kernel/cgroup/cpuset.c). All others are disabled.

use super::enums::{CGROUP_SUBSYS_COUNT, cpuset_cgrp_id};
use super::{Layout, MASK_BYTES, Mask, alloc, cpumask, object};
use bpf::kstruct;
use bpf::memory::{Region, Slab};
use std::collections::BTreeSet;
use workload::{Action, Workload};

/// cgroup_id of the root cgroup.
pub(super) const ROOT_CGROUP_ID: u64 = 1;

/// `percpu_count_ptr` of a removed cgroup: __PERCPU_REF_ATOMIC | __PERCPU_REF_DEAD.
pub(super) const DEAD: u64 = 3;

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
        /// The first member, so that a css has the address of its cgroup.
        pub self_: cgroup_subsys_state as "self",
        pub kn: *mut kernfs_node,
        pub dom_cgrp: *mut cgroup,
        pub level: i32,
        /// State of each controller for this cgroup; NULL if the controller is disabled.
        pub subsys: [*mut cgroup_subsys_state; CGROUP_SUBSYS_COUNT as usize],
        /// The ancestors from the root to the cgroup itself: `level + 1` pointers.
        pub ancestors: [*mut cgroup; 0],
    }

    /// The CPUs that a cgroup's tasks may use.
    pub struct cpuset {
        /// The first member, so that a css has the address of its cpuset.
        pub css: cgroup_subsys_state,
        /// cpuset.cpus; empty if those of the parent apply.
        pub cpus_allowed: *mut cpumask,
        /// cpuset.cpus.effective.
        pub effective_cpus: *mut cpumask,
    }

    /// The cgroups of a task. There is one css_set per cgroup here.
    pub struct css_set {
        pub dfl_cgrp: *mut cgroup,
    }
}

/// All cgroup objects. Data that controls their use is here, outside the region, where policies
/// cannot write.
pub(super) struct CgroupObjects {
    /// struct cgroup: first those of the workload's cgroups, then those created while the previous
    /// object was still referenced.
    pub(super) slab: Slab,
    pub(super) css_sets: Slab,
    /// The cpuset of each object.
    pub(super) cpusets: Slab,
    /// The two masks of each cpuset.
    pub(super) cpuset_masks: Slab,
    /// Path of each cgroup of the workload, zero-terminated.
    pub(super) paths: Vec<u64>,
    /// Last component of each path, zero-terminated.
    pub(super) names: Vec<u64>,
    /// Number of each cgroup's parent, by number in the workload.
    pub(super) parents: Vec<Option<u32>>,
    /// Index of each cgroup's current object, by number in the workload.
    pub(super) current: Vec<u32>,
    /// Data about each object, in the order of the slab.
    pub(super) objects: Vec<Object>,
    /// Pairs of parent object and child object, for all objects that are or were cgroups.
    pub(super) below: BTreeSet<[u32; 2]>,
}

/// Data about one cgroup object.
pub(super) struct Object {
    /// Number of the cgroup in the workload.
    pub(super) cgroup: u32,
    /// Address of its kernfs_node.
    pub(super) kn: u64,
    /// Id in the kernfs_node.
    pub(super) id: u64,
    /// Number of references: the policy's, plus the kernel's own while the cgroup is being removed.
    pub(super) refs: u32,
    /// Whether the cgroup was removed.
    pub(super) dead: bool,
    /// Objects from the root to this one.
    pub(super) chain: Vec<u32>,
}

impl CgroupObjects {
    pub fn new(region: &Region, workload: &Workload) -> Result<CgroupObjects, String> {
        let levels = workload.cgroups.iter().map(|cgroup| level(&cgroup.path)).max();
        let size = size_of::<cgroup>() + 8 * (levels.unwrap_or(0) + 1);
        let nr_cgroups = workload.cgroups.len().max(1) as u64;
        let made = |what: &Action| matches!(what, Action::Create { .. });
        let nr_made = workload.disturbances.iter().filter(|d| made(&d.action)).count();
        let max = nr_cgroups + nr_made as u64;
        Ok(CgroupObjects {
            slab: region.slab_with_type(&object::CGROUP, size as u64, max)?,
            css_sets: region.slab_with_type(&object::CSS_SET, 64, nr_cgroups)?,
            cpusets: region.slab_with_type(&object::CPUSET, size_of::<cpuset>() as u64, max)?,
            cpuset_masks: region.slab_with_type(&object::MASK, MASK_BYTES, 2 * max)?,
            paths: Vec::new(),
            names: Vec::new(),
            parents: Vec::new(),
            current: Vec::new(),
            objects: Vec::new(),
            below: BTreeSet::new(),
        })
    }

    /// Creates the objects of the workload's cgroups.
    pub fn lay_out(&mut self, region: &Region, workload: &Workload) {
        let paths: Vec<&str> = match workload.cgroups.is_empty() {
            true => vec!["/"],
            false => workload.cgroups.iter().map(|cgroup| cgroup.path.as_str()).collect(),
        };
        for path in &paths {
            // The parent is the nearest ancestor that the workload names, or the root.
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
            self.fill(region, cgroup as u32, ROOT_CGROUP_ID + cgroup as u64);
        }
    }

    /// Allocates an empty object.
    pub(super) fn add(&mut self, region: &Region) {
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

    /// Initialises the current object of a cgroup.
    pub(super) fn fill(&mut self, region: &Region, cgroup: u32, id: u64) {
        let object = self.current[cgroup as usize];
        let above = std::iter::successors(Some(cgroup), |&at| self.parents[at as usize]);
        let mut chain: Vec<u32> = above.map(|cgroup| self.current[cgroup as usize]).collect();
        chain.reverse();
        let addrs: Vec<u64> = chain.iter().map(|&object| self.slab.addr(object.into())).collect();
        let addr = self.slab.addr(object.into());
        let kn = match self.objects[object as usize].kn {
            0 => {
                let kn = region.alloc(size_of::<kernfs_node>() as u64);
                kn.expect("room for a kernfs_node")
            }
            kn => kn,
        };
        // SAFETY: these are kernel objects, each borrowed once, with room for `level + 1`
        // ancestors.
        unsafe {
            *region.at::<kernfs_node>(kn) = kernfs_node {
                id,
                name: self.names[cgroup as usize] as *mut i8,
            };
            let cgrp = region.at::<cgroup>(addr);
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
            *region.at::<cpuset>(self.cpusets.addr(object.into())) = cpuset {
                css: cgroup_subsys_state {
                    cgroup: addr as *mut cgroup,
                    parent: above.unwrap_or(0) as *mut cgroup_subsys_state,
                    refcnt: percpu_ref { percpu_count_ptr: 0 },
                    id: 1 + cgroup as i32,
                },
                cpus_allowed: self.cpuset_masks.addr(2 * u64::from(object)) as *mut cpumask,
                effective_cpus: self.cpuset_masks.addr(2 * u64::from(object) + 1) as *mut cpumask,
            };
            region.at::<css_set>(self.css_sets.addr(cgroup.into())).dfl_cgrp = addr as *mut cgroup;
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

    /// Returns whether an object or one of its descendants is referenced.
    pub(super) fn held(&self, object: u32) -> bool {
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

    /// Returns the distance between two cgroup objects in bytes. Each is followed by its ancestors.
    pub(crate) fn cgroup_stride(&self) -> u64 {
        self.cgroups.slab.addr(1) - self.cgroups.slab.addr(0)
    }

    /// Returns the address of a cgroup's cpuset.
    pub(crate) fn cpuset_addr(&self, cgroup: u32) -> u64 {
        let object = self.cgroups.current[cgroup as usize];
        self.cgroups.cpusets.addr(object.into())
    }

    /// Returns `cpus_allowed` and `effective_cpus` of a cgroup's cpuset.
    pub(crate) fn cpuset_masks(&self, region: &Region, cgroup: u32) -> [Mask; 2] {
        let first = 2 * u64::from(self.cgroups.current[cgroup as usize]);
        [first, first + 1].map(|mask| Mask::at(region, self.cgroups.cpuset_masks.addr(mask), self.nr_cpus))
    }

    pub(crate) fn css_set_addr(&self, cgroup: u32) -> u64 {
        self.cgroups.css_sets.addr(cgroup.into())
    }

    /// Returns the address of a cgroup's path, which is zero-terminated.
    pub fn cgroup_path_addr(&self, cgroup: u32) -> u64 {
        self.cgroups.paths[cgroup as usize]
    }

    pub fn nr_cgroups(&self) -> u32 {
        self.cgroups.current.len() as u32
    }

    /// Returns the cgroup at an address from a policy: its number in the workload, and whether it
    /// was removed.
    pub fn cgroup_from_addr(&self, addr: u64) -> Option<(u32, bool)> {
        let object = &self.cgroups.objects[self.cgroup_object(addr)? as usize];
        Some((object.cgroup, object.dead))
    }

    pub(super) fn cgroup_object(&self, addr: u64) -> Option<u32> {
        self.cgroups.slab.index(addr).map(|index| index as u32)
    }

    /// Returns the addresses of a cgroup's ancestors and the cgroup itself, starting with the root.
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

    /// Returns the child of a cgroup that follows `after`, or the first child (css_next_child()).
    /// Removed children that are still referenced are included. `online` returns whether a cgroup
    /// of the workload currently exists.
    pub fn next_child(&self, parent: u64, after: Option<u64>, online: impl Fn(u32) -> bool) -> Option<u64> {
        let parent = self.cgroup_object(parent)?;
        let from = match after {
            Some(addr) => self.cgroup_object(addr)? + 1,
            None => 0,
        };
        let is_there = |object: u32| {
            let known = &self.cgroups.objects[object as usize];
            match known.dead {
                true => self.cgroups.held(object),
                false => online(known.cgroup),
            }
        };
        let mut below = self.cgroups.below.range([parent, from]..=[parent, u32::MAX]);
        let [_, found] = below.find(|&&[_, object]| is_there(object))?;
        Some(self.cgroups.slab.addr((*found).into()))
    }

    /// Returns the parent of a cgroup.
    pub fn parent_of_cgroup(&self, cgroup: u32) -> Option<u32> {
        self.cgroups.parents[cgroup as usize]
    }

    /// Returns the cgroup with an id (`cgroup.kn->id`).
    pub fn cgroup_from_id(&self, id: u64) -> Option<u32> {
        let index = (id & u64::from(u32::MAX)).checked_sub(ROOT_CGROUP_ID)?;
        let index = (index < u64::from(self.nr_cgroups())).then_some(index as u32)?;
        (self.cgroup_id(index) == id).then_some(index)
    }

    /// Returns `cgroup.kn->id`: the inode number, and in the high 32 bits how often the number was
    /// used before.
    pub fn cgroup_id(&self, cgroup: u32) -> u64 {
        let object = self.cgroups.current[cgroup as usize];
        self.cgroups.objects[object as usize].id
    }

    /// Marks a cgroup as removed (cgroup_destroy_locked()). The kernel's own reference keeps it
    /// until the removal is complete.
    pub(crate) fn kill_cgroup(&mut self, region: &Region, cgroup: u32) {
        let object = self.cgroups.current[cgroup as usize];
        let known = &mut self.cgroups.objects[object as usize];
        (known.dead, known.refs) = (true, known.refs + 1);
        // SAFETY: the address is that of a cgroup of the layout.
        unsafe { region.at::<cgroup>(self.cgroup_addr(cgroup)) }
            .self_
            .refcnt
            .percpu_count_ptr = DEAD;
        // SAFETY: the address is that of the cgroup's cpuset.
        unsafe { region.at::<cpuset>(self.cpuset_addr(cgroup)) }
            .css
            .refcnt
            .percpu_count_ptr = DEAD;
    }

    /// Creates a cgroup (cgroup_create()). If the policy still references the previous object, the
    /// cgroup gets a new one.
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

    /// Takes a reference for the policy (cgroup_tryget()). Returns `false` if the cgroup no longer
    /// exists.
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

    /// Drops a reference. Returns the addresses of the cgroups that are freed by this, or `None` if
    /// the policy holds no reference.
    pub(crate) fn put_cgroup(&mut self, addr: u64) -> Option<Vec<u64>> {
        let object = self.cgroup_object(addr)?;
        let refs = &mut self.cgroups.objects[object as usize].refs;
        *refs = refs.checked_sub(1)?;
        let chain = self.cgroups.objects[object as usize].chain.iter();
        let gone = chain.filter(|&&above| self.cgroups.objects[above as usize].dead && !self.cgroups.held(above));
        Some(gone.map(|&above| self.cgroups.slab.addr(above.into())).collect())
    }

    /// Returns the number of references to the cgroup at an address.
    pub fn cgroup_refs(&self, addr: u64) -> u32 {
        let object = self.cgroup_object(addr);
        object.map_or(0, |object| self.cgroups.objects[object as usize].refs)
    }

    /// Returns whether the policy references the cgroup at an address or one of its descendants.
    pub fn is_cgroup_referenced(&self, addr: u64) -> bool {
        self.cgroup_object(addr).is_some_and(|object| self.cgroups.held(object))
    }

    /// Drops all references of the policy, which has been unloaded.
    pub(super) fn drop_all_cgroup_references(&mut self) {
        for object in &mut self.cgroups.objects {
            object.refs = 0;
        }
    }
}

/// Copies a text into the region, zero-terminated, and returns its address.
pub(super) fn copy_text(region: &Region, text: &str) -> u64 {
    let addr = region.alloc(text.len() as u64 + 1).expect("room for a name");
    // SAFETY: the memory was just allocated with sufficient size.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), region.host::<u8>(addr), text.len()) };
    addr
}

/// Returns the depth of a cgroup's path, 0 for the root.
pub(super) fn level(path: &str) -> usize {
    path.split('/').filter(|part| !part.is_empty()).count()
}

/// Returns the nearest ancestor of `path` among `paths`. The first path is the root, which is the
/// default.
pub(super) fn nearest_above(paths: &[&str], path: &str) -> u32 {
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

/// Returns the second last object of a chain, the parent.
pub(super) fn parent_in_chain(chain: &[u32]) -> Option<u32> {
    chain.iter().nth_back(1).copied()
}
