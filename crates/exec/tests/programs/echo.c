/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * echo: the user-space program of echo.bpf.c. It uses bpf(2) itself, so that the tests need no
 * library. Its argument is what it does beside scheduling: "run", "restart" (it has one thread), or a
 * thing that a program must not do. If the policy ends and asks for it, the program loads it again.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The object, which the simulator finds in this file. Without it, the command line names the object. */
#ifdef OBJECT
__asm__(".section .rodata\n.balign 64\n.globl object\nobject:\n.incbin \"" OBJECT "\"\n.previous\n");
extern const char object[];
#else
static const char object[] = "\x7f";
#endif

#define PAGE 4096UL
#define RING 4096UL
#define LARGE (80UL << 20)

/* SCX_ECODE_ACT_RESTART */
#define RESTART (1UL << 48)

struct globals {
	uint64_t nr_sent, nr_returned, nr_heartbeats, exit_code;
};

static volatile struct globals *globals;

/* struct settings of echo.bpf.c. */
struct settings {
	uint32_t weight;
	int32_t offset;
	uint8_t mask[8];
	uint64_t large;
};

static int bpf(int command, union bpf_attr *attr)
{
	return syscall(SYS_bpf, command, attr, sizeof(*attr));
}

static int check(int result, const char *what)
{
	if (result < 0) {
		printf("%s: %s\n", what, strerror(errno));
		fflush(stdout);
		exit(3);
	}
	return result;
}

static int create_map(const char *name, int type, int key, int value, int entries, int flags)
{
	union bpf_attr attr = { .map_type = type, .key_size = key, .value_size = value, .max_entries = entries,
				.map_flags = flags };

	strncpy(attr.map_name, name, sizeof(attr.map_name) - 1);
	return check(bpf(BPF_MAP_CREATE, &attr), name);
}

static int load_program(const char *name, int type)
{
	union bpf_attr attr = { .prog_type = type };

	strncpy(attr.prog_name, name, sizeof(attr.prog_name) - 1);
	return check(bpf(BPF_PROG_LOAD, &attr), name);
}

static void *map_pages(int fd, size_t size, int prot, off_t offset)
{
	void *pages = mmap(NULL, size, prot, MAP_SHARED, fd, offset);

	if (pages == MAP_FAILED)
		check(-1, "mmap");
	return pages;
}

static int setup, weights;

static void add_weight(uint32_t add)
{
	union bpf_attr run = { .test = { .prog_fd = setup, .ctx_in = (uintptr_t)&add, .ctx_size_in = sizeof(add) } };

	check(bpf(BPF_PROG_TEST_RUN, &run), "run");
}

static void set_element(uint32_t key, uint32_t weight)
{
	union bpf_attr element = { .map_fd = weights, .key = (uintptr_t)&key, .value = (uintptr_t)&weight };

	check(bpf(BPF_MAP_UPDATE_ELEM, &element), "update");
}

/* Passes 80 MiB of globals, as libbpf does. */
static void set_large(void)
{
	int zero = 0, map = create_map(".bss.large", BPF_MAP_TYPE_ARRAY, 4, LARGE, 1, BPF_F_MMAPABLE);
	char *bytes = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	union bpf_attr element = { .map_fd = map, .key = (uintptr_t)&zero, .value = (uintptr_t)bytes };

	if (bytes == MAP_FAILED)
		check(-1, "mmap");
	bytes[LARGE / 2] = 3;
	check(bpf(BPF_MAP_UPDATE_ELEM, &element), "update");
}

/* Makes settings of each kind, before and after it runs a BPF program. */
static void make_settings(void)
{
	int map = create_map(".data.settings", BPF_MAP_TYPE_ARRAY, 4, sizeof(struct settings), 1, BPF_F_MMAPABLE);
	struct settings *settings = map_pages(map, PAGE, PROT_READ | PROT_WRITE, 0);

	weights = create_map("weights", BPF_MAP_TYPE_HASH, 4, 4, 32, 0);
	setup = load_program("echo_setup", 31);
	settings->offset = -3;
	settings->large = ~0UL;
	memset(settings->mask + 2, 7, 4);
	set_element(5, 9);
	set_element(6, 0);
	add_weight(4);
	settings->mask[0] = settings->weight;
}

/* A thread that sleeps and counts. */
static void *heartbeat(void *unused)
{
	struct timespec time = { .tv_nsec = 10000000 };

	pthread_setname_np(pthread_self(), "heartbeat");
	for (;;) {
		nanosleep(&time, NULL);
		globals->nr_heartbeats++;
	}
	return NULL;
}

/* A server and a client of the program that can reach only each other. */
static void listen_and_connect(void)
{
	char text[8];
	int accepted;
	struct sockaddr_in name = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(name);
	int server = check(socket(AF_INET, SOCK_STREAM, 0), "socket");
	int client = check(socket(AF_INET, SOCK_STREAM, 0), "socket");

	check(bind(server, (struct sockaddr *)&name, len), "bind");
	check(listen(server, 1), "listen");
	check(getsockname(server, (struct sockaddr *)&name, &len), "getsockname");
	if (name.sin_family != AF_INET || !name.sin_port)
		printf("the server has no port\n");
	name.sin_port ^= 1;
	if (connect(client, (struct sockaddr *)&name, len) < 0)
		printf("connect: %s\n", strerror(errno));
	name.sin_port ^= 1;
	check(connect(client, (struct sockaddr *)&name, len), "connect");
	accepted = check(accept(server, NULL, NULL), "accept");
	check(write(client, "hello", 5), "write");
	check(close(client), "close");
	if (read(accepted, text, sizeof(text)) == 5 && read(accepted, text + 5, 1) == 0)
		printf("the server read %.5s\n", text);
}

static void misbehave(const char *how)
{
	if (!strcmp(how, "fork")) {
		if (fork() < 0 && errno == EPERM)
			printf("fork: %s\n", strerror(errno));
	} else if (!strcmp(how, "exec")) {
		execl("/bin/sh", "sh", "-c", "true", NULL);
		printf("exec: %s\n", strerror(errno));
	} else if (!strcmp(how, "network")) {
		listen_and_connect();
	} else if (!strcmp(how, "priorities")) {
		int policies[] = { SCHED_OTHER, SCHED_FIFO, SCHED_RR, 7 /* SCHED_EXT */, 99 };

		for (int i = 0; i < 5; i++)
			printf("%d to %d\n", sched_get_priority_min(policies[i]), sched_get_priority_max(policies[i]));
	} else if (!strcmp(how, "abort")) {
		abort();
	} else if (!strcmp(how, "exit")) {
		exit(5);
	} else if (!strcmp(how, "crash")) {
		*(volatile int *)8 = 1;
	} else if (!strcmp(how, "reboot")) {
		syscall(SYS_reboot, 0, 0, 0, 0);
	} else if (!strcmp(how, "shadow")) {
		int fd = open("/etc/shadow", O_RDONLY);

		printf("shadow: %s\n", fd < 0 ? strerror(errno) : "open");
		fflush(stdout);
		exit(6);
	}
}

/* The maps and the link that the program has created, and the mapped pages of its ring buffers. */
static int rodata, bss, in, out, ops, link_fd;
static volatile uint64_t *in_consumer, *in_producer, *out_consumer, *out_producer;

#define INPUT (PAGE + 2 * RING)

static void load(const char *how)
{
	int pid = getpid(), zero = 0;

	rodata = create_map("echo_bpf.rodata", BPF_MAP_TYPE_ARRAY, 4, 4, 1, BPF_F_MMAPABLE);
	union bpf_attr element = { .map_fd = rodata, .key = (uintptr_t)&zero, .value = (uintptr_t)&pid };

	check(bpf(BPF_MAP_UPDATE_ELEM, &element), "update");
	bss = create_map("echo_bpf.bss", BPF_MAP_TYPE_ARRAY, 4, sizeof(struct globals), 1, BPF_F_MMAPABLE);
	globals = map_pages(bss, PAGE, PROT_READ | PROT_WRITE, 0);
	in = create_map("to_user", BPF_MAP_TYPE_RINGBUF, 0, 0, RING, 0);
	out = create_map("from_user", BPF_MAP_TYPE_USER_RINGBUF, 0, 0, RING, 0);
	ops = create_map("echo_ops", BPF_MAP_TYPE_STRUCT_OPS, 4, 512, 1, 1 << 13);
	load_program("echo_select_cpu", BPF_PROG_TYPE_STRUCT_OPS);
	load_program("echo_enqueue", BPF_PROG_TYPE_STRUCT_OPS);
	load_program("echo_dispatch", BPF_PROG_TYPE_STRUCT_OPS);
	load_program("echo_init", BPF_PROG_TYPE_STRUCT_OPS);
	load_program("echo_exit", BPF_PROG_TYPE_STRUCT_OPS);
	if (!strcmp(how, "large"))
		set_large();
	make_settings();

	in_consumer = map_pages(in, PAGE, PROT_READ | PROT_WRITE, 0);
	in_producer = map_pages(in, INPUT, PROT_READ, PAGE);
	out_consumer = map_pages(out, PAGE, PROT_READ, 0);
	out_producer = map_pages(out, INPUT, PROT_READ | PROT_WRITE, PAGE);

	/* A map that is not in the object, after a BPF program has run: libbpf tests the kernel in this way. */
	close(create_map("", BPF_MAP_TYPE_ARRAY, 4, 4, 1, 0));
	union bpf_attr link = { .link_create = { .prog_fd = ops, .attach_type = 44 } };

	link_fd = check(bpf(BPF_LINK_CREATE, &link), "link");
	set_element(7, 1);
	add_weight(2);
}

static void unload(void)
{
	munmap((void *)in_consumer, PAGE);
	munmap((void *)in_producer, INPUT);
	munmap((void *)out_consumer, PAGE);
	munmap((void *)out_producer, INPUT);
	munmap((void *)globals, PAGE);
	int maps[] = { rodata, bss, in, out, ops, setup, weights };

	for (int i = 0; i < 7; i++)
		close(maps[i]);
}

/* Sends back the pids of tasks until the policy has ended. */
static void serve(void)
{
	const char *in_data = (const char *)in_producer + PAGE;
	char *out_data = (char *)out_producer + PAGE;
	struct epoll_event event = { .events = EPOLLIN };
	int ep = check(epoll_create1(0), "epoll_create1");

	check(epoll_ctl(ep, EPOLL_CTL_ADD, in, &event), "epoll_ctl");
	while (!globals->exit_code) {
		check(epoll_wait(ep, &event, 1, 10), "epoll_wait");
		while (*in_consumer < *in_producer) {
			const uint32_t *header = (const void *)(in_data + *in_consumer % RING);
			uint32_t len = *header & 0x3fffffff;

			if (*header & (1U << 31))
				break;
			if (*out_producer - *out_consumer + 16 <= RING) {
				uint32_t *to = (void *)(out_data + *out_producer % RING);

				memcpy(to + 2, header + 2, 4);
				to[0] = 4;
				*out_producer += 16;
			}
			*in_consumer += (len + 8 + 7) / 8 * 8;
		}
	}
	close(ep);
}

/* Prints how many tasks the iterator lists, and whether it lists this process. */
static void iterate(void)
{
	int prog = load_program("list_pids", BPF_PROG_TYPE_TRACING), count = 0, pid, found = 0;
	union bpf_attr link = { .link_create = { .prog_fd = prog, .attach_type = BPF_TRACE_ITER } };
	union bpf_attr iter = { .iter_create = { .link_fd = check(bpf(BPF_LINK_CREATE, &link), "iterator's link") } };
	int fd = check(bpf(BPF_ITER_CREATE, &iter), "iterator");

	for (; read(fd, &pid, sizeof(pid)) == sizeof(pid); count++)
		found |= pid == getpid();
	printf("%d tasks%s\n", count, found ? " with this one" : "");
	close(fd);
	close(iter.iter_create.link_fd);
	close(prog);
}

/* Limits the latency of a CPU, and prints the limit that it then has. */
static void limit_latency(int cpu, const char *limit)
{
	char path[80], text[16] = "";
	int fd;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/power/pm_qos_resume_latency_us", cpu);
	fd = check(open(path, O_WRONLY | O_TRUNC), "open");
	if (write(fd, limit, strlen(limit)) < 0)
		printf("%s: %s\n", limit, strerror(errno));
	close(fd);
	fd = check(open(path, O_RDONLY), "open");
	check(read(fd, text, sizeof(text) - 1), "read");
	close(fd);
	printf("limit %s", text);
}

/* Prints the list of CPUs that are online, and the number of hotplug events. */
static void print_cpus(void)
{
	const char *files[] = { "/sys/devices/system/cpu/online", "/sys/kernel/sched_ext/hotplug_seq" };

	for (int i = 0; i < 2; i++) {
		char text[64] = "";
		int fd = check(open(files[i], O_RDONLY), "open");

		check(read(fd, text, sizeof(text) - 1), "read");
		close(fd);
		printf("%s", text);
	}
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "run";
	pthread_t thread;

	if (object[0] != 0x7f)
		return 1;
	misbehave(how);
	load(how);
	if (strcmp(how, "restart"))
		check(pthread_create(&thread, NULL, heartbeat, NULL) ? -1 : 0, "pthread_create");
	printf("attached\n");
	if (!strcmp(how, "iterate"))
		iterate();
	if (!strcmp(how, "latency")) {
		limit_latency(1, "32");
		limit_latency(1, "-1");
		limit_latency(1, "n/a");
	}
	for (int cpu = 0; cpu < 4 && !strcmp(how, "latencies"); cpu++)
		limit_latency(cpu, "32");
	fflush(stdout);
	if (!strcmp(how, "hang"))
		for (;;)
			;
	if (!strcmp(how, "leave"))
		return 0;
	for (;;) {
		serve();
		if (!(globals->exit_code & RESTART))
			return 0;
		close(link_fd);
		/* Programs and maps stay until their descriptors are closed. */
		add_weight(1);
		set_element(8, 1);
		iterate();
		unload();
		print_cpus();
		load(how);
		printf("attached again\n");
		fflush(stdout);
	}
}
