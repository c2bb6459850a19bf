// SPDX-License-Identifier: GPL-2.0-only
//! kfuncs with which a policy ends itself, reports an error, writes to the debug dump or reads the
//! event counters.

use super::Kfunc;
use crate::layout::enums::SCX_EXIT_MSG_LEN;
use crate::machine::Machine;
use crate::sched::ext::dump;
use crate::sched::ext::exit;
use crate::sched::ext::state::exit_info::ExitKind;
use bpf::errno::long::{EFAULT, EINVAL};
use bpf::fault::Fault;
use bpf::helper::print;
use bpf::rows::*;

pub(super) fn table() -> Vec<Kfunc> {
    bpf::kfuncs! {
        "void scx_bpf_exit_bstr(s64 exit_code, char *fmt, unsigned long long *data, u32 data__sz)"
        { releases: V6_12.., contexts: ANY, rules: PLAIN, native: CALL, run: scx_bpf_exit_bstr }
        "void scx_bpf_error_bstr(char *fmt, unsigned long long *data, u32 data__sz)"
        { releases: V6_12.., contexts: ANY, rules: PLAIN, native: CALL, run: scx_bpf_error_bstr }
        "void scx_bpf_dump_bstr(char *fmt, unsigned long long *data, u32 data__sz)"
        { releases: V6_12.., contexts: ANY, rules: PLAIN, native: CALL, run: scx_bpf_dump_bstr }
        "void scx_bpf_events(struct scx_event_stats *events, size_t events__sz)"
        { releases: V6_15.., contexts: ANY, rules: PLAIN, native: CALL, run: scx_bpf_events }
    }
}

/// Maximum length of a formatted text in bytes. The callers may shorten it further.
const MAX_TEXT_BYTES: usize = SCX_EXIT_MSG_LEN as usize + 3;

/// Formats a text with its arguments (__bstr_format()).
///
/// # Errors
/// If the arguments are invalid, reports a policy error and returns an errno.
pub(super) fn format(m: &mut Machine, fmt: u64, data: u64, size: u32) -> Result<Result<String, i64>, Fault> {
    if !print::args_fit(data, size) {
        exit::error(m, format!("invalid data={data:016x} and data__sz={size}"));
        return Ok(Err(EINVAL));
    }
    let Ok(args) = print::read_args(&m.region, data, size) else {
        exit::error(m, format!("failed to read data fields ({})", -EFAULT));
        return Ok(Err(EFAULT));
    };
    let fmt = print::read_format(&m.region, fmt)?;
    print::charge(m, &fmt, MAX_TEXT_BYTES)?;
    let text = print::bprintf(&m.region, &fmt, &args, MAX_TEXT_BYTES);
    if let Err(error) = text {
        exit::error(m, format!("format preparation failed ({})", -error));
    }
    Ok(text.map(|text| String::from_utf8_lossy(&text.bytes).into_owned()))
}

fn scx_bpf_exit_bstr(m: &mut Machine, code: i64, fmt: u64, data: u64, size: u32) -> Result<(), Fault> {
    if let Ok(text) = format(m, fmt, data, size)? {
        exit::exit(m, ExitKind::UnregBpf, code, text);
    }
    Ok(())
}

fn scx_bpf_error_bstr(m: &mut Machine, fmt: u64, data: u64, size: u32) -> Result<(), Fault> {
    if let Ok(text) = format(m, fmt, data, size)? {
        exit::exit(m, ExitKind::ErrorBpf, 0, text);
    }
    Ok(())
}

fn scx_bpf_dump_bstr(m: &mut Machine, fmt: u64, data: u64, size: u32) -> Result<(), Fault> {
    if !dump::is_open(m) {
        exit::error(m, "scx_bpf_dump() must only be called from ops.dump() and friends");
        return Ok(());
    }
    match format(m, fmt, data, size)? {
        Ok(text) => dump::print(m, &text),
        Err(error) => {
            let fmt = print::read_format(&m.region, fmt)?;
            let fmt = String::from_utf8_lossy(&fmt);
            let line = format!("[!] (\"{fmt}\", {data:016x}, {size}) failed to format ({})", -error);
            dump::print_line(m, &line);
        }
    }
    Ok(())
}

/// Copies the event counters into the policy's struct. If the struct is too small, only the part
/// that fits is copied.
fn scx_bpf_events(m: &mut Machine, events: u64, size: u64) -> Result<(), Fault> {
    let nr = m.ext.stats.named(m.ext.is_linux_7_3).len();
    let counts = m.ext.stats.all().take(nr);
    let bytes: Vec<u8> = counts.flat_map(|(_, count)| count.to_le_bytes()).collect();
    let len = bytes.len().min(size as usize);
    m.region.write(events, &bytes[..len])
}
