# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# For other scripts to source. The environment variable BUILD selects a build; this file sets `build` to
# the directory with its executables, and defines `build_commands`, which makes it:
#
#   release      the default
#   dev          the development build
#   as-released  our crates as in a release, third-party crates as in the development build
BUILD=${BUILD:-release}
case $BUILD in
  # Cargo keeps the development build in target/debug.
  dev) build=target/debug ;;
  *) build=target/$BUILD ;;
esac

# build_commands: builds windtunnel and windtunnel-live.
build_commands() {
  case $BUILD in
    as-released)
      cargo build --config scripts/build/as-released.toml --quiet -p windtunnel -p live || return
      # Copies them, because the next development build replaces these files.
      mkdir -p "$build"
      cp target/debug/windtunnel target/debug/windtunnel-live "$build" ;;
    *)
      cargo build --profile "$BUILD" --quiet -p windtunnel -p live ;;
  esac
}
