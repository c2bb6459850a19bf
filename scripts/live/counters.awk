#!/usr/bin/awk -f
# SPDX-License-Identifier: GPL-2.0-only
# counters.awk MECHANISMS LOG...: checks that each counter of a policy moved in at least one load.
# The first file excuses counters in lines "!POLICY: COUNTER...".
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
    if (sum[counter] == 0 && !(counter in excused)) { print "counters: " counter ": 0 in all loads"; bad = 1 }
    if (sum[counter] > 0 && counter in excused) print "counters: " counter ": " sum[counter] ", though excused"
  }
  print "counters: " counters " of all policies, " (bad ? "some" : "none") " stood still"
  exit bad
}
