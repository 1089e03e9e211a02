#include "probe/blob.h"

#include <stdlib.h>

#include "lib/program/memory.h"

static struct blob **blobs;
static size_t count;

void blob_add(uint64_t id, const char *text, size_t len)
{
	struct blob *blob = memory_zeroed(1, sizeof(*blob));
	blobs = memory_grow(blobs, count, sizeof(*blobs));
	blob->id = id;
	blob->references = 1;
	blob->text = memory_text(text, len);
	blob->len = len;
	blobs[count++] = blob;
}

void blob_forget(void)
{
	while (count > 0) {
		blob_unref(blobs[--count]);
	}
	free(blobs);
	blobs = NULL;
}

struct blob *blob_get(uint64_t id)
{
	for (size_t i = 0; i < count; i++) {
		if (blobs[i]->id == id) {
			blobs[i]->references++;
			return blobs[i];
		}
	}
	return NULL;
}

void blob_unref(struct blob *blob)
{
	if (blob && --blob->references == 0) {
		free(blob->text);
		free(blob);
	}
}
