#include "agent/output/picture.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/json_text.h"

static void visit(void *context, const struct cache_record *found)
{
	struct output_picture *picture = context;
	struct record *record;
	if (!found->data || allocated_code(record_decode(&record, found->data, found->len, NULL))) {
		return;
	}
	picture->members = allocate_grow(
		picture->members, picture->count, sizeof(*picture->members));
	picture->paths = allocate_grow(picture->paths, picture->count, sizeof(*picture->paths));
	picture->paths[picture->count] = allocate_text(found->path);
	picture->members[picture->count] = (struct render_member){ picture->paths[picture->count],
		record };
	picture->count++;
}

static int by_path(const void *a, const void *b)
{
	const struct render_member *left = a;
	const struct render_member *right = b;
	return strcmp(left->path, right->path);
}

void output_picture_read(struct output_picture *ret_picture, const char *from,
	const struct cache_observer *observer, int64_t now_ms)
{
	struct output_picture picture = { .confirmed = false };
	struct cache_picture seen = cache_read_picture(observer, now_ms, visit, &picture);
	if (picture.count > 0) {
		qsort(picture.members, picture.count, sizeof(*picture.members), by_path);
	}
	picture.confirmed = seen.confirmed;
	picture.picture = (struct render_picture){ from, picture.members, picture.count };
	*ret_picture = picture;
}

void output_picture_finish(struct output_picture *picture)
{
	for (size_t i = 0; i < picture->count; i++) {
		record_free((struct record *)(uintptr_t)picture->members[i].record);
		free(picture->paths[i]);
	}
	free(picture->members);
	free(picture->paths);
	*picture = (struct output_picture){ .confirmed = false };
}

int output_picture_write(const struct output_picture *picture, const char *name,
	const struct render_filter *filter, struct buffer *out, struct err *err)
{
	const struct render_options options = { .format = RENDER_JSON, .filter = *filter };
	struct render_result ignored;
	json_t *records = json_object();
	for (size_t i = 0; i < picture->count; i++) {
		json_object_set_nocheck(records, picture->members[i].path,
			(json_t *)(uintptr_t)record_json(picture->members[i].record));
	}
	char *text = allocated(json_text(records, JSON_COMPACT));
	json_decref(records);
	/* Names and paths are labels: they need no escapes. */
	buffer_printf(
		out, "{\"name\":\"%s\",\"from\":\"%s\",\"records\":", name, picture->picture.from);
	buffer_append_text(out, text);
	free(text);
	buffer_append_text(out, ",\"endpoints\":");
	int code = render_write(out, &picture->picture, &options, &ignored, err);
	if (code == 0 && buffer_append_text(out, "}\n") < 0) {
		code = err_set(
			err, BERTH_LIMIT_EXCEEDED, "the picture has more than %zu bytes", out->max);
	}
	return code;
}
