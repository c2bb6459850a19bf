#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""museum.py SCX WINDTUNNEL [COMMIT...]: explores public schedulers before and after commits that mended a race or a stall.

SCX is a clone of https://github.com/sched-ext/scx, bare or not. The commits are in exhibits.toml. For each of them, the
script extracts the scheduler's sources before and after the commit, compiles both versions, explores both with
`windtunnel explore NEW --against OLD`, and prints a row of a table. target/museum keeps the sources, the objects and
the full outputs.

A finding belongs to the commit if only one of the two versions shows it, and if it names a line of a function that the
commit changes. A stall or an error without such a line belongs to it as well, because no line is known there.
The exit status is 1 if a version cannot be compiled or explored, or if a version after its commit shows a finding that
belongs to the commit.
"""
import json
import os
import re
import subprocess
import sys
import time
import tomllib

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = "target/museum"
# The headers of all schedulers, and the sources of the library that they share.
SHARED = ["lib", "scheds/include", "scheds/vmlinux/vmlinux.h", "scheds/vmlinux/arch/x86"]
FLAGS = "-g -O2 -mcpu=v3 -mlittle-endian -D__TARGET_ARCH_x86 -D__SCX_TARGET_ARCH_x86 -fms-extensions -Wno-everything -target bpf"
# A finding names its lines, if it has any, before the first space: `a.bpf.c:12, b.bpf.c:7: race: ...`.
LINE = re.compile(r"([\w.]+\.[ch]):(\d+)")


class Failure(Exception):
    """A step that does not work; the message is printed."""


def main():
    if len(sys.argv) < 3 or not sys.argv[1]:
        sys.exit("usage: make museum SCX=DIR, where DIR is a clone of https://github.com/sched-ext/scx")
    scx, windtunnel, *chosen = sys.argv[1:]
    with open(f"{HERE}/exhibits.toml", "rb") as file:
        exhibits = tomllib.load(file)["exhibit"]
    unknown = [commit for commit in chosen if commit not in [exhibit["commit"] for exhibit in exhibits]]
    if unknown:
        sys.exit(f"museum: {', '.join(unknown)}: no commit of {HERE}/exhibits.toml")
    os.makedirs(FOLDER, exist_ok=True)
    libbpf = libbpf_sources()
    linker(libbpf)
    failed = False
    print("| commit | scheduler | mended | found before | found after | runs | seconds |\n|---|---|---|---|---|---|---|")
    for exhibit in exhibits:
        if chosen and exhibit["commit"] not in chosen:
            continue
        if "not_shown" in exhibit:
            print_row(exhibit, f"not shown: {exhibit['not_shown']}", "", "", "")
            continue
        try:
            before, after, seconds = explore(exhibit, scx, windtunnel)
        except Failure as failure:
            print(f"museum: {exhibit['commit']}: {failure}", file=sys.stderr)
            failed = True
            continue
        failed |= bool(after)
        cells = ["<br>".join(found) or "nothing" for found in (before, after)]
        print_row(exhibit, *cells, str(exhibit["runs"]), f"{seconds:.0f}")
    sys.exit(failed)


def print_row(exhibit, *cells):
    first = [exhibit["commit"], f"`{exhibit['scheduler']}`", exhibit["mended"]]
    print(f"| {' | '.join([*first, *cells])} |", flush=True)


def command(*words, **options):
    """Runs a command and returns its output."""
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    if done.returncode:
        raise Failure(f"{' '.join(words[:6])} ... fails: {done.stderr.strip()[-2000:]}")
    return done.stdout


def git(scx, *words):
    # Snapshots may belong to a different user.
    return command("git", "-c", "safe.directory=*", "-C", scx, *words)


def libbpf_sources():
    """Returns the directory of libbpf's sources: those of the crate libbpf-sys, which windtunnel-live uses."""
    packages = json.loads(command("cargo", "metadata", "--format-version", "1", "--filter-platform", "x86_64-unknown-linux-gnu"))["packages"]
    manifest = next(package["manifest_path"] for package in packages if package["name"] == "libbpf-sys")
    return f"{os.path.dirname(manifest)}/libbpf"


def linker(libbpf):
    """Builds the command that calls libbpf's linker, and provides libbpf's headers as <bpf/...>."""
    if os.path.exists(f"{FOLDER}/link"):
        return
    os.makedirs(f"{FOLDER}/include", exist_ok=True)
    if not os.path.islink(f"{FOLDER}/include/bpf"):
        os.symlink(f"{libbpf}/src", f"{FOLDER}/include/bpf")
    sources = sorted(f"{libbpf}/src/{name}" for name in os.listdir(f"{libbpf}/src") if name.endswith(".c"))
    includes = [f"-I{libbpf}/include", f"-I{libbpf}/include/uapi", f"-I{FOLDER}/include", f"-I{libbpf}/src"]
    command("gcc", "-O1", "-w", "-D_GNU_SOURCE", *includes, f"{HERE}/../../compat/link.c", *sources, "-lelf", "-lz",
            "-o", f"{FOLDER}/link")


def extract(scx, commit, scheduler):
    """Extracts the sources of a scheduler, as of a commit. Returns their directory."""
    folder = f"{FOLDER}/{git(scx, 'rev-parse', '--short=9', commit).strip()}"
    source = f"scheds/rust/{scheduler}"
    if not os.path.exists(f"{folder}/{source}"):
        os.makedirs(folder, exist_ok=True)
        archive = f"{folder}/sources.tar"
        # Paths that a commit does not have are an error of git archive.
        paths = [path for path in [*SHARED, source] if git(scx, "ls-tree", "--name-only", commit, path).strip()]
        git(scx, "archive", f"--output={os.path.abspath(archive)}", commit, *paths)
        command("tar", "-xf", archive, "-C", folder)
        os.remove(archive)
    return folder


def build(folder, scheduler):
    """Compiles and links a scheduler. Returns the path of the object."""
    target = f"{folder}/{scheduler}.bpf.o"
    if os.path.exists(target):
        return target
    crate = f"{folder}/scheds/rust/{scheduler}"
    with open(f"{crate}/build.rs") as file:
        sources = re.findall(r'"(src/bpf/[^"]*\.bpf\.c)"', file.read())
    resources = command("clang-19", "-print-resource-dir").strip()
    vmlinux = f"{folder}/scheds/vmlinux"
    includes = [f"-I{vmlinux}/arch/x86", f"-I{vmlinux}", f"-I{folder}/scheds/include", f"-I{folder}/scheds/include/bpf-compat",
                f"-I{FOLDER}/include", "-idirafter", f"{resources}/include", "-idirafter", "/usr/include/x86_64-linux-gnu",
                "-idirafter", "/usr/include"]
    parts = []
    for source in sources:
        parts.append(f"{folder}/{scheduler}-{os.path.basename(source)}.o")
        command("clang-19", *FLAGS.split(), *includes, "-c", f"{crate}/{source}", "-o", parts[-1])
    command(f"{FOLDER}/link", f"{target}.new", *parts)
    os.rename(f"{target}.new", target)
    return target


def changed_lines(scx, commit, side):
    """Returns the lines of the functions that a commit changes, before ("-") or after ("+") it, for each file name."""
    changed, name = {}, None
    for line in git(scx, "show", "--format=", "--unified=0", "--function-context", commit).splitlines():
        if line.startswith("+++ ") or line.startswith("--- "):
            if line[0] == side:
                name = os.path.basename(line)
        elif line.startswith("@@"):
            start, _, length = re.search(rf"\{side}(\d+)(,(\d+))?", line).groups()
            changed.setdefault(name, set()).update(range(int(start), int(start) + int(length or 1)))
    return changed


def belongs(finding, changed):
    """Returns whether the first line of a finding has no line of the source, or one of `changed`."""
    lines = LINE.findall(finding)
    return not lines or any(int(line) in changed.get(name, ()) for name, line in lines)


def explore(exhibit, scx, windtunnel):
    """Explores the two versions. Returns the findings of each that belong to the commit, and the time in seconds."""
    commit, scheduler = exhibit["commit"], exhibit["scheduler"]
    objects = [build(extract(scx, version, scheduler), scheduler) for version in (f"{commit}^", commit)]
    profile = write(f"{commit}.toml", f'include = ["{scheduler}"]\n{exhibit.get("profile", "")}')
    # Versions differ in their variables and maps, so parts of the profile may not fit.
    options = ["--profile", profile, "--profile-fit", "loose", "--no-shrink", "--pairs", "--wall", "3600s",
               "--runs", str(exhibit["runs"]), *exhibit.get("options", [])]
    if "workload" in exhibit:
        options += ["-w", write(f"{commit}.json", exhibit["workload"])]
    words = [windtunnel, "explore", objects[1], "--against", objects[0], *options]
    began = time.monotonic()
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    seconds = time.monotonic() - began
    write(f"{commit}.log", f"{' '.join(words)}\n{done.stderr}{done.stdout}")
    if done.returncode not in (0, 1):
        raise Failure(f"the exploration fails: {done.stderr.strip()[-1000:]} (full output: {FOLDER}/{commit}.log)")
    versions = re.split(r"^(?:only in .*|in both: .*)\n", done.stdout, flags=re.M)[1:3]
    found = []
    for side, text in zip("-+", versions):
        firsts = [part.splitlines()[0] for part in text.strip().split("\n\n") if part.strip()]
        changed = changed_lines(scx, commit, side)
        found.append([short(first) for first in firsts if belongs(first, changed)])
    return found[0], found[1], seconds


def write(name, text):
    """Writes a file of target/museum. Returns its path."""
    path = f"{FOLDER}/{name}"
    with open(path, "w") as file:
        file.write(text)
    return path


def short(finding):
    """Returns the lines of a finding, or its text if it has none."""
    lines = [":".join(line) for line in LINE.findall(finding)]
    return ", ".join(dict.fromkeys(lines)) or finding


if __name__ == "__main__":
    main()
