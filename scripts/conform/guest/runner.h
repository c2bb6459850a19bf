/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RUNNER_H
#define RUNNER_H

#define CGROUPS "/sys/fs/cgroup"
#define WORDS 16

/* The file of the module, /dev/step. */
extern int device;

/* Adds a line to the log which says why a command has failed. Returns -1. */
int fail(const char *format, ...);

#endif
