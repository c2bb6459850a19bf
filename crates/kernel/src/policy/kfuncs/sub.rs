// SPDX-License-Identifier: GPL-2.0-only
//! kfuncs with which a policy controls its sub-schedulers (Linux 7.3).

use super::{Kfunc, report};
use crate::machine::Machine;
use crate::sched::ext::state::exit_info::ExitKind;
use crate::sched::ext::{caps, exit, sub};
use bpf::fault::Fault;
use bpf::rows::*;

pub(super) fn table() -> Vec<Kfunc> {
    bpf::kfuncs! {
        "s32 scx_bpf_sub_grant(u64 cgroup_id, u64 caps, const struct scx_cmask *cmask__arena, \
         struct scx_cmask *denied_out__arena__nullable)"
        { releases: V7_3.., contexts: ANY, rules: PLAIN, native: CALL, run: caps::grant }
        "void scx_bpf_sub_revoke(u64 cgroup_id, u64 caps, const struct scx_cmask *cmask__arena)"
        { releases: V7_3.., contexts: ANY, rules: PLAIN, native: CALL, run: caps::revoke }
        "s32 scx_bpf_sub_caps(u64 cgroup_id, u64 caps, struct scx_cmask *out__arena)"
        { releases: V7_3.., contexts: ANY, rules: PLAIN, native: CALL, run: caps::read }
        "s32 scx_bpf_sub_kill_bstr(u64 cgroup_id, char *fmt, unsigned long long *data, u32 data__sz)"
        { releases: V7_3.., contexts: ANY, rules: PLAIN, native: CALL, run: scx_bpf_sub_kill_bstr }
    }
}

fn scx_bpf_sub_kill_bstr(m: &mut Machine, cgroup_id: u64, fmt: u64, data: u64, size: u32) -> Result<i32, Fault> {
    let child = match caps::direct_child(m, cgroup_id) {
        Ok(child) => child,
        Err(errno) => return Ok(errno),
    };
    if let Ok(text) = report::format(m, fmt, data, size)? {
        sub::in_sched(m, child, |m| exit::exit(m, ExitKind::ParentKill, 0, text));
    }
    Ok(0)
}
