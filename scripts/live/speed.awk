#!/usr/bin/awk -f
# SPDX-License-Identifier: GPL-2.0-only
# speed.awk [-v markdown=1] LOG: prints the figures of the guest's part `speed`. Throughputs are
# relative to those of the kernel's scx_simple. Fails if messages under o1, pmqs, steal or torus are
# more than 10 % slower than under scx_simple. docs/live-speed.md explains why the ping-pong is
# slower under these policies.
{ sub(/\r$/, "") }
$1 == "speed" { order[++n] = $2; messages[$2] = $4; pingpong[$2] = $6 }
$1 == "profile" {
  calls = $5 / 40000
  lines[$2] = lines[$2] sprintf("    %-24s %7.2f x %5.0f ns\n", $3, calls, $7)
  sum[$2] += calls * $7 / 1000
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
    row(name, messages[name], relative(messages[name], messages["scx_simple"]), pingpong[name],
      relative(pingpong[name], pingpong["scx_simple"]), name in sum ? sprintf("%.1f", sum[name]) : "-")
  }
  if (markdown) print "\n```text"
  print "callbacks in a ping-pong: calls per pass x time of a call"
  for (i = 1; i <= n; i++) if (order[i] in lines) printf "  %s\n%s", order[i], lines[order[i]]
  if (markdown) print "```"
  split("o1 pmqs steal torus", must, " ")
  if (messages["scx_simple"] > 0)
    for (i in must) if (messages[must[i]] * 0.9 > messages["scx_simple"]) { print "speed: messages are more than 10 % slower under " must[i] " than under scx_simple"; bad = 1 }
  exit bad
}
