/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Policies that stay in memory. Loading a policy takes most of the time of a script, and many scripts
 * use the same one. So its programs and maps stay, and each script attaches it anew, with maps as after
 * the first load.
 */
#ifndef RESIDENT_H
#define RESIDENT_H

#include <stdbool.h>

/*
 * Loads the policy words[0] with the parameters words[1...], unless it was loaded for the same machine
 * before: some constants of a policy describe the CPUs. The function `start` starts the loader in a process that
 * calls resident_pause() first. Returns false if the policy cannot stay in memory: then it must be loaded in the
 * usual way.
 */
bool resident_load(const char *machine, char **words, int (*start)(char **words));
/* Lets the loader, which this process becomes, wait in front of the system call that attaches a policy. */
void resident_pause(void);
/* Attaches the policy of the last resident_load(). Returns false if the kernel refuses it. */
bool resident_attach(void);
bool resident_restarts(void);
void resident_detach(void);
/* Removes the policy of the last resident_load() from memory. */
void resident_forget(void);

#endif
