/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * timer: a policy that starts BPF timers. One timer restarts itself every ms, one has an absolute
 * expiry time, and others are cancelled.
 */
#include "scx.h"

char _license[] SEC("license") = "GPL";

struct element {
	struct bpf_timer timer;
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4);
	__type(key, u32);
	__type(value, struct element);
} timers SEC(".maps");

int bpf_timer_cancel_async(struct bpf_timer *timer) __ksym;

/*
 * Results of bpf_timer_cancel(). Those of bpf_timer_cancel_async() have the suffix _async.
 *
 * own         called by the timer's own callback
 * ended       called for a timer that was cancelled before
 * under_lock  called in ops.running(), where interrupts are disabled
 *
 * `started_again` is the result of bpf_timer_start() for the cancelled timer.
 */
s64 own, own_async, ended, ended_async, under_lock, under_lock_async, started_again;
u64 periodic, absolute_at, cancelled, was_pending, first_at, last_at, key_seen, timer_cpu;

static int on_period(void *map, u32 *key, struct element *element)
{
	last_at = bpf_ktime_get_ns();
	if (!periodic++)
		first_at = last_at;
	key_seen = *key;
	timer_cpu = bpf_get_smp_processor_id();
	own = bpf_timer_cancel(&element->timer);
	own_async = bpf_timer_cancel_async(&element->timer);
	bpf_timer_start(&element->timer, 1000000, 0);
	return 0;
}

static u64 (*const ktime_get_coarse_ns)(void) = (void *)160;
u64 coarse;

static int on_absolute(void *map, u32 *key, struct element *element)
{
	coarse = ktime_get_coarse_ns();
	absolute_at = bpf_ktime_get_ns();
	return 0;
}

static int on_cancelled(void *map, u32 *key, struct element *element)
{
	cancelled++;
	return 0;
}

static __always_inline struct element *at(u32 key)
{
	return bpf_map_lookup_elem(&timers, &key);
}

s32 SCX_OP_SLEEPABLE(timer_ops_init)
{
	struct element *a = at(0), *b = at(1), *c = at(2);

	if (!a || !b || !c)
		return -ENOENT;
	bpf_timer_init(&a->timer, &timers, 7);
	bpf_timer_init(&b->timer, &timers, 7);
	bpf_timer_init(&c->timer, &timers, 7);
	bpf_timer_set_callback(&a->timer, on_period);
	bpf_timer_set_callback(&b->timer, on_absolute);
	bpf_timer_set_callback(&c->timer, on_cancelled);
	bpf_timer_start(&a->timer, 1000000, 0);
	bpf_timer_start(&b->timer, 5500000, 1);
	bpf_timer_start(&c->timer, 1000000, 0);
	was_pending = bpf_timer_cancel(&c->timer);
	started_again = bpf_timer_start(&c->timer, 1000000, 0);
	ended = bpf_timer_cancel(&c->timer);
	ended_async = bpf_timer_cancel_async(&c->timer);
	return 0;
}

void SCX_OP(timer_running, struct task_struct *p)
{
	struct element *d = at(3);

	if (!d || under_lock)
		return;
	bpf_timer_init(&d->timer, &timers, 7);
	bpf_timer_set_callback(&d->timer, on_cancelled);
	bpf_timer_start(&d->timer, 1000000, 0);
	under_lock = bpf_timer_cancel(&d->timer);
	under_lock_async = bpf_timer_cancel_async(&d->timer);
}

SCX_OPS(timer_ops, .init = (void *)timer_ops_init, .running = (void *)timer_running, .name = "timer");
