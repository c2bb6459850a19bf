// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include "resident.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "abi.h"
#include "runner.h"

/* Values that are newer than the header of Debian 12: BPF_STRUCT_OPS and BPF_MAP_TYPE_ARENA. */
enum { STRUCT_OPS_LINK = 44, ARENA = 33 };

#define MAPS 24
#define LINKS 8
/* Bytes at the end of an arena where libbpf puts its global variables, at most. */
#define ARENA_GLOBALS (1 << 20)
/* File of a paused loader with which its system calls are answered. */
#define LISTENER 200

struct map {
	int file;
	struct bpf_map_info info;
	/* The values of an array, or the global variables of an arena, after the load. */
	char *values;
	/* Address at which programs and processes see the arena. */
	char *address;
};

static struct resident {
	struct resident *next;
	/* The machine, the policy and its parameters. */
	char *name;
	/*
	 * Whether the policy counts tasks in its global variables when it begins. Those of the guest do not belong to
	 * the script.
	 */
	bool counts_tasks;
	/* The map of type struct_ops, or -1 if the policy cannot stay in memory. */
	int ops;
	int nr_maps, nr_links;
	struct map maps[MAPS];
	/* Files of programs at tracepoints, which stay attached as long as a process has the file. */
	int links[LINKS];
} *residents, *current;

static int link_file = -1;

static long bpf(int command, union bpf_attr *attr)
{
	return syscall(SYS_bpf, command, attr, sizeof(*attr));
}

void resident_pause(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_bpf, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, BPF_LINK_CREATE, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };
	int listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);

	dup2(listener, LISTENER);
	close(listener);
}

/* The start of the arguments of BPF_LINK_CREATE. */
struct link_request {
	uint32_t object, target, type;
};

/*
 * Waits until the loader is about to attach its policy. The system call does not end before the loader does.
 * The programs that an object attaches to tracepoints are attached. Returns false if the loader has ended.
 */
static bool wait_for_attach(pid_t pid, int process, struct link_request *request)
{
	int listener = -1, memory;
	bool found = false;
	char path[32];

	while (listener < 0 && kill(pid, 0) == 0) {
		usleep(1000);
		listener = syscall(SYS_pidfd_getfd, process, LISTENER, 0);
	}
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	memory = open(path, O_RDONLY);
	while (!found && listener >= 0) {
		struct pollfd file = { .fd = listener, .events = POLLIN };
		struct seccomp_notif call = {};
		struct seccomp_notif_resp answer = { .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE };

		if (poll(&file, 1, -1) < 0 || !(file.revents & POLLIN) || ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) < 0)
			break;
		if (pread(memory, request, sizeof(*request), call.data.args[1]) != sizeof(*request))
			break;
		found = request->type == STRUCT_OPS_LINK;
		answer.id = call.id;
		if (!found && ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer) < 0)
			break;
	}
	close(memory);
	close(listener);
	return found;
}

/* Returns a map's size of all values in bytes, of which the kernel copies one for each possible CPU. */
static size_t size_of_values(const struct bpf_map_info *info)
{
	size_t value = info->value_size;

	if (info->type == BPF_MAP_TYPE_PERCPU_ARRAY)
		value = (value + 7) / 8 * 8 * sysconf(_SC_NPROCESSORS_CONF);
	return value * info->max_entries;
}

/* Reads or writes all values of an array. */
static long transfer(int command, struct map *map, char *values)
{
	uint32_t *keys = calloc(map->info.max_entries, sizeof(*keys)), next;
	union bpf_attr attr = {};
	long result;

	for (uint32_t i = 0; i < map->info.max_entries; i++)
		keys[i] = i;
	attr.batch.map_fd = map->file;
	attr.batch.keys = (uintptr_t)keys;
	attr.batch.values = (uintptr_t)values;
	attr.batch.count = map->info.max_entries;
	attr.batch.out_batch = command == BPF_MAP_LOOKUP_BATCH ? (uintptr_t)&next : 0;
	result = bpf(command, &attr);
	free(keys);
	/* ENOENT: the batch reaches the end of the array. */
	return result < 0 && errno == ENOENT && command == BPF_MAP_LOOKUP_BATCH ? 0 : result;
}

/* Removes all elements of a queue. */
static void drain(const struct map *map)
{
	char *value = malloc(map->info.value_size);
	union bpf_attr attr = {};

	attr.map_fd = map->file;
	attr.value = (uintptr_t)value;
	while (bpf(BPF_MAP_LOOKUP_AND_DELETE_ELEM, &attr) == 0)
		;
	free(value);
}

static bool is_array(const struct map *map)
{
	return map->info.type == BPF_MAP_TYPE_ARRAY || map->info.type == BPF_MAP_TYPE_PERCPU_ARRAY;
}

/* Returns the address of the mapping with a size in the process, or NULL. */
static char *address_of_arena(pid_t pid, size_t size)
{
	unsigned long from, to, found = 0;
	char path[32], line[256];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	file = fopen(path, "r");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "%lx-%lx", &from, &to) == 2 && to - from == size && strstr(line, "bpf-map"))
			found = from;
	if (file)
		fclose(file);
	return (char *)found;
}

/* Reads or writes the global variables of an arena. It is mapped only meanwhile: arenas have the same address. */
static bool transfer_arena(const struct map *map, bool write)
{
	size_t size = map->info.max_entries * 4096ul, globals = size < ARENA_GLOBALS ? size : ARENA_GLOBALS;
	char *arena = mmap(map->address, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, map->file, 0);

	if (arena == MAP_FAILED)
		return false;
	memcpy(write ? arena + size - globals : map->values, write ? map->values : arena + size - globals, globals);
	return munmap(arena, size) == 0;
}

/* Takes over a map. Returns false if its content could not be restored later. */
static bool take_map(struct resident *resident, pid_t pid, int file)
{
	struct map *map = &resident->maps[resident->nr_maps];
	union bpf_attr attr = {};

	if (resident->nr_maps == MAPS)
		return false;
	attr.info.bpf_fd = file;
	attr.info.info_len = sizeof(map->info);
	attr.info.info = (uintptr_t)&map->info;
	if (bpf(BPF_OBJ_GET_INFO_BY_FD, &attr) < 0)
		return false;
	map->file = file;
	resident->nr_maps++;
	switch (map->info.type) {
	case BPF_MAP_TYPE_ARRAY:
	case BPF_MAP_TYPE_PERCPU_ARRAY:
		map->values = malloc(size_of_values(&map->info));
		return transfer(BPF_MAP_LOOKUP_BATCH, map, map->values) == 0;
	case ARENA:
		map->address = address_of_arena(pid, map->info.max_entries * 4096ul);
		map->values = malloc(ARENA_GLOBALS);
		return map->address && transfer_arena(map, false);
	case BPF_MAP_TYPE_STRUCT_OPS:
	case BPF_MAP_TYPE_TASK_STORAGE:
	/* No loader fills a queue. */
	case BPF_MAP_TYPE_QUEUE:
		return true;
	default:
		return false;
	}
}

/* Returns whether the description of an open file has a line that begins with a word. */
static bool describes(pid_t pid, const char *file, const char *word)
{
	char path[64], line[128];
	bool found = false;
	FILE *info;

	snprintf(path, sizeof(path), "/proc/%d/fdinfo/%.16s", pid, file);
	info = fopen(path, "r");
	while (info && !found && fgets(line, sizeof(line), info))
		found = !strncmp(line, word, strlen(word));
	if (info)
		fclose(info);
	return found;
}

/*
 * Takes over the maps and the attached programs of a loader that waits to attach its policy. Returns false if
 * the content of a map could not be restored.
 */
static bool take_over(struct resident *resident, pid_t pid, int process, int ops)
{
	char path[32];
	bool all = true;
	struct dirent *entry;
	DIR *files;

	snprintf(path, sizeof(path), "/proc/%d/fdinfo", pid);
	files = opendir(path);
	while (files && (entry = readdir(files))) {
		bool map = describes(pid, entry->d_name, "map_type:");
		int file;

		if (!map && !describes(pid, entry->d_name, "link_type:"))
			continue;
		file = syscall(SYS_pidfd_getfd, process, atoi(entry->d_name), 0);
		if (map)
			all &= take_map(resident, pid, file);
		else if (resident->nr_links < LINKS)
			resident->links[resident->nr_links++] = file;
		else
			all = false;
		if (atoi(entry->d_name) == ops)
			resident->ops = file;
	}
	if (files)
		closedir(files);
	return all;
}

/* Ends what could not stay in memory. */
static void forget(struct resident *resident)
{
	for (int i = 0; i < resident->nr_maps; i++) {
		close(resident->maps[i].file);
		free(resident->maps[i].values);
	}
	for (int i = 0; i < resident->nr_links; i++)
		close(resident->links[i]);
	resident->nr_maps = 0;
	resident->nr_links = 0;
	resident->ops = -1;
}

static struct resident *resident_of(const char *machine, char **words, int (*start)(char **words))
{
	struct resident *resident;
	char name[2048];
	struct link_request request;
	pid_t loader;
	int process;

	snprintf(name, sizeof(name), "%s", machine);
	for (char **word = words; *word; word++)
		snprintf(name + strlen(name), sizeof(name) - strlen(name), " %s", *word);
	for (resident = residents; resident; resident = resident->next)
		if (!strcmp(resident->name, name))
			return resident;
	resident = calloc(1, sizeof(*resident));
	resident->name = strdup(name);
	resident->counts_tasks = !strcmp(words[0], "windows");
	resident->ops = -1;
	resident->next = residents;
	residents = resident;
	loader = start(words);
	process = syscall(SYS_pidfd_open, loader, 0);
	if (!wait_for_attach(loader, process, &request) || !take_over(resident, loader, process, request.object))
		forget(resident);
	close(process);
	kill(loader, SIGKILL);
	while (kill(loader, 0) == 0)
		usleep(1000);
	return resident;
}

/* Deletes what the threads of the kernel and the processes of the guest have in a task storage. */
static void delete_task_storage(int map)
{
	DIR *processes = opendir("/proc");
	struct dirent *entry;

	while (processes && (entry = readdir(processes))) {
		union bpf_attr attr = {};
		int process;

		if (!isdigit(entry->d_name[0]))
			continue;
		process = syscall(SYS_pidfd_open, atoi(entry->d_name), 0);
		attr.map_fd = map;
		attr.key = (uintptr_t)&process;
		bpf(BPF_MAP_DELETE_ELEM, &attr);
		close(process);
	}
	if (processes)
		closedir(processes);
}

/* Gives the maps the content that they had after the load. */
static bool restore(struct resident *resident)
{
	for (struct map *map = resident->maps; map < resident->maps + resident->nr_maps; map++) {
		/* EPERM: the map is frozen, so its content is still the same. */
		if (is_array(map) && transfer(BPF_MAP_UPDATE_BATCH, map, map->values) < 0 && errno != EPERM)
			return false;
		if (map->info.type == ARENA && !transfer_arena(map, true))
			return false;
		if (map->info.type == BPF_MAP_TYPE_TASK_STORAGE)
			delete_task_storage(map->file);
		if (map->info.type == BPF_MAP_TYPE_QUEUE)
			drain(map);
	}
	return true;
}

bool resident_load(const char *machine, char **words, int (*start)(char **words))
{
	current = resident_of(machine, words, start);
	return current->ops >= 0;
}

static atomic_bool attached;

static void *attach(void *unused)
{
	union bpf_attr attr = {};

	attr.link_create.prog_fd = current->ops;
	attr.link_create.attach_type = STRUCT_OPS_LINK;
	link_file = bpf(BPF_LINK_CREATE, &attr);
	attached = true;
	return NULL;
}

/* Gives the global variables the values that they had after the load. */
static void restore_variables(struct resident *resident)
{
	for (struct map *map = resident->maps; map < resident->maps + resident->nr_maps; map++)
		if (is_array(map) && strstr(map->info.name, ".bss"))
			transfer(BPF_MAP_UPDATE_BATCH, map, map->values);
}

/* The kernel's log since the policy was attached. */
static int kmsg = -1;

bool resident_attach(void)
{
	pthread_t thread;

	attached = false;
	kmsg = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	lseek(kmsg, 0, SEEK_END);
	if (!restore(current) || pthread_create(&thread, NULL, attach, NULL))
		return false;
	/* No time passes. While the thread waits inside the kernel, the machine is at rest now and then. */
	while (!attached)
		ioctl(device, STEP_REST);
	pthread_join(thread, NULL);
	if (current->counts_tasks)
		restore_variables(current);
	return link_file >= 0;
}

/* Returns whether the kernel has ended the policy because a CPU went offline or online. */
bool resident_restarts(void)
{
	static const char reason[] = " disabled (unregistered from the main kernel)";
	char record[8192];
	ssize_t length;

	while ((length = read(kmsg, record, sizeof(record) - 1)) > 0) {
		record[length] = 0;
		if (strstr(record, reason))
			return true;
	}
	return false;
}

void resident_detach(void)
{
	close(kmsg);
	close(link_file);
	link_file = -1;
}

void resident_forget(void)
{
	forget(current);
	current->name[0] = 0;
}
