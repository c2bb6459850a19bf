// SPDX-License-Identifier: GPL-2.0-only
/* Finds kernel functions and variables that modules cannot link to. */
#include <linux/kprobes.h>

#include "step.h"

struct kernel kernel;
struct inside inside;

/* kallsyms_lookup_name() is not exported either; a kprobe reports its address. */
void *symbol_find(const char *name)
{
	static unsigned long (*lookup)(const char *);

	if (!lookup) {
		struct kprobe probe = { .symbol_name = "kallsyms_lookup_name" };

		if (register_kprobe(&probe) < 0)
			return NULL;
		lookup = (void *)probe.addr;
		unregister_kprobe(&probe);
	}
	return (void *)lookup(name);
}

struct rq *rq_of(int cpu)
{
	return (struct rq *)per_cpu_ptr(kernel.runqueues, cpu);
}

void *percpu_of(void *pointer, int cpu)
{
	return per_cpu_ptr((char __percpu *)pointer, cpu);
}

int symbols_init(void)
{
	static const struct {
		const char *name;
		void **address;
	} symbols[] = {
#define F(result, name, ...) { #name, (void **)&kernel.name },
#define V(type, name) { #name, (void **)&kernel.name },
		KERNEL_FUNCTIONS(F) KERNEL_VARIABLES(V)
#define S(name) { #name, &inside.name },
		INSIDE_SYMBOLS(S)
#undef S
#undef F
#undef V
	};
	int missing = 0;

	for (int i = 0; i < ARRAY_SIZE(symbols); i++) {
		*symbols[i].address = symbol_find(symbols[i].name);
		if (!*symbols[i].address) {
			pr_err("step: the kernel has no symbol %s\n", symbols[i].name);
			missing++;
		}
	}
	return missing ? -ENOENT : 0;
}
