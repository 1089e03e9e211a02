/*
 * State that outlives the agent: the file that holds it, and the documents of drain, history and
 * checks. No content crashes; a file that can be read equals the file that would be written, and a
 * document that was loaded is saved unchanged.
 */
#include <assert.h>
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/drain.h"
#include "agent/base/drains.h"
#include "agent/base/history.h"
#include "agent/check/result.h"
#include "agent/check/state.h"
#include "tests/support/file_stage.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

enum { CONTENT_MAX = 4096 };

static char directory[64];

static void remove_directory(void)
{
	char path[96];
	snprintf(path, sizeof(path), "%s/state", directory);
	unlink(path);
	rmdir(directory);
}

static void write_raw(const uint8_t *data, size_t len)
{
	if (!*directory) {
		snprintf(directory, sizeof(directory), "/dev/shm/fuzz-state-XXXXXX");
		assert(mkdtemp(directory));
		atexit(remove_directory);
	}
	char path[96];
	snprintf(path, sizeof(path), "%s/state", directory);
	FILE *file = fopen(path, "wb");
	assert(file && fwrite(data, 1, len, file) == len);
	assert(fclose(file) == 0);
	/* The agent reads no file that another user may have written. */
	assert(chmod(path, len == 1 ? 0666 : 0600) == 0);
}

static void check_file(const uint8_t *data, size_t len)
{
	struct err err = ERR_INIT;
	char *content = NULL;
	size_t content_len = 0;
	write_raw(data, len);
	assert(state_file_read(directory, "none", "state", CONTENT_MAX, &content, &content_len,
		       &err) == BERTH_PATH_NOT_FOUND);
	err_clear(&err);
	int code = state_file_read(
		directory, "state", "state", CONTENT_MAX, &content, &content_len, &err);
	assert(code == err.code && (code == 0) == (content != NULL));
	if (code) {
		assert(err.msg[0]);
		return;
	}
	assert(content_len <= CONTENT_MAX && content_len < len);
	assert(memcmp(content, data + len - content_len, content_len) == 0);
	err_clear(&err);
	assert(state_file_write(directory, "state", "state", content, content_len, &err) == 0);
	char *again = NULL;
	size_t again_len = 0;
	assert(state_file_read(
		       directory, "state", "state", CONTENT_MAX, &again, &again_len, &err) == 0);
	assert(again_len == content_len && memcmp(again, content, content_len) == 0);
	free(again);
	free(content);
}

static void check_drain(const json_t *document)
{
	struct drain drain = { 0 };
	if (!drain_from_json(&drain, document, 1000)) {
		return;
	}
	json_t *saved = drain_json(&drain);
	struct drain again = { 0 };
	assert(saved && drain_from_json(&again, saved, 1000));
	assert(again.active == drain.active && strcmp(again.reason, drain.reason) == 0);
	json_decref(saved);
}

/* Those of containers: what was loaded is saved, and loaded again, unchanged. */
static void check_drains(const json_t *document)
{
	struct drains drains = { .items = NULL };
	struct drains again = { .items = NULL };
	(void)drains_load(&drains, document, 1000);
	json_t *saved = drains_json(&drains);
	assert(json_object_size(saved) == drains.count && drains_load(&again, saved, 1000));
	json_t *twice = drains_json(&again);
	assert(json_equal(saved, twice));
	json_decref(twice);
	json_decref(saved);
	drains_finish(&again);
	drains_finish(&drains);
}

static void check_history(const json_t *document)
{
	struct history *history = history_create();
	history_load(history, document);
	history_load(history, document); /* in front of what has happened since */
	json_t *once = history_json(history, true);
	assert(once && json_array_size(once) <= HISTORY_LENGTH);
	history_destroy(history);
	history = history_create();
	history_load(history, once);
	json_t *twice = history_json(history, true);
	json_t *public = history_json(history, false);
	assert(json_equal(once, twice));
	assert(json_array_size(public) == json_array_size(once));
	json_decref(public);
	history_destroy(history);
	json_decref(once);
	json_decref(twice);
}

static void check_machine(const json_t *document)
{
	static const struct check_state_rules with_window = {
		.rise = 2, .fall = 3, .window_ms = 1000
	};
	static const struct check_state_rules with_grace = {
		.rise = 1, .fall = 3, .start_grace_ms = 500
	};
	const struct check_state_rules rules = json_is_true(json_object_get(document, "grace"))
		? with_grace
		: with_window;
	struct check_state_machine machine;
	check_state_init(&machine, &rules, 5000);
	if (check_state_restore(&machine, document, 5000)) {
		for (int i = 0; i < 8; i++) {
			(void)check_state_step(&machine, i & 2, 5000 + 100 * i);
		}
		assert(check_state_step(&machine, true, 6000) != CHECK_STATE_DOWN ||
			machine.good < rules.rise);
		json_t *saved = check_state_save(&machine, 6000);
		assert(saved);
		json_decref(saved);
	}
	check_state_finish(&machine);
}

static void check_last_result(const json_t *document)
{
	struct check_result result;
	if (check_result_from_json(&result, document)) {
		char line[64];
		check_result_last_line(&result, line, sizeof(line));
		json_t *saved = check_result_json(&result);
		assert(saved); /* the texts are UTF-8 for any content */
		json_decref(saved);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	check_file(data, len);
	json_t *document = json_loadb((const char *)data, len, JSON_REJECT_DUPLICATES, NULL);
	if (document) {
		check_drain(document);
		check_drains(document);
		check_history(document);
		check_machine(document);
		check_last_result(document);
		json_decref(document);
	}
	return 0;
}
