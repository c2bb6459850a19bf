#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# attack.sh SECONDS [SEED [KIND...]]: attacks the simulator with damaged inputs and hostile policies,
# in child processes with resource limits.
#
# Prints the number of inputs and failures of each kind. An input that causes a failure is kept in
# target/attack, with the command that repeats it. The build has assertions, unless
# ATTACK_PROFILE=release selects the build that users run.
set -eu
cd "$(dirname "$0")/../.."
seconds=$1
seed=${2:-$(date +%Y%m%d)}
shift $(($# > 2 ? 2 : $#))
profile=${ATTACK_PROFILE:-dev}
cargo build --quiet --profile "$profile" -p attack
[ "$profile" = dev ] && folder=debug || folder=$profile
echo "attack: $seconds s, seed $seed, profile $profile"
exec "target/$folder/attack" run "$seconds" "$seed" "$@"
