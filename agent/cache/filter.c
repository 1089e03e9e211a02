#include "agent/cache/internal.h"

#include <string.h>

/* The key of an answer besides its path and kind: the texts of its filter, one a line. */

enum { TEXTS = 7 };

void cache_write_variant(char *out, const struct cache_filter *filter)
{
	*out = '\0';
	if (!filter) {
		return;
	}
	const char *texts[TEXTS] = { filter->text ? "text" : "json", filter->scope,
		filter->protocol, filter->api, filter->type, filter->id, filter->persistence };
	char *end = out + CACHE_VARIANT_BYTES - 1;
	for (size_t i = 0; i < TEXTS && out < end; i++) {
		size_t len = texts[i] ? strnlen(texts[i], (size_t)(end - out - 1)) : 0;
		memcpy(out, texts[i] ? texts[i] : "", len);
		out += len;
		*out++ = '\n';
	}
	*out = '\0';
}

struct cache_filter cache_read_variant(char *variant)
{
	char *fields[TEXTS];
	char *at = variant;
	for (size_t i = 0; i < TEXTS; i++) {
		char *end = strchrnul(at, '\n');
		fields[i] = end > at ? at : NULL;
		at = *end ? end + 1 : end;
		*end = '\0';
	}
	return (struct cache_filter){
		.text = fields[0] && strcmp(fields[0], "text") == 0,
		.scope = fields[1],
		.protocol = fields[2],
		.api = fields[3],
		.type = fields[4],
		.id = fields[5],
		.persistence = fields[6],
	};
}
