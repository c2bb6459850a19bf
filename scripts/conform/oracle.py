#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Executes scripts (docs/scripts.md) in a real kernel, whose scheduler the module step.ko steps.

Scripts with the same number of CPUs share a guest. The kernel and QEMU are those of
scripts/live/fetch.sh.
"""

import argparse
import concurrent.futures
import itertools
import mmap
import os
import pathlib
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time

SHARED = 64 << 20
WORDS = (
    "console=ttyS0 quiet nokaslr panic=-1 maxcpus=1 idle=halt irqaffinity=0 tsc=reliable nowatchdog mitigations=off "
    "no_timer_check cryptomgr.notests noautogroup psi=0 cgroup_disable=perf_event numa_balancing=disable "
    "rcu_nocbs=all rcutree.enable_rcu_lazy=0 rcupdate.rcu_expedited=1 rcupdate.rcu_cpu_stall_suppress=1 workqueue.watchdog_thresh=0"
)
NODES = 4
# Longest time for the boot of a guest and for a script in it, seconds. The host may be busy.
LIMIT = 600


class Crash(Exception):
    """The guest has not answered."""


class Guest:
    """A booted guest with `cpus` driven CPUs."""

    def __init__(self, directory, cpus, limit=LIMIT, accel="tcg,thread=single", extra=(), objects=()):
        self.limit = limit
        self.shared_file = tempfile.NamedTemporaryFile(dir=directory, prefix="shared.")
        self.shared_file.truncate(SHARED)
        self.shared = mmap.mmap(self.shared_file.fileno(), SHARED)
        self.console = pathlib.Path(f"{self.shared_file.name.replace('shared.', 'console.')}")
        self.initrd = tempfile.NamedTemporaryFile(dir=directory, prefix="initrd.") if objects else None
        if objects:
            pack(f"{directory}/conform.cpio", objects, self.initrd)
        initrd = self.initrd.name if objects else f"{directory}/conform.cpio"
        memory = 256
        numa = ["-smp", str(cpus + 1), "-m", str(NODES * memory)]
        for node in range(NODES):
            numa += ["-object", f"memory-backend-ram,id=memory{node},size={memory}M"]
            numa += ["-numa", f"node,nodeid={node},memdev=memory{node}" + (f",cpus=0-{cpus}" if node == 0 else "")]
        for a in range(NODES):
            for b in range(a + 1, NODES):
                numa += ["-numa", f"dist,src={a},dst={b},val=20"]
        # QEMU ends with this process, even if this process is killed.
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "nice", f"{directory}/qemu-system-x86_64"]
            + ["-nodefaults", "-no-user-config", "-no-reboot"]
            + ["-display", "none", "-monitor", "none", "-machine", "q35", "-accel", accel, "-cpu", "Nehalem"]
            + numa
            + ["-object", f"memory-backend-file,id=shared,size={SHARED},mem-path={self.shared_file.name},share=on"]
            + ["-device", "ivshmem-plain,memdev=shared"]
            + ["-kernel", f"{directory}/vmlinux", "-initrd", initrd, "-append", WORDS]
            + ["-serial", f"file:{self.console}", "-chardev", "stdio,id=requests,signal=off"]
            + ["-serial", "chardev:requests"]
            + list(extra),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.buffer = b""
        try:
            self.read_line("ready")
        except Crash:
            self.close(keep_console=True)
            raise

    def read_line(self, word):
        """Returns the next line of the guest that begins with `word`."""
        end = time.monotonic() + self.limit
        while True:
            while b"\n" in self.buffer:
                line, self.buffer = self.buffer.split(b"\n", 1)
                if line.strip().startswith(word.encode()):
                    return line.decode().strip()
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise Crash(f"the guest does not answer for {self.limit} s; its console is {self.console}")
            data = os.read(self.process.stdout.fileno(), 4096)
            if not data:
                raise Crash(f"the guest has ended; its console is {self.console}")
            self.buffer += data

    def run(self, script):
        """Executes a script, and returns its log."""
        data = script.encode()
        self.shared[: len(data)] = data
        self.process.stdin.write(f"run {len(data)}\n".encode())
        self.process.stdin.flush()
        length = int(self.read_line("done").split()[1])
        return self.shared[SHARED // 2 : SHARED // 2 + length].decode()

    def close(self, keep_console=False):
        """Ends the guest."""
        self.process.kill()
        self.process.wait()
        if not keep_console:
            self.console.unlink(missing_ok=True)
        self.shared.close()
        self.shared_file.close()
        if self.initrd:
            self.initrd.close()


def pack(base, objects, out):
    """Writes the guest's file system `base` to the file `out`, and adds objects of policies to it."""
    with tempfile.TemporaryDirectory() as root:
        folder = pathlib.Path(root, "target/policies")
        folder.mkdir(parents=True)
        for path in objects:
            shutil.copy(path, folder)
        names = "\n".join(f"target/policies/{path.name}" for path in objects)
        command = ["cpio", "-o", "-H", "newc", "-R", "0:0", "--quiet"]
        archive = subprocess.run(command, cwd=root, input=names.encode(), stdout=subprocess.PIPE, check=True)
    # The kernel extracts archives that follow each other. Each begins at a multiple of four bytes.
    data = pathlib.Path(base).read_bytes()
    out.write(data + bytes(-len(data) % 4) + archive.stdout)
    out.flush()


def objects_of(folders, scripts):
    """Returns the objects of the policies that the scripts name, and profiles beside them. The first folder wins."""
    texts = "\n".join(text for _, text in scripts)
    names = re.findall(r"^\s*(?:policy|attach\s+\S+)\s+(\S+)", texts, re.M)
    found = {}
    for name in names:
        for folder, suffix in itertools.product(folders, (".bpf.o", ".toml")):
            path = folder / f"{name}{suffix}"
            if path.is_file():
                found.setdefault(path.name, path)
    return list(found.values())


def cpus_of(path, script):
    """Returns the number of CPUs of a script's machine."""
    found = re.search(r"^\s*machine\b.*\bcpus=(\d+)", script, re.M)
    if not found or not 1 <= int(found[1]) <= 16:
        raise SystemExit(f"oracle: {path}: expected a line `machine cpus=N` with N from 1 to 16")
    return int(found[1])


def run_all(options, cpus, scripts, done):
    """Executes scripts in one guest, and calls done(path, log). After a crash, boots another guest."""
    begun = time.monotonic()
    objects = objects_of(options.policies, scripts)
    guest = Guest(options.dir, cpus, limit=options.limit, accel=options.accel, objects=objects)
    booted = time.monotonic()
    for path, text in scripts:
        try:
            done(path, guest.run(text))
        except Crash as crash:
            done(path, crash)
            guest.close(keep_console=True)
            guest = Guest(options.dir, cpus, limit=options.limit, accel=options.accel, objects=objects)
    guest.close()
    end = time.monotonic()
    print(f"oracle: {cpus} CPUs: boot {booted - begun:.1f} s, {len(scripts)} scripts {end - booted:.1f} s", file=sys.stderr)


def compare(path, log):
    """Compares a log with the file beside the script. Returns the first difference, or None."""
    expected = path.with_suffix(".log")
    if not expected.exists():
        return f"{expected} is missing"
    command = "?"
    for old, new in itertools.zip_longest(expected.read_text().splitlines(), log.splitlines()):
        if new and new.startswith("> "):
            command = new
        if old != new:
            return f"after `{command}`:\n  committed: {old}\n  now:       {new}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", default="target/live", help="directory with the kernel, QEMU and the guest")
    parser.add_argument("--accel", default="tcg,thread=single", help="QEMU's accelerator")
    parser.add_argument(
        "--policies",
        type=pathlib.Path,
        action="append",
        default=[],
        metavar="DIR",
        help="directory with objects, NAME.bpf.o, and profiles, NAME.toml, of policies with these names (may be repeated)",
    )
    parser.add_argument(
        "--limit", type=float, default=LIMIT, metavar="SECONDS", help="longest time for a boot and for a script (default: %(default)s)"
    )
    parser.add_argument("-j", "--jobs", type=int, default=1, help="number of guests that run at the same time")
    parser.add_argument("-o", "--out", type=pathlib.Path, help="write the logs into this directory")
    parser.add_argument("--update", action="store_true", help="write each log beside its script")
    parser.add_argument("--check", action="store_true", help="compare each log with the one beside its script")
    parser.add_argument("scripts", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    if not (options.out or options.update or options.check):
        parser.error("expected -o DIR, --update or --check")
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
    groups = {}
    for path in options.scripts:
        text = path.read_text()
        groups.setdefault(cpus_of(path, text), []).append((path, text))
    failed = []

    def done(path, log):
        if isinstance(log, Crash):
            failed.append(f"{path}: {log}")
            return
        if options.out:
            (options.out / f"{path.stem}.log").write_text(log)
        if options.update:
            path.with_suffix(".log").write_text(log)
        if options.check and (difference := compare(path, log)):
            failed.append(f"{path}: {difference}")

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        size = max(1, -(-len(options.scripts) // options.jobs))
        runs = [
            pool.submit(run_all, options, cpus, scripts[at : at + size], done)
            for cpus, scripts in sorted(groups.items())
            for at in range(0, len(scripts), size)
        ]
        for run in runs:
            try:
                run.result()
            except Crash as crash:
                failed.append(str(crash))
    for failure in failed:
        print(f"oracle: {failure}", file=sys.stderr)
    print(f"oracle: {len(options.scripts)} scripts, {len(failed)} failed", file=sys.stderr)
    sys.exit(len(failed) > 0)


if __name__ == "__main__":
    main()
