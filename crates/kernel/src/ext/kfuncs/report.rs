// SPDX-License-Identifier: GPL-2.0-only
//! kfuncs by which a policy speaks: it exits, errs, adds to the debug dump, and reads what befell it.

use super::super::dump;
use super::super::exit::{self, Kind};
use super::{Kfunc, kfunc};
use crate::machine::Machine;
use bpf::func::{ANY, Fault};
use bpf::helper::print::bstr;

/// Arguments of one format (MAX_BPRINTF_VARARGS).
const MAX_ARGS: u32 = 12;

pub(super) fn table() -> Vec<Kfunc> {
    vec![
        kfunc(
            ANY,
            "void scx_bpf_exit_bstr(s64 exit_code, char *fmt, unsigned long long *data, u32 data__sz)",
            scx_bpf_exit_bstr,
        ),
        kfunc(
            ANY,
            "void scx_bpf_error_bstr(char *fmt, unsigned long long *data, u32 data__sz)",
            scx_bpf_error_bstr,
        ),
        kfunc(
            ANY,
            "void scx_bpf_dump_bstr(char *fmt, unsigned long long *data, u32 data__sz)",
            scx_bpf_dump_bstr,
        ),
        kfunc(
            ANY,
            "void scx_bpf_events(struct scx_event_stats *events, size_t events__sz)",
            scx_bpf_events,
        ),
    ]
}

/// The text of a format and its arguments; `None` if they are invalid, which is the policy's error.
fn format(m: &mut Machine, fmt: u64, data: u64, size: u32) -> Result<Option<String>, Fault> {
    if !size.is_multiple_of(8) || size > MAX_ARGS * 8 || size > 0 && data == 0 {
        exit::error(m, format!("invalid data={data:#x} and data__sz={size}"));
        return Ok(None);
    }
    bstr(&m.region, fmt, data, size).map(Some)
}

fn scx_bpf_exit_bstr(m: &mut Machine, code: i64, fmt: u64, data: u64, size: u32) -> Result<(), Fault> {
    if let Some(text) = format(m, fmt, data, size)? {
        exit::exit(m, Kind::UnregBpf, code, text);
    }
    Ok(())
}

fn scx_bpf_error_bstr(m: &mut Machine, fmt: u64, data: u64, size: u32) -> Result<(), Fault> {
    if let Some(text) = format(m, fmt, data, size)? {
        exit::exit(m, Kind::ErrorBpf, 0, text);
    }
    Ok(())
}

fn scx_bpf_dump_bstr(m: &mut Machine, fmt: u64, data: u64, size: u32) -> Result<(), Fault> {
    if let Some(text) = format(m, fmt, data, size)? {
        dump::print(m, &text);
    }
    Ok(())
}

/// Copies as much as the policy's struct holds.
fn scx_bpf_events(m: &mut Machine, events: u64, size: u64) -> Result<(), Fault> {
    let bytes: Vec<u8> = m.ext.stats.named().flat_map(|(_, count)| count.to_le_bytes()).collect();
    let len = bytes.len().min(size as usize);
    m.region.bytes_mut(events, len as u64)?.copy_from_slice(&bytes[..len]);
    Ok(())
}
