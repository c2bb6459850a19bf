#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# versions.sh DIR: fetches earlier versions of schedulers from crates.io into DIR/versions/NAME, and
# compiles them to DIR/objects/versions/NAME.bpf.o. versions.toml lists them. sources.sh DIR must run
# before, because all versions use the libbpf that it fetches.
#
# A second run fetches and compiles only what is missing or has changed in versions.toml. The exit
# status is 1 if an object is missing.
set -u
here=$(cd "$(dirname "$0")" && pwd)
# All paths are relative to DIR, because they become part of the objects.
cd "$1" || exit 1
dir=.
# shellcheck source-path=SCRIPTDIR source=crate.sh
. "$here/crate.sh"

failed=()
fail() {
  echo "compat: $1" >&2
  failed+=("$1")
}

# fetch NAME CRATE VERSION HEADERS VERSION: fetches a scheduler and the crate with its headers.
fetch() {
  local target=$dir/versions/$1 project=$dir/versions/$1/project
  echo "fetching $1"
  rm -rf "$target" "$dir/objects/versions/$1.bpf.o"
  mkdir -p "$project/src"
  : >"$project/src/lib.rs"
  cat >"$project/Cargo.toml" <<EOF
[package]
name = "compat-versions"
version = "0.0.0"
edition = "2024"
[workspace]
[dependencies]
$2 = "=$3"
$4 = "=$5"
EOF
  # cargo also fetches the dependencies of the user-space parts, which are not needed.
  (cd "$project" && cargo vendor --quiet vendor >/dev/null 2>&1) || return
  mv "$project/vendor/$2" "$project/vendor/$4" "$target" && rm -rf "$project"
}

provide_libbpf || exit 1
mkdir -p "$dir/objects/versions" "$dir/objects/parts"
while IFS=$'\t' read -r name crate version headers headers_version file edit; do
  target=$dir/versions/$name
  entry="$crate $version $headers $headers_version $file $edit"
  if [ "$(cat "$target/complete" 2>/dev/null)" != "$entry" ]; then
    fetch "$name" "$crate" "$version" "$headers" "$headers_version" </dev/null || {
      fail "$name: cargo vendor fails for $crate $version with $headers $headers_version"
      continue
    }
    # vmlinux.h is in the archive of scx_cargo, and was a file of scx_utils before.
    types=$target/$headers/bpf_h
    if [ -f "$target/$headers/vmlinux.tar.zst" ]; then
      types=$target/types
      mkdir "$types"
      tar -C "$types" --zstd -xf "$target/$headers/vmlinux.tar.zst"
    fi
    ln -s "${types#"$target/"}" "$target/vmlinux"
    if [ -n "$edit" ]; then
      cp "$target/$crate/$file" "$target/unchanged"
      sed -i "$edit" "$target/$crate/$file"
      cmp -s "$target/unchanged" "$target/$crate/$file" && {
        fail "$name: the edit of versions.toml changes nothing in $file"
        continue
      }
    fi
    echo "$entry" >"$target/complete"
  fi
  mapfile -t sources < <(crate_sources "$target/$crate")
  crate "$name" "$dir/objects/versions/$name.bpf.o" "$target/vmlinux" "$target/$headers/bpf_h" \
    "$target/$crate" "${sources[@]}"
done < <(python3 - "$here/versions.toml" <<'EOF'
import sys, tomllib
with open(sys.argv[1], "rb") as file:
    for one in tomllib.load(file)["object"]:
        headers = one["headers"]
        print(one["name"], one["crate"], one["version"], headers["crate"], headers["version"],
              one.get("file", "-"), one.get("edit", ""), sep="\t")
EOF
)
[ ${#failed[@]} -eq 0 ]
