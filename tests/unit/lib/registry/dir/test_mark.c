/* The tree of marks: children in order, paths, and marks that nothing needs. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/registry/dir/mark.h"
#include "tests/support/failing.h"

static struct dir_mark *root;

static void make_root(void)
{
	root = dir_mark_create(NULL, "", 0);
	cr_assert(root);
}

static void free_below(struct dir_mark *mark)
{
	while (mark->count > 0) {
		free_below(mark->children[0]);
	}
	dir_mark_free(mark);
}

static void free_root(void)
{
	free_below(root);
}

TestSuite(dir_mark, .init = make_root, .fini = free_root);

static struct dir_mark *add(struct dir_mark *parent, const char *name)
{
	struct dir_mark *mark = dir_mark_create(parent, name, strlen(name));
	cr_assert(mark);
	return mark;
}

static void assert_children(const char *expected)
{
	char names[256] = "";
	for (size_t i = 0; i < root->count; i++) {
		strcat(names, root->children[i]->name);
		strcat(names, " ");
		cr_assert_eq(root->children[i]->parent, root);
	}
	cr_assert_str_eq(names, expected);
}

Test(dir_mark, a_new_mark_is_stale_and_watches_nothing)
{
	struct dir_mark *mark = dir_mark_create(root, "abc", 2);
	cr_assert_str_eq(mark->name, "ab");
	cr_assert_eq(mark->parent, root);
	cr_assert_eq(mark->descriptor, -1);
	cr_assert(mark->stale);
	cr_assert(list_empty(&mark->fired_link));
	cr_assert(list_empty(&mark->dying_link));
}

Test(dir_mark, children_are_in_the_order_of_their_names)
{
	static const char *const names[] = { "d", "b", "a", "f", "bc", "c", "e" };
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		add(root, names[i]);
	}
	assert_children("a b bc c d e f ");
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct dir_mark *found = dir_mark_child(root, names[i], strlen(names[i]));
		cr_assert(found);
		cr_assert_str_eq(found->name, names[i]);
	}
	cr_assert_eq(dir_mark_child(root, "bcd", 2), dir_mark_find(root, "/bc"));
	cr_assert_null(dir_mark_child(root, "bcd", 3));
	cr_assert_null(dir_mark_child(root, "0", 1));
	cr_assert_null(dir_mark_child(root, "g", 1));
	dir_mark_free(dir_mark_find(root, "/a"));
	dir_mark_free(dir_mark_find(root, "/c"));
	dir_mark_free(dir_mark_find(root, "/f"));
	assert_children("b bc d e ");
}

Test(dir_mark, a_mark_is_found_by_its_path)
{
	struct dir_mark *a = add(root, "a");
	struct dir_mark *deep = add(add(a, "0"), "c.d");
	cr_assert_eq(dir_mark_find(root, "/"), root);
	cr_assert_eq(dir_mark_find(root, "/a"), a);
	cr_assert_eq(dir_mark_find(root, "/a/0/c.d"), deep);
	cr_assert_null(dir_mark_find(root, "/b/0/c.d"));
	cr_assert_null(dir_mark_find(root, "/a/0/c"));
	cr_assert_null(dir_mark_find(root, "/a/0/c.d/e"));
}

Test(dir_mark, a_mark_knows_its_path)
{
	char path[LIMIT_PATH_BYTES + 1];
	struct dir_mark *a = add(root, "abc");
	dir_mark_path(root, path);
	cr_assert_str_eq(path, "/");
	dir_mark_path(a, path);
	cr_assert_str_eq(path, "/abc");
	dir_mark_path(add(a, "d"), path);
	cr_assert_str_eq(path, "/abc/d");
}

Test(dir_mark, the_longest_path_has_room)
{
	char expected[LIMIT_PATH_BYTES + 1] = "";
	char path[LIMIT_PATH_BYTES + 1];
	struct dir_mark *mark = root;
	size_t len = 0;
	for (size_t left = LIMIT_PATH_BYTES; left > 0; left = LIMIT_PATH_BYTES - len) {
		size_t name = left > 200 ? 99 : left - 1;
		expected[len] = '/';
		memset(expected + len + 1, 'x', name);
		mark = dir_mark_create(mark, expected + len + 1, name);
		len += 1 + name;
	}
	expected[len] = '\0';
	cr_assert_eq(len, LIMIT_PATH_BYTES);
	dir_mark_path(mark, path);
	cr_assert_str_eq(path, expected);
	cr_assert_eq(dir_mark_find(root, expected), mark);
}

Test(dir_mark, a_mark_is_idle_when_nothing_needs_it)
{
	struct dir_mark *mark = add(root, "a");
	cr_assert(dir_mark_idle(mark));
	cr_assert(!dir_mark_idle(root));
	mark->held = true;
	cr_assert(!dir_mark_idle(mark));
	mark->held = false;
	for (int kind = 0; kind < DIR_WATCH_KINDS; kind++) {
		mark->wanted[kind] = true;
		cr_assert(!dir_mark_idle(mark));
		mark->wanted[kind] = false;
	}
	struct dir_mark *child = add(mark, "b");
	cr_assert(!dir_mark_idle(mark));
	dir_mark_free(child);
	cr_assert(dir_mark_idle(mark));
}

static void note_name(void *context, struct dir_mark *mark)
{
	strcat(context, mark->name);
	strcat(context, ".");
}

Test(dir_mark, a_walk_visits_each_mark_before_those_below)
{
	char names[64] = "";
	struct dir_mark *b = add(root, "b");
	add(root, "c");
	add(b, "e");
	add(b, "d");
	dir_mark_walk(root, note_name, names);
	cr_assert_str_eq(names, ".b.d.e.c.");
	names[0] = '\0';
	dir_mark_walk(b, note_name, names);
	cr_assert_str_eq(names, "b.d.e.");
}

Test(dir_mark, without_memory_the_tree_stays_as_it_is)
{
	add(root, "b");
	bool fired = true;
	for (int number = 1; fired; number++) {
		failing_arm("alloc", (uint64_t)number, ENOMEM);
		struct dir_mark *mark = dir_mark_create(root, "a", 1);
		fired = failing_disarm();
		cr_assert_eq(mark == NULL, fired);
		assert_children(fired ? "b " : "a b ");
	}
}
