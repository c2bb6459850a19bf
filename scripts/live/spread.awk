#!/usr/bin/awk -f
# SPDX-License-Identifier: GPL-2.0-only
# spread.awk FILE: summarizes table rows of `windtunnel live compare --markdown` from several runs: the
# medians of the simulated and live values, the smallest and largest live value, and the error of the
# medians.
BEGIN { FS = " *\\| *" }
NF >= 7 && $6 != "-" {
  key = $3 " | " $4
  if (!(key in nr)) order[++keys] = key
  nr[key]++
  simulated[key, nr[key]] = $5
  live[key, nr[key]] = $6
}
# Sorts the values of a key and returns the median.
function median(values, key,   i, j, n, swap) {
  n = nr[key]
  for (i = 1; i <= n; i++) for (j = i + 1; j <= n; j++)
    if (values[key, i] + 0 > values[key, j] + 0) { swap = values[key, i]; values[key, i] = values[key, j]; values[key, j] = swap }
  return values[key, int((n + 1) / 2)]
}
END {
  print "| workload | figure | simulated | live | live, lowest | live, highest | error |"
  print "|---|---|---:|---:|---:|---:|---:|"
  for (i = 1; i <= keys; i++) {
    key = order[i]
    l = median(live, key)
    s = median(simulated, key)
    error = l + 0 != 0 && s != "-" ? sprintf("%+.1f %%", 100 * (s - l) / l) : "-"
    printf "| %s | %s | %s | %s | %s | %s |\n", key, s, l, live[key, 1], live[key, nr[key]], error
  }
}
