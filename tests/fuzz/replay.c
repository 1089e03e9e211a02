/*
 * Runs a fuzz target over stored inputs, in place of the fuzzer: replay_NAME FILE|DIRECTORY…
 * One line of TAP for each input; a crash is what fails.
 */
#include <dirent.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static unsigned count;

static void give_up(const char *path)
{
	printf("Bail out! %s: %s\n", path, strerror(errno));
	exit(1);
}

static void replay_file(const char *path, size_t len)
{
	FILE *stream = fopen(path, "rb");
	/* Of exactly that size, so that a sanitizer finds reads beyond it. */
	uint8_t *data = malloc(len ? len : 1);
	if (!stream || !data || fread(data, 1, len, stream) != len) {
		give_up(path);
	}
	fclose(stream);
	LLVMFuzzerTestOneInput(data, len);
	free(data);
	printf("ok %u - %s\n", ++count, path);
	fflush(stdout);
}

static void replay(const char *path);

static void replay_directory(const char *path)
{
	struct dirent **entries;
	int entry_count = scandir(path, &entries, NULL, alphasort);
	if (entry_count < 0) {
		give_up(path);
	}
	for (int i = 0; i < entry_count; i++) {
		char *below;
		if (asprintf(&below, "%s/%s", path, entries[i]->d_name) < 0) {
			give_up(path);
		}
		if (entries[i]->d_name[0] != '.') {
			replay(below);
		}
		free(below);
		free(entries[i]);
	}
	free(entries);
}

static void replay(const char *path)
{
	struct stat status;
	if (stat(path, &status)) {
		give_up(path);
	}
	if (S_ISDIR(status.st_mode)) {
		replay_directory(path);
	} else {
		replay_file(path, (size_t)status.st_size);
	}
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		replay(argv[i]);
	}
	printf("1..%u\n", count);
	return 0;
}
