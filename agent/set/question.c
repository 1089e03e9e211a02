#include "agent/set/question.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/buffer.h"
#include "lib/base/hash.h"

enum { TEXTS = 6 };

/* The texts of a key, but for the further paths. */
static void texts_of(const struct set_key *key, const char *texts[TEXTS])
{
	const struct render_filter *filter = &key->filter;
	const char *const all[TEXTS] = { key->what, filter->api, filter->protocol, filter->scope,
		filter->attributes, key->near };
	memcpy(texts, all, sizeof(all));
}

char *set_question_id(const struct set_key *key)
{
	struct buffer out;
	size_t len;
	const char *texts[TEXTS];
	texts_of(key, texts);
	buffer_init(&out, SIZE_MAX);
	buffer_printf(&out, "%d %u %d %lld", (int)key->kind, key->least, key->empty_counts,
		(long long)key->hold_ms);
	for (size_t i = 0; i < TEXTS; i++) {
		buffer_printf(&out, "%c%s", texts[i] ? '\1' : '\2', texts[i] ? texts[i] : "");
	}
	for (size_t i = 0; i < key->further_count; i++) {
		buffer_printf(&out, "\3%s", key->further[i]);
	}
	return allocated(buffer_take(&out, &len));
}

static char *copy(const char *text)
{
	return text ? allocate_text(text) : NULL;
}

static void copy_key(struct set_key *to, const struct set_key *from)
{
	*to = *from;
	to->what = allocate_text(from->what);
	to->filter = (struct render_filter){ copy(from->filter.api), copy(from->filter.protocol),
		copy(from->filter.scope), copy(from->filter.attributes) };
	to->near = copy(from->near);
	char **further = allocate_zeroed(from->further_count + 1, sizeof(*further));
	for (size_t i = 0; i < from->further_count; i++) {
		further[i] = allocate_text(from->further[i]);
	}
	to->further = further;
}

static void free_key(struct set_key *key)
{
	const char *texts[TEXTS];
	texts_of(key, texts);
	for (size_t i = 0; i < TEXTS; i++) {
		free((char *)(uintptr_t)texts[i]);
	}
	for (size_t i = 0; i < key->further_count; i++) {
		free(key->further[i]);
	}
	free((char **)(uintptr_t)key->further);
}

static bool read_name(struct set_question *question, const char *domain)
{
	struct names_labels labels;
	if (!names_split(&labels, question->key.what)) {
		return false;
	}
	(void)names_take_domain(&labels, domain);
	names_read(&question->name, &labels, "");
	question->reader.name = &question->name;
	return names_can_be(&question->name);
}

struct set_question *set_question_create(
	const struct set_key *key, const char *domain, char *id_taken)
{
	struct set_question *question = allocate_zeroed(1, sizeof(*question));
	question->references = 1;
	question->id = id_taken;
	question->hash = hash_text(HASH_INIT, id_taken);
	copy_key(&question->key, key);
	question->reader.filter = key->kind == SET_NAMES ? NULL : &question->key.filter;
	question->can_be = key->kind != SET_OF_NAME || read_name(question, domain);
	const char *base = question->name.base;
	question->where = key->kind != SET_OF_NAME ? question->key.what : *base ? base : "/";
	return question;
}

struct set_question *set_question_hold(struct set_question *question)
{
	question->references++;
	return question;
}

void set_question_release(struct set_question *question)
{
	if (--question->references == 0) {
		free_key(&question->key);
		free(question->id);
		free(question);
	}
}
