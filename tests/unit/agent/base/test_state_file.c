#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <signal.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "tests/support/failing.h"
#include "tests/support/file_stage.h"
#include "tests/support/rights.h"
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

Test(state_file, of_another_kind_is_refused)
{
	struct err err = ERR_INIT;
	cr_assert_eq(state_file_write(directory, "drain", "session", "x", 1, &err), 0);
	read_state(BERTH_INVALID_RECORD, 100);
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

Test(state_file, a_failed_write_keeps_the_old_content)
{
	write_state("old");
	signal(SIGXFSZ, SIG_IGN);
	struct rlimit unlimited;
	cr_assert_eq(getrlimit(RLIMIT_FSIZE, &unlimited), 0);
	struct rlimit limited = { 40, unlimited.rlim_max };
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limited), 0);
	struct err err = ERR_INIT;
	char text[100] = "";
	memset(text, 'x', sizeof(text) - 1);
	int code = state_file_write(directory, "drain", "drain", text, strlen(text), &err);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &unlimited), 0);
	cr_assert_eq(code, BERTH_FAILED);
	cr_assert_not_null(strstr(err.msg, "File too large"), "%s", err.msg);
	char *data = read_state(0, 100);
	cr_assert_str_eq(data, "old");
	free(data);
	cr_assert_neq(access(file(".drain.new"), F_OK), 0, "the temporary file is left");
}

Test(state_file, the_file_of_a_dead_writer_is_replaced)
{
	int fd = open(file(".drain.new"), O_WRONLY | O_CREAT, 0644);
	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, "half", 4), 4);
	close(fd);
	write_state("whole");
	char *data = read_state(0, 100);
	cr_assert_str_eq(data, "whole");
	free(data);
}

Test(state_file, is_removed_once_and_again)
{
	write_state("x");
	struct err err = ERR_INIT;
	cr_assert_eq(state_file_erase(directory, "drain", &err), 0);
	read_state(BERTH_PATH_NOT_FOUND, 100);
	cr_assert_eq(state_file_erase(directory, "drain", &err), 0);
	cr_assert_eq(state_file_erase("/nonexistent", "drain", &err), BERTH_FAILED);
}

Test(state_file, a_missing_directory_is_named)
{
	struct err err = ERR_INIT;
	cr_assert_eq(
		state_file_write("/nonexistent", "drain", "drain", "x", 1, &err), BERTH_FAILED);
	cr_assert_not_null(strstr(err.msg, "/nonexistent"));
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

static int write_and_read(void *context)
{
	static int round;
	(void)context;
	struct err err = ERR_INIT;
	char text[32];
	char *data = NULL;
	size_t len = 0;
	snprintf(text, sizeof(text), "round %d", ++round);
	int code = state_file_write(directory, "drain", "drain", text, strlen(text), &err);
	if (code == 0) {
		code = state_file_read(directory, "drain", "drain", 100, &data, &len, &err);
	}
	bool right = data && len == strlen(text) && strcmp(data, text) == 0;
	free(data);
	return code ? code : right ? 0 : FAILING_WRONG;
}

Test(state_file, a_call_that_fails_is_reported_and_leaves_a_whole_file)
{
	static const struct {
		const char *kind;
		int error;
	} calls[] = { { "open", EMFILE }, { "write", ENOSPC }, { "write", EINTR }, { "write", 0 },
		{ "fsync", EIO }, { "close", EIO }, { "rename", EIO }, { "stat", EIO },
		{ "read", EIO }, { "read", EINTR } };
	for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
		failing_check("state file", calls[i].kind, calls[i].error, write_and_read, NULL);
		free(read_state(0, 100));
	}
}

Test(state_file, a_disk_that_cannot_be_read_is_not_a_damaged_file)
{
	static const struct {
		const char *kind;
		int error;
		const char *says;
	} calls[] = { { "open", EMFILE, "cannot open" }, { "stat", EIO, "fstat" },
		{ "read", EIO, "cannot read it" } };
	write_state("text");
	for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
		char *data = NULL;
		size_t len = 7;
		struct err err = ERR_INIT;
		failing_arm(calls[i].kind, 1, calls[i].error);
		int code = state_file_read(directory, "drain", "drain", 100, &data, &len, &err);
		cr_assert(failing_disarm());
		cr_expect_eq(code, BERTH_FAILED);
		cr_expect_eq(err.code, BERTH_FAILED);
		cr_expect(strstr(err.msg, calls[i].says), "%s", err.msg);
		cr_expect(strstr(err.msg, strerror(calls[i].error)), "%s", err.msg);
		cr_expect(!data && len == 7, "nothing is returned");
	}
}

Test(state_file, a_file_may_come_in_pieces_and_after_a_signal)
{
	static const int errors[] = { 0, EINTR };
	write_state("a text of some length");
	for (size_t i = 0; i < ARRAY_LEN(errors); i++) {
		failing_arm("read", 1, errors[i]);
		char *data = read_state(0, 100);
		cr_assert(failing_disarm());
		cr_expect_str_eq(data, "a text of some length");
		free(data);
	}
}

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

Test(state_file, a_file_that_is_too_long_is_refused_by_its_length)
{
	enum { HEADER = 128, MOST = 100 };
	char raw[HEADER + MOST + 1];
	memset(raw, 'x', sizeof(raw));
	for (size_t more = 0; more < 2; more++) {
		char *data = NULL;
		size_t len = 0;
		struct err err = ERR_INIT;
		store_raw(raw, HEADER + MOST + more);
		cr_expect_eq(state_file_read(directory, "drain", "drain", MOST, &data, &len, &err),
			more ? BERTH_LIMIT_EXCEEDED : BERTH_INVALID_RECORD, "%s", err.msg);
		cr_expect(strstr(err.msg, more ? "229 bytes; at most 228" : "not a state file"),
			"%s", err.msg);
	}
}

Test(state_file, stays_with_the_user_and_the_group_that_wrote_it)
{
	struct stat status;
	rights_needed("users");
	cr_assert_eq(setegid(4713), 0);
	write_state("text");
	cr_assert_eq(stat(file("drain"), &status), 0);
	cr_expect_eq(status.st_gid, 4713);
	cr_assert_eq(setegid(0), 0);
	cr_assert_eq(chmod(directory, 0777), 0);
	unlink(file("drain"));
	cr_assert_eq(seteuid(4711), 0);
	write_state("text");
	cr_assert_eq(seteuid(0), 0);
	cr_assert_eq(stat(file("drain"), &status), 0);
	cr_expect_eq(status.st_uid, 4711);
}

static int write_and_remove(void *context)
{
	(void)context;
	struct err err = ERR_INIT;
	int code = state_file_write(directory, "drain", "drain", "x", 1, &err);
	return code ? code : state_file_erase(directory, "drain", &err);
}

Test(state_file, a_removal_that_fails_is_reported)
{
	failing_check("state file", "open", EMFILE, write_and_remove, NULL);
	failing_check("state file", "unlink", EIO, write_and_remove, NULL);
	failing_check("state file", "fsync", EIO, write_and_remove, NULL);
}

/* The checksum is CRC-32 as zlib has it, for other programs that read the file. */
Test(state_file, the_checksum_is_a_known_one)
{
	unsigned char bytes[256];
	char raw[600];
	struct err err = ERR_INIT;
	for (int i = 0; i < 256; i++) {
		bytes[i] = (unsigned char)i;
	}
	cr_assert_eq(state_file_write(
			     directory, "drain", "drain", (const char *)bytes, sizeof(bytes), &err),
		0);
	size_t len = load_raw(raw, sizeof(raw) - 1);
	raw[len - sizeof(bytes)] = '\0';
	cr_expect(strstr(raw, "29058c73"), "%s", raw);
	char *data;
	cr_assert_eq(
		state_file_read(directory, "drain", "drain", sizeof(bytes), &data, &len, &err), 0);
	cr_expect_eq(len, sizeof(bytes));
	cr_expect_eq(memcmp(data, bytes, len), 0);
	free(data);
	cr_expect_eq(
		state_file_read(directory, "drain", "drain", sizeof(bytes) - 1, &data, &len, &err),
		err.code);
	cr_expect_eq(err.code, BERTH_LIMIT_EXCEEDED, "one byte more than allowed");
	cr_expect(strstr(err.msg, "content of 256 bytes; at most 255 are"), "%s", err.msg);
}
