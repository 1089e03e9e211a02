/*
 * Nodes that other programs may have written: each scheme makes a valid record of the data, or says
 * why not; names become labels and come back. The first byte is the scheme, the name ends at a line
 * feed, the group's data at a NUL.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/path.h"
#include "lib/dialect/read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static const enum dialect_type types[] = { DIALECT_REGISTRAR, DIALECT_SERVERSET, DIALECT_CURATOR,
	DIALECT_SPRING, DIALECT_NERVE, DIALECT_MESOS };

static void check_names(enum dialect_type type, char *name)
{
	char label[DIALECT_LABEL_SIZE];
	char back[DIALECT_LABEL_SIZE];
	struct dialect_entry entries[3];
	char *names[] = { name, "json.info_0000000001", name };
	size_t count = dialect_entries(entries, type, names, 3);
	/* The registry lists no name twice; a scheme that numbers its members keeps all names. */
	assert(count <= (dialect_ranks(type) ? 3 : 2));
	for (size_t i = 0; i < count; i++) {
		assert(path_element_valid(entries[i].label, strlen(entries[i].label)));
		assert(i == 0 || strcmp(entries[i - 1].label, entries[i].label) < 0);
	}
	if (*name) {
		dialect_label(label, name);
		assert(path_element_valid(label, strlen(label)));
		assert(!dialect_label_name(back, label) || strcmp(back, name) == 0);
	}
	if (dialect_entry_name(back, type, name)) {
		assert(path_foreign_element_valid(back, strlen(back)));
		dialect_label(label, back);
		assert(strcmp(label, name) == 0);
	}
}

static void check_record(const char *text, size_t len)
{
	struct record *record = NULL;
	assert(record_decode(&record, text, len, NULL) == 0);
	assert(record_check(record, NULL) == 0);
	record_free(record);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	if (len == 0) {
		return 0;
	}
	enum dialect_type type = types[(data[0] & 0x7f) % (ARRAY_LEN(types))];
	char *input = strndup((const char *)data + 1, len - 1);
	size_t group_len = strlen(input) < len - 1 ? strlen(input) : 0;
	char *group = strchr(input, '\n');
	const char *payload = (const char *)data + 1 + (group_len ? group_len + 1 : 0);
	if (group) {
		*group++ = '\0';
	}
	const struct dialect_member member = {
		.service = "web",
		.name = input,
		.ephemeral = data[0] & 0x80,
		.data = payload,
		.len = (size_t)((const char *)data + len - payload),
		.group_data = group,
		.group_len = group ? strlen(group) : 0,
	};
	struct err err = ERR_INIT;
	char *text = NULL;
	char *unexplained = NULL;
	size_t text_len = 0;
	int code = dialect_read(&text, &text_len, type, &member, &err);
	assert(dialect_read(&unexplained, &text_len, type, &member, NULL) == code);
	if (code) {
		assert(!text && !unexplained && err.msg[0]);
		assert(code == BERTH_NO_RECORD || code == BERTH_INVALID_RECORD);
	} else {
		assert(strcmp(text, unexplained) == 0);
		check_record(text, text_len);
	}
	check_names(type, input);
	free(unexplained);
	free(text);
	free(input);
	return 0;
}
