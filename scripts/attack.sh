#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# attack.sh SECONDS [SEED [KIND...]]: runs damaged inputs and hostile policies for the given time,
# in child processes with resource limits.
#
# Prints the number of inputs and failures of each kind. A failing input is kept in target/attack,
# with the command that repeats it. The default build has assertions; ATTACK_PROFILE=release attacks
# the build that users run.
set -eu
cd "$(dirname "$0")/.."
seconds=$1
seed=${2:-$(date +%Y%m%d)}
shift $(($# > 2 ? 2 : $#))
profile=${ATTACK_PROFILE:-dev}
cargo build --quiet --profile "$profile" -p attack
[ "$profile" = dev ] && folder=debug || folder=$profile
echo "attack: $seconds s, seed $seed, profile $profile"
exec "target/$folder/attack" run "$seconds" "$seed" "$@"
