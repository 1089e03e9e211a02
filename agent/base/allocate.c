#include "agent/base/allocate.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/log.h"

static void *or_abort(void *memory)
{
	if (!memory) {
		log_error("agent", "out of memory");
		abort();
	}
	return memory;
}

void *allocate_zeroed(size_t count, size_t size)
{
	return or_abort(calloc(count ? count : 1, size));
}

void *allocate_again(void *memory, size_t count, size_t size)
{
	return or_abort(reallocarray(memory, count ? count : 1, size));
}

char *allocate_text(const char *text)
{
	return or_abort(strdup(text));
}
