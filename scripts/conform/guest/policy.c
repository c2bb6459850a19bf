// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include "policy.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "resident.h"
#include "runner.h"

/* Sub-schedulers: the processes that keep them attached, and the lines of their output. */
static struct {
	pid_t loader;
	char group[64];
} subs[8];
#define SUBS (sizeof(subs) / sizeof(*subs))

static bool file_has(const char *path, const char *text)
{
	char line[STEP_LINE];
	FILE *file = fopen(path, "r");
	bool found = false;

	while (file && !found && fgets(line, sizeof(line), file))
		found = strstr(line, text);
	if (file)
		fclose(file);
	return found;
}

/* Returns whether a process is in nanosleep() or clock_nanosleep(). */
static bool sleeps(pid_t pid)
{
	char path[64];
	int number = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/syscall", pid);
	file = fopen(path, "r");
	if (file && fscanf(file, "%d", &number) != 1)
		number = -1;
	if (file)
		fclose(file);
	return number == SYS_nanosleep || number == SYS_clock_nanosleep;
}

/* Starts `windtunnel-live load -q`, which keeps a policy loaded. Its output goes to the file `output`. */
static pid_t start_loader(char **words, const char *cgroup, const char *output, bool pause)
{
	char *arguments[2 * WORDS + 8] = { "windtunnel-live", "load", "-q", words[0] };
	int count = 4;
	pid_t loader;

	if (cgroup) {
		arguments[count++] = "--cgroup";
		arguments[count++] = (char *)cgroup;
	}
	for (char **word = words + 1; *word; word++) {
		arguments[count++] = "--set";
		arguments[count++] = *word;
	}
	loader = fork();
	if (loader == 0) {
		int file = open(output, O_CREAT | O_TRUNC | O_WRONLY, 0644);

		signal(SIGCHLD, SIG_DFL);
		dup2(file, 1);
		dup2(file, 2);
		if (pause)
			resident_pause();
		execvp(arguments[0], arguments);
		dprintf(2, "%s: %s\n", arguments[0], strerror(errno));
		_exit(1);
	}
	return loader;
}

/* Ends a loader at once, and waits until the kernel has detached its policy. */
static void kill_loader(pid_t loader)
{
	kill(loader, SIGKILL);
	/* It fails when the process has ended, because children are reaped on their own. */
	waitpid(loader, NULL, 0);
}

/*
 * No time passes. The loader prints a line when the policy is attached. If it has failed, it ends, or it sleeps to
 * wait for messages of the kernel.
 */
int attach_policy(char **words)
{
	char cgroup[160], output[64];
	size_t at = 0;

	while (at < SUBS && subs[at].loader)
		at++;
	if (at == SUBS || !words[1] || !words[2])
		return fail("attach: expected a group and a policy, and at most %zu sub-schedulers", SUBS);
	snprintf(cgroup, sizeof(cgroup), CGROUPS "%s", words[1]);
	snprintf(output, sizeof(output), "/tmp/loader-%zu", at);
	unlink(output);
	subs[at].loader = start_loader(words + 2, cgroup, output, false);
	snprintf(subs[at].group, sizeof(subs[at].group), "%s", words[1]);
	/* While the loader waits inside the kernel, the machine is at rest now and then. */
	while (!file_has(output, ": loaded in ") && kill(subs[at].loader, 0) == 0 && !sleeps(subs[at].loader))
		ioctl(device, STEP_REST);
	if (file_has(output, ": loaded in "))
		return 0;
	kill_loader(subs[at].loader);
	subs[at].loader = 0;
	return fail("refused");
}

int detach_policy(const char *group)
{
	bool found = false;

	for (size_t i = 0; i < SUBS; i++)
		if (subs[i].loader && (!group || !strcmp(subs[i].group, group))) {
			kill_loader(subs[i].loader);
			subs[i].loader = 0;
			found = true;
		}
	return found || !group ? 0 : fail("refused");
}

/* The process that keeps the policy loaded, or 0. */
static pid_t loader;

static bool policy_enabled(void)
{
	char state[16] = "";
	int file = open("/sys/kernel/sched_ext/state", O_RDONLY);

	if (file < 0 || read(file, state, sizeof(state) - 1) < 0)
		state[0] = 0;
	close(file);
	return !strncmp(state, "enabled", 7);
}

/* Adds the output of the loader to the log, from the first line that contains `first` on. */
static void note_loader_output(const char *first)
{
	char line[STEP_LINE];
	FILE *file = fopen("/tmp/loader", "r");
	bool begun = false;

	while (file && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = 0;
		begun |= strstr(line, first) != NULL;
		if (begun)
			fail("policy: %s", line + strspn(line, " "));
	}
	if (file)
		fclose(file);
}

/* Whether the policy was attached from memory. */
static bool resident;

static pid_t start_paused(char **words)
{
	return start_loader(words, NULL, "/tmp/paused", true);
}

void load_policy(char **words, const char *name, struct step_machine *machine)
{
	/* An attempt fails, for example, if an arena is full of what ops.init() has allocated each time. */
	for (int attempt = 0; attempt < 2 && name && resident_load(name, words + 1, start_paused); attempt++) {
		/* The load has taken time. The policy and its timers begin with the script. */
		ioctl(device, STEP_MACHINE, machine);
		ioctl(device, STEP_APPROACH);
		resident = resident_attach();
		if (resident && policy_enabled())
			return;
		if (resident)
			resident_detach();
		resident = false;
		ioctl(device, STEP_END);
		resident_forget();
		ioctl(device, STEP_MACHINE, machine);
	}
	loader = start_loader(words + 1, NULL, "/tmp/loader", false);
	/* The verifier may take minutes in a guest on a busy host. */
	for (int i = 0; !policy_enabled() && kill(loader, 0) == 0 && i < 120000; i++)
		usleep(10000);
	if (!policy_enabled())
		note_loader_output("");
}

bool unload_policy(void)
{
	bool ended;

	if (resident) {
		/* Only a loader prints why the kernel has ended its policy. */
		ended = !policy_enabled() && !resident_restarts();
		resident_detach();
		resident = false;
		return !ended;
	}
	if (!loader)
		return true;
	/* If the kernel has ended the policy, the loader prints the kernel's messages. */
	ended = !policy_enabled();
	kill(loader, SIGTERM);
	while (kill(loader, 0) == 0 || policy_enabled())
		usleep(10000);
	if (ended)
		note_loader_output(" disabled (");
	loader = 0;
	return true;
}
