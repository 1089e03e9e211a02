#include "lib/registry/dir/mark.h"

#include <stdlib.h>
#include <string.h>

/* Orders a mark's name against `len` bytes of text. */
static int compare(const struct dir_mark *mark, const char *name, size_t len)
{
	int order = strncmp(mark->name, name, len);
	return order != 0 ? order : (mark->name[len] != '\0');
}

/* The index of the first child that is not less than the name. */
static size_t position(const struct dir_mark *mark, const char *name, size_t len)
{
	size_t low = 0;
	size_t high = mark->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (compare(mark->children[middle], name, len) < 0) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return low;
}

struct dir_mark *dir_mark_child(const struct dir_mark *mark, const char *name, size_t len)
{
	size_t index = position(mark, name, len);
	return index < mark->count && compare(mark->children[index], name, len) == 0
		? mark->children[index]
		: NULL;
}

static int insert(struct dir_mark *parent, struct dir_mark *child)
{
	size_t index = position(parent, child->name, strlen(child->name));
	if ((parent->count & (parent->count - 1)) == 0) {
		size_t size = parent->count == 0 ? 1 : 2 * parent->count;
		struct dir_mark **grown = reallocarray(
			parent->children, size, sizeof(struct dir_mark *));
		if (!grown) {
			return -1;
		}
		parent->children = grown;
	}
	memmove(parent->children + index + 1, parent->children + index,
		(parent->count - index) * sizeof(struct dir_mark *));
	parent->children[index] = child;
	parent->count++;
	child->parent = parent;
	return 0;
}

struct dir_mark *dir_mark_create(struct dir_mark *parent, const char *name, size_t len)
{
	struct dir_mark *mark = calloc(1, sizeof(*mark));
	if (!mark) {
		return NULL;
	}
	mark->descriptor = -1;
	list_init(&mark->fired_link);
	list_init(&mark->dying_link);
	mark->stale = true;
	mark->name = strndup(name, len);
	if (!mark->name || (parent && insert(parent, mark) != 0)) {
		free(mark->name);
		free(mark);
		return NULL;
	}
	return mark;
}

void dir_mark_free(struct dir_mark *mark)
{
	struct dir_mark *parent = mark->parent;
	if (parent) {
		size_t index = position(parent, mark->name, strlen(mark->name));
		parent->count--;
		memmove(parent->children + index, parent->children + index + 1,
			(parent->count - index) * sizeof(struct dir_mark *));
	}
	free(mark->children);
	free(mark->name);
	free(mark);
}

struct dir_mark *dir_mark_find(struct dir_mark *root, const char *path)
{
	struct dir_mark *mark = root;
	for (const char *element = path + 1; mark && *element != '\0';) {
		size_t len = (size_t)(strchrnul(element, '/') - element);
		mark = dir_mark_child(mark, element, len);
		element += element[len] == '/' ? len + 1 : len;
	}
	return mark;
}

bool dir_mark_idle(const struct dir_mark *mark)
{
	return mark->parent && mark->count == 0 && !mark->held && !mark->wanted[0] &&
		!mark->wanted[1];
}

void dir_mark_path(const struct dir_mark *mark, char path[LIMIT_PATH_BYTES + 1])
{
	size_t start = LIMIT_PATH_BYTES;
	path[start] = '\0';
	for (; mark->parent; mark = mark->parent) {
		size_t len = strlen(mark->name);
		start -= len + 1;
		path[start] = '/';
		memcpy(path + start + 1, mark->name, len);
	}
	if (start == LIMIT_PATH_BYTES) {
		path[--start] = '/';
	}
	memmove(path, path + start, LIMIT_PATH_BYTES - start + 1);
}

void dir_mark_walk(
	struct dir_mark *mark, void (*visit)(void *context, struct dir_mark *mark), void *context)
{
	visit(context, mark);
	for (size_t i = 0; i < mark->count; i++) {
		dir_mark_walk(mark->children[i], visit, context);
	}
}
