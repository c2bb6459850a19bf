// SPDX-License-Identifier: GPL-2.0-only
// tsc_khz.c: measures the frequency of this host's time-stamp counter and prints it in kHz.
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

struct moment {
	int64_t ns;
	uint64_t tsc;
};

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_RAW, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

// Reads both clocks 100 times, and returns the fastest pair of reads, because the host may interrupt this
// process between the two reads of a pair.
static struct moment read_clocks(void)
{
	struct moment best = { 0, 0 };
	int64_t shortest = INT64_MAX;

	for (int i = 0; i < 100; i++) {
		int64_t before = now_ns();
		uint64_t tsc = __rdtsc();
		int64_t took = now_ns() - before;

		if (took < shortest) {
			shortest = took;
			best = (struct moment){ before + took / 2, tsc };
		}
	}
	return best;
}

int main(void)
{
	struct timespec pause = { 0, 100000000 };
	struct moment from = read_clocks(), to;

	nanosleep(&pause, NULL);
	to = read_clocks();
	printf("%.0f\n", (double)(to.tsc - from.tsc) * 1e6 / (double)(to.ns - from.ns));
	return 0;
}
