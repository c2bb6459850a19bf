# SPDX-License-Identifier: GPL-2.0-only
"""check.py COMMAND POLICY TRACE: exports a trace, and loads it into Perfetto's trace processor. Compares the figures that
the trace processor computes with those of windtunnel.

COMMAND is the path of windtunnel. TRACE is a trace file that COMMAND wrote in a run of POLICY.
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import time

from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace
from trace_processor import TraceProcessor


def unknown_fields(message):
    """Counts the fields that Perfetto's published format does not define."""
    number = len(UnknownFieldSet(message))
    for field, value in message.ListFields():
        if field.message_type:
            number += sum(map(unknown_fields, value if field.is_repeated else [value]))
    return number


def waits(lines):
    """Counts the wake-ups after which a task waited for a CPU, instead of running at the same instant."""
    woken, number = {}, 0
    for line in lines:
        if match := re.search(r" (\d+\.\d+): sched_waking: .*\bpid=(\d+)", line):
            woken[match[2]] = match[1]
        elif match := re.search(r" (\d+\.\d+): sched_switch: .*\bnext_pid=(\d+)", line):
            number += woken.pop(match[2], match[1]) != match[1]
    return number


class Checks:
    failed = 0

    def same(self, name, found, want):
        verdict = "ok" if found == want else f"FAILED: {want} expected"
        print(f"{name:<58}{found!s:>12}  {verdict}")
        self.failed += found != want


def report(command, *args):
    return subprocess.run([command, "report", *args], check=True, capture_output=True, text=True).stdout


def main(command, policy, trace):
    checks = Checks()
    with tempfile.TemporaryDirectory() as folder:
        native, text = (str(pathlib.Path(folder) / name) for name in ("native", "text"))
        started = time.monotonic()
        report(command, trace, "--perfetto", native)
        took = time.monotonic() - started
        report(command, trace, "--ftrace", text)
        schedstat = [line.split() for line in report(command, trace, "--schedstat").splitlines() if line.startswith("cpu")]
        lines = pathlib.Path(text).read_text().splitlines()
        events = lambda name: sum(f" {name}: " in line for line in lines)
        wakings = events("sched_waking")
        switches, migrations = events("sched_switch"), events("sched_migrate_task")

        message = Trace()
        message.ParseFromString(pathlib.Path(native).read_bytes())
        checks.same("fields that the published format does not have", unknown_fields(message), 0)
        print(f"{len(message.packet)} packets, {pathlib.Path(native).stat().st_size} bytes, written in {took:.1f} s")
        del message

        tp = TraceProcessor(native)
        one = lambda sql: next(iter(tp.query(sql)[0].__dict__.values()))
        errors = "select count(*) from stats where value > 0 and severity in ('error', 'data_loss')"
        checks.same("native: errors and losses that the processor reports", one(errors), 0)
        checks.same("native: switches", one("select count(*) from sched"), switches)
        checks.same("native: wakings", one("select count(*) from ftrace_event where name = 'sched_waking'"), wakings)
        checks.same("native: migrations", one("select count(*) from ftrace_event where name = 'sched_migrate_task'"), migrations)
        # A callback that begins just before the end of the run may end after it.
        end = one("select ts from slice where name = 'end of the run'")
        ran = "select sum(min(iif(dur < 0, {end}, ts + dur), {end}) - ts) from sched where cpu = {0} and utid not in (select utid from thread where tid = 0)"
        for line in schedstat:
            cpu = int(line[0][3:])
            checks.same(f"native: ns that tasks ran on CPU {cpu}", one(ran.format(cpu, end=end)) or 0, int(line[7]))
        wakers = "select count(*) from thread_state where state = 'R' and waker_utid is not null"
        checks.same("native: waits after a wake-up have a waker (arrows)", one(wakers) >= 0.95 * waits(lines), True)
        named = "select count(*) from thread where name is null and utid in (select utid from sched)"
        checks.same("native: threads without a name that ran", one(named), 0)
        callbacks = "select count(*) from slice join args using (arg_set_id) where key = 'debug.instructions' and int_value > 0"
        spans = one("select count(*) from slice where name in ('enqueue', 'dispatch', 'select_cpu')")
        # The built-in fair class has no callbacks.
        with_instructions = one(callbacks) >= spans > 0 if policy != "eevdf" else spans > 0
        checks.same("native: callbacks with instructions", with_instructions, policy != "eevdf")
        moved = "select sum(m) from (select max(value) m from counter join track on track.id = track_id where name glob 'within*' group by track_id)"
        checks.same("native: migrations by distance, together", int(one(moved) or 0), migrations)
        runnable = "select count(*) from counter join track t on t.id = track_id join track p on p.id = t.parent_id where p.name = 'Runnable tasks by {}'"
        checks.same("native: runnable tasks by CPU and by LLC", one(runnable.format("CPU")) > 0 < one(runnable.format("LLC")), True)
        over = "select count(*) from slice where dur < 0"
        checks.same("native: slices without an end", one(over), 0)
        tp.close()

        tp = TraceProcessor(text)
        checks.same("text: switches", tp.query("select count(*) n from sched")[0].n, switches)
        tp.close()
    sys.exit(checks.failed > 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
