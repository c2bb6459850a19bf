# SPDX-License-Identifier: GPL-2.0-only
"""Compiles a scheduler as it is in a commit."""

import os
import shutil
import subprocess
import sys

COMPILERS = ["clang-19", "clang"]
OPTIONS = ["-g", "-O2", "-mcpu=v3", "-Wall", "-target", "bpf"]


def fatal(text):
    """Ends the script because of a wrong input."""
    sys.stderr.write(f"verdict: {text.rstrip()}\n")
    sys.exit(2)


def git(*words):
    done = subprocess.run(["git", *words], capture_output=True)
    if done.returncode != 0:
        fatal(f"git {' '.join(words)}: {done.stderr.decode(errors='replace')}")
    return done.stdout


def has(commit, source):
    """Returns whether a commit has a file. An unknown commit ends the script."""
    known = subprocess.run(["git", "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}"], capture_output=True)
    if known.returncode != 0:
        fatal(f"this clone has no commit {commit!r}; fetch the whole history (actions/checkout: fetch-depth: 0)")
    return subprocess.run(["git", "cat-file", "-e", f"{commit}:./{source}"], capture_output=True).returncode == 0


def extract(commit, folder):
    """Writes the files of a commit that are in the current directory into a folder."""
    folder.mkdir(parents=True)
    files = git("archive", commit, ".")
    done = subprocess.run(["tar", "-x", "-C", folder], input=files, capture_output=True)
    if done.returncode != 0:
        fatal(f"tar: {done.stderr.decode(errors='replace')}")


def compiled(source, tree, command, headers):
    """Compiles a source of a tree. Returns the object and the compiler's messages. The object is None
    if the source does not compile.

    With a command, the shell executes the command in the tree, and the command makes the object.
    Without one, clang compiles the source, and headers that the tree does not have are those of
    windtunnel."""
    path = tree / source
    made = path.with_name(path.name.removesuffix(".c").removesuffix(".bpf") + ".bpf.o")
    # An object of the tree itself is no result of this source.
    made.unlink(missing_ok=True)
    if command:
        words = ["bash", "-c", command]
    else:
        compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
        if compiler is None:
            fatal("clang is not installed (looked for clang-19 and clang)")
        # The paths in the object are those of the repository, so that messages name its files.
        words = [compiler, *OPTIONS, f"-ffile-prefix-map={tree}=.", "-idirafter", headers]
        words += ["-c", source, "-o", os.path.relpath(made, tree)]
    done = subprocess.run(words, cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0 or not made.is_file():
        return None, done.stdout or f"{' '.join(map(str, words))}: the command made no {made.name}"
    return made, done.stdout
