# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# Sets `build` to the directory with the executables of the build that the environment variable
# BUILD selects: release (the default) or dev. Other scripts read this file.
build=target/${BUILD:-release}
# Cargo keeps the development build in target/debug.
[ "$build" != target/dev ] || build=target/debug
