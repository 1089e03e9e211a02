#include "agent/base/state_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "lib/base/trust.h"

#define MAGIC "berth-state "

enum { HEADER_SIZE = 128, FILE_MODE = 0600 };

enum { CRC_BYTES = 8 };

/* Of each byte with as many zeros behind it. */
static uint32_t crcs[CRC_BYTES][256];

static void make_crcs(void)
{
	for (uint32_t byte = 0; byte < 256; byte++) {
		uint32_t crc = byte;
		for (int bit = 0; bit < 8; bit++) {
			crc = (crc >> 1) ^ (crc & 1 ? 0xedb88320 : 0);
		}
		crcs[0][byte] = crc;
	}
	for (size_t zeros = 1; zeros < CRC_BYTES; zeros++) {
		for (size_t byte = 0; byte < 256; byte++) {
			uint32_t crc = crcs[zeros - 1][byte];
			crcs[zeros][byte] = (crc >> 8) ^ crcs[0][crc & 255];
		}
	}
}

/*
 * The CRC of Ethernet, gzip and PNG, eight bytes at a time: a saved cache has tens of megabytes,
 * and the agent answers nobody while it reads them.
 */
static uint32_t crc32(const unsigned char *data, size_t len)
{
	uint32_t crc = 0xffffffff;
	if (!crcs[0][1]) {
		make_crcs();
	}
	for (; len >= CRC_BYTES; len -= CRC_BYTES, data += CRC_BYTES) {
		crc = crcs[7][(crc & 255) ^ data[0]] ^ crcs[6][(crc >> 8 & 255) ^ data[1]] ^
			crcs[5][(crc >> 16 & 255) ^ data[2]] ^ crcs[4][(crc >> 24) ^ data[3]] ^
			crcs[3][data[4]] ^ crcs[2][data[5]] ^ crcs[1][data[6]] ^ crcs[0][data[7]];
	}
	for (; len > 0; len--) {
		crc = (crc >> 8) ^ crcs[0][(crc & 255) ^ *data++];
	}
	return ~crc;
}

/* The first line for this content. */
static void make_header(char header[HEADER_SIZE], const char *kind, const void *data, size_t len)
{
	int header_len = snprintf(
		header, HEADER_SIZE, MAGIC "1 %s %zu %08x\n", kind, len, crc32(data, len));
	assert(header_len > 0 && header_len < HEADER_SIZE);
}

static char *path_in(const char *directory, const char *name)
{
	return allocate_format("%s/%s", directory, name);
}

char *state_file_head(const char *kind, const char *data, size_t len)
{
	char header[HEADER_SIZE];
	assert(!strpbrk(kind, " \n"));
	make_header(header, kind, data, len);
	return allocate_text(header);
}

void state_file_replace_made(struct file_work *ret_work, const char *directory, const char *name,
	int (*make)(const void *context, struct file_work *made, struct err *err),
	const void *context)
{
	assert(!strchr(name, '/'));
	*ret_work = (struct file_work){
		.step = FILE_REPLACE,
		.temporary = allocate_format("%s/.%s.new", directory, name),
		.path = path_in(directory, name),
		.owner = { FILE_MODE, (uid_t)-1, (gid_t)-1 },
		.make = make,
		.context = context,
	};
}

void state_file_replace(struct file_work *ret_work, const char *directory, const char *name,
	const char *kind, char *data_take, size_t len)
{
	state_file_replace_made(ret_work, directory, name, NULL, NULL);
	ret_work->head = state_file_head(kind, data_take, len);
	ret_work->data = data_take;
	ret_work->len = len;
}

void state_file_remove(struct file_work *ret_work, const char *directory, const char *name)
{
	*ret_work = (struct file_work){ .step = FILE_REMOVE, .path = path_in(directory, name) };
}

static int open_file(const char *directory, const char *name, struct err *err)
{
	int directory_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int fd = -1;
	if (directory_fd >= 0) {
		/* Not blocking: the file may be a FIFO. */
		fd = openat(directory_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	}
	int errno_value = errno;
	if (directory_fd >= 0) {
		close(directory_fd);
	}
	if (fd >= 0) {
		return fd;
	}
	return err_set_errno(err, errno_value == ENOENT ? BERTH_PATH_NOT_FOUND : BERTH_FAILED,
		errno_value, "cannot open %s/%s", directory, name);
}

/* The length of a regular file that is not longer than a header and max_len. */
static int measure(int fd, size_t max_len, size_t *ret_len, struct err *err)
{
	struct stat stat;
	if (fstat(fd, &stat)) {
		return err_set_errno(err, BERTH_FAILED, errno, "fstat");
	}
	if (!S_ISREG(stat.st_mode)) {
		return err_set(err, BERTH_FAILED, "not a regular file");
	}
	if (trust_check_file(&stat, err)) {
		return err->code;
	}
	if ((size_t)stat.st_size > max_len + HEADER_SIZE) {
		return err_set(err, BERTH_LIMIT_EXCEEDED,
			"file of %zu bytes; at most %zu are allowed", (size_t)stat.st_size,
			max_len + HEADER_SIZE);
	}
	*ret_len = (size_t)stat.st_size;
	return 0;
}

/* Reads at most `size` bytes; how many there were, or -1 with errno. */
static ssize_t read_all(int fd, char *data, size_t size)
{
	size_t len = 0;
	while (len < size) {
		ssize_t got = read(fd, data + len, size - len);
		if (got == 0) {
			break;
		}
		if (got < 0 && errno != EINTR) {
			return -1;
		}
		len += got > 0 ? (size_t)got : 0;
	}
	return (ssize_t)len;
}

static int load(int fd, size_t max_len, char **ret_data, size_t *ret_len, struct err *err)
{
	size_t size = 0;
	int code = measure(fd, max_len, &size, err);
	if (code) {
		return code;
	}
	char *data = allocate_zeroed(size + 1, 1);
	ssize_t len = read_all(fd, data, size);
	if (len < 0) {
		code = err_set_errno(err, BERTH_FAILED, errno, "cannot read it");
		free(data);
		return code;
	}
	data[len] = '\0';
	*ret_data = data;
	*ret_len = (size_t)len;
	return 0;
}

/* Checks the first line of a text against the content behind it; *ret_header_len: its length. */
static int check_header(
	const char *data, size_t len, const char *kind, size_t *ret_header_len, struct err *err)
{
	char expected[HEADER_SIZE];
	int same_kind_len = snprintf(expected, sizeof(expected), MAGIC "1 %s ", kind);
	if (strncmp(data, MAGIC, strlen(MAGIC)) != 0) {
		return err_set(err, BERTH_INVALID_RECORD, "not a state file");
	}
	if (strncmp(data, expected, (size_t)same_kind_len) != 0) {
		return err_set(err, BERTH_INVALID_RECORD,
			"damaged, or a state file of another version or kind than %s", kind);
	}
	const char *line_break = memchr(data, '\n', len);
	size_t header_len = line_break ? (size_t)(line_break - data) + 1 : len;
	make_header(expected, kind, data + header_len, len - header_len);
	if (header_len != strlen(expected) || memcmp(data, expected, header_len) != 0) {
		return err_set(err, BERTH_INVALID_RECORD, "damaged: length or checksum is wrong");
	}
	*ret_header_len = header_len;
	return 0;
}

int state_file_read(const char *directory, const char *name, const char *kind, size_t max_len,
	char **ret_data, size_t *ret_len, struct err *err)
{
	int fd = open_file(directory, name, err);
	if (fd < 0) {
		return fd;
	}
	char *data = NULL;
	size_t len = 0;
	size_t header_len = 0;
	int code = load(fd, max_len, &data, &len, err);
	close(fd);
	if (!code) {
		code = check_header(data, len, kind, &header_len, err);
	}
	if (!code && len - header_len > max_len) {
		code = err_set(err, BERTH_LIMIT_EXCEEDED,
			"content of %zu bytes; at most %zu are allowed", len - header_len, max_len);
	}
	if (code) {
		free(data);
		return err_wrap(err, "%s/%s", directory, name);
	}
	assert(data); /* load() has set it */
	memmove(data, data + header_len, len - header_len + 1);
	*ret_data = data;
	*ret_len = len - header_len;
	return 0;
}
