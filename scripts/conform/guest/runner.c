// SPDX-License-Identifier: GPL-2.0-only
/*
 * Executes scripts (docs/scripts.md) with the module step.ko. oracle.py sends requests over the second
 * serial port: "run LENGTH\n" for a script in the memory that guest and host share. The answer is
 * "done LENGTH\n" when the log is in the second half of this memory.
 *
 * The runner runs on CPU 0. The user tasks of a script are its children, and execute task_loop().
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

#include "abi.h"
#include "policy.h"
#include "runner.h"

int device;

/* A system call that does not touch errno, which the threads of a process share here. */
static long call(long number, long a, long b, long c, long d)
{
	register long r10 asm("r10") = d;
	long result;

	asm volatile("syscall"
		     : "=a"(result)
		     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
		     : "rcx", "r11", "memory");
	return result;
}

static int task_loop(void *unused);

static void start_thread(void)
{
	size_t size = 16 << 10;
	char *stack = (char *)mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	clone(task_loop, stack + size, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM,
	      NULL);
}

/* The loop of a user task. The kernel returns from RUN after each interrupt. */
static int task_loop(void *unused)
{
	static char *arguments[] = { "task", NULL };

	for (;;) {
		switch (call(SYS_ioctl, device, STEP_RUN, 0, 0)) {
		case STEP_FORK:
			call(SYS_fork, 0, 0, 0, 0);
			break;
		case STEP_THREAD:
			start_thread();
			break;
		case STEP_EXEC:
			call(SYS_execve, (long)"/bin/runner", (long)arguments, 0, 0);
			break;
		case STEP_NONE:
		case -EINTR:
			break;
		default:
			call(SYS_exit, 0, 0, 0, 0);
		}
	}
	return 0;
}

/* The script */

static char groups[16][64];
static int nr_groups;
static unsigned nr_cpus;

/* Adds a line to the log, for example about a command that has no effect. */
static void note(const char *format, ...)
{
	char text[STEP_LINE];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	ioctl(device, STEP_LOG, text);
}

int fail(const char *format, ...)
{
	char text[STEP_LINE - 32], line[STEP_LINE];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	snprintf(line, sizeof(line), "! %s", text);
	note("%s", line);
	return -1;
}

/* Returns the pid of a task. If the task does not exist, returns a pid for which system calls fail with ESRCH. */
static pid_t pid_of(const char *name)
{
	struct step_tell request = {};
	pid_t pid;

	snprintf(request.task, sizeof(request.task), "%s", name);
	pid = ioctl(device, STEP_PID, &request);
	return pid < 0 ? INT_MAX : pid;
}

/* Parses 250us, 3ms, 1s, 100ns. */
static uint64_t duration(const char *text)
{
	char *unit;
	uint64_t value = strtoull(text, &unit, 10);

	if (!strcmp(unit, "s"))
		return value * 1000000000;
	if (!strcmp(unit, "ms"))
		return value * 1000000;
	if (!strcmp(unit, "us"))
		return value * 1000;
	return value;
}

/* Parses 1-3,5. */
static uint64_t cpu_list(const char *text)
{
	uint64_t mask = 0;

	while (*text) {
		char *end;
		unsigned long first = strtoul(text, &end, 10), last = first;

		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		for (unsigned long cpu = first; cpu <= last && cpu < 64; cpu++)
			mask |= 1ull << cpu;
		if (*end != ',')
			break;
		text = end + 1;
	}
	return mask;
}

/* Returns the value of the word KEY=VALUE, or NULL. */
static const char *option(char **words, const char *key)
{
	size_t length = strlen(key);

	for (; *words; words++)
		if (!strncmp(*words, key, length) && (*words)[length] == '=')
			return *words + length + 1;
	return NULL;
}

static bool has(char **words, const char *word)
{
	for (; *words; words++)
		if (!strcmp(*words, word))
			return true;
	return false;
}

static int write_file(const char *path, const char *format, ...)
{
	char text[64];
	va_list arguments;
	int file = open(path, O_WRONLY), result;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (file < 0)
		return fail("refused: %s", strerror(errno));
	result = write(file, text, strlen(text)) < 0 ? fail("refused: %s", strerror(errno)) : 0;
	close(file);
	return result;
}

static int group_file(const char *group, const char *file, const char *value)
{
	char path[160];

	snprintf(path, sizeof(path), CGROUPS "%s/%s", group, file);
	return write_file(path, "%s", value);
}

/* struct sched_attr, which glibc does not declare. */
struct attr {
	uint32_t size, sched_policy;
	uint64_t sched_flags;
	int32_t sched_nice;
	uint32_t sched_priority;
	uint64_t sched_runtime, sched_deadline, sched_period;
};

static const struct {
	const char *name;
	uint32_t policy;
} policies[] = { { "other", 0 }, { "fifo", 1 }, { "rr", 2 }, { "batch", 3 }, { "idle", 5 }, { "ext", 7 } };

static uint64_t driven_cpus(void)
{
	return ((1ull << nr_cpus) - 1) << 1;
}

static int set_attr(pid_t pid, char **words)
{
	struct attr attr = { .size = sizeof(attr) };
	const char *class = option(words, "class"), *nice = option(words, "nice"), *prio = option(words, "prio"),
		   *slice = option(words, "slice");

	if (syscall(SYS_sched_getattr, pid, &attr, sizeof(attr), 0) < 0)
		return fail("refused: %s", strerror(errno));
	attr.sched_flags = 0;
	for (size_t i = 0; class && i < sizeof(policies) / sizeof(*policies); i++)
		if (!strcmp(policies[i].name, class))
			attr.sched_policy = policies[i].policy;
	attr.sched_priority = attr.sched_policy == 1 || attr.sched_policy == 2 ? prio ? atoi(prio) : 1 : 0;
	if (nice)
		attr.sched_nice = atoi(nice);
	attr.sched_runtime = slice ? duration(slice) : 0;
	if (syscall(SYS_sched_setattr, pid, &attr, 0) < 0)
		return fail("refused: %s", strerror(errno));
	return 0;
}

static int set_affinity(pid_t pid, const char *list)
{
	uint64_t mask = cpu_list(list);

	if (syscall(SYS_sched_setaffinity, pid, sizeof(mask), &mask) < 0)
		return fail("refused: %s", strerror(errno));
	return 0;
}

/* Returns the number of a scheduling policy, or -1. */
static int policy_of(const char *name)
{
	for (size_t i = 0; i < sizeof(policies) / sizeof(*policies); i++)
		if (!strcmp(policies[i].name, name))
			return policies[i].policy;
	return -1;
}

static int create(char **words)
{
	const char *group = option(words, "cgroup"), *cpus = option(words, "cpus"), *class = option(words, "class"),
		   *nice = option(words, "nice"), *prio = option(words, "prio"), *slice = option(words, "slice");
	struct step_create request = {
		.cgroup = -1,
		.cpus = cpus ? cpu_list(cpus) : driven_cpus(),
		.kernel = has(words, "kernel"),
		.policy = class ? policy_of(class) : 0,
		.nice = nice ? atoi(nice) : 0,
		.priority = prio ? atoi(prio) : 1,
		.slice = slice ? duration(slice) : 0,
	};
	char path[160];
	int result;

	snprintf(request.name, sizeof(request.name), "%s", words[1]);
	snprintf(path, sizeof(path), CGROUPS "%s", group ?: "");
	request.cgroup = open(path, O_RDONLY | O_DIRECTORY);
	result = ioctl(device, STEP_CREATE, &request);
	if (result == 0)
		task_loop(NULL);
	close(request.cgroup);
	if (result < 0)
		return fail("refused: %s", strerror(errno));
	return 0;
}

/* Parses 1-2/3-4 into the set of each CPU. */
static void parse_sets(const char *text, __u64 *sets)
{
	for (unsigned cpu = 1; cpu <= nr_cpus; cpu++)
		sets[cpu] = 1ull << cpu;
	while (text && *text) {
		uint64_t set = cpu_list(text);

		for (unsigned cpu = 1; cpu <= nr_cpus; cpu++)
			if (set >> cpu & 1)
				sets[cpu] = set;
		text += strcspn(text, "/");
		text += *text == '/';
	}
}

static void parse_machine(char **words, struct step_machine *machine)
{
	const char *smt = option(words, "smt"), *cluster = option(words, "cluster"), *llc = option(words, "llc"),
		   *nodes = option(words, "nodes"), *distances = option(words, "distances"),
		   *capacities = option(words, "capacities");
	__u64 sets[STEP_MAX_CPUS] = { 0 };
	int node = 0;

	memset(machine, 0, sizeof(*machine));
	parse_sets(smt, machine->smt);
	parse_sets(cluster ?: smt, machine->cluster);
	for (unsigned cpu = 1; cpu <= nr_cpus; cpu++) {
		machine->capacity[cpu] = 1024;
		machine->llc[cpu] = driven_cpus();
	}
	if (nodes) {
		parse_sets(nodes, sets);
		for (unsigned cpu = 1; cpu <= nr_cpus; cpu++) {
			machine->llc[cpu] = sets[cpu];
			/* Nodes are numbered in the order of their first CPUs. */
			if (__builtin_ctzll(sets[cpu]) != (int)cpu)
				continue;
			for (unsigned other = cpu; other <= nr_cpus; other++)
				if (sets[cpu] >> other & 1)
					machine->node[other] = node;
			node++;
		}
	}
	if (llc)
		parse_sets(llc, machine->llc);
	for (int from = 0; from < STEP_MAX_NODES; from++)
		for (int to = 0; to < STEP_MAX_NODES; to++)
			machine->distance[from][to] = from == to ? 10 : 20;
	/* 10,20/20,10 */
	for (int from = 0; distances && from < node; from++)
		for (int to = 0; to < node; to++) {
			machine->distance[from][to] = strtoul(distances, (char **)&distances, 10);
			distances += *distances != 0;
		}
	for (unsigned cpu = 1; capacities && *capacities && cpu <= nr_cpus; cpu++) {
		machine->capacity[cpu] = strtoul(capacities, (char **)&capacities, 10);
		capacities += *capacities == ',';
	}
}

#define FEATURES "/sys/kernel/debug/sched/features"

/* The features of the scheduler before the first script, and whether the script has changed them. */
static char default_features[1024];
static bool features_changed;

static void read_features(void)
{
	int file = open(FEATURES, O_RDONLY);

	if (file < 0 || read(file, default_features, sizeof(default_features) - 1) < 0)
		perror(FEATURES);
	close(file);
}

/* Switches features of the scheduler: NAME switches one on, NO_NAME off. */
static void switch_features(const char *names, const char *separators)
{
	char copy[sizeof(default_features)], *rest = copy;

	snprintf(copy, sizeof(copy), "%s", names);
	for (char *name; (name = strsep(&rest, separators));)
		if (*name)
			write_file(FEATURES, "%s", name);
}

/* The next script begins with the default features. */
static void reset_features(void)
{
	if (features_changed)
		switch_features(default_features, " \n");
	features_changed = false;
}

static int tell(const char *task, enum step_command command, const char *other, uint64_t value, bool sync)
{
	struct step_tell request = { .command = command, .value = value, .sync = sync };

	snprintf(request.task, sizeof(request.task), "%s", task);
	snprintf(request.other, sizeof(request.other), "%s", other ?: "");
	if (ioctl(device, STEP_TELL, &request) == 0)
		return 0;
	if (errno == EAGAIN)
		return fail("%s is not running", task);
	return fail("refused: %s", strerror(errno));
}

static int wake(char **words)
{
	struct step_tell request = { .sync = has(words, "sync") };
	const char *by = option(words, "by"), *from = option(words, "from");

	if (by)
		return tell(by, STEP_WAKE, words[1], 0, request.sync);
	snprintf(request.task, sizeof(request.task), "%s", words[1]);
	request.cpu = from ? atoi(from) : 1;
	if (ioctl(device, STEP_WAKE_FROM, &request) < 0)
		return fail("refused: %s", strerror(errno));
	return 0;
}

static int create_group(const char *name)
{
	const char *last = strrchr(name, '/');
	char path[160];

	if (!last || nr_groups == sizeof(groups) / sizeof(*groups))
		return fail("group %s: expected a path such as /a, and at most 16 groups", name);
	if (last != name) {
		snprintf(path, sizeof(path), CGROUPS "%.*s/cgroup.subtree_control", (int)(last - name), name);
		if (write_file(path, "+cpu") < 0)
			return -1;
	}
	snprintf(path, sizeof(path), CGROUPS "%s", name);
	if (mkdir(path, 0755) < 0)
		return fail("refused: %s", strerror(errno));
	snprintf(groups[nr_groups++], sizeof(groups[0]), "%s", name);
	return ioctl(device, STEP_NEW_GROUP);
}

static int execute(char **words)
{
	const char *name = words[1] ?: "", *value = words[1] && words[2] ? words[2] : "";
	const char *command = words[0];
	uint64_t ns;

	if (!strcmp(command, "create"))
		return create(words);
	if (!strcmp(command, "wake"))
		return wake(words);
	if (!strcmp(command, "block"))
		return tell(name, STEP_BLOCK, NULL, 0, false);
	if (!strcmp(command, "sleep"))
		return tell(name, STEP_SLEEP, NULL, duration(value), false);
	if (!strcmp(command, "yield"))
		return tell(name, STEP_YIELD, NULL, 0, false);
	if (!strcmp(command, "fork"))
		return tell(name, STEP_FORK, value, 0, false);
	if (!strcmp(command, "thread"))
		return tell(name, STEP_THREAD, value, 0, false);
	if (!strcmp(command, "exec"))
		return tell(name, STEP_EXEC, NULL, 0, false);
	if (!strcmp(command, "exit"))
		return tell(name, STEP_EXIT, NULL, 0, false);
	if (!strcmp(command, "migrate_disable"))
		return tell(name, STEP_MIGRATE_DISABLE, NULL, 0, false);
	if (!strcmp(command, "migrate_enable"))
		return tell(name, STEP_MIGRATE_ENABLE, NULL, 0, false);
	if (!strcmp(command, "advance")) {
		ns = duration(name);
		return ioctl(device, STEP_ADVANCE, &ns);
	}
	if (!strcmp(command, "tick"))
		return ioctl(device, STEP_TICK);
	if (!strcmp(command, "set"))
		return set_attr(pid_of(name), words + 2);
	if (!strcmp(command, "affinity")) {
		/* The call waits while the task must not migrate, so a child makes it. */
		if (fork() == 0)
			_exit(set_affinity(pid_of(name), value));
		return 0;
	}
	if (!strcmp(command, "group"))
		return create_group(name);
	if (!strcmp(command, "attach"))
		return attach_policy(words);
	if (!strcmp(command, "detach"))
		return detach_policy(name);
	if (!strcmp(command, "weight"))
		return group_file(name, "cpu.weight", value);
	if (!strcmp(command, "cpu.idle"))
		return group_file(name, "cpu.idle", value);
	if (!strcmp(command, "cpu.max")) {
		char text[64];

		snprintf(text, sizeof(text), "%s %s", value, words[3] ?: "100000");
		return group_file(name, "cpu.max", text);
	}
	if (!strcmp(command, "move")) {
		char pid[16];

		snprintf(pid, sizeof(pid), "%d", pid_of(name));
		return group_file(value, "cgroup.procs", pid);
	}
	if (!strcmp(command, "hotplug")) {
		char path[80];

		if (strcmp(value, "on") && ioctl(device, STEP_NEEDED, atoi(name)) > 0)
			return fail("refused: %s", strerror(EBUSY));
		snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", atoi(name));
		return write_file(path, "%d", !strcmp(value, "on"));
	}
	return fail("%s: unknown command", command);
}

static int split(char *line, char **words)
{
	int count = 0;

	line[strcspn(line, "#\n")] = 0;
	for (char *word = strtok(line, " \t"); word && count < WORDS; word = strtok(NULL, " \t"))
		words[count++] = word;
	words[count] = NULL;
	return count;
}

/* The next script begins with all CPUs online. */
static void bring_cpus_online(void)
{
	glob_t files;

	glob("/sys/devices/system/cpu/cpu[0-9]*/online", 0, NULL, &files);
	for (size_t i = 0; i < files.gl_pathc; i++) {
		int file = open(files.gl_pathv[i], O_WRONLY);

		if (file >= 0 && write(file, "1", 1) < 0)
			perror(files.gl_pathv[i]);
		close(file);
	}
	globfree(&files);
}

static void clean_up(void)
{
	ioctl(device, STEP_END);
	detach_policy(NULL);
	while (ioctl(device, STEP_FORGET) > 0)
		usleep(1000);
	while (nr_groups) {
		char path[160];

		snprintf(path, sizeof(path), CGROUPS "%s", groups[--nr_groups]);
		while (rmdir(path) < 0 && errno == EBUSY)
			usleep(1000);
	}
	/* The scheduler forgets a group some time after the directory has gone. */
	for (int i = 0; ioctl(device, STEP_GROUPS) > 0 && i < 10000; i++)
		usleep(1000);
	bring_cpus_online();
}

static struct step_machine machine;
/* The words of the machine's line, but for the features of the scheduler. */
static char machine_name[STEP_LINE];
/* Whether the policy may come from memory and stay there. */
static bool may_stay;

/* The lines before the first command, which describe the machine and the policy. */
static char header[16][STEP_LINE];
static int nr_header;

static void begin(void)
{
	if (ioctl(device, STEP_BEGIN) < 0)
		fail("the script could not begin: %s", strerror(errno));
	for (int i = 0; i < nr_header; i++)
		ioctl(device, STEP_COMMAND, header[i]);
	ioctl(device, STEP_SETTLE);
}

/* Executes one line of the script. Returns whether it was a command. */
static bool run_line(const char *line, int number, bool begun)
{
	char copy[STEP_LINE], text[STEP_LINE];
	char *words[WORDS + 1];

	snprintf(copy, sizeof(copy), "%s", line);
	if (!split(copy, words))
		return false;
	snprintf(text, sizeof(text), "%d", number);
	for (char **word = words; *word; word++) {
		strncat(text, " ", sizeof(text) - strlen(text) - 1);
		strncat(text, *word, sizeof(text) - strlen(text) - 1);
	}
	if (!strcmp(words[0], "machine") || !strcmp(words[0], "policy")) {
		memcpy(header[nr_header++], text, STEP_LINE);
		if (!strcmp(words[0], "policy")) {
			load_policy(words, may_stay ? machine_name : NULL, &machine);
			return false;
		}
		parse_machine(words, &machine);
		machine_name[0] = 0;
		for (char **word = words + 1; *word; word++)
			if (strncmp(*word, "features=", 9))
				snprintf(machine_name + strlen(machine_name), sizeof(machine_name) - strlen(machine_name),
					 " %s", *word);
		if (option(words, "features")) {
			features_changed = true;
			switch_features(option(words, "features"), ",");
		}
		ioctl(device, STEP_MACHINE, &machine);
		return false;
	}
	if (!begun)
		begin();
	ioctl(device, STEP_COMMAND, text);
	execute(words);
	ioctl(device, STEP_SETTLE);
	return true;
}

/* Returns false if the script must be executed again without policies from memory. */
static bool run_script(const char *script)
{
	bool begun = false, complete;

	nr_header = 0;
	for (int number = 1; *script; number++) {
		size_t length = strcspn(script, "\n");
		char line[STEP_LINE];

		snprintf(line, sizeof(line), "%.*s", (int)length, script);
		begun |= run_line(line, number, begun);
		script += length + (script[length] == '\n');
	}
	clean_up();
	complete = unload_policy();
	reset_features();
	return complete;
}

/* Maps the memory that guest and host share: the device ivshmem-plain. */
static char *map_shared(size_t *size)
{
	glob_t devices;
	char *shared = NULL;

	glob("/sys/bus/pci/devices/*", 0, NULL, &devices);
	for (size_t i = 0; i < devices.gl_pathc && !shared; i++) {
		char path[128], id[16] = "";
		struct stat status;
		int file;

		snprintf(path, sizeof(path), "%s/device", devices.gl_pathv[i]);
		file = open(path, O_RDONLY);
		if (file < 0 || read(file, id, sizeof(id) - 1) < 0 || strncmp(id, "0x1110", 6)) {
			close(file);
			continue;
		}
		close(file);
		snprintf(path, sizeof(path), "%s/resource2", devices.gl_pathv[i]);
		file = open(path, O_RDWR);
		if (file < 0 || fstat(file, &status) < 0)
			continue;
		*size = status.st_size;
		shared = mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
		close(file);
		/* A fork would copy the page tables of the whole mapping. */
		if (shared != MAP_FAILED)
			madvise(shared, *size, MADV_DONTFORK);
	}
	return shared == MAP_FAILED ? NULL : shared;
}

static int serve(void)
{
	size_t size, length;
	char *shared = map_shared(&size);
	int port = open("/dev/ttyS1", O_RDWR | O_NOCTTY);
	struct termios raw;
	char line[64];
	FILE *requests;

	if (!shared || port < 0) {
		fprintf(stderr, "runner: no shared memory or no serial port\n");
		return 1;
	}
	tcgetattr(port, &raw);
	cfmakeraw(&raw);
	tcsetattr(port, TCSANOW, &raw);
	requests = fdopen(port, "r");
	dprintf(port, "ready\n");
	for (;;) {
		ioctl(device, STEP_IDLE, 1);
		if (!fgets(line, sizeof(line), requests))
			return 0;
		ioctl(device, STEP_IDLE, 0);
		if (sscanf(line, "run %zu", &length) == 1 && length < size / 2) {
			char *script = strndup(shared, length);

			/* A policy that stays in memory was loaded without sub-schedulers. */
			may_stay = !strstr(script, "\nattach ");
			if (!run_script(script)) {
				read(device, shared + size / 2, size / 2);
				may_stay = false;
				run_script(script);
			}
			free(script);
			dprintf(port, "done %zd\n", read(device, shared + size / 2, size / 2));
		} else if (!strncmp(line, "quit", 4)) {
			return 0;
		}
	}
}

int main(int count, char **arguments)
{
	device = open("/dev/step", O_RDWR);
	if (device < 0) {
		perror("/dev/step");
		return 1;
	}
	if (count && !strcmp(arguments[0], "task"))
		task_loop(NULL);
	/* Tasks are reaped when they exit. */
	signal(SIGCHLD, SIG_IGN);
	read_features();
	nr_cpus = sysconf(_SC_NPROCESSORS_ONLN) - 1;
	return serve();
}
