#include "agent/base/by_text.h"

#include <search.h>
#include <string.h>

#include "agent/base/allocate.h"

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void by_text_add(void **index, void *object)
{
	(void)allocated(tsearch(object, index, compare));
}

void by_text_remove(void **index, void *object)
{
	(void)tdelete(object, index, compare);
}

void *by_text_find(void *const *index, const char *text)
{
	void *const *found = tfind(&text, index, compare);
	return found ? *found : NULL;
}

void *by_text_any(void *const *index)
{
	return *index ? **(void *const *const *)index : NULL;
}
