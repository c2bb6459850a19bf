// SPDX-License-Identifier: GPL-2.0-only
// link OUT OBJECT...: links BPF objects with libbpf's linker, like the build scripts of scx.
// bpftool can also link objects, but the version in Debian 12 does not support arena maps.
#include <bpf/libbpf.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	struct bpf_linker *linker = argc > 2 ? bpf_linker__new(argv[1], NULL) : NULL;
	int err;

	if (!linker) {
		fprintf(stderr, "usage: link OUT OBJECT...\n");
		return 2;
	}
	for (int i = 2; i < argc; i++) {
		err = bpf_linker__add_file(linker, argv[i], NULL);
		if (err) {
			fprintf(stderr, "%s: %s\n", argv[i], strerror(-err));
			return 1;
		}
	}
	err = bpf_linker__finalize(linker);
	if (err)
		fprintf(stderr, "%s: %s\n", argv[1], strerror(-err));
	bpf_linker__free(linker);
	return err != 0;
}
