#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# sources.sh DIR: fetches third-party schedulers from package registries into DIR. A second run fetches
# only what is missing.
#
#   DIR/crates/NAME     from crates.io: scx schedulers, their headers (scx_cargo), libbpf
#   DIR/linux           from Debian: the examples (tools/sched_ext) and sched_ext selftests of Linux 7.2
#   DIR/linux-7.3       the same of Linux 7.3
#   DIR/linux*/vmlinux.h the types of that kernel. The file is missing if Debian has no image of it.
#
# apt gets a source list and a state directory of its own. Nothing is installed, and the host's
# configuration stays as it is.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
dir=$(cd "$1" && pwd)

crates() {
  [ -f "$dir/crates/complete" ] && cmp -s "$here/crates.toml" "$dir/crates/complete" && return
  echo "fetching crates"
  rm -rf "$dir/crates" "$dir/tools" "$dir/objects/scx"
  mkdir -p "$dir/crates/project/src"
  cp "$here/crates.toml" "$dir/crates/project/Cargo.toml"
  : >"$dir/crates/project/src/lib.rs"
  # cargo also fetches the dependencies of the user-space parts. Only the crates needed here are
  # kept.
  (cd "$dir/crates/project" && cargo vendor --quiet vendor >/dev/null 2>&1) || {
    echo "compat: cargo vendor fails for $here/crates.toml" >&2
    return 1
  }
  mv "$dir"/crates/project/vendor/{scx_*,libbpf-sys} "$dir/crates"
  rm -rf "$dir/crates/project"
  mkdir "$dir/crates/vmlinux"
  tar -C "$dir/crates/vmlinux" --zstd -xf "$dir/crates/scx_cargo/vmlinux.tar.zst"
  cp "$here/crates.toml" "$dir/crates/complete"
}

apt_options=()
apt_lists() {
  [ ${#apt_options[@]} -gt 0 ] && return
  local apt=$dir/apt mirror
  mkdir -p "$apt/lists/partial" "$apt/archives/partial"
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Codename: bookworm' | head -1)
  for suite in sid trixie-backports; do
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${mirror:-http://deb.debian.org/debian} $suite main"
  done >"$apt/sources.list"
  apt_options=(-qq -oDir::Etc::SourceList="$apt/sources.list" -oDir::Etc::SourceParts=/dev/null
    -oDir::State::Lists="$apt/lists" -oDir::Cache="$apt" -oDebug::NoLocking=1
    -oAcquire::Languages=none -oAPT::Sandbox::User=root)
  apt-get "${apt_options[@]}" update
}

# packages PREFIX REGEX: prints the names of the packages that match, sorted by version.
packages() { apt-cache "${apt_options[@]}" pkgnames "$1" | grep -E "$2" | sort -V; }

# package NAME: downloads a package and prints the name of its file.
package() {
  (cd "$dir/apt" && rm -f "$1"_*.deb && apt-get "${apt_options[@]}" download "$1" >&2)
  ls "$dir/apt/$1"_*.deb
}

# linux RELEASE FOLDER OBJECTS...: fetches the sources of a release of Linux into DIR/FOLDER. Deletes the
# objects that were compiled from earlier sources (folders in DIR/objects).
linux() {
  local release=$1 folder=$dir/$2 name file
  shift 2
  [ -f "$folder/complete" ] && return
  apt_lists
  name=$(packages linux-source-7 "^linux-source-${release//./\\.}$" | tail -1)
  if [ -z "$name" ]; then
    name=$(packages linux-source- '^linux-source-[0-9.]+$' | tail -1)
    echo "compat: Debian no longer has linux-source-$release: using ${name:?there is no linux-source package}" >&2
  fi
  echo "fetching $name"
  file=$(package "$name")
  (cd "$dir" && rm -rf "$folder" "${@/#/objects/}")
  mkdir "$folder"
  dpkg-deb --fsys-tarfile "$file" | tar -xO "./usr/src/$name.tar.xz" |
    tar -C "$folder" --strip-components=1 -xJ "$name/tools/sched_ext" \
      "$name/tools/testing/selftests/sched_ext" "$name/tools/include"
  dpkg-deb -f "$file" Version >"$folder/complete"
  rm "$file"
}

# vmlinux FOLDER: fetches the image of the same kernel, and writes its types to a header file.
vmlinux() {
  local folder=$dir/$1
  [ -f "$folder/vmlinux.h" ] || [ -f "$folder/no-vmlinux" ] && return
  apt_lists
  local version name file
  version=$(cut -d- -f1 "$folder/complete")
  name=$(packages linux-binary- "^linux-binary-${version//./\\.}\\+deb[0-9]+-cloud-amd64$" | tail -1)
  if [ -z "$name" ] && name=$(packages linux-image- "^linux-image-${version//./\\.}\\+deb[0-9]+-cloud-amd64-unsigned$" | tail -1) && [ -z "$name" ]; then
    echo "Debian has no image of Linux $version" >"$folder/no-vmlinux"
    return
  fi
  echo "fetching $name"
  file=$(package "$name")
  rm -rf "$dir/apt/image"
  dpkg-deb -x "$file" "$dir/apt/image"
  rm "$file"
  python3 "$here/vmlinux.py" "$(find "$dir/apt/image" -name 'vmlinuz*' -type f | head -1)" "$dir/apt/vmlinux"
  PATH=$PATH:/usr/sbin bpftool btf dump file "$dir/apt/vmlinux" format c >"$folder/vmlinux.h.new"
  mv "$folder/vmlinux.h.new" "$folder/vmlinux.h"
  rm -rf "$dir/apt/image" "$dir/apt/vmlinux"
}

# Fetches the crates in the background while the kernel's sources are fetched and unpacked, because
# neither keeps all CPUs busy.
trap wait EXIT
crates &
linux 7.2 linux kernel selftests
vmlinux linux
linux 7.3 linux-7.3 linux-7.3
vmlinux linux-7.3
wait $!
