/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * attack: a policy that tries to use up the computing time or the stack of the host in ops.init().
 * One of these macros selects the method:
 *
 * TREE        a tree of 2^40 function calls
 * LARGE       a function with more instructions than the JIT compiles
 * STRSPN      string searches, each of which takes 65535 steps
 * PROBE_READ  many large copies
 * SNPRINTF    formats with very large field widths
 */
#include "scx.h"

char _license[] SEC("license") = "GPL";

static __attribute__((unused)) long (*const probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static __attribute__((unused)) long (*const format_to)(char *to, u32 size, const char *fmt, u64 *args, u32 len) = (void *)165;
int bpf_strspn(const char *s, const char *accept) __ksym;

char text[65536] = "a";
char other[65536];

#define REPEAT_10(code) code code code code code code code code code code
#define REPEAT_1000(code) REPEAT_10(REPEAT_10(REPEAT_10(code)))

#ifdef TREE
/* Each function calls the next one twice, so the program makes 2^40 calls without any loop. */
#define LEVEL(n, next) static __attribute__((noinline)) int f##n(int x) { return next(x + 1) + next(x + 2); }
static __attribute__((noinline)) int leaf(int x)
{
	text[1] = x;
	return x;
}
LEVEL(0, leaf) LEVEL(1, f0) LEVEL(2, f1) LEVEL(3, f2) LEVEL(4, f3) LEVEL(5, f4) LEVEL(6, f5) LEVEL(7, f6)
LEVEL(8, f7) LEVEL(9, f8) LEVEL(10, f9) LEVEL(11, f10) LEVEL(12, f11) LEVEL(13, f12) LEVEL(14, f13) LEVEL(15, f14)
LEVEL(16, f15) LEVEL(17, f16) LEVEL(18, f17) LEVEL(19, f18) LEVEL(20, f19) LEVEL(21, f20) LEVEL(22, f21)
LEVEL(23, f22) LEVEL(24, f23) LEVEL(25, f24) LEVEL(26, f25) LEVEL(27, f26) LEVEL(28, f27) LEVEL(29, f28)
LEVEL(30, f29) LEVEL(31, f30) LEVEL(32, f31) LEVEL(33, f32) LEVEL(34, f33) LEVEL(35, f34) LEVEL(36, f35)
LEVEL(37, f36) LEVEL(38, f37) LEVEL(39, f38)
#endif

s32 SCX_OP_SLEEPABLE(attack_init)
{
	volatile char *place = text;
	u64 args[3] = { 1, 2, 3 };
	u64 i = 0;

#ifdef TREE
	return f39(1);
#endif
#ifdef LARGE
	REPEAT_1000(REPEAT_10(place[2] += 3;))
#endif
#ifdef STRSPN
	for (i = 0; i < sizeof(text) - 1; i++)
		place[i] = 'a';
	for (i = 0; i < 1000000; i++)
		bpf_strspn(text, text);
#endif
#ifdef PROBE_READ
	for (i = 0; i < 100000000; i++)
		probe_read_kernel(text, sizeof(text), other);
#endif
#ifdef SNPRINTF
	for (i = 0; i < 100000000; i++)
		format_to(text, 64, "%8388607d%8388607d%8388607d", args, sizeof(args));
#endif
	return place[0] == 1 && args[i & 1];
}

SCX_OPS(attack_ops, .init = (void *)attack_init, .name = "attack");
