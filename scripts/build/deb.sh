#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# deb.sh [image]: builds the Debian package (target/deb) and tests it. With "image", also builds a
# container image with the package, and runs the command in it (needs podman or docker). If podman
# cannot start containers, BUILDAH_ISOLATION=chroot lets it build the image all the same.
#
# The package contains the command as built by scripts/build/fast.sh, or with BUILD=release
# target/release/windtunnel, which is built faster and simulates more slowly. cargo-deb makes the
# package, and is installed into target/tools.
set -eu
cd "$(dirname "$0")/../.."
cargo_deb_version=3.8.0
tools=$PWD/target/tools/bin
if [ "$("$tools/cargo-deb" --version 2>/dev/null)" != "$cargo_deb_version" ]; then
  cargo install cargo-deb --version $cargo_deb_version --locked --quiet --root target/tools
fi
case ${BUILD:-fast} in
  fast)
    scripts/build/fast.sh
    built=target/fast/release/windtunnel ;;
  release)
    cargo build --release --quiet -p windtunnel
    built=target/release/windtunnel ;;
  *)
    echo "deb.sh: BUILD is '$BUILD', but must be fast or release" >&2
    exit 2 ;;
esac

# The files that the package's description in crates/windtunnel/Cargo.toml names.
files=target/deb/files
rm -rf target/deb
mkdir -p $files
strip -o $files/windtunnel $built
$built docs target/deb/docs
gzip -9n target/deb/docs/man/*.1
$built completions bash >$files/windtunnel.bash
$built completions zsh >$files/_windtunnel
$built completions fish >$files/windtunnel.fish
"$tools/cargo-deb" --quiet -p windtunnel --no-build --no-strip --output target/deb
package=$(ls target/deb/*.deb)
ls -l "$package"

# The installed command must work without this repository, and give the same results. Their JSON
# contains the trace hash.
unpacked=$(mktemp -d)
trap 'rm -rf "$unpacked"' EXIT
dpkg-deb --extract "$package" "$unpacked"
run=(run fifo --machine smp4 --workload hackbench:groups=1,loops=5 --json -)
hash() { sed -n 's/.*"trace_hash": "\(.*\)".*/\1/p'; }
want=$($built "${run[@]}" | hash)
[ -n "$want" ] || { echo "deb FAILED: $built ${run[*]} prints no trace hash" >&2; exit 1; }
check() {
  if [ "$1" != "$want" ]; then
    echo "deb FAILED: the command in $2 has the trace hash '$1'; $built has $want" >&2
    exit 1
  fi
}
check "$(cd "$unpacked" && env -i HOME="$unpacked" PATH=/usr/bin:/bin usr/bin/windtunnel "${run[@]}" | hash)" "$package"
echo "deb: the package's command gives the same result as $built"
[ "${1:-}" = image ] || exit 0

engine=$(command -v podman || command -v docker || true)
if [ -z "$engine" ] || ! "$engine" info >/dev/null 2>&1; then
  echo "deb: there is no image, because neither podman nor docker works here" >&2
  exit 1
fi
cp Containerfile "$package" target/deb/files/
"$engine" build --quiet --tag windtunnel target/deb/files
check "$("$engine" run --rm windtunnel "${run[@]}" | hash)" "the image"
echo "deb: the image's command gives the same result as $built"
