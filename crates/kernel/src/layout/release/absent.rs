// SPDX-License-Identifier: GPL-2.0-only
//! The helpers and kfuncs of Linux that a scheduler may call but that are not modelled, each with the
//! reason. Linux 7.2 and 7.3 have the same functions in kernel/bpf. A refused or warned-about object
//! and docs/surface.md show these reasons.

/// Functions that are not modelled for the same reason.
pub struct Absent {
    pub names: &'static [&'static str],
    /// The reason, which continues the sentence "it is not modelled:".
    pub why: &'static str,
}

pub const ABSENT: &[Absent] = &[
    Absent {
        names: &["bpf_tail_call"],
        why: "maps of programs are not modelled",
    },
    Absent {
        names: &[
            "bpf_copy_from_user",
            "bpf_copy_from_user_task",
            "bpf_copy_from_user_dynptr",
            "bpf_copy_from_user_str",
            "bpf_copy_from_user_str_dynptr",
            "bpf_copy_from_user_task_dynptr",
            "bpf_copy_from_user_task_str",
            "bpf_copy_from_user_task_str_dynptr",
            "bpf_probe_write_user",
        ],
        why: "tasks have no user memory",
    },
    Absent {
        names: &[
            "bpf_probe_read_kernel_dynptr",
            "bpf_probe_read_kernel_str_dynptr",
            "bpf_probe_read_user_dynptr",
            "bpf_probe_read_user_str_dynptr",
        ],
        why: "no known policy reads through dynptrs; `bpf_probe_read_kernel` exists",
    },
    Absent {
        names: &[
            "bpf_find_vma",
            "bpf_iter_task_vma_new",
            "bpf_iter_task_vma_next",
            "bpf_iter_task_vma_destroy",
        ],
        why: "tasks have no address space",
    },
    Absent {
        names: &[
            "bpf_get_task_stack",
            "bpf_task_pt_regs",
            "bpf_get_branch_snapshot",
            "bpf_stream_print_stack",
            "bpf_get_func_ip",
        ],
        why: "tasks have no registers, stacks or machine code",
    },
    Absent {
        names: &["bpf_send_signal", "bpf_send_signal_thread", "bpf_send_signal_task"],
        why: "signals are not modelled",
    },
    Absent {
        names: &["bpf_task_work_schedule_signal", "bpf_task_work_schedule_resume"],
        why: "the scheduled work would run on return to user space, which is not modelled",
    },
    Absent {
        names: &["bpf_get_cgroup_classid", "bpf_task_get_cgroup1"],
        why: "cgroup v1 is not modelled",
    },
    Absent {
        names: &["bpf_current_task_under_cgroup"],
        why: "needs a map of cgroups that user space fills; `bpf_task_under_cgroup` exists",
    },
    Absent {
        names: &["bpf_cgroup_read_xattr"],
        why: "cgroups have no extended attributes",
    },
    Absent {
        names: &[
            "bpf_iter_css_task_new",
            "bpf_iter_css_task_next",
            "bpf_iter_css_task_destroy",
        ],
        why: "the kernel allows them only in LSM and iterator programs",
    },
    Absent {
        names: &["bpf_snprintf_btf"],
        why: "prints a kernel object by its type in the kernel's BTF, but the simulated kernel has only a part of this BTF",
    },
    Absent {
        names: &[
            "bpf_dynptr_from_file",
            "bpf_dynptr_file_discard",
            "bpf_verify_pkcs7_signature",
            "bpf_key_put",
            "bpf_lookup_system_key",
            "bpf_lookup_user_key",
        ],
        why: "files and keys are not modelled",
    },
    Absent {
        names: &[
            "bpf_crypto_ctx_acquire",
            "bpf_crypto_ctx_create",
            "bpf_crypto_ctx_release",
            "bpf_crypto_decrypt",
            "bpf_crypto_encrypt",
        ],
        why: "the kernel does not allow schedulers to call them",
    },
    Absent {
        names: &[
            "bpf_get_kmem_cache",
            "bpf_iter_kmem_cache_new",
            "bpf_iter_kmem_cache_next",
            "bpf_iter_kmem_cache_destroy",
            "bpf_iter_dmabuf_new",
            "bpf_iter_dmabuf_next",
            "bpf_iter_dmabuf_destroy",
        ],
        why: "memory management is not modelled",
    },
    Absent {
        names: &["bpf_map_sum_elem_count"],
        why: "is meant for the kernel's map iterators, which are not modelled",
    },
    Absent {
        names: &["bpf_arena_reserve_pages"],
        why: "no known policy reserves addresses without pages",
    },
    Absent {
        names: &["bpf_get_lowcore"],
        why: "exists only on s390",
    },
    Absent {
        names: &["crash_kexec"],
        why: "there is no crash kernel",
    },
];

/// Returns why a function is not modelled, or `None` if it is modelled or unknown.
pub fn why_absent(name: &str) -> Option<&'static str> {
    let found = ABSENT.iter().find(|group| group.names.contains(&name));
    found.map(|group| group.why)
}
