#include "runtime/objects.h"

void objects_init(struct objects *objects, size_t max,
	void (*on_object)(void *context, const char *text, size_t len, bool is_whole),
	void *context)
{
	*objects = (struct objects){ .max = max, .on_object = on_object, .context = context };
	buffer_init(&objects->object, max + 1);
}

void objects_finish(struct objects *objects)
{
	buffer_finish(&objects->object);
}

void objects_restart(struct objects *objects)
{
	buffer_clear(&objects->object);
	objects->depth = 0;
	objects->in_text = objects->escaped = objects->too_long = false;
}

static void end_object(struct objects *objects)
{
	objects->on_object(objects->context, buffer_text(&objects->object), objects->object.len,
		!objects->too_long);
	objects_restart(objects);
}

/* Whether the byte is a part of an object. */
static bool step(struct objects *objects, char byte)
{
	if (objects->in_text) {
		objects->in_text = objects->escaped || byte != '"';
		objects->escaped = !objects->escaped && byte == '\\';
	} else if (objects->depth > 0 && byte == '"') {
		objects->in_text = true;
	} else if (byte == '{' || (objects->depth > 0 && byte == '[')) {
		objects->depth++;
	} else if (objects->depth > 0 && (byte == '}' || byte == ']')) {
		objects->depth--;
		return true;
	}
	return objects->depth > 0;
}

void objects_feed(struct objects *objects, const char *bytes, size_t len)
{
	for (size_t i = 0; i < len;) {
		size_t begin = i;
		bool part = true;
		while (i < len && (part = step(objects, bytes[i]))) {
			i++;
			if (objects->depth == 0) {
				break;
			}
		}
		size_t room = objects->max - objects->object.len;
		size_t taken = i - begin < room ? i - begin : room;
		objects->too_long = objects->too_long || taken < i - begin;
		buffer_append(&objects->object, bytes + begin, taken);
		if (!part) {
			i++;
		} else if (objects->depth == 0 && i > begin) {
			end_object(objects);
		}
	}
}
