/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * verdicts OBJECT...: lets the verifier of the running kernel check each program, without attaching
 * anything or enabling a scheduler.
 *
 * Prints a line for each program, with fields separated by tabs: "verdict", the object, the
 * program, "accepted" or "rejected", and the verifier's message.
 *
 * Objects of crates/kernel/tests/policies/rules_*.bpf.c, except rules_within, have a callback table
 * `ops_NAME` for each program, so each program can be loaded alone. Any other object is loaded as a
 * whole, and its line names the first program that is rejected.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char verifier_log[16 << 20];
static char libbpf_error[512];

/* Stores libbpf's first warning. It is the verdict's message if the verifier has left none. */
static int keep_warning(enum libbpf_print_level level, const char *format, va_list args)
{
	if (level == LIBBPF_WARN && !libbpf_error[0])
		vsnprintf(libbpf_error, sizeof(libbpf_error), format, args);
	return 0;
}

/*
 * Whether a line of the log describes an instruction, a source line or a state: `12: (85) call`,
 * `; text`, `R1=ctx()`.
 */
static int is_state(const char *line)
{
	const char *at = line;

	if (*line == ';' || !strncmp(line, "from ", 5) || !strncmp(line, "processed ", 10))
		return 1;
	while (isdigit(*at))
		at++;
	if (at > line && *at == ':')
		return 1;
	if (*line != 'R')
		return 0;
	for (at = line + 1; isdigit(*at); at++)
		;
	return at > line + 1 && (*at == '=' || *at == '_');
}

/* Cuts out the message: the line after the last line that describes an instruction. */
static char *message_of(char *log)
{
	char *message = NULL, *next;

	for (char *line = log; line && *line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		if (!strncmp(line, "processed ", 10))
			break;
		if (is_state(line))
			message = NULL;
		else if (!message && *line)
			message = line;
	}
	return message ? message : "";
}

static const char *name_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static struct bpf_object *open_object(const char *path)
{
	struct bpf_object *object;

	libbpf_error[0] = 0;
	object = bpf_object__open_file(path, NULL);
	if (!object) {
		fprintf(stderr, "verdicts: %s cannot be opened: %s\n", path, libbpf_error);
		exit(1);
	}
	return object;
}

/* The programs to load: a single one, or all programs to which a callback table refers. */
struct choice {
	const char *only;
	const char *left_out[16];
	int nr_left_out;
};

static int is_chosen(const struct choice *choice, const char *program)
{
	for (int i = 0; i < choice->nr_left_out; i++)
		if (!strcmp(program, choice->left_out[i]))
			return 0;
	return !choice->only || !strcmp(program, choice->only);
}

/* Loads the chosen programs. Returns 0 or a negative errno, with messages in `verifier_log` and `libbpf_error`. */
static int load(const char *path, const struct choice *choice)
{
	struct bpf_object *object = open_object(path);
	struct bpf_program *program;
	struct bpf_map *map;
	char table[128];
	int error;

	snprintf(table, sizeof(table), "ops_%s", choice->only ? choice->only : "");
	bpf_object__for_each_map(map, object) {
		if (choice->only && bpf_map__type(map) == BPF_MAP_TYPE_STRUCT_OPS)
			bpf_map__set_autocreate(map, !strcmp(bpf_map__name(map), table));
	}
	bpf_object__for_each_program(program, object) {
		if (choice->only || bpf_program__autoload(program))
			bpf_program__set_autoload(program, is_chosen(choice, bpf_program__name(program)));
		/* libbpf loads without a log first, which is fastest, and with a log if that fails. */
		bpf_program__set_log_level(program, 0);
		bpf_program__set_log_buf(program, verifier_log, sizeof(verifier_log));
	}
	verifier_log[0] = libbpf_error[0] = 0;
	error = bpf_object__load(object);
	bpf_object__close(object);
	return error;
}

/* Loads one program of the object, or all of them, and prints the verdict. */
static void check(const char *path, const char *only)
{
	const char *unreferenced = "program isn't referenced anywhere";
	struct choice choice = { .only = only };
	const char *message = "";
	char name[64];
	int error = load(path, &choice);

	while (error && choice.nr_left_out < 16 && strstr(libbpf_error, unreferenced) &&
	       sscanf(libbpf_error, "libbpf: prog '%63[^']'", name) == 1) {
		choice.left_out[choice.nr_left_out++] = strdup(name);
		error = load(path, &choice);
	}
	if (error) {
		message = message_of(verifier_log);
		if (!*message)
			message = libbpf_error[0] ? libbpf_error : strerror(-error);
	}
	printf("verdict\t%s\t%s\t%s\t%.*s\n", name_of(path), only ? only : "-", error ? "rejected" : "accepted",
	       (int)strcspn(message, "\n"), message);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	libbpf_set_print(keep_warning);
	for (int i = 1; i < argc; i++) {
		struct bpf_object *object = open_object(argv[i]);
		struct bpf_program *program;

		if (strncmp(name_of(argv[i]), "rules_", 6) || !strncmp(name_of(argv[i]), "rules_within", 12))
			check(argv[i], NULL);
		else
			bpf_object__for_each_program(program, object)
				check(argv[i], bpf_program__name(program));
		bpf_object__close(object);
	}
	return 0;
}
