#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/err.h"

TestSuite(err);

Test(err, first_error_wins)
{
	struct err err = ERR_INIT;
	cr_assert_eq(err_set(&err, BERTH_TIMEOUT, "one %d", 1), BERTH_TIMEOUT);
	cr_assert_eq(err_set(&err, BERTH_FAILED, "two"), BERTH_TIMEOUT);
	cr_assert_eq(err.code, BERTH_TIMEOUT);
	cr_assert_str_eq(err.msg, "one 1");
}

Test(err, wrapping_puts_context_before_the_message)
{
	struct err err = ERR_INIT;
	cr_assert_eq(err_wrap(&err, "nothing"), 0);
	cr_assert_eq(err_wrap(NULL, "nothing"), BERTH_FAILED);
	cr_assert_str_eq(err.msg, "");
	(void)err_set(&err, BERTH_FAILED, "inner");
	cr_assert_eq(err_wrap(&err, "outer %s", "context"), BERTH_FAILED);
	cr_assert_str_eq(err.msg, "outer context: inner");
}

Test(err, names_the_system_error)
{
	struct err err = ERR_INIT;
	(void)err_set_errno(&err, BERTH_FAILED, ENOENT, "open %s", "x");
	cr_assert_str_eq(err.msg, "open x: No such file or directory");
}

Test(err, cuts_a_long_message)
{
	char text[2000];
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	struct err err = ERR_INIT;
	(void)err_set_errno(&err, BERTH_FAILED, ENOENT, "%s", text);
	cr_assert_eq(strlen(err.msg), sizeof(err.msg) - 1);
	(void)err_wrap(&err, "%s", text);
	cr_assert_eq(strlen(err.msg), sizeof(err.msg) - 1);
}

Test(err, without_a_struct_the_code_comes_back)
{
	cr_assert_eq(err_set(NULL, BERTH_TIMEOUT, "lost"), BERTH_TIMEOUT);
	cr_assert_eq(err_set_errno(NULL, BERTH_TIMEOUT, EIO, "lost"), BERTH_TIMEOUT);
}

Test(err, can_be_used_again_after_clearing)
{
	struct err err = ERR_INIT;
	(void)err_set(&err, BERTH_FAILED, "one");
	err_clear(&err);
	cr_assert_eq(err.code, 0);
	cr_assert_str_eq(err.msg, "");
	cr_assert_eq(err_set(&err, BERTH_NO_RECORD, "two"), BERTH_NO_RECORD);
}

Test(err, names_and_statuses_are_those_of_the_contract)
{
	static const struct {
		int code;
		const char *name;
		int http_status;
		int exit_status;
	} rows[] = {
		{ BERTH_OK, "OK", 200, 0 },
		{ BERTH_PATH_NOT_FOUND, "PathNotFound", 404, 3 },
		{ BERTH_FILE_ALREADY_EXISTS, "FileAlreadyExists", 409, 1 },
		{ BERTH_INVALID_PATHNAME, "InvalidPathname", 400, 1 },
		{ BERTH_PATH_IS_NOT_EMPTY_DIRECTORY, "PathIsNotEmptyDirectory", 409, 1 },
		{ BERTH_NO_RECORD, "NoRecord", 404, 3 },
		{ BERTH_INVALID_RECORD, "InvalidRecord", 502, 1 },
		{ BERTH_NO_PATH_PERMISSIONS, "NoPathPermissions", 403, 5 },
		{ BERTH_AUTHENTICATION_FAILED, "AuthenticationFailed", 403, 5 },
		{ BERTH_NO_CHILDREN_FOR_EPHEMERALS, "NoChildrenForEphemerals", 409, 1 },
		{ BERTH_LIMIT_EXCEEDED, "LimitExceeded", 422, 1 },
		{ BERTH_REGISTRY_UNAVAILABLE, "RegistryUnavailable", 503, 4 },
		{ BERTH_TIMEOUT, "Timeout", 504, 4 },
		{ BERTH_FAILED, "Failed", 500, 1 },
		{ BERTH_AGENT_UNAVAILABLE, "AgentUnavailable", 503, 4 },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cr_assert_str_eq(berth_error_name(rows[i].code), rows[i].name);
		cr_assert_eq(berth_error_from_name(rows[i].name), rows[i].code);
		cr_assert_eq(
			err_http_status(rows[i].code), rows[i].http_status, "%s", rows[i].name);
		cr_assert_eq(
			err_exit_status(rows[i].code), rows[i].exit_status, "%s", rows[i].name);
	}
}

Test(err, an_unknown_code_or_name_is_a_failure)
{
	cr_assert_str_eq(berth_error_name(-1000), "Failed");
	cr_assert_str_eq(berth_error_name(BERTH_AGENT_UNAVAILABLE - 1), "Failed");
	cr_assert_str_eq(berth_error_name(1), "Failed");
	cr_assert_eq(berth_error_from_name("Nonsense"), BERTH_FAILED);
	cr_assert_eq(err_http_status(-1000), 500);
	cr_assert_eq(err_exit_status(-1000), 1);
}
