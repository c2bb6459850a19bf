#!/usr/bin/awk -f
# SPDX-License-Identifier: GPL-2.0-only
# speed.awk [-v markdown=1] LOG...: prints the figures of each guest relative to those of the kernel's
# scx_simple in the same guest. Fails if hackbench, including the creation of its tasks, takes more than
# 50 % longer under o1, pmqs, steal or torus. A boot with a different program gives different figures:
# under pmqs, medians of three seeds were 9 to 25 % longer, so a lower limit would fail by chance.
# docs/live-speed.md explains why the ping-pong is slower under these policies.
{ sub(/\r$/, "") }
$1 == "speed" && $2 == "scx_simple" { simple_messages[FILENAME] = $4; simple_pingpong[FILENAME] = $6 }
$1 == "speed" && !($2 in guest) { order[++n] = $2; guest[$2] = FILENAME; messages[$2] = $4; pingpong[$2] = $6 }
$1 == "profile" && guest[$2] == FILENAME {
  lines[$2] = lines[$2] sprintf("    %-24s %7.2f x %5.0f ns\n", $3, $5, $7)
  sum[$2] += $5 * $7 / 1000
}
function relative(value, base) { return base > 0 && value > 0 ? sprintf("%+.1f %%", 100 * (base / value - 1)) : "-" }
function row(name, a, b, c, d, e) {
  if (markdown) printf "| %s | %s | %s | %s | %s | %s |\n", name, a, b, c, d, e
  else printf "%-12s %14s %12s %14s %12s %16s\n", name, a, b, c, d, e
}
END {
  row("", "hackbench, s", "throughput", "ping-pong, us", "throughput", "in callbacks, us")
  if (markdown) print "|---|---:|---:|---:|---:|---:|"
  for (i = 1; i <= n; i++) {
    name = order[i]
    row(name, messages[name], relative(messages[name], simple_messages[guest[name]]), pingpong[name],
      relative(pingpong[name], simple_pingpong[guest[name]]), name in sum ? sprintf("%.1f", sum[name]) : "-")
  }
  if (markdown) print "\n```text"
  print "callbacks in a ping-pong: calls per pass x time of a call"
  for (i = 1; i <= n; i++) if (order[i] in lines) printf "  %s\n%s", order[i], lines[order[i]]
  if (markdown) print "```"
  split("o1 pmqs steal torus", must, " ")
  for (i in must) {
    if (!(must[i] in guest)) continue
    simple = simple_messages[guest[must[i]]]
    if (simple > 0 && messages[must[i]] > 1.5 * simple) { print "speed: messages are more than 50 % slower under " must[i] " than under scx_simple"; bad = 1 }
  }
  exit bad
}
