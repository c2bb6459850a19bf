#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# costs.sh MACHINE: measures the costs of BPF programs in this kernel and adds them to a machine file:
# `bpf_insn`, `callback`, and `[costs.kfuncs]`. The policy /objects/costs.bpf.o measures its own calls
# while two processes pass a byte back and forth.
#
# Times include a part of bpf_ktime_get_ns(), which is measured with no call in between and subtracted.
# `kfunc`, the cost of all calls that are not measured, is that of scx_bpf_task_cpu(), because most of
# these calls only return a value, too.
machine=$1
run() {
  windtunnel live load "/objects/$1.bpf.o" --quiet >/tmp/costs 2>/tmp/err &
  loader=$!
  while grep -q -v ') Z' /proc/$loader/stat 2>/dev/null && ! grep -q 'loaded in' /tmp/costs; do usleep 20000; done
  windtunnel live run lat_ctx:processes=2,rounds=2000 2>/dev/null | sed -n 's/^  score  *\([0-9.]*\).*/\1/p'
  kill "$loader"
  wait "$loader"
  grep 'counted:' /tmp/costs >"/tmp/$1.counted"
}
few=$(run costs)
many=$(run costs_empty)
tr ' ' '\n' </tmp/costs.counted | awk -F= -v few="$few" -v many="$many" '
  /^nr_ns_/ { ns[substr($1, 7)] = $2 }
  /^nr_calls_/ { calls[substr($1, 10)] = $2 }
  END {
    source = "source = \"measured in a policy, between two readings of the clock\""
    if (!calls["nothing"] || !few || !many) exit 1
    nothing = ns["nothing"] / calls["nothing"]
    printf "bpf_insn = { ps = %d, source = \"measured: a loop in BPF that searches an array, 320 instructions\" }\n",
      (ns["loop"] / calls["loop"] - nothing) * 1000 / (64 * 5)
    printf "callback = { ns = %d, source = \"measured: four empty callbacks, added to each pass of a ping-pong\" }\n",
      (many - few) * 1000 / 4
    for (name in ns) {
      if (name == "nothing" || name == "loop" || !calls[name]) continue
      cost = ns[name] / calls[name] - nothing
      cost = cost < 1 ? 1 : int(cost + 0.5)
      kfuncs = kfuncs sprintf("%s = { ns = %d, %s }\n", name, cost, source)
      if (name == "scx_bpf_task_cpu") simple = cost
    }
    printf "kfunc = { ns = %d, source = \"measured: as scx_bpf_task_cpu, which only returns a value\" }\n", simple
    printf "\n[costs.kfuncs]\n%s", kfuncs
  }' >/tmp/costs.toml || { echo "FAILED costs"; cat /tmp/err; exit 1; }
# The constants belong into [costs], in place of measurements that do not execute BPF.
sed -i '/^bpf_insn = /d' "$machine"
awk '/^\[costs\]$/ { print; while ((getline line < "/tmp/costs.toml") > 0 && line != "") print line; next }
  /^\[costs.channel\]$/ { while ((getline line < "/tmp/costs.toml") > 0) print line; print "" }
  { print }' "$machine" >/tmp/machine.new && mv /tmp/machine.new "$machine"
