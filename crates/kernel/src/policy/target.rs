// SPDX-License-Identifier: GPL-2.0-only
//! Describes the simulated kernel against which BPF objects are linked: the types, functions,
//! variables and configuration of a Linux release on one machine.

use crate::layout;
use crate::layout::release::absent::ABSENT;
use crate::layout::release::{Release, describe};
use crate::layout::{Layout, enums};
use crate::policy::kfuncs;
use crate::simulation::id::CpuId;
use bpf::btf::build::Builder;
use bpf::btf::{Btf, Composite, TypeKind};
use bpf::kstruct;
use bpf::link::Target;
use bpf::object::ProgramKind;
use machine::MachineSpec;
use std::mem::offset_of;

kstruct! {
    struct atomic {
        counter: i32,
    }

    struct class_rcu {
        lock: *mut (),
    }

    /// Result of reading a perf event.
    struct bpf_perf_event_value {
        counter: u64,
        enabled: u64,
        running: u64,
    }

    struct bpf_iter_meta {
        seq: *mut (),
        session_id: u64,
        seq_num: u64,
    }

    struct bpf_iter__task {
        meta: *mut bpf_iter_meta,
        task: *mut layout::task_struct,
    }

    struct bpf_iter_css {
        __opaque: [u64; 3],
    }

    struct bpf_iter_task {
        __opaque: [u64; 3],
    }

    struct bpf_iter_num {
        __opaque: [u64; 1],
    }

    struct bpf_iter_bits {
        __opaque: [u64; 2],
    }

    struct bpf_dynptr {
        __opaque: [u64; 2],
    }

    struct bpf_cpumask {
        cpumask: layout::cpumask,
        usage: i32,
    }
}

kstruct! {
    /// The value of a map of type STRUCT_OPS: the callbacks, behind a header of one cache line.
    struct bpf_struct_ops_sched_ext_ops {
        common: [u64; 8],
        data: layout::sched_ext_ops,
    }

    struct bpf_struct_ops_sched_ext_ops_cid {
        common: [u64; 8],
        data: layout::sched_ext_ops_cid,
    }
}

/// Returns all parts of the simulated kernel that an object can refer to. Weak references to
/// symbols that the release lacks become NULL.
///
/// # Panics
/// If a prototype in the table of kfuncs is not valid C. This is a bug of the simulator.
pub fn target(spec: &MachineSpec, layout: &Layout, release: Release) -> Target {
    let types = types(spec, release);
    let mut target = Target::new(types);
    target.missing_numbers_read_as_0 = true;
    target.ksym("runqueues", layout.rq_addr(CpuId::BOOT));
    target.ksym("cpufreq_cpu_data", layout.cpufreq_cpu_data);
    target.struct_ops("sched_ext_ops");
    if release.has_type("sched_ext_ops_cid") {
        target.struct_ops("sched_ext_ops_cid");
    }
    let own = kfuncs::table_of(&spec.costs, release);
    for func in kfuncs::table(&spec.costs) {
        if own.iter().all(|known| known.name != func.name) {
            let (range, other) = (describe(func.releases), Release::nearest(func.releases, release));
            let why = format!("is not in Linux {release}: it exists {range} (--kernel {other})");
            target.set_missing_reason(func.name, &why);
        }
    }
    for group in ABSENT {
        for name in group.names {
            target.set_missing_reason(name, &format!("is not modelled: {}", group.why));
        }
    }
    for (name, value) in config(spec, release) {
        target.config(name, &value);
    }
    target
}

/// Returns the types, functions and variables of the simulated kernel.
fn types(spec: &MachineSpec, release: Release) -> Builder {
    let mut types = Builder::new();
    add_types(&mut types, release);
    for func in kfuncs::table(&spec.costs) {
        if !func.proto.is_empty()
            && release.is_among(func.releases)
            && let Err(error) = types.declare_func(func.proto)
        {
            panic!("{error}");
        }
    }
    for variable in ["struct rq runqueues", "struct cpufreq_policy *cpufreq_cpu_data"] {
        types.declare_var(variable).expect("the declaration is valid C");
    }
    for (parent, name) in release.absent() {
        match parent {
            Some(parent) => types.remove_member(parent, name),
            None => types.remove_type(name),
        }
    }
    types
}

/// Adds the structs, typedefs and enums that an object can refer to.
fn add_types(types: &mut Builder, release: Release) {
    let cpumask = types.add::<layout::cpumask>();
    types.typedef("cpumask_t", cpumask);
    // The mask at the end of a task_struct has only as many words as the machine needs. An object
    // that uses the size of a mask gets the size that the mask has in a real kernel.
    types.resize(cpumask, layout::MASK_BYTES as u32);
    let cpumask = types.ptr(cpumask);
    types.typedef("cpumask_var_t", cpumask);
    for (name, id) in [
        ("atomic_t", types.add::<atomic>()),
        ("class_rcu_t", types.add::<class_rcu>()),
        ("nodemask_t", types.add::<layout::nodemask>()),
        ("kuid_t", types.add::<layout::kuid>()),
        ("kgid_t", types.add::<layout::kgid>()),
    ] {
        types.typedef(name, id);
    }
    for an_enum in enums::ENUMS {
        let values = release.enumerators(an_enum);
        if values.is_empty() {
            continue;
        }
        let size = if values.iter().any(|&(_, value)| value > u64::from(u32::MAX)) {
            8
        } else {
            4
        };
        let values: Vec<(&str, i64)> = values.iter().map(|&(name, value)| (name, value as i64)).collect();
        types.enumeration(an_enum.name, size, false, &values);
    }
    types.add::<layout::task_struct>();
    let word = types.by_name("unsigned long").expect("C has this type");
    for name in layout::ALWAYS_0 {
        types.add_member("task_struct", name, word, offset_of!(layout::task_struct, stime) as u32);
    }
    let dsq = types.add::<*mut layout::scx_dispatch_q>();
    types.add_member("sched_ext_entity", "dsq", dsq, layout::DSQ_OFFSET as u32);
    let number = types.by_name("int").expect("C has this type");
    let offset = layout::REENQ_CID_OFFSET as u32;
    types.add_member("sched_ext_entity", "reenq_reason_cid", number, offset);
    types.add::<layout::rq>();
    types.add::<layout::cgroup>();
    types.add::<layout::cpuset>();
    types.add::<layout::css_set>();
    types.add::<layout::scx_exit_info>();
    types.add::<layout::scx_init_task_args>();
    types.add::<layout::scx_exit_task_args>();
    types.add::<layout::scx_cgroup_init_args>();
    types.add::<layout::scx_enable_args>();
    types.add::<layout::scx_cpu_acquire_args>();
    types.add::<layout::scx_cpu_release_args>();
    types.add::<layout::scx_dump_ctx>();
    types.add::<layout::scx_event_stats>();
    // Linux 7.3 renamed this counter.
    let counter = types.add::<i64>();
    let offset = offset_of!(layout::scx_event_stats, SCX_EV_REENQ_LOCAL_REPEAT) as u32;
    types.add_member("scx_event_stats", "SCX_EV_REENQ_REPEAT", counter, offset);
    types.add::<layout::scx_bpf_dsq_insert_vtime_args>();
    types.add::<layout::scx_bpf_select_cpu_and_args>();
    types.add::<layout::bpf_iter_scx_dsq>();
    types.add::<layout::scx_cid_topo>();
    types.add::<layout::scx_cmask>();
    types.add::<layout::sched_ext_ops>();
    types.add::<layout::sched_ext_ops_cid>();
    types.add::<layout::scx_sub_attach_args>();
    types.add::<layout::scx_sub_detach_args>();
    types.add::<bpf_perf_event_value>();
    types.add::<bpf_iter__task>();
    types.add::<bpf_iter_css>();
    types.add::<bpf_iter_task>();
    types.add::<bpf_iter_num>();
    types.add::<bpf_iter_bits>();
    types.add::<bpf_dynptr>();
    types.add::<bpf_cpumask>();
}

/// Returns the types of the simulated kernel as a loader in user space finds them in
/// /sys/kernel/btf/vmlinux. `attached` are the functions and tracepoints to which programs are to be
/// attached. They exist, even if the simulated kernel never calls them.
pub fn vmlinux(spec: &MachineSpec, release: Release, attached: &[(ProgramKind, String)]) -> Btf {
    let mut types = types(spec, release);
    types.add::<bpf_struct_ops_sched_ext_ops>();
    if release.has_type("sched_ext_ops_cid") {
        types.add::<bpf_struct_ops_sched_ext_ops_cid>();
    }
    // libbpf refuses the variable cpufreq_cpu_data if it points to a forward declaration here and to
    // a struct in the object.
    let policy = types.forward("cpufreq_policy", false);
    let (size, members) = (0, Vec::new());
    types.define(policy, Composite { size, members });
    let pointer = types.ptr(0);
    for (kind, name) in attached {
        let function = match kind {
            ProgramKind::TpBtf => {
                types.typedef(&format!("btf_trace_{name}"), pointer);
                continue;
            }
            ProgramKind::Fentry | ProgramKind::Fexit | ProgramKind::FmodRet => name.clone(),
            ProgramKind::Iter => format!("bpf_iter_{name}"),
            _ => continue,
        };
        let is_name = function.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if is_name
            && types
                .btf()
                .find(&function, |kind| matches!(kind, TypeKind::Func { .. }))
                .is_none()
        {
            // A name that is no identifier is not declared, and then no program can be attached.
            let _ = types.declare_func(&format!("void {function}(void)"));
        }
    }
    types.finish()
}

/// Returns the configuration of the simulated kernel as the text of a .config file.
pub fn config_file(spec: &MachineSpec, release: Release) -> String {
    let lines = config(spec, release).into_iter();
    let lines = lines.filter(|(name, _)| name.starts_with("CONFIG_"));
    lines.map(|(name, value)| format!("{name}={value}\n")).collect()
}

/// Returns the kernel configuration variables that an object can refer to.
fn config(spec: &MachineSpec, release: Release) -> Vec<(&'static str, String)> {
    let nr_cpus = spec.topology.nr_cpus();
    let y = || "y".to_string();
    vec![
        ("LINUX_KERNEL_VERSION", release.version_code().to_string()),
        ("CONFIG_HZ", spec.hz.to_string()),
        // 8192 as in the kernels of distributions, or more if the machine has more CPUs.
        ("CONFIG_NR_CPUS", nr_cpus.next_multiple_of(64).max(8192).to_string()),
        ("CONFIG_X86_64", y()),
        ("CONFIG_SMP", y()),
        ("CONFIG_NUMA", y()),
        ("CONFIG_SCHED_CLASS_EXT", y()),
        ("CONFIG_EXT_GROUP_SCHED", y()),
        ("CONFIG_NO_HZ_IDLE", y()),
        ("CONFIG_PREEMPT_RCU", y()),
        ("CONFIG_PREEMPT_RT", "n".to_string()),
        ("CONFIG_CC_VERSION_TEXT", "\"gcc 14\"".to_string()),
        ("CONFIG_LOCALVERSION", "\"\"".to_string()),
    ]
}
