/* SPDX-License-Identifier: GPL-2.0-only */
/* Functions and macros that the attacks need beyond the policies' headers. */
#include "../../../policies/include/scx.h"

#define U64_MAX (~0ULL)
#define S64_MAX 0x7fffffffffffffffULL
#define S64_MIN 0x8000000000000000ULL

/* A number whose value the compiler does not know. */
static volatile u64 opaque_zero;
#define OPAQUE(value) ((u64)(value) + opaque_zero)
/* A pointer to a numeric address. The compiler does not know where it points. */
#define AT(address) ((volatile u64 *)OPAQUE(address))

/* An xorshift random number generator. An attack uses it to act differently in each call. */
static u64 random_state = 88172645463325252ULL;
static __always_inline u64 next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}
