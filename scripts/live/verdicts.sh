#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# verdicts.sh DIR TABLE: boots the kernel of DIR (see fetch.sh), and lets its verifier check every
# program of the sanitizer's tests. The first line of the file TABLE contains the kernel's
# version. Each other line contains an object, program, verdict and message, separated by tabs.
set -eu
cd "$(dirname "$0")/../.."
dir=$1 table=$2
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
mkdir -p "$root"/{bin,dev,proc,sys,tmp,run,objects}

# verdicts.c is linked with the libbpf that `cargo build -p live` has built.
libbpf=$(ls -td target/*/build/libbpf-sys-*/out | head -1)
gcc -O1 -Wall -I"$libbpf/include" scripts/live/verdicts.c "$libbpf/libbpf.a" -lelf -lz -o "$root/bin/verdicts"
cp /bin/busybox "$root/bin/"
for applet in $(/bin/busybox --list); do [ "$applet" = busybox ] || ln -sf busybox "$root/bin/$applet"; done
for library in $(ldd "$root/bin/verdicts" | grep -oE '/[^ ]+'); do
  mkdir -p "$root$(dirname "$library")"
  cp -L "$library" "$root$library"
done

compile() {
  local source=$1 object=$2
  shift 2
  clang-19 -g -O2 -mcpu=v3 -Wall -target bpf -DVERDICTS "$@" -c "$source" -o "$root/objects/$object.bpf.o"
}
tests=crates/kernel/tests
for source in $tests/policies/rules_*.bpf.c; do
  name=$(basename "$source" .bpf.c)
  [ "$name" = rules_within ] || compile "$source" "$name"
done
# Each variant of rules_within is a complete policy.
within=$tests/policies/rules_within.bpf.c
for define in KEEPS $(grep -oE '(ifdef |ifndef |defined\()[A-Z_]+' $within | grep -oE '[A-Z_]+$' | sort -u); do
  compile $within "rules_within.$define" "-D$define"
done
for source in crates/windtunnel/tests/negative/*.bpf.c; do
  name=$(basename "$source" .bpf.c)
  # arena_in_pieces is left out: it breaks no rule that the verifier checks, and its half a million
  # iterations would take minutes in the emulated kernel.
  [ "$name" = arena_in_pieces ] || compile "$source" "$name"
done

cp scripts/live/guest/init "$root/init"
printf '#!/bin/sh\nverdicts /objects/*.bpf.o\n' >"$root/test.sh"
chmod +x "$root/test.sh"
(cd "$root" && find . | cpio -o -H newc -R 0:0 --quiet) >"$dir/verdicts.cpio"
# With CLOCK=exact (see boot.sh), the result does not depend on the host's load.
CLOCK=exact CPUS=1 MEMORY=1024 scripts/live/boot.sh "$dir" "$dir/verdicts.cpio" verdicts >/dev/null
{
  sed -n 's/\r//; s/^guest: .*kernel \(.*\)/# Linux \1/p' "$dir/verdicts.log"
  sed -n 's/\r//; s/^verdict\t//p' "$dir/verdicts.log" | sort
} >"$table.new"
mv "$table.new" "$table"
