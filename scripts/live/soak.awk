#!/usr/bin/awk -f
# SPDX-License-Identifier: GPL-2.0-only
# soak.awk CONSOLE: prints the table of a soak, the test that loads each policy for a long time. In the
# guest's console, the rows have the form
# soak|POLICY [SETTING...]|EXIT STATUS|SECONDS|TIMES OFFLINE|LONGEST OFFLINE|LOADS|MESSAGE.
BEGIN {
  FS = "|"
  printf "%-56s %9s %8s %9s  %s\n", "policy", "scheduled", "offline", "slowest", "end"
}
/^guest: .* shell loop/ { speed = $0 }
/^soak\|/ {
  sub(/\r$/, "")
  ended = $3 == 0 && $7 == 1 ? "unloaded" : "FAILED: exit status " $3 ", loaded " $7 " times " $8
  # The seconds are time in the guest, which runs with CLOCK=slow (boot.sh), so they do not depend
  # on the host's load.
  if ($6 > 10) ended = "FAILED: a CPU went offline in " $6 " s"
  printf "%-56s %7.1f s %6d x %7.1f s  %s\n", $2, $4, $5, $6, ended
  policies++
  failed += ended != "unloaded"
}
END {
  print speed
  printf "soak: %d policies, %d failed\n", policies, failed
  exit failed > 0 || !policies
}
