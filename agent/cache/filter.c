#include "agent/cache/filter.h"

#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/array.h"

static bool same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

bool cache_filter_same(const struct cache_filter *a, const struct cache_filter *b)
{
	static const struct cache_filter any = { .text = false };
	a = a ? a : &any;
	b = b ? b : &any;
	return a->text == b->text && a->outside == b->outside && same_text(a->scope, b->scope) &&
		same_text(a->protocol, b->protocol) && same_text(a->api, b->api) &&
		same_text(a->type, b->type) && same_text(a->id, b->id) &&
		same_text(a->persistence, b->persistence) && same_text(a->near, b->near) &&
		same_text(a->attributes, b->attributes);
}

/* Copies the texts to `room`, unless it is NULL; their bytes. */
static size_t move_texts(struct cache_filter *filter, char *room)
{
	const char **texts[] = { &filter->api, &filter->protocol, &filter->scope, &filter->type,
		&filter->id, &filter->persistence, &filter->near, &filter->attributes };
	size_t bytes = 0;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		const char *text = *texts[i];
		if (text && room) {
			*texts[i] = strcpy(room + bytes, text);
		}
		bytes += text ? strlen(text) + 1 : 0;
	}
	return bytes;
}

size_t cache_filter_bytes(const struct cache_filter *filter)
{
	struct cache_filter copy;
	if (!filter) {
		return 0;
	}
	copy = *filter;
	return sizeof(copy) + move_texts(&copy, NULL);
}

struct cache_filter *cache_filter_copy(const struct cache_filter *filter)
{
	if (!filter) {
		return NULL;
	}
	struct cache_filter *copy = allocate_zeroed(1, cache_filter_bytes(filter));
	*copy = *filter;
	move_texts(copy, (char *)(copy + 1));
	return copy;
}
