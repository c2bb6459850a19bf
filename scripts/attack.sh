#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# attack.sh SECONDS [SEED [KIND...]]: attacks the simulator with damaged inputs and hostile policies
# for the given time. The inputs run in child processes with resource limits.
#
# Prints the number of inputs and failures of each kind. If an input causes a failure, the script
# keeps it in target/attack and prints the command that repeats the failure. By default, the script
# attacks a build with assertions. The environment variable ATTACK_PROFILE=release selects the build
# that users run.
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
