/*
 * A file either loads or is refused with reasons; a configuration that loads is printed so that it
 * loads again.
 */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/config/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static struct config *load(const void *data, size_t len)
{
	int fd = memfd_create("fuzz.ini", MFD_CLOEXEC);
	char path[64];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	assert(fd >= 0 && write(fd, data, len) == (ssize_t)len);
	struct config *config = NULL;
	struct config_problems problems;
	int ret = config_load(&config, path, &problems);
	assert((ret == 0) == (problems.error_count == 0) && (ret == 0) == (config != NULL));
	for (size_t i = 0; i < problems.count; i++) {
		assert(problems.items[i].line >= 0 && problems.items[i].message[0]);
	}
	config_problems_finish(&problems);
	close(fd);
	return config;
}

/*
 * The configuration that is printed without masks runs the same commands and registers the same
 * paths.
 */
static void compare(const struct config *a, const struct config *b)
{
	for (size_t i = 0; i < a->component_count; i++) {
		const struct config_component *one = &a->components[i];
		const struct config_component *other = &b->components[i];
		assert(strcmp(one->path, other->path) == 0);
	}
	assert(a->check_count == b->check_count);
	for (size_t i = 0; i < a->check_count; i++) {
		char **words = a->checks[i].argv;
		char **again = b->checks[i].argv;
		assert(a->checks[i].component_count == b->checks[i].component_count);
		assert(!words == !again);
		for (size_t k = 0; words && (words[k] || again[k]); k++) {
			assert(words[k] && again[k] && strcmp(words[k], again[k]) == 0);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct config *config = load(data, len);
	if (!config) {
		return 0;
	}
	char *text = NULL;
	size_t text_len = 0;
	FILE *stream = open_memstream(&text, &text_len);
	assert(stream);
	config_print(config, stream);
	fclose(stream);
	struct config *again = load(text, text_len);
	assert(again && again->component_count == config->component_count);
	if (!strstr(text, "****")) {
		compare(config, again);
	}
	config_unref(again);
	config_unref(config);
	free(text);
	return 0;
}
