#!/usr/bin/awk -f
# SPDX-License-Identifier: GPL-2.0-only
# counters.awk MECHANISMS LOG...: checks that each counter of every policy has increased in at least one
# load, except those in the lines "!POLICY: COUNTER..." of MECHANISMS (the output of mechanisms.py).
{ sub(/\r$/, "") }
FILENAME == ARGV[1] {
  if (/^!/) { split($0, part, /[!: ]+/); for (i = 3; i in part; i++) excused[part[2] " " part[i]] = 1 }
  next
}
/^policy / { policy = $2; sub(/:$/, "", policy); next }
/^ +nr_/ {
  for (i = 1; i <= NF; i++) { split($i, pair, "="); sum[policy " " pair[1]] += pair[2] }
  next
}
END {
  for (counter in sum) {
    counters++
    if (sum[counter] == 0 && !(counter in excused)) { print "counters: " counter " is 0 in all loads"; bad = 1 }
    if (sum[counter] > 0 && counter in excused) print "counters: " counter " is " sum[counter] ", but policies.toml says that no load changes it"
  }
  print "counters: " counters " of all policies, " (bad ? "some did not increase" : "all increased as required")
  exit bad
}
