#include "lib/base/json_text.h"

#include <stdint.h>

/* The buffer remembers a failure, whatever jansson does about the result. */
static int append(const char *text, size_t len, void *context)
{
	return buffer_append(context, text, len);
}

int json_text_append(struct buffer *out, const json_t *json, size_t flags)
{
	if (json_dump_callback(json, append, out, flags)) {
		out->failed = true;
	}
	return out->failed ? -1 : 0;
}

char *json_text(const json_t *json, size_t flags)
{
	struct buffer out;
	buffer_init(&out, SIZE_MAX);
	(void)json_text_append(&out, json, flags);
	char *text = buffer_take(&out, NULL);
	buffer_finish(&out);
	return text;
}
