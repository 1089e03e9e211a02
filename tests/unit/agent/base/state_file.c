#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "tests/support/file_stage.h"
#include "tests/support/scratch.h"

static char directory[SCRATCH_PATH];

static void make_directory(void)
{
	scratch_folder(directory);
}

static char *file(const char *name)
{
	static char path[SCRATCH_PATH + 32];
	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return path;
}

static void remove_directory(void)
{
	unlink(file("drain"));
	unlink(file(".drain.new"));
	cr_assert_eq(rmdir(directory), 0, "something was left: %s", strerror(errno));
}

TestSuite(state_file, .init = make_directory, .fini = remove_directory);

static void write_state(const char *text)
{
	struct err err = ERR_INIT;
	cr_assert_eq(state_file_write(directory, "drain", "drain", text, strlen(text), &err), 0,
		"%s", err.msg);
}

/* Reads and expects this code; the content (free()) when it is 0. */
static char *read_state(int code, size_t max_len)
{
	char *data = NULL;
	size_t len = 0;
	struct err err = ERR_INIT;
	cr_assert_eq(state_file_read(directory, "drain", "drain", max_len, &data, &len, &err), code,
		"%d %s", err.code, err.msg);
	cr_assert(code == 0 || data == NULL);
	cr_assert(code == 0 || strstr(err.msg, "/drain"), "%s", err.msg);
	cr_assert(code != 0 || strlen(data) == len);
	return data;
}

static size_t load_raw(char *raw, size_t size)
{
	FILE *stream = fopen(file("drain"), "r");
	cr_assert_not_null(stream);
	size_t len = fread(raw, 1, size, stream);
	fclose(stream);
	return len;
}

static void store_raw(const char *raw, size_t len)
{
	FILE *stream = fopen(file("drain"), "w");
	cr_assert_not_null(stream);
	cr_assert_eq(fwrite(raw, 1, len, stream), len);
	fclose(stream);
}

Test(state_file, comes_back_as_it_was_written)
{
	write_state("{\"reason\":\"upgrade\"}\n");
	char *data = read_state(0, 100);
	cr_assert_str_eq(data, "{\"reason\":\"upgrade\"}\n");
	free(data);
	write_state("");
	data = read_state(0, 100);
	cr_assert_str_eq(data, "");
	free(data);
}

Test(state_file, is_readable_by_its_owner_only_and_has_a_readable_first_line)
{
	write_state("123456789");
	struct stat stat_of_file;
	cr_assert_eq(stat(file("drain"), &stat_of_file), 0);
	cr_assert_eq(stat_of_file.st_mode & 07777, 0600);
	char raw[100] = "";
	load_raw(raw, sizeof(raw) - 1);
	/* cbf43926 is the check value that CRC catalogues give for these nine digits. */
	cr_assert_str_eq(raw, "berth-state 1 drain 9 cbf43926\n123456789");
}

Test(state_file, an_absent_file_is_not_a_damaged_one)
{
	read_state(BERTH_PATH_NOT_FOUND, 100);
	store_raw("", 0);
	read_state(BERTH_INVALID_RECORD, 100);
	store_raw("hello\n", 6);
	read_state(BERTH_INVALID_RECORD, 100);
	struct err err = ERR_INIT;
	char *data = NULL;
	size_t len = 0;
	cr_assert_eq(state_file_read("/nonexistent", "drain", "drain", 10, &data, &len, &err),
		BERTH_PATH_NOT_FOUND);
	cr_assert_str_eq(err.msg, "cannot open /nonexistent/drain: No such file or directory");
}

Test(state_file, every_changed_or_missing_byte_is_noticed)
{
	write_state("some content");
	char raw[100];
	size_t len = load_raw(raw, sizeof(raw));
	for (size_t i = 0; i < len; i++) {
		raw[i] ^= 1;
		store_raw(raw, len);
		read_state(BERTH_INVALID_RECORD, 100);
		raw[i] ^= 1;
		store_raw(raw, i);
		read_state(BERTH_INVALID_RECORD, 100);
	}
	store_raw(raw, len);
	free(read_state(0, 100));
}

Test(state_file, content_up_to_the_maximum_is_read)
{
	write_state("0123456789");
	free(read_state(0, 10));
	read_state(BERTH_LIMIT_EXCEEDED, 9);
	char large[1000] = "";
	memset(large, 'x', sizeof(large) - 1);
	write_state(large);
	read_state(BERTH_LIMIT_EXCEEDED, 10);
}

Test(state_file, a_file_that_is_not_regular_does_not_block)
{
	cr_assert_eq(mkfifo(file("drain"), 0600), 0);
	read_state(BERTH_FAILED, 100);
	unlink(file("drain"));
	cr_assert_eq(symlink("/etc/passwd", file("drain")), 0);
	read_state(BERTH_FAILED, 100);
}

Test(state_file, a_file_that_others_can_write_is_refused)
{
	write_state("drain");
	cr_assert_eq(chmod(file("drain"), 0666), 0);
	free(read_state(BERTH_NO_PATH_PERMISSIONS, 100));
	cr_assert_eq(chmod(file("drain"), 0600), 0);
	free(read_state(0, 100));
	if (geteuid() == 0) {
		cr_assert_eq(chown(file("drain"), 4711, 4711), 0);
		free(read_state(BERTH_NO_PATH_PERMISSIONS, 100));
	}
}

/* ---- calls that fail ---- */

Test(state_file, says_what_is_wrong_with_it)
{
	static const struct {
		const char *raw;
		const char *says;
	} cases[] = { { "", "not a state file" }, { "berth-stat", "not a state file" },
		{ "berth-state", "not a state file" },
		{ "berth-state ", "of another version or kind than drain" },
		{ "berth-state 2 drain 1 83dcefb7\n1", "of another version or kind than drain" },
		{ "berth-state 1 cache 1 83dcefb7\n1", "of another version or kind than drain" },
		{ "berth-state 1 drains 1 83dcefb7\n1", "of another version or kind than drain" },
		{ "berth-state 1 drain 1 83dcefb7", "damaged: length or checksum" },
		{ "berth-state 1 drain 1 83dcefb7\n", "damaged: length or checksum" },
		{ "berth-state 1 drain 1 83dcefb8\n1", "damaged: length or checksum" },
		{ "berth-state 1 drain 2 83dcefb7\n1", "damaged: length or checksum" },
		{ "berth-state 1 drain 1 83dcefb7 \n1", "damaged: length or checksum" },
		{ "berth-state 1 drain 1 83dcefb7\n1", "" } };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err err = ERR_INIT;
		char *data = NULL;
		size_t len = 0;
		store_raw(cases[i].raw, strlen(cases[i].raw));
		cr_assert_eq(chmod(file("drain"), 0600), 0);
		int code = state_file_read(directory, "drain", "drain", 100, &data, &len, &err);
		cr_expect_eq(code, *cases[i].says ? BERTH_INVALID_RECORD : 0, "%s: %s",
			cases[i].raw, err.msg);
		cr_expect(strstr(err.msg, cases[i].says), "%s: %s", cases[i].raw, err.msg);
		free(data);
	}
}
