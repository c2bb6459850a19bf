#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# fetch.sh DIR: fetches and unpacks a sched_ext kernel (DIR/vmlinux) and QEMU 10
# (DIR/qemu-system-x86_64). Installs nothing. DIR/config is the configuration of the kernel, which
# programs of schedulers read in the guest; without it, they cannot be tested.
#
# The packages come from suites of Debian that the host does not use, so apt gets a source list and a
# state directory of its own, and the host's configuration stays as it is. If a package cannot be
# fetched, the exit status is 3, and standard error has the reason.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
dir=$(cd "$1" && pwd)

give_up() {
  echo "$*" >&2
  exit 3
}

keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ -r $keyring ] || give_up "$keyring is missing: it is needed to fetch Debian's kernel and QEMU"
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Codename: bookworm' 2>/dev/null | head -1)
[ -n "$mirror" ] || give_up "apt has no mirror of Debian 12 (bookworm) configured"

# sources NAME SUITE...: sets $apt to options with which apt reads only these suites.
sources() {
  local name=$1 suite
  shift
  mkdir -p "$dir/apt/$name/partial" "$dir/apt/archives/partial" "$dir/deb"
  for suite in "$@"; do echo "deb [signed-by=$keyring] $mirror $suite main"; done >"$dir/apt/$name.list"
  apt=(-oDir::Etc::SourceList="$dir/apt/$name.list" -oDir::Etc::SourceParts=/dev/null -oDir::State::Lists="$dir/apt/$name"
    -oDir::Cache="$dir/apt" -oDebug::NoLocking=1 -oAcquire::Languages=none -oAPT::Sandbox::User=root)
  apt-get "${apt[@]}" -qq update || give_up "apt-get update failed for $*"
}

if [ ! -x "$dir/qemu-system-x86_64" ]; then
  # With Debian 12's QEMU 7.2, guests crash when a policy is loaded. Its libraries work with the newer
  # QEMU.
  sources qemu bookworm-backports
  (cd "$dir/deb" && apt-get "${apt[@]}" -qq download qemu-system-{x86,data}/bookworm-backports seabios/bookworm-backports) ||
    give_up "QEMU could not be downloaded"
  rm -rf "$dir/qemu"
  for deb in "$dir"/deb/qemu-system-*.deb "$dir"/deb/seabios_*.deb; do dpkg-deb -x "$deb" "$dir/qemu"; done
  missing=$(ldd "$dir/qemu/usr/bin/qemu-system-x86_64" | grep 'not found') && give_up "QEMU's libraries are missing: $missing"
  printf '#!/bin/sh\nexec "%s/qemu/usr/bin/qemu-system-x86_64" -L "%s/qemu/usr/share/seabios" -L "%s/qemu/usr/share/qemu" "$@"\n' \
    "$dir" "$dir" "$dir" >"$dir/qemu.new"
  chmod +x "$dir/qemu.new"
  mv "$dir/qemu.new" "$dir/qemu-system-x86_64"
fi

if [ ! -f "$dir/vmlinux" ]; then
  sources kernel sid trixie-backports
  # Tries the newest kernels first, one of each version and suite. Some were built with a pahole that
  # breaks the types of kfuncs. They would refuse every policy, so they are skipped.
  for package in $(apt-cache "${apt[@]}" pkgnames linux-binary- | grep -E '^linux-binary-[0-9.]+\+deb(13|14|15)-cloud-amd64$' |
    sort -rV | awk -F'[-.+]' '{ key = $3 "." $4 "." ($0 ~ /deb13/) } !seen[key]++' | head -8); do
    (cd "$dir/deb" && apt-get "${apt[@]}" -qq download "$package") || continue
    rm -rf "$dir/unpacked"
    dpkg-deb -x "$dir"/deb/"${package}"_*.deb "$dir/unpacked"
    "$here/extract_vmlinux.py" "$(find "$dir/unpacked" -name 'vmlinuz*' -type f | head -1)" "$dir/vmlinux.new" || continue
    case $("$here/btfcheck.py" "$dir/vmlinux.new") in
      *sched_ext_ops=True*BROKEN=0*)
        echo "$package" >"$dir/kernel"
        mv "$dir/vmlinux.new" "$dir/vmlinux"
        break ;;
      *) echo "fetch: $package is skipped because its BTF is broken" ;;
    esac
  done
  rm -rf "$dir/unpacked"
  [ -f "$dir/vmlinux" ] || give_up "no kernel of sid or trixie-backports is usable"
fi
# The configuration is in a package for each release, such as linux-config-7.3.
config() {
  local release
  release=$(sed 's/^linux-binary-\([0-9]*\.[0-9]*\).*/\1/' "$dir/kernel")
  sources kernel sid trixie-backports
  rm -rf "$dir/unpacked" "$dir"/deb/linux-config-*.deb
  (cd "$dir/deb" && apt-get "${apt[@]}" -qq download "linux-config-$release")
  dpkg-deb -x "$dir"/deb/linux-config-*.deb "$dir/unpacked"
  xz -dc "$dir/unpacked/usr/src/linux-config-$release/config.amd64_none_cloud-amd64.xz" >"$dir/config.new"
  mv "$dir/config.new" "$dir/config"
  rm -rf "$dir/unpacked"
}
[ -f "$dir/config" ] || (config) || echo "fetch: the configuration of the kernel cannot be fetched" >&2
echo "fetch: kernel $(cat "$dir/kernel"), $("$dir/qemu-system-x86_64" --version | head -1)"
