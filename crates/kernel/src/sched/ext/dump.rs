// SPDX-License-Identifier: GPL-2.0-only
//! The debug dump of a failed policy. It contains the state of the machine in the format of
//! scx_dump_state(), and the output of ops.dump(), ops.dump_cpu() and ops.dump_task(). It contains
//! no kernel stacks, because the simulator has none.

use super::ops::{self};
use super::rescue;
use crate::layout::callbacks::Callback;
use crate::layout::enums::{SCX_EXIT_MSG_LEN, SCX_TASK_STATE_MASK, SCX_TASK_STATE_SHIFT};
use crate::layout::scx_dump_ctx;
use crate::machine::Machine;
use crate::sched::class::state::Class;
use crate::sched::ext::state::dump_text::*;
use crate::sched::ext::state::entity::OpsState;
use crate::sched::ext::state::exit_info;
use crate::sched::ext::state::exit_info::Exit;
use crate::sched::ext::state::ops_table::Frame;
use crate::sched::ext::state::scheds::SchedId;
use crate::sched::state::task::State;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use std::fmt::Write;
use std::mem::offset_of;

/// Returns whether an ops.dump*() callback is running.
pub(crate) fn is_open(m: &Machine) -> bool {
    m.ext.dump.open
}

/// Appends output of the policy (scx_bpf_dump) to the current line of the dump. The line is written
/// at a newline, or when it reaches the maximum length of an exit message.
pub(crate) fn print(m: &mut Machine, text: &str) {
    let dump = &mut m.ext.dump;
    dump.line.push_str(text);
    let full = dump.line.len() >= SCX_EXIT_MSG_LEN as usize;
    exit_info::truncate(&mut dump.line, SCX_EXIT_MSG_LEN as usize - 1);
    if full || dump.line.ends_with('\n') {
        dump.flush();
    }
}

/// Adds to the dump a line of the kernel, between the lines of the policy's output.
pub(crate) fn print_line(m: &mut Machine, line: &str) {
    let dump = &mut m.ext.dump;
    if dump.text.len() <= dump.max {
        let _ = writeln!(dump.text, "{}{line}", dump.prefix);
    }
}

/// Returns the dump of a policy that ends with the exit record `exit`. The dump is cut to the
/// length that the policy requested.
pub(super) fn state(m: &mut Machine, exit: &Exit) -> String {
    let region = &m.region;
    let reason = format!("{}\0", exit.reason);
    let addresses = region
        .alloc(size_of::<scx_dump_ctx>() as u64)
        .zip(region.alloc(reason.len() as u64));
    let Some((context, reason_addr)) = addresses else {
        return String::new();
    };
    let at = |offset: usize| context + offset as u64;
    let written = region
        .store(at(offset_of!(scx_dump_ctx, kind)), exit.kind as u32)
        .and_then(|()| region.store(at(offset_of!(scx_dump_ctx, exit_code)), exit.code))
        .and_then(|()| region.store(at(offset_of!(scx_dump_ctx, reason)), reason_addr))
        .and_then(|()| region.store(at(offset_of!(scx_dump_ctx, at_ns)), m.now))
        .and_then(|()| region.store(at(offset_of!(scx_dump_ctx, at_jiffies)), m.jiffies()))
        .and_then(|()| region.write(reason_addr, reason.as_bytes()));
    debug_assert!(written.is_ok());
    let max = m.ext.exit_dump_len().min(MAX_DUMP);
    m.ext.dump = Dump {
        context,
        max,
        ..Dump::default()
    };
    header(m, exit);
    cpus(m, exit);
    let out = &mut m.ext.dump.text;
    out.push_str("\nEvent counters\n--------------\n");
    for (name, value) in m.ext.stats.named(m.ext.is_linux_7_3) {
        let _ = writeln!(out, "{name:>40}: {value:16}");
    }
    let mut text = std::mem::take(&mut m.ext.dump).text;
    m.region.free(context);
    m.region.free(reason_addr);
    if text.len() >= max {
        let mut end = max.saturating_sub(TRUNCATED.len() + 1);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str(TRUNCATED);
    }
    text
}

/// Writes the exit kind, the reason, the backtrace and the output of ops.dump().
fn header(m: &mut Machine, exit: &Exit) {
    let curr = m.rqs[m.this_cpu].curr;
    let curr_name = name(m, curr, m.this_cpu);
    let current = m.ext.current_sched();
    let mut place = place_of(m, current);
    if current != SchedId::ROOT {
        let cgroup = m.workload.cgroups.get(m.ext.sched(current).cgroup as usize);
        place += &cgroup.map_or(String::new(), |cgroup| format!(" {}", cgroup.path));
    }
    let out = &mut m.ext.dump.text;
    let _ = writeln!(out, "{}: {place}", exit.policy);
    let kind = exit.kind as u32;
    let _ = match exit.cpu {
        ..0 => writeln!(out, "{curr_name} triggered exit kind {kind}:"),
        cpu => writeln!(out, "{curr_name} triggered exit kind {kind} on CPU {cpu}:"),
    };
    let _ = writeln!(out, "  {} ({})\n\nBacktrace:", exit.reason, exit.message);
    for place in &exit.backtrace {
        let _ = writeln!(out, "  {place}");
    }
    let context = m.ext.dump.context;
    callback(m, Callback::Dump, "", Frame::NONE, &[context]);
    m.ext.dump.text.push_str("\nCPU states\n----------\n");
}

/// Writes the state of all CPUs, starting with the one on which the policy failed.
fn cpus(m: &mut Machine, exit: &Exit) {
    let first = m.cpu_id(exit.cpu);
    let waiting = m.runnable_lists();
    if let Some(cpu) = first {
        cpu_state(m, cpu, &waiting[cpu.index()]);
    }
    for cpu in m.cpus() {
        if Some(cpu) != first {
            cpu_state(m, cpu, &waiting[cpu.index()]);
        }
    }
}

/// Writes the state of a CPU and of its tasks. An idle CPU is omitted unless ops.dump_cpu() prints
/// something about it.
fn cpu_state(m: &mut Machine, cpu: CpuId, waiting: &[TaskId]) {
    let curr = m.rqs[cpu].curr;
    let idle = waiting.is_empty() && curr == IDLE;
    if idle && !m.ext.has_op(Callback::DumpCpu) {
        return;
    }
    let (curr_name, class) = (name(m, curr, cpu), class_name(m.class_of(curr)));
    let before = m.ext.dump.text.len();
    let rescues = m.ext.is_linux_7_3.then(|| rescue::describe(m, cpu));
    let rq = &m.rqs[cpu].ext;
    let out = &mut m.ext.dump.text;
    let _ = writeln!(
        out,
        "\nCPU {cpu:<4}: nr_run={} flags=0x{:x} cpu_rel={} ksync={}",
        rq.nr_running,
        rq.flags(),
        u32::from(rq.cpu_released),
        rq.kick_sync
    );
    if let Some(rescues) = rescues {
        let _ = writeln!(out, "          {rescues}");
    }
    let _ = writeln!(out, "          curr={curr_name} class={class}");
    let used = out.len();
    let context = m.ext.dump.context;
    let frame = Frame::locked(cpu);
    let cpu_arg = m.ext.cids.arg(cpu);
    callback(m, Callback::DumpCpu, "  ", frame, &[context, cpu_arg, u64::from(idle)]);
    if idle && m.ext.dump.text.len() == used {
        m.ext.dump.text.truncate(before);
        return;
    }
    if curr != IDLE && m.tasks[curr].class == Class::Ext {
        task_state(m, cpu, curr, '*');
    }
    for &task in waiting {
        task_state(m, cpu, task, ' ');
    }
}

/// Returns the place of a policy in the hierarchy, as the kernel shows it in a dump.
fn place_of(m: &Machine, id: SchedId) -> String {
    match id {
        SchedId::ROOT => "root".to_owned(),
        _ => format!(
            "sub{}-{}",
            m.ext.level_of(id),
            m.layout.cgroup_id(m.ext.sched(id).cgroup)
        ),
    }
}

/// Writes the state of a task (scx_dump_task). The dump of a sub-scheduler contains only its own
/// tasks.
fn task_state(m: &mut Machine, cpu: CpuId, task: TaskId, marker: char) {
    let (sched, current) = (m.tasks[task].ext.sched, m.ext.current_sched());
    if current != SchedId::ROOT && sched != current {
        return;
    }
    let place = format!("{}{}", if sched == current { "*" } else { "" }, place_of(m, sched));
    let dsq = m.ext.dsqs.current(task);
    let dsq_id = if dsq == crate::sched::ext::state::dsq::NO_DSQ {
        "(n/a)".to_string()
    } else {
        format!("0x{:x}", m.ext.dsqs.id(dsq))
    };
    let on_priq = u32::from(m.ext.dsqs.on_priq(task));
    let tick_ms = (m.tick_ns() / 1_000_000).max(1);
    let jiffies = m.jiffies();
    let scx = *m.scx_entity(task);
    let t = &m.tasks[task];
    let state = match t.state() {
        State::Running | State::Waking => 'R',
        State::Interruptible => 'S',
        State::Uninterruptible => 'D',
        State::Dead => 'X',
    };
    let ops_state = match t.ext.ops_state {
        OpsState::None => 0,
        OpsState::Queueing => 1,
        OpsState::Queued => 2,
    };
    let qseq = if ops_state == 0 { 0 } else { t.ext.qseq };
    let waited_ms = jiffies.saturating_sub(scx.runnable_at) * tick_ms;
    let state_mask = SCX_TASK_STATE_MASK as u32;
    let cpus = m.cpus_ptr(task);
    let text = format!(
        "\n {marker}{state} {}[{}] {place} {:+}ms\n\
         \x20     scx_state/flags={}/0x{:x} dsq_flags=0x{on_priq:x} ops_state/qseq={ops_state}/{qseq}\n\
         \x20     sticky/holding_cpu={}/{} dsq_id={dsq_id}\n\
         \x20     dsq_vtime={} slice={} weight={}\n\
         \x20     cpus={} no_mig={}\n",
        t.comm(),
        t.pid(),
        -(waited_ms as i64),
        (scx.flags & state_mask) >> SCX_TASK_STATE_SHIFT,
        scx.flags & !state_mask,
        scx.sticky_cpu,
        scx.holding_cpu,
        scx.dsq_vtime,
        scx.slice,
        scx.weight,
        mask(|index| cpus.word(index), m.nr_cpus()),
        t.migration_disabled(),
    );
    let addr = t.addr();
    m.ext.dump.text.push_str(&text);
    let context = m.ext.dump.context;
    let frame = Frame::locked(cpu);
    callback(m, Callback::DumpTask, "    ", frame, &[context, addr]);
}

/// Calls a dump callback of the policy, if the policy defines it.
fn callback<const N: usize>(m: &mut Machine, op: Callback, prefix: &'static str, frame: Frame, args: &[u64; N]) {
    if !m.ext.has_op(op) {
        return;
    }
    let dump = &mut m.ext.dump;
    (dump.prefix, dump.first, dump.open) = (prefix, true, true);
    ops::call_framed(m, op, frame, args);
    let dump = &mut m.ext.dump;
    dump.flush();
    dump.open = false;
}

/// Returns the name and pid of a task, in the kernel's format.
fn name(m: &Machine, task: TaskId, cpu: CpuId) -> String {
    if task == IDLE {
        return format!("swapper/{cpu}[0]");
    }
    let t = &m.tasks[task];
    format!("{}[{}]", t.comm(), t.pid())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::cpuset::CpuSet;

    #[test]
    fn masks_are_printed_as_the_kernel_does() {
        let printed = |nr_cpus, cpus: &[u32]| {
            let set = CpuSet::from_cpus(nr_cpus, cpus);
            mask(|index| set.words()[index as usize], nr_cpus)
        };
        assert_eq!(printed(6, &[0, 5]), "21");
        assert_eq!(printed(40, &[0, 33, 39]), "82,00000001");
        assert_eq!(printed(64, &[63]), "80000000,00000000");
    }

    #[test]
    fn output_of_a_policy_is_indented_line_by_line() {
        let mut dump = Dump {
            prefix: "  ",
            first: true,
            open: true,
            max: 1000,
            ..Dump::default()
        };
        dump.line.push_str("one\ntwo\n");
        dump.flush();
        dump.line.push_str("rest");
        dump.flush();
        assert_eq!(dump.text, "\n  one\n  two\n  rest\n");
    }
}
