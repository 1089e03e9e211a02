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

/* The CRC of Ethernet, gzip and PNG, four bits at a time. */
static uint32_t crc32(const unsigned char *data, size_t len)
{
	static const uint32_t table[16] = {
		0x00000000,
		0x1db71064,
		0x3b6e20c8,
		0x26d930ac,
		0x76dc4190,
		0x6b6b51f4,
		0x4db26158,
		0x5005713c,
		0xedb88320,
		0xf00f9344,
		0xd6d6a3e8,
		0xcb61b38c,
		0x9b64c2b0,
		0x86d3d2d4,
		0xa00ae278,
		0xbdbdf21c,
	};
	uint32_t crc = 0xffffffff;
	for (size_t i = 0; i < len; i++) {
		crc ^= data[i];
		crc = (crc >> 4) ^ table[crc & 15];
		crc = (crc >> 4) ^ table[crc & 15];
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

void state_file_replace(struct file_work *ret_work, const char *directory, const char *name,
	const char *kind, char *data_take, size_t len)
{
	assert(!strchr(name, '/') && !strpbrk(kind, " \n"));
	char header[HEADER_SIZE];
	make_header(header, kind, data_take, len);
	*ret_work = (struct file_work){
		.step = FILE_REPLACE,
		.temporary = allocate_format("%s/.%s.new", directory, name),
		.path = path_in(directory, name),
		.owner = { FILE_MODE, (uid_t)-1, (gid_t)-1 },
		.head = allocate_text(header),
		.data = data_take,
		.len = len,
	};
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
