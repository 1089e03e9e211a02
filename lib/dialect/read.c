#include "lib/dialect/read_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/path.h"
#include "lib/base/quote.h"

enum { SEQUENCE_DIGITS = 10 };

#define MESOS_NODE "json.info_"
#define MESOS_LEADER "leader"
#define MESOS_OTHER "master-"
#define SERVERSET_NODE "member_"

static dialect_reader *const readers[] = {
	[DIALECT_REGISTRAR] = dialect_read_registrar,
	[DIALECT_SERVERSET] = dialect_read_serverset,
	[DIALECT_CURATOR] = dialect_read_curator,
	[DIALECT_SPRING] = dialect_read_curator,
	[DIALECT_NERVE] = dialect_read_nerve,
	[DIALECT_MESOS] = dialect_read_mesos,
};

/* ---- names ---- */

/* The digits that the server appends to a sequential node's name. */
static bool is_sequence(const char *text)
{
	return strlen(text) == SEQUENCE_DIGITS && strspn(text, "0123456789") == SEQUENCE_DIGITS;
}

static bool begins(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

static bool is_member(enum dialect_type type, const char *name)
{
	switch (type) {
	case DIALECT_SERVERSET:
		return begins(name, SERVERSET_NODE);
	case DIALECT_MESOS:
		return begins(name, MESOS_NODE) && is_sequence(name + strlen(MESOS_NODE));
	default:
		return true;
	}
}

bool dialect_reads_group(enum dialect_type type)
{
	return type == DIALECT_REGISTRAR;
}

bool dialect_ranks(enum dialect_type type)
{
	return type == DIALECT_MESOS;
}

static int compare_entries(const void *a, const void *b)
{
	return strcmp(
		((const struct dialect_entry *)a)->label, ((const struct dialect_entry *)b)->label);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(
		((const struct dialect_entry *)a)->name, ((const struct dialect_entry *)b)->name);
}

static size_t drop_repeated(struct dialect_entry *entries, size_t count)
{
	size_t kept = 0;
	for (size_t i = 0; i < count; i++) {
		if (i == 0 || strcmp(entries[i - 1].label, entries[i].label) != 0) {
			entries[kept++] = entries[i];
		}
	}
	return kept;
}

/* All names begin alike and end in ten digits: the first in the order of bytes leads. */
static void rank(struct dialect_entry *entries, size_t count)
{
	qsort(entries, count, sizeof(*entries), compare_names);
	for (size_t i = 0; i < count; i++) {
		snprintf(entries[i].label, sizeof(entries[i].label), "%s%s",
			i == 0 ? MESOS_LEADER : MESOS_OTHER,
			i == 0 ? "" : entries[i].name + strlen(MESOS_NODE));
	}
}

size_t dialect_entries(
	struct dialect_entry *entries, enum dialect_type type, char *const *names, size_t count)
{
	size_t members = 0;
	for (size_t i = 0; i < count; i++) {
		if (is_member(type, names[i])) {
			entries[members].name = names[i];
			dialect_label(entries[members++].label, names[i]);
		}
	}
	if (dialect_ranks(type)) {
		rank(entries, members);
	}
	qsort(entries, members, sizeof(*entries), compare_entries);
	return drop_repeated(entries, members);
}

bool dialect_entry_name(char out[DIALECT_LABEL_SIZE], enum dialect_type type, const char *label)
{
	char name[DIALECT_LABEL_SIZE];
	if (dialect_ranks(type) || !dialect_label_name(name, label) ||
		!path_foreign_element_valid(name, strlen(name)) || !is_member(type, name)) {
		return false;
	}
	strcpy(out, name);
	return true;
}

/* ---- records ---- */

static void encode(struct dialect_reading *reading, char **ret_text, size_t *ret_len)
{
	struct err err = ERR_INIT;
	if (!reading->err.code && record_encode(reading->record, ret_text, ret_len, &err)) {
		err_set(&reading->err,
			err.code == BERTH_FAILED ? BERTH_FAILED : BERTH_INVALID_RECORD, "%s",
			err.msg);
	}
}

static void read_json(
	struct dialect_reading *reading, enum dialect_type type, char **ret_text, size_t *ret_len)
{
	const struct dialect_member *member = reading->member;
	reading->record = record_create();
	if (!reading->record) {
		err_set(&reading->err, BERTH_FAILED, "no memory for a record");
		return;
	}
	dialect_set_text(
		reading, "yarn:persistence", member->ephemeral ? "container" : "permanent");
	dialect_set_text(reading, "dialect", dialect_name(type));
	readers[type](reading);
	encode(reading, ret_text, ret_len);
	record_free(reading->record);
}

int dialect_read(char **ret_text, size_t *ret_len, enum dialect_type type,
	const struct dialect_member *member, struct err *err)
{
	if (member->len == 0) {
		return err_set(err, BERTH_NO_RECORD, "%s is empty", quote_text(member->name).text);
	}
	struct dialect_reading reading = { .member = member };
	json_t *json = dialect_json(member->data, member->len, &reading.err);
	reading.json = json;
	read_json(&reading, type, ret_text, ret_len);
	json_decref(json);
	return reading.err.code
		? err_set(err, reading.err.code, "%s is not a member of %s: %s",
			  quote_text(member->name).text, dialect_name(type), reading.err.msg)
		: 0;
}
