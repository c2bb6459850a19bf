/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Attacks on the loading and unloading of policies. Some policies have an invalid callback table
 * (struct sched_ext_ops). Others cause a fault or an exit in a callback.
 *
 * Each ATTACK line below has the name of an attack, and how the attack must end. "ends" means that
 * any end is allowed. The text after "checked:" applies to runs with the sanitizer (--sanitize). To
 * compile an attack, its name in upper case is defined as a macro (see ../src/corpus.rs).
 *
 * ATTACK name_empty refused "name"
 * ATTACK name_unterminated ends
 * ATTACK name_controls ends
 * ATTACK flags_unknown refused "flags"
 * ATTACK timeout_huge refused "timeout"
 * ATTACK timeout_short ends
 * ATTACK batch_huge refused "dispatch_max_batch"
 * ATTACK batch_large ends
 * ATTACK dump_len_huge ends
 * ATTACK hotplug_seq_wrong ends
 * ATTACK init_nonsense refused "invalid errno"
 * ATTACK init_fails refused "failed (-22)"
 * ATTACK init_task_refuses_all ejected ""
 * ATTACK init_task_refuses_some ends
 * ATTACK init_task_nonsense ejected ""
 * ATTACK disallow_all ends
 * ATTACK enqueue_missing runs
 * ATTACK drops_every_16th ends
 * ATTACK drops_all ends
 * ATTACK bad_license ends
 * ATTACK traces_and_is_refused refused "flags"
 * ATTACK fault_in_select_cpu ejected ""
 * ATTACK fault_in_enqueue ejected ""
 * ATTACK fault_in_dequeue ends
 * ATTACK fault_in_dispatch ejected ""
 * ATTACK fault_in_tick ejected ""
 * ATTACK fault_in_runnable ejected ""
 * ATTACK fault_in_running ejected ""
 * ATTACK fault_in_stopping ejected ""
 * ATTACK fault_in_quiescent ejected ""
 * ATTACK fault_in_set_weight ends
 * ATTACK fault_in_set_cpumask ends
 * ATTACK fault_in_update_idle ejected ""
 * ATTACK fault_in_enable ejected ""
 * ATTACK fault_in_disable ends
 * ATTACK fault_in_exit_task ends
 * ATTACK fault_in_init refused "store"; checked: refused "bad-pointer"
 * ATTACK fault_in_init_task ejected ""
 * ATTACK fault_in_exit ends
 * ATTACK fault_in_dump ends
 * ATTACK exit_in_select_cpu ejected ""
 * ATTACK exit_in_enqueue ejected ""
 * ATTACK exit_in_dispatch ejected ""
 * ATTACK exit_in_running ejected ""
 * ATTACK exit_in_stopping ejected ""
 * ATTACK exit_in_init refused "it is over"
 * ATTACK exit_in_init_task ejected ""
 * ATTACK exit_in_exit ends
 * ATTACK exit_in_update_idle ejected ""
 * ATTACK exit_code_wild ejected ""
 * ATTACK exit_message_controls ejected ""
 * ATTACK exit_message_long ejected ""
 * ATTACK kfunc_missing ends
 * ATTACK kfunc_in_wrong_context ends
 */
#include "attack.h"

#define INSERT scx_bpf_dsq_insert(p, DSQ, SCX_SLICE_DFL, enq_flags)
#define MOVE scx_bpf_dsq_move_to_local(DSQ)
#define FAULT *AT(0x123456789abcULL) = 1
static char text[1100] = "end of \x1b[31m it\n\r\t\x07 \x9b \xff\xfe";
static u64 data[12];
static char leaving[] = "it is over";
#define LEAVE(code) scx_bpf_exit_bstr(code, leaving, data, 0)

#if defined(NAME_EMPTY)
#define NAME ""
#elif defined(NAME_UNTERMINATED)
#define NAME "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
#elif defined(NAME_CONTROLS)
#define NAME "\x1b[31mred\n\r\x07\xff"
#elif defined(FLAGS_UNKNOWN)
#define OPS .flags = U64_MAX,
#elif defined(TIMEOUT_HUGE)
#define OPS .timeout_ms = 0xffffffff,
#elif defined(TIMEOUT_SHORT)
#define OPS .timeout_ms = 1,
#elif defined(BATCH_HUGE)
#define OPS .dispatch_max_batch = 0xffffffff,
#elif defined(BATCH_LARGE)
#define OPS .dispatch_max_batch = 0x7fffffff,
#elif defined(DUMP_LEN_HUGE)
#define OPS .exit_dump_len = 0xffffffff,
#define TICK scx_bpf_error("ends")
#elif defined(HOTPLUG_SEQ_WRONG)
#define OPS .hotplug_seq = U64_MAX,
#elif defined(INIT_NONSENSE)
#define INIT return 0x7fffffff
#elif defined(INIT_FAILS)
#define INIT return -EINVAL
#elif defined(INIT_TASK_REFUSES_ALL)
#define INIT_TASK return -ENOMEM
#elif defined(INIT_TASK_REFUSES_SOME)
static u32 seen;
#define INIT_TASK if (args->fork && ++seen % 3 == 0) return -ENOMEM
#elif defined(INIT_TASK_NONSENSE)
#define INIT_TASK return -1000000
#elif defined(DISALLOW_ALL)
#define INIT_TASK p->scx.disallow = true
#elif defined(ENQUEUE_MISSING)
#define NO_ENQUEUE
#elif defined(DROPS_EVERY_16TH)
static u32 seen;
#define ENQUEUE if (++seen % 16) INSERT
#elif defined(DROPS_ALL)
#define ENQUEUE (void)p
#elif defined(BAD_LICENSE)
#define _license _not_the_license
char _other_license[] SEC("license") = "Proprietary \x1b[31m";
#undef SEC
#define SEC(name) __attribute__((section(name), used))
#elif defined(TRACES_AND_IS_REFUSED)
#define OPS .flags = U64_MAX,
u64 switches;
SEC("tp_btf/sched_switch") int on_switch(void *ctx)
{
	switches++;
	return 0;
}
#elif defined(FAULT_IN_SELECT_CPU)
#define SELECT_CPU FAULT
#elif defined(FAULT_IN_ENQUEUE)
#define ENQUEUE FAULT
#elif defined(FAULT_IN_DEQUEUE)
#define DEQUEUE FAULT
#elif defined(FAULT_IN_DISPATCH)
#define DISPATCH FAULT
#elif defined(FAULT_IN_TICK)
#define TICK FAULT
#elif defined(FAULT_IN_RUNNABLE)
#define RUNNABLE FAULT
#elif defined(FAULT_IN_RUNNING)
#define RUNNING FAULT
#elif defined(FAULT_IN_STOPPING)
#define STOPPING FAULT
#elif defined(FAULT_IN_QUIESCENT)
#define QUIESCENT FAULT
#elif defined(FAULT_IN_SET_WEIGHT)
#define SET_WEIGHT FAULT
#elif defined(FAULT_IN_SET_CPUMASK)
#define SET_CPUMASK FAULT
#elif defined(FAULT_IN_UPDATE_IDLE)
#define UPDATE_IDLE FAULT
#elif defined(FAULT_IN_ENABLE)
#define ENABLE FAULT
#elif defined(FAULT_IN_DISABLE)
#define DISABLE FAULT
#define TICK scx_bpf_error("ends")
#elif defined(FAULT_IN_EXIT_TASK)
#define EXIT_TASK FAULT
#elif defined(FAULT_IN_INIT)
#define INIT FAULT
#elif defined(FAULT_IN_INIT_TASK)
#define INIT_TASK FAULT
#elif defined(FAULT_IN_EXIT)
#define EXIT FAULT
#define TICK scx_bpf_error("ends")
#elif defined(FAULT_IN_DUMP)
#define DUMP FAULT
#define DUMP_CPU FAULT
#define DUMP_TASK FAULT
#define TICK scx_bpf_error("ends")
#elif defined(EXIT_IN_SELECT_CPU)
#define SELECT_CPU LEAVE(1)
#elif defined(EXIT_IN_ENQUEUE)
#define ENQUEUE LEAVE(1)
#elif defined(EXIT_IN_DISPATCH)
#define DISPATCH LEAVE(1)
#elif defined(EXIT_IN_RUNNING)
#define RUNNING LEAVE(1)
#elif defined(EXIT_IN_STOPPING)
#define STOPPING LEAVE(1)
#elif defined(EXIT_IN_INIT)
#define INIT LEAVE(1)
#elif defined(EXIT_IN_INIT_TASK)
#define INIT_TASK LEAVE(1)
#elif defined(EXIT_IN_EXIT)
#define EXIT LEAVE(1)
#define TICK scx_bpf_error("ends")
#elif defined(EXIT_IN_UPDATE_IDLE)
#define UPDATE_IDLE LEAVE(1)
#elif defined(EXIT_CODE_WILD)
#define TICK LEAVE(S64_MIN | 0x123456789)
#elif defined(EXIT_MESSAGE_CONTROLS)
#define TICK scx_bpf_error_bstr(text, data, 0)
#elif defined(EXIT_MESSAGE_LONG)
#define INIT for (int i = 0; i < 1099; i++) *(volatile char *)&text[i] = 'x'
#define TICK scx_bpf_error_bstr(text, data, 0)
#elif defined(KFUNC_MISSING)
int no_such_kfunc(void *p) __ksym;
#define TICK no_such_kfunc(p)
#elif defined(KFUNC_IN_WRONG_CONTEXT)
#define TICK scx_bpf_create_dsq(9, -1)
#define RUNNING scx_bpf_dsq_insert(p, DSQ, 1, 0)
#define INIT scx_bpf_dsq_move_to_local(DSQ)
#endif
#include "policy.h"
