#include "agent/config/verify_bridge.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/config/value.h"
#include "agent/config/verify.h"
#include "lib/base/array.h"
#include "lib/base/limits.h"
#include "lib/base/path.h"

enum { GLOB_BYTES = 64, ID_DIGITS = 10, LABEL_NAME_BYTES = 256 };

static const char ALLOWED[] =
	"a path such as /users/joe/web, in which * stands for a part of an element and a trailing "
	"/** for everything below";

/* An element of a path with a letter in the place of each asterisk is one, too. */
static bool is_element(const char *element, size_t len)
{
	char plain[LIMIT_PATH_BYTES + 1];
	if (len >= sizeof(plain) || memmem(element, len, "**", 2)) {
		return false;
	}
	for (size_t i = 0; i < len; i++) {
		plain[i] = (char)(element[i] == '*' ? 'a' : element[i]);
	}
	return path_element_valid(plain, len);
}

int config_verify_allow(const char *value, struct err *err)
{
	bool good = value[0] == '/' && strlen(value) <= LIMIT_PATH_BYTES;
	for (const char *at = value; good && *at;) {
		size_t len = strcspn(at + 1, "/");
		bool rest = strcmp(at, "/**") == 0;
		good = rest || is_element(at + 1, len);
		at += 1 + len;
	}
	return good ? 0 : err_set(err, BERTH_FAILED, "must be %s", ALLOWED);
}

static bool parse_id(const char *text, size_t len, unsigned *ret_id)
{
	char digits[ID_DIGITS + 1];
	if (len == 0 || len > ID_DIGITS || strspn(text, "0123456789") < len) {
		return false;
	}
	memcpy(digits, text, len);
	digits[len] = '\0';
	unsigned long id = strtoul(digits, NULL, 10);
	*ret_id = (unsigned)id;
	return id < UINT32_MAX; /* which means no user */
}

int config_parse_owner(const char *value, unsigned *ret_uid, unsigned *ret_gid, struct err *err)
{
	size_t len = strcspn(value, ":");
	bool good = value[len] == ':' && parse_id(value, len, ret_uid) &&
		parse_id(value + len + 1, strlen(value + len + 1), ret_gid);
	return good
		? 0
		: err_set(err, BERTH_FAILED, "must be uid:gid in numbers, such as 100000:100000");
}

int config_verify_owner(const char *value, struct err *err)
{
	unsigned uid;
	unsigned gid;
	return config_parse_owner(value, &uid, &gid, err);
}

int config_verify_pinned_name(const char *name, struct err *err)
{
	static const char *const shape[] = { "type", "external", "internal", "yarn:persistence" };
	for (size_t i = 0; i < ARRAY_LEN(shape); i++) {
		if (strcmp(name, shape[i]) == 0) {
			return err_set(err, BERTH_FAILED,
				"%s is the container's own and cannot be pinned", name);
		}
	}
	return strcmp(name, "yarn:id") == 0 || strcmp(name, "description") == 0
		? 0
		: config_verify_attribute_name(name, err);
}

int config_verify_container_glob(const char *name, struct err *err)
{
	static const char allowed[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-*?/";
	size_t len = strlen(name);
	const char *slash = strchr(name, '/');
	bool sourced = !slash || (slash != name && slash[1] && !strchr(slash + 1, '/'));
	if (len <= GLOB_BYTES && strspn(name, allowed) == len && sourced) {
		return 0;
	}
	return err_set(err, BERTH_FAILED,
		"a container's name is made of letters, digits, . _ -, and here * and ?, at most "
		"%d bytes; its source may be before it, dir/NAME or that of a [runtime]",
		GLOB_BYTES);
}

int config_verify_label_prefix(const char *value, struct err *err)
{
	static const char allowed[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	size_t len = strlen(value);
	return len <= GLOB_BYTES && strspn(value, allowed) == len && value[len - 1] != '.'
		? 0
		: err_set(err, BERTH_FAILED,
			  "the first part of a label's name, such as berth or org.example");
}

int config_verify_label_name(const char *name, struct err *err)
{
	static const char allowed[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:/";
	size_t len = strlen(name);
	return len > 0 && len <= LABEL_NAME_BYTES && strspn(name, allowed) == len
		? 0
		: err_set(err, BERTH_FAILED, "the name of a label, such as berth.path");
}
