# SPDX-License-Identifier: GPL-2.0-only
"""Compiles a scheduler as of a commit."""

import os
import shutil
import subprocess
import sys

COMPILERS = ["clang-19", "clang"]
OPTIONS = ["-g", "-O2", "-mcpu=v3", "-Wall", "-target", "bpf"]


def fatal(text):
    """Ends the script with a message about a wrong input."""
    sys.stderr.write(f"verdict: {text.rstrip()}\n")
    sys.exit(2)


def git(*words):
    done = subprocess.run(["git", *words], capture_output=True)
    if done.returncode != 0:
        fatal(f"git {' '.join(words)}: {done.stderr.decode(errors='replace')}")
    return done.stdout


def has(commit, source):
    """Whether a commit contains a file. An unknown commit ends the script."""
    known = subprocess.run(["git", "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}"], capture_output=True)
    if known.returncode != 0:
        fatal(f"this clone has no commit {commit!r}; fetch the whole history (actions/checkout: fetch-depth: 0)")
    return subprocess.run(["git", "cat-file", "-e", f"{commit}:./{source}"], capture_output=True).returncode == 0


def extract(commit, folder):
    """Extracts the current directory, as of a commit, into a folder."""
    folder.mkdir(parents=True)
    files = git("archive", commit, ".")
    done = subprocess.run(["tar", "-x", "-C", folder], input=files, capture_output=True)
    if done.returncode != 0:
        fatal(f"tar: {done.stderr.decode(errors='replace')}")


def compiled(source, tree, command, headers):
    """Compiles a source file of a tree. Returns the object, or None if it does not compile, and the
    compiler's messages.

    Runs the shell command `command` in the tree if there is one, and otherwise clang, which looks for
    headers that the tree lacks in `headers`, those of windtunnel."""
    path = tree / source
    made = path.with_name(path.name.removesuffix(".c").removesuffix(".bpf") + ".bpf.o")
    # Deletes a checked-in object, which would pass for the result of this build.
    made.unlink(missing_ok=True)
    if command:
        words = ["bash", "-c", command]
    else:
        compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
        if compiler is None:
            fatal("clang is not installed (looked for clang-19 and clang)")
        # Messages then name files by their paths in the repository.
        words = [compiler, *OPTIONS, f"-ffile-prefix-map={tree}=.", "-idirafter", headers]
        words += ["-c", source, "-o", os.path.relpath(made, tree)]
    done = subprocess.run(words, cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0 or not made.is_file():
        return None, done.stdout or f"{' '.join(map(str, words))}: the command made no {made.name}"
    return made, done.stdout
