// SPDX-License-Identifier: GPL-2.0-only
/* The log of a script, which the runner reads when the script is over. */
#include <linux/fs.h>
#include <linux/slab.h>
#include <linux/stringhash.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "step.h"

#define LOG_SIZE (16 << 20)

static char *buffer;
static int length;
static DEFINE_RAW_SPINLOCK(lock);

void log_add(const char *format, ...)
{
	unsigned long flags;
	va_list arguments;

	raw_spin_lock_irqsave(&lock, flags);
	va_start(arguments, format);
	length += vscnprintf(buffer + length, LOG_SIZE - length, format, arguments);
	va_end(arguments);
	raw_spin_unlock_irqrestore(&lock, flags);
}

/* The rows of the state, as they were logged last. */
static struct row {
	struct row *next;
	char *text;
	char key[];
} *rows[256];

/* Logs a row of the state if it has changed. */
void log_row(const char *key, const char *text)
{
	struct row **bucket = &rows[full_name_hash(NULL, key, strlen(key)) % ARRAY_SIZE(rows)], *row;

	for (row = *bucket; row && strcmp(row->key, key); row = row->next)
		;
	if (row && !strcmp(row->text, text))
		return;
	log_add("%s%s\n", key, text);
	if (!row) {
		row = kmalloc(struct_size(row, key, strlen(key) + 1), GFP_KERNEL);
		strcpy(row->key, key);
		row->next = *bucket;
		*bucket = row;
	} else {
		kfree(row->text);
	}
	row->text = kstrdup(text, GFP_KERNEL);
}

void log_forget_rows(void)
{
	for (int i = 0; i < ARRAY_SIZE(rows); i++)
		while (rows[i]) {
			struct row *row = rows[i];

			rows[i] = row->next;
			kfree(row->text);
			kfree(row);
		}
}

/* Copies the log to user space and empties it. */
ssize_t log_read(char __user *to, size_t size)
{
	ssize_t copied = min_t(size_t, size, length);

	if (length > size)
		return -ENOSPC;
	if (copy_to_user(to, buffer, copied))
		return -EFAULT;
	length = 0;
	return copied;
}

int log_init(void)
{
	buffer = vmalloc(LOG_SIZE);
	return buffer ? 0 : -ENOMEM;
}
