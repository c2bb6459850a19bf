// SPDX-License-Identifier: GPL-2.0-only
//! Descriptions of the types of kernel objects: their names, their fields, and the fields that a
//! policy may write.

use crate::layout::{
    cgroup, cpumask, cpuset, cred, css_set, mm_struct, rq, sched_ext_entity, scx_dispatch_q, task_struct,
};
use bpf::btf::build::Builder;
use bpf::btf::{Btf, TypeKind};
use bpf::kstruct::KernelType;
use bpf::memory::ObjectType;
use std::mem::offset_of;

const SCX: usize = offset_of!(task_struct, scx);

/// Offsets and sizes of those fields of a task_struct that a policy may write
/// (bpf_scx_btf_struct_access()).
pub const WRITABLE: [(u64, u64); 3] = [
    ((SCX + offset_of!(sched_ext_entity, slice)) as u64, 8),
    ((SCX + offset_of!(sched_ext_entity, dsq_vtime)) as u64, 8),
    ((SCX + offset_of!(sched_ext_entity, disallow)) as u64, 1),
];

/// Type of the first member of struct cgroup, and of the data of each controller for a cgroup.
const CSS: (u64, &str) = (0, "cgroup_subsys_state");

pub(crate) static TASK: ObjectType = ObjectType {
    name: "task_struct",
    writable: &WRITABLE,
    parts: &[(offset_of!(task_struct, cpus_mask) as u64, "cpumask")],
    field_at: field_at::<task_struct>,
};
pub(crate) static RQ: ObjectType = read_only("rq", &[], field_at::<rq>);
pub(crate) static MASK: ObjectType = read_only("cpumask", &[], field_at::<cpumask>);
pub(crate) static CGROUP: ObjectType = read_only("cgroup", &[CSS], field_at::<cgroup>);
pub(crate) static CSS_SET: ObjectType = read_only("css_set", &[], field_at::<css_set>);
pub(crate) static CPUSET: ObjectType = read_only("cpuset", &[CSS], field_at::<cpuset>);
pub(crate) static DSQ: ObjectType = read_only("scx_dispatch_q", &[], field_at::<scx_dispatch_q>);
pub(crate) static MM: ObjectType = read_only("mm_struct", &[], field_at::<mm_struct>);
pub(crate) static CRED: ObjectType = read_only("cred", &[], field_at::<cred>);

const fn read_only(
    name: &'static str,
    parts: &'static [(u64, &'static str)],
    field_at: fn(u64) -> String,
) -> ObjectType {
    ObjectType {
        name,
        writable: &[],
        parts,
        field_at,
    }
}

/// Returns the C name of the field at the offset `offset` of a struct, for example `scx.flags`.
fn field_at<T: KernelType>(offset: u64) -> String {
    let mut types = Builder::new();
    let ty = types.add::<T>();
    let mut path = Vec::new();
    walk(types.btf(), ty, offset, &mut path);
    match path.is_empty() {
        true => format!("byte {offset}"),
        false => path.join("."),
    }
}

/// Appends the names of the nested members that contain `offset`.
fn walk(btf: &Btf, ty: u32, offset: u64, path: &mut Vec<String>) {
    let ty = btf.resolve(ty);
    if matches!(btf.kind(ty), TypeKind::Array { .. }) {
        return;
    }
    let Some(composite) = btf.composite(ty) else { return };
    let begun = |at: &u32| u64::from(*at / 8) <= offset;
    let Some(member) = composite.members.iter().rfind(|member| begun(&member.bit_offset)) else {
        return;
    };
    path.push(member.name.to_string());
    walk(btf, member.ty, offset - u64::from(member.bit_offset / 8), path);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fields_name_is_the_path_of_its_members() {
        let scx = |field: usize| (TASK.field_at)((SCX + field) as u64);
        assert_eq!(scx(offset_of!(sched_ext_entity, flags)), "scx.flags");
        assert_eq!(scx(offset_of!(sched_ext_entity, slice)), "scx.slice");
        assert_eq!((TASK.field_at)(offset_of!(task_struct, pid) as u64), "pid");
        assert_eq!((TASK.field_at)(size_of::<task_struct>() as u64), "cpus_mask.bits");
        assert_eq!((RQ.field_at)(0), "curr");
    }
}
