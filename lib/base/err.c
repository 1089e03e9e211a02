#include "lib/base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/text.h"

/* One row an error, in the order of the enum. */
static const struct {
	const char *name;
	int http_status;
	int exit_status;
} errors[] = {
	[-BERTH_OK] = { "OK", 200, 0 },
	[-BERTH_PATH_NOT_FOUND] = { "PathNotFound", 404, 3 },
	[-BERTH_FILE_ALREADY_EXISTS] = { "FileAlreadyExists", 409, 1 },
	[-BERTH_INVALID_PATHNAME] = { "InvalidPathname", 400, 1 },
	[-BERTH_PATH_IS_NOT_EMPTY_DIRECTORY] = { "PathIsNotEmptyDirectory", 409, 1 },
	[-BERTH_NO_RECORD] = { "NoRecord", 404, 3 },
	[-BERTH_INVALID_RECORD] = { "InvalidRecord", 502, 1 },
	[-BERTH_NO_PATH_PERMISSIONS] = { "NoPathPermissions", 403, 5 },
	[-BERTH_AUTHENTICATION_FAILED] = { "AuthenticationFailed", 403, 5 },
	[-BERTH_NO_CHILDREN_FOR_EPHEMERALS] = { "NoChildrenForEphemerals", 409, 1 },
	[-BERTH_LIMIT_EXCEEDED] = { "LimitExceeded", 422, 1 },
	[-BERTH_REGISTRY_UNAVAILABLE] = { "RegistryUnavailable", 503, 4 },
	[-BERTH_TIMEOUT] = { "Timeout", 504, 4 },
	[-BERTH_FAILED] = { "Failed", 500, 1 },
	[-BERTH_AGENT_UNAVAILABLE] = { "AgentUnavailable", 503, 4 },
};

#define ERROR_COUNT ((int)(ARRAY_LEN(errors)))

static int known(int code)
{
	return code <= 0 && -code < ERROR_COUNT ? -code : -BERTH_FAILED;
}

const char *berth_error_name(int code)
{
	return errors[known(code)].name;
}

int berth_error_from_name(const char *name)
{
	for (int i = 0; i < ERROR_COUNT; i++) {
		if (strcmp(errors[i].name, name) == 0) {
			return -i;
		}
	}
	return BERTH_FAILED;
}

int err_http_status(int code)
{
	return errors[known(code)].http_status;
}

int err_exit_status(int code)
{
	return errors[known(code)].exit_status;
}

static int set(struct err *err, int code, const char *suffix, const char *format, va_list arguments)
{
	if (!err) {
		return code;
	}
	if (err->code) {
		return err->code;
	}
	err->code = code;
	text_vprintf(err->msg, sizeof(err->msg), format, arguments);
	if (suffix) {
		size_t used = strlen(err->msg);
		text_printf(err->msg + used, sizeof(err->msg) - used, ": %s", suffix);
	}
	return code;
}

int err_set(struct err *err, int code, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	int ret = set(err, code, NULL, format, arguments);
	va_end(arguments);
	return ret;
}

int err_set_errno(struct err *err, int code, int errno_value, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	/* As safe among threads as strerror_r(), which glibc and musl declare differently. */
	int ret = set(err, code, strerror(errno_value), format, arguments);
	va_end(arguments);
	return ret;
}

int err_wrap(struct err *err, const char *format, ...)
{
	if (!err || !err->code) {
		return err ? err->code : BERTH_FAILED;
	}
	char inner[sizeof(err->msg)];
	memcpy(inner, err->msg, sizeof(inner));
	va_list arguments;
	va_start(arguments, format);
	text_vprintf(err->msg, sizeof(err->msg), format, arguments);
	va_end(arguments);
	size_t used = strlen(err->msg);
	text_printf(err->msg + used, sizeof(err->msg) - used, ": %s", inner);
	return err->code;
}

void err_clear(struct err *err)
{
	err->code = 0;
	err->msg[0] = '\0';
}
