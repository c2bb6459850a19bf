#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# setup.sh [test] [live] [programs]: installs missing packages for building on Debian 12, and with "test"
# or "live" those for `make test` or `make live-test`. "programs" are those of its part with this name.
#
# Needs root or sudo, and asks no questions. If nothing is missing, it takes less than a tenth of a
# second. It checks the Rust toolchain but does not install it.
set -eu

rust_needed=1.95

packages=(
  clang-19 llvm-19             # compile policies from BPF C to objects; inspect them
  bpftool                      # links objects in tests; prints types for make compat
  hwloc                        # lstopo, for tests that compare machines
  rt-app                       # its examples are test workloads
  gcc libc6-dev                # the linker that rustc calls
  libelf-dev zlib1g-dev pkg-config # libbpf, for make compat and the live command
  zstd xz-utils python3        # make compat: unpack kernel sources and images
  python3-venv                 # make wheel: build and test the Python package
)
# A browser to operate the HTML reports and to take the screenshot of the pages, and Valgrind to count
# instructions.
[[ " $* " = *" test "* ]] && packages+=(chromium-headless-shell valgrind)
# Programs of the guest, and the libraries of QEMU 10, which make live-test fetches and unpacks in the
# build directory.
[[ " $* " = *" live "* ]] && packages+=(qemu-system-x86 busybox-static cpio binutils)
# Programs that are compared with the workloads that stand for them.
[[ " $* " = *" programs "* ]] && packages+=(rt-tests stress-ng linux-perf)

missing=()
installed=" $(dpkg-query -W -f '${db:Status-Status}:${Package} ' "${packages[@]}" 2>/dev/null || true) "
for package in "${packages[@]}"; do
  case $installed in
    *" installed:$package "*) ;;
    *) missing+=("$package") ;;
  esac
done

if [ ${#missing[@]} -gt 0 ]; then
  if ! command -v apt-get >/dev/null; then
    echo "setup: missing: ${missing[*]}" >&2
    echo "setup: this is not Debian; install the equivalent packages by hand (the names are those of Debian 12)" >&2
    exit 1
  fi
  sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "setup: missing: ${missing[*]}" >&2
      echo "setup: run this as root once: scripts/setup.sh" >&2
      exit 1
    fi
    sudo=(sudo)
  fi
  echo "setup: installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  "${sudo[@]}" apt-get -qq update </dev/null
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends \
    -o Dpkg::Use-Pty=0 install "${missing[@]}" </dev/null >/dev/null || {
    echo "setup: apt-get could not install: ${missing[*]}" >&2
    echo "setup: clang-19 and llvm-19 are in Debian 12 (bookworm) main, but this is $(sed -n 's/^PRETTY_NAME=//p' /etc/os-release)" >&2
    exit 1
  }
fi

how_to_rust="setup: Rust $rust_needed or newer comes with rustup (https://rustup.rs):
setup:   curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y
setup: and later: rustup update stable"
PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
if ! command -v cargo >/dev/null || ! command -v rustc >/dev/null; then
  echo "setup: cargo is neither in PATH nor in ${CARGO_HOME:-$HOME/.cargo}/bin" >&2
  echo "$how_to_rust" >&2
  exit 1
fi
have=$(rustc --version | cut -d' ' -f2)
if [ "$(printf '%s\n' "$rust_needed" "${have%%-*}" | sort -V | head -1)" != "$rust_needed" ]; then
  echo "setup: rustc $have is too old" >&2
  echo "$how_to_rust" >&2
  exit 1
fi
