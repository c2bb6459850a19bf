// SPDX-License-Identifier: GPL-2.0-only
/* Reads fields of task_struct that no kernel has, and fields that are seldom read. */
#include "../../../../policies/include/scx.h"
char _license[] SEC("license") = "GPL";

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct task_struct___unmodelled {
	int pid;
	u64 nosuch_number;
	unsigned int before : 5;
	unsigned int nosuch_bit : 1;
	struct task_struct *nosuch_pointer;
};
#pragma clang attribute pop

const volatile u32 follow PARAM("0 or 1: follow the pointer");
u64 seen_number, seen_bit, seen_pointer;

void SCX_OP(fields_running, struct task_struct *p)
{
	struct task_struct___unmodelled *fields = (void *)p;

	if (!fields->pid)
		return;
	seen_number = fields->nosuch_number;
	seen_bit = fields->nosuch_bit;
	if (follow)
		seen_pointer = fields->nosuch_pointer->pid;
}

SCX_OPS(fields_ops, .running = (void *)fields_running, .name = "task_fields");
