#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# setup.sh: installs what building and testing need on Debian 12, and only what is missing.
# `setup.sh test` also installs what make test needs beyond that, `setup.sh live` what make live-test needs, `setup.sh test live` both.
#
# Root or sudo; no questions asked. With nothing missing it does nothing and takes a few
# hundredths of a second. A Rust toolchain is not installed, only checked: see the message.
set -eu

rust_needed=1.95

packages=(
  clang-19 llvm-19             # policies: BPF C to objects; llvm-19 to look into them
  bpftool                      # tests join objects with it; make compat: dumps types
  hwloc                        # lstopo, which tests compare machines with
  rt-app                       # its examples are test workloads
  gcc libc6-dev                # the linker that rustc calls
  libelf-dev zlib1g-dev pkg-config # make compat and the live command: libbpf
  zstd xz-utils python3        # make compat: unpacks kernel sources and images
)
# make test: the HTML report is used in a browser.
[[ " $* " = *" test "* ]] && packages+=(chromium-headless-shell)
# make live-test: QEMU 10 is unpacked beside the build; these are its libraries, and what is in the guest.
[[ " $* " = *" live "* ]] && packages+=(qemu-system-x86 busybox-static cpio binutils)

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
    echo "setup: this is not Debian; install them by its own means (the names are Debian 12's)" >&2
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
    echo "setup: clang-19 and llvm-19 are in Debian 12 (bookworm) main; what is this? $(sed -n 's/^PRETTY_NAME=//p' /etc/os-release)" >&2
    exit 1
  }
fi

how_to_rust="setup: Rust $rust_needed or newer comes with rustup (https://rustup.rs):
setup:   curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y
setup: and later: rustup update stable"
PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
if ! command -v cargo >/dev/null || ! command -v rustc >/dev/null; then
  echo "setup: no cargo in PATH nor in ${CARGO_HOME:-$HOME/.cargo}/bin" >&2
  echo "$how_to_rust" >&2
  exit 1
fi
have=$(rustc --version | cut -d' ' -f2)
if [ "$(printf '%s\n' "$rust_needed" "${have%%-*}" | sort -V | head -1)" != "$rust_needed" ]; then
  echo "setup: rustc $have is too old" >&2
  echo "$how_to_rust" >&2
  exit 1
fi
