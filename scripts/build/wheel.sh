#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# wheel.sh: builds the Python package (target/wheels), installs it in a virtual environment
# (target/python), and runs its tests there.
#
# BUILD=dev packages the development build, and BUILD=fast that of scripts/build/fast.sh, as for a release.
#
# wheel.sh packages: only creates the virtual environment.
set -eu
cd "$(dirname "$0")/../.."
environment=target/python
# The environment is created again when this list changes.
needed=("maturin>=1.9,<2" polars pyarrow pytest "optuna>=5,<6" "mcp>=2,<3")
if [ "$(cat $environment/complete 2>/dev/null)" != "${needed[*]}" ]; then
  rm -rf $environment
  python3 -m venv $environment || {
    echo "wheel FAILED: Python has no venv: install python3-venv" >&2
    exit 1
  }
  $environment/bin/pip --quiet install "${needed[@]}" || {
    echo "wheel FAILED: pip cannot install the packages; check the network and run it again" >&2
    exit 1
  }
  # Without Ray, which lacks packages for some versions of Python, its tests are skipped.
  $environment/bin/pip --quiet install 'ray>=2.40,<3' || echo "wheel: there is no Ray for this Python" >&2
  echo "${needed[*]}" >$environment/complete
fi
[ "${1:-}" != packages ] || exit 0
trap '[ $? = 0 ] || echo "wheel FAILED; to repeat it: make wheel" >&2' EXIT
rm -f target/wheels/windtunnel-*.whl
case ${BUILD:-release} in
  fast) scripts/build/fast.sh "$environment/bin/maturin" build --quiet --release --out target/wheels ;;
  *) "$environment/bin/maturin" build --quiet --profile "${BUILD:-release}" --out target/wheels ;;
esac
$environment/bin/pip --quiet install --no-deps --force-reinstall target/wheels/windtunnel-*.whl
ls -l target/wheels/windtunnel-*.whl
# Outside of the repository, the package has to find its own files.
tests=$PWD/python/tests python=$PWD/$environment/bin/python
cd "$(mktemp -d)"
"$python" -m pytest --quiet -p no:cacheprovider "$tests"
