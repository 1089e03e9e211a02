/* LINK: lib/program/memory.o */
/* Memory, or the end of the program: what it says, and how much room there is. */
#include "lib/base/array.h"
#include "lib/program/memory.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <jansson.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/buffer.h"
#include "tests/support/failing.h"

enum { GOES_ON = 9 };

static void must(void)
{
	(void)memory_must(NULL);
}

static void take_zeroed(void)
{
	(void)memory_zeroed(1, 1);
}

static void take_text(void)
{
	(void)memory_text("text", 4);
}

static void make_json(void)
{
	memory_init();
	(void)json_object();
}

static void fill_buffer(void)
{
	struct buffer buffer;
	memory_init();
	buffer_init(&buffer, 1000);
	(void)buffer_append(&buffer, "text", 4);
}

/* The words on standard error of a process that does this work and whose next allocation fails. */
static const char *last_words(void (*work)(void), int *ret_status)
{
	static char words[256];
	int ends[2];
	size_t len = 0;
	ssize_t got;
	cr_assert_eq(pipe(ends), 0);
	pid_t child = fork();
	cr_assert_geq(child, 0);
	if (child == 0) {
		dup2(ends[1], STDERR_FILENO);
		failing_arm("alloc", 1, ENOMEM);
		work();
		_exit(GOES_ON);
	}
	close(ends[1]);
	while ((got = read(ends[0], words + len, sizeof(words) - 1 - len)) > 0) {
		len += (size_t)got;
	}
	words[len] = '\0';
	close(ends[0]);
	cr_assert_eq(waitpid(child, ret_status, 0), child);
	return words;
}

Test(memory, without_it_the_program_says_so_and_ends)
{
	static const struct {
		const char *name;
		void (*work)(void);
	} works[] = { { "must", must }, { "zeroed", take_zeroed }, { "text", take_text },
		{ "json", make_json }, { "buffer", fill_buffer } };
	for (size_t i = 0; i < ARRAY_LEN(works); i++) {
		int status;
		const char *words = last_words(works[i].work, &status);
		cr_expect_str_eq(
			words, "test_memory: out of memory\n", "%s: %s", works[i].name, words);
		cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FAILURE, "%s: %d",
			works[i].name, status);
	}
}

Test(memory, memory_is_passed_on)
{
	int value;
	cr_expect_eq(memory_must(&value), &value);
}

Test(memory, json_and_buffers_work_with_it)
{
	struct buffer buffer;
	memory_init();
	json_t *json = json_pack("{s:s}", "name", "value");
	cr_assert_not_null(json);
	cr_expect_str_eq(json_string_value(json_object_get(json, "name")), "value");
	json_decref(json);
	buffer_init(&buffer, 100000);
	for (int i = 0; i < 1000; i++) {
		cr_assert_eq(buffer_append(&buffer, "0123456789", 10), 0);
	}
	cr_expect_eq(buffer.len, 10000);
	buffer_finish(&buffer);
}

/* No item is room for one. */
Test(memory, items_are_zeroed)
{
	enum { SIZE = 200 };
	for (size_t count = 0; count < 3; count++) {
		char *items = memory_zeroed(count, SIZE);
		size_t size = SIZE * (count ? count : 1);
		cr_assert_geq(malloc_usable_size(items), size);
		for (size_t i = 0; i < size; i++) {
			cr_assert_eq(items[i], 0);
		}
		free(items);
	}
}

Test(memory, a_text_is_copied_and_ended)
{
	char *empty = memory_text("beyond", 0);
	char *part = memory_text("text and more", 4);
	cr_expect_str_eq(empty, "");
	cr_expect_str_eq(part, "text");
	free(empty);
	free(part);
}

/* With room for twice as many at most. */
Test(memory, an_array_grows_item_by_item_and_keeps_them)
{
	enum { ROUNDED = 64 };
	struct item {
		size_t number;
		char more[120];
	} *items = NULL;
	for (size_t count = 0; count < 70; count++) {
		items = memory_grow(items, count, sizeof(*items));
		size_t room = malloc_usable_size(items);
		cr_assert_geq(room, (count + 1) * sizeof(*items));
		cr_assert_leq(room, (2 * count + 1) * sizeof(*items) + ROUNDED);
		memset(&items[count], 0, sizeof(*items));
		items[count].number = count;
	}
	for (size_t i = 0; i < 70; i++) {
		cr_assert_eq(items[i].number, i);
	}
	free(items);
}

Test(memory, memory_in_use_is_not_given_back)
{
	char *text = memory_text("text", 4);
	memory_trim();
	cr_expect_str_eq(text, "text");
	free(text);
}
