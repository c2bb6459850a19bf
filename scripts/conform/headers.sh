#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# headers.sh DIR: prepares DIR/headers for building modules for the kernel that fetch.sh has put into
# DIR. Nothing is installed.
#
# Three things keep Debian 12 from building such a module with the packages as they are:
#
#   - The packages expect to be in /usr. Their makefiles and links get the new paths.
#   - The programs in linux-kbuild need a newer C library. They run with the dynamic loader and the
#     libraries of a newer Debian, which are unpacked beside them.
#   - The kernel was compiled by a newer gcc. A wrapper removes the options that gcc 12 lacks. None
#     of them changes the layout of a type or the way in which functions are called.
set -eu
cd "$(dirname "$0")/../.."
mkdir -p "$1"
dir=$(cd "$1" && pwd)
release=$(sed 's/^linux-binary-//' "$dir/kernel")
out=$dir/headers
[ ! -f "$out/$release" ] || exit 0

apt=(-oDir::Etc::SourceList="$dir/apt/kernel.list" -oDir::Etc::SourceParts=/dev/null -oDir::State::Lists="$dir/apt/kernel"
  -oDir::Cache="$dir/apt" -oDebug::NoLocking=1 -oAcquire::Languages=none -oAPT::Sandbox::User=root)
version=${release%-cloud-amd64}
packages=("linux-headers-$release" "linux-headers-$version-common" "linux-kbuild-$version" libc6 libelf1t64 zlib1g libzstd1)
rm -rf "$out"
mkdir -p "$out/deb"
(cd "$out/deb" && apt-get "${apt[@]}" -qq download "${packages[@]}") || {
  echo "headers: these packages could not be downloaded: ${packages[*]}" >&2
  exit 3
}
for deb in "$out"/deb/linux-*.deb; do dpkg-deb -x "$deb" "$out"; done
for deb in "$out"/deb/{lib,zlib}*.deb; do dpkg-deb -x "$deb" "$out/newer"; done
rm -r "$out/deb"

sed -i "s:/usr/src/:$out/usr/src/:" "$out/usr/src/linux-headers-$release/Makefile"
loader=$(find "$out/newer" -name 'ld-linux-x86-64.so.2' | head -1)
libraries=$(find "$out/newer" -name 'lib*.so*' -printf '%h\n' | sort -u | paste -sd:)
kbuild=$out/usr/lib/linux-kbuild-$version
for program in $(find "$kbuild" -type f -perm -u+x -exec sh -c 'head -c 4 "$1" | grep -q ELF && echo "$1"' - {} \;); do
  mv "$program" "$program.elf"
  printf '#!/bin/sh\nexec "%s" --library-path "%s" --argv0 "$0" "%s.elf" "$@"\n' "$loader" "$libraries" "$program" >"$program"
  chmod +x "$program"
done

cat >"$out/gcc" <<'END'
#!/bin/bash
options=()
for option; do
  case $option in
    -fmin-function-alignment=*) options+=("-falign-functions=${option#*=}") ;;
    -fstrict-flex-arrays=* | -fzero-init-padding-bits=* | -fdiagnostics-show-context=*) ;;
    *) options+=("$option") ;;
  esac
done
exec gcc "${options[@]}"
END
chmod +x "$out/gcc"
touch "$out/$release"
