// SPDX-License-Identifier: GPL-2.0-only
//! Tests `machine calibrate`. The command must write a machine file with measured costs, and this
//! machine must be usable in a simulation.

use crate::support::windtunnel;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn the_written_machine_file_is_valid_and_can_be_simulated() {
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("calibrated.toml");
    let name = file.to_str().expect("the path is UTF-8");
    // This thread makes the host busy for the command.
    let done = AtomicBool::new(false);
    let ran = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let ran = windtunnel(&["machine", "calibrate", "-o", name]);
        done.store(true, Ordering::Relaxed);
        ran
    });
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let warning = "windtunnel: warning: the host is busy, so costs may be too high: before the measurement, other ";
    assert!(ran.stderr.contains(warning), "{}", ran.stderr);
    let text = std::fs::read_to_string(&file).expect("the file can be read");
    let repeated = "\n# Warning: the host is busy, so costs may be too high: other programs used ";
    assert!(text.contains(repeated), "{text}");
    let definition = machine::define(name, &[]).expect("the machine file is valid");
    let host = machine::load("host", &[]).expect("the host can be described as a machine");
    assert_eq!(definition.spec.topology.cpus, host.topology.cpus);
    for constant in [
        "bpf_insn",
        "context_switch",
        "thread",
        "fork_start",
        "thread_start",
        "thread_exit",
        "user_lock",
        "tcp_segment",
        "channel.pipe",
        "channel.unix_stream",
        "channel.unix_datagram",
        "channel.tcp",
        "channel.futex",
        "channel.eventfd",
        "cache_line",
        "lock_handover",
        "reload_memory",
    ] {
        let source = definition.cost_sources.get(constant).map_or("", String::as_str);
        assert!(source.starts_with("measured"), "{constant}: {source}");
    }
    // The costs of interrupts are either measured, or the file says why they are not.
    for constant in ["timer_irq", "ipi_receive", "ipi_send", "softirq"] {
        let source = definition.cost_sources.get(constant).map_or("", String::as_str);
        let kept = text.contains(&format!("# {constant} keeps its default value: "));
        assert!(source.starts_with("measured") != kept, "{constant}: {source}");
    }
    let costs = &definition.spec.costs;
    assert!(
        (20..100_000).contains(&costs.context_switch_ns),
        "{}",
        costs.context_switch_ns
    );
    // The figures depend on what else runs on this host, so this test does not compare them with each
    // other. A socket never takes less than a nanosecond to send a message.
    assert!(costs.channel.unix_stream.send_ns > 0 && costs.channel.tcp.send_ns > 0);
    let run = [
        "run",
        "eevdf",
        "--machine",
        name,
        "--workload",
        "hackbench:groups=1,loops=2",
    ];
    let ran = windtunnel(&run);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
}
