/* SPDX-License-Identifier: GPL-2.0-only */
/* Loads and unloads the policy of a script, and its sub-schedulers. */
#ifndef POLICY_H
#define POLICY_H

#include <stdbool.h>

#include "abi.h"

/*
 * policy NAME [KEY=VALUE...]. If `name` is not NULL, the policy may stay in memory for later scripts on the
 * machine with this name.
 */
void load_policy(char **words, const char *name, struct step_machine *machine);
/* Returns false if the kernel has ended a policy that was in memory, whose messages the loader would have printed. */
bool unload_policy(void);
/* attach GROUP POLICY [KEY=VALUE...] */
int attach_policy(char **words);
/* Ends the sub-scheduler of a group, or all of them. */
int detach_policy(const char *group);

#endif
