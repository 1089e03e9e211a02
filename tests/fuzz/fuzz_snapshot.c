/*
 * The saved cache: no content crashes; the cache stays within its limit, and what it has taken it
 * saves, and takes again: the second saved file holds as many entries as the first.
 * An input that begins with "!" is the whole file, without the head of this version and registry;
 * an input that begins with "%" goes on behind the name of this boot in the line of the clocks.
 */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/log.h"
#include "lib/base/buffer.h"
#include "tests/support/cache_stage.h"
#include "tests/support/file_stage.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

enum { FILE_MAX = 1 << 20, CACHE_MAX = 64 * 1024 };

static char directory[64];

static void remove_directory(void)
{
	char path[96];
	snprintf(path, sizeof(path), "%s/cache", directory);
	unlink(path);
	rmdir(directory);
}

static void make_directory(void)
{
	if (!*directory) {
		snprintf(directory, sizeof(directory), "/dev/shm/fuzz-snapshot-XXXXXX");
		assert(mkdtemp(directory));
		atexit(remove_directory);
		log_set(LOG_LEVEL_ERROR, false);
	}
}

static void put_boot(struct buffer *text)
{
	char boot[64] = "";
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
	if (file) {
		(void)!fscanf(file, "%63s", boot);
		fclose(file);
	}
	buffer_printf(text, "{\"boot\":\"%s\",", boot);
}

static void write_file(const struct cache_stage *stage, const uint8_t *data, size_t len)
{
	struct err err = ERR_INIT;
	struct buffer text;
	buffer_init(&text, FILE_MAX);
	if (len > 0 && *data == '!') {
		buffer_append(&text, data + 1, len - 1);
	} else {
		buffer_printf(&text, "3\n%s\n", registry_url(stage->registry));
		if (len > 0 && *data == '%') {
			put_boot(&text);
			data++;
			len--;
		}
		buffer_append(&text, data, len);
	}
	assert(!text.failed);
	assert(state_file_write(directory, "cache", "cache", buffer_text(&text), text.len, &err) ==
		0);
	buffer_finish(&text);
}

/* The lines of the saved file. */
static size_t saved_lines(const struct cache_stage *stage)
{
	struct err err = ERR_INIT;
	char *text = NULL;
	size_t len = 0;
	size_t lines = 0;
	assert(save_cache(stage->cache, directory, &err) == 0);
	assert(state_file_read(directory, "cache", "cache", FILE_MAX, &text, &len, &err) == 0);
	for (size_t i = 0; i < len; i++) {
		lines += text[i] == '\n';
	}
	free(text);
	return lines;
}

static size_t load_and_save(const uint8_t *data, size_t len)
{
	const struct cache_options options = { .max_size_bytes = CACHE_MAX };
	struct cache_stage stage;
	cache_stage_open(&stage, &options);
	if (data) {
		write_file(&stage, data, len);
	}
	cache_load(stage.cache, directory, NULL);
	while (cache_is_loading(stage.cache)) {
		cache_stage_turn(&stage);
	}
	struct cache_stats stats;
	cache_get_stats(stage.cache, &stats);
	assert(stats.bytes <= 2 * CACHE_MAX);
	size_t lines = saved_lines(&stage);
	cache_stage_turn(&stage);
	cache_stage_close(&stage);
	return lines;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	make_directory();
	if (len < FILE_MAX / 2) {
		size_t first = load_and_save(data, len);
		assert(load_and_save(NULL, 0) == first);
	}
	return 0;
}
