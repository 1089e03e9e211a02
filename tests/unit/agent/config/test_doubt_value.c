/* Doubts about single values, each function alone, on a machine with the accounts below. */
#include <criterion/criterion.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/config/doubt.h"
#include "agent/config/doubt_address.h"
#include "lib/base/array.h"
#include "tests/support/config_stage.h"

enum { ALICE = 1001, BOB = 1002, OWN = 77, OWN_GROUP = 88, WEB = 3000, EMPTY = 3001 };

static char alice_name[] = "alice";
static char bob_name[] = "bob";
static char zoe_name[] = "zoe";
static char web_name[] = "web";
static char unknown_name[] = "unknown";
static char nothing[] = "";

static struct passwd users[] = {
	{ .pw_name = alice_name, .pw_uid = ALICE, .pw_gid = OWN_GROUP },
	{ .pw_name = bob_name, .pw_uid = BOB, .pw_gid = BOB },
};

struct passwd *getpwnam(const char *name)
{
	for (size_t i = 0; i < 2; i++) {
		if (strcmp(users[i].pw_name, name) == 0) {
			return &users[i];
		}
	}
	return NULL;
}

struct passwd *getpwuid(uid_t uid)
{
	for (size_t i = 0; i < 2; i++) {
		if (users[i].pw_uid == uid) {
			return &users[i];
		}
	}
	return NULL;
}

struct group *getgrgid(gid_t gid)
{
	static char *members[] = { zoe_name, bob_name, NULL };
	static char *none[] = { NULL };
	static struct group groups[] = { { .gr_gid = WEB, .gr_mem = members },
		{ .gr_gid = EMPTY, .gr_mem = none } };
	return gid == WEB ? &groups[0] : gid == EMPTY ? &groups[1] : NULL;
}

uid_t geteuid(void)
{
	return OWN;
}

gid_t getegid(void)
{
	return OWN_GROUP;
}

TestSuite(doubt_value, .init = make_folder, .fini = remove_folder);

/* `part` NULL: no doubt. */
static void expect(int code, const struct err *err, const char *part, const char *value)
{
	cr_expect_eq(code, part ? BERTH_FAILED : 0, "%s", value);
	cr_expect_eq(err->code, code, "%s", value);
	cr_expect(!part || strstr(err->msg, part), "%s: %s", value, err->msg);
}

struct example {
	const char *value;
	const char *part;
};

/* ---- texts ---- */

Test(doubt_value, a_value_has_no_comment_no_quotes_and_no_template)
{
	static const struct example cases[] = { { "a #b", "`#b`" }, { "a\t;b c", "`;b c`" },
		{ "a b  ; c", "`; c`" }, { "a b c", NULL }, { "a#b;c", NULL }, { "#a", NULL },
		{ " ", NULL }, { "", NULL }, { "'a'", "the quotes" }, { "a'", NULL },
		{ "\"", NULL }, { "a\u2019", "the quotes" }, { "{% a %}", "`{%`" },
		{ "a #0123456789012345678901", "`#0123456789012345678`" } };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err err = ERR_INIT;
		static const struct config_option plain = { .type = CONFIG_TEXT };
		int code = config_doubt_value(&plain, cases[i].value, &err);
		expect(code, &err, cases[i].part, cases[i].value);
	}
}

Test(doubt_value, an_expression_has_no_letters_behind_backslashes)
{
	static const struct example cases[] = { { "\\d", "\\d means the letter d" },
		{ "a\\.\\D", "[0-9] for a digit" }, { "\\\\\\t", "\\t means" }, { "\\n", "\\n" },
		{ "\\x", "\\x" }, { "\\A", "\\A" }, { "\\z", "\\z" }, { "\\Z", "\\Z" },
		{ "\\\\d", NULL }, { "\\", NULL }, { "a\\", NULL }, { "\\.\\", NULL }, { "", NULL },
		{ "\\w\\b", NULL } };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err err = ERR_INIT;
		int code = config_doubt_regex(cases[i].value, &err);
		expect(code, &err, cases[i].part, cases[i].value);
		cr_expect_eq(strstr(err.msg, "for a digit") != NULL,
			cases[i].part && strcasestr(cases[i].value, "\\d") != NULL);
	}
}

Test(doubt_value, a_dollar_before_a_name_is_not_that_of_a_variable)
{
	static const struct {
		const char *value;
		const char *as_value; /* the part of a doubt */
		const char *as_command;
	} cases[] = {
		{ "$a", "`$a` stays", "`$a` stays" },
		{ "x$NAME_1/y", "`$NAME_1` stays", "`$NAME_1` stays" },
		{ "$_x", "`$_x`", "`$_x`" },
		{ "$(id)", "`$(…)` stays", "`$(…)` stays" },
		{ "$1", NULL, NULL },
		{ "cost $", NULL, NULL },
		{ "${NAME}", NULL, NULL },
		{ "$$NAME", NULL, NULL },
		{ "$$$NAME", "`$NAME`", "`$NAME`" },
		{ "$ and $NAME", "`$NAME`", "`$NAME`" },
		{ "$1 and $NAME", "`$NAME`", "`$NAME`" },
		{ "'$NAME'", "`$NAME`", NULL },
		{ "'$NAME' $OTHER", "`$NAME`", "`$OTHER`" },
		{ "$NAME 'x'", "`$NAME`", "`$NAME`" },
		{ "'$NAME", "`$NAME`", "`$NAME`" },
		{ "\"it's $NAME, isn't it\"", "`$NAME`", "`$NAME`" },
		{ "\"a\" '$NAME'", "`$NAME`", NULL },
		{ "\\$NAME", "`$NAME`", NULL },
		{ "\\\\$NAME", "`$NAME`", "`$NAME`" },
		{ "\\\"'$NAME'", "`$NAME`", NULL },
		{ "\\", NULL, NULL },
		{ "", NULL, NULL },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err err = ERR_INIT;
		struct err of_command = ERR_INIT;
		char *value = strdup(cases[i].value);
		int code = config_doubt_dollar(value, false, &err);
		expect(code, &err, cases[i].as_value, value);
		code = config_doubt_dollar(value, true, &of_command);
		expect(code, &of_command, cases[i].as_command, value);
		free(value);
	}
}

static void expect_address(const char *key, const char *value, const char *part)
{
	struct err err = ERR_INIT;
	json_t *address = json_pack("{s:s}", key, value);
	int code = config_doubt_address(address, false, &err);
	expect(code, &err, part, value);
	json_decref(address);
}

Test(doubt_value, an_address_is_doubted_by_its_host)
{
	char uri[400];
	expect_address("host", "0.0.0.0", "0.0.0.0 is an address to listen at");
	expect_address("hostname", "nil", "the host is \"nil\"");
	expect_address("path", "nil", NULL);
	expect_address("uri", "urn:nil", NULL);
	for (size_t len = 255; len <= 257; len++) {
		memset(uri, 'a', sizeof(uri));
		memcpy(uri, "http://", 7);
		strcpy(uri + 7 + len, "/");
		expect_address("uri", uri, NULL);
	}
}

/* ---- programs ---- */

Test(doubt_value, a_program_is_an_executable_file_on_the_path_or_at_its_place)
{
	char folder[300];
	write_file("run", "#!/bin/sh\n");
	write_file("text", "x\n");
	cr_assert_eq(chmod(path_of("run"), 0755), 0);
	cr_assert_eq(chmod(path_of("text"), 0644), 0);
	snprintf(folder, sizeof(folder), "%s", path_of(""));
	*strrchr(folder, '/') = '\0';
	char path[400];
	snprintf(path, sizeof(path), "/no/such:%s:/no/other", folder);
	setenv("PATH", path, 1);
	cr_assert_eq(chdir(folder), 0);
	static const struct {
		const char *program;
		const char *cwd; /* "here": the folder */
		bool found;
	} cases[] = { { "run", "", true }, { "text", "", false }, { "conf.d", "", false },
		{ "no", "", false }, { "./run", "", true }, { "./run", "here", true },
		{ "./run", "/", false }, { "./text", "here", false }, { "./conf.d", "", false },
		{ "/bin/sh", "/no/such", true } };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err err = ERR_INIT;
		const char *cwd = strcmp(cases[i].cwd, "here") == 0 ? folder : cases[i].cwd;
		int code = config_doubt_program(cases[i].program, cwd, &err);
		expect(code, &err, cases[i].found ? NULL : "there is no program", cases[i].program);
	}
	struct err err = ERR_INIT;
	unsetenv("PATH");
	cr_expect_eq(config_doubt_program("sh", "", &err), 0, "the usual path");
	cr_expect_eq(config_doubt_program("run", "", &err), BERTH_FAILED);
}

/* ---- accounts ---- */

static void expect_user(const char *user, const char *label, const char *part)
{
	struct err err = ERR_INIT;
	int code = config_doubt_user(user, label, &err);
	expect(code, &err, part, user);
}

Test(doubt_value, a_user_whose_label_is_another_ones_shares_a_home)
{
	expect_user("joe", "joe", NULL);
	expect_user("joe@REALM_1", "joe", NULL);
	expect_user("Joe", "joe", "\"Joe\" has the home /users/joe, which a user named joe would");
	expect_user("Joe/h@R", "joe", "\"Joe\" has the home");
	expect_user("a_b", "a-b", "a user named a-b would share");
	expect_user("Joe Smith", "joe-smith-0953a823", NULL);
	expect_user("B\xc3\xbc"
		    "cher",
		"xn--bcher-kva", "has the home");
}

static void expect_writer(enum config_writer_kind kind, char *name, unsigned id, unsigned mode,
	const char *group, const char *message)
{
	const struct config_writer writer = { .kind = kind, .name = name, .id = id };
	const struct config_agent agent = { .socket_mode = mode,
		.socket_group = *group ? web_name : nothing,
		.socket_group_id = *group ? WEB : (unsigned)-1 };
	struct err err = ERR_INIT;
	int code = config_doubt_writer(&writer, &agent, &err);
	expect(code, &err, message, name);
	cr_expect_str_eq(err.msg, message ? message : "");
}

#define SOCKET(mode, group)                                                                        \
	" cannot connect to the socket, with its socket_mode " mode " and socket_group " group

Test(doubt_value, a_user_writes_where_the_socket_lets_it_connect)
{
	expect_writer(CONFIG_WRITER_NONE, nothing, (unsigned)-1, 0600, "", NULL);
	expect_writer(CONFIG_WRITER_USER, unknown_name, 5000, 0666, "", NULL);
	expect_writer(CONFIG_WRITER_USER, bob_name, BOB, 0660, "web", NULL);
	expect_writer(CONFIG_WRITER_USER, alice_name, ALICE, 0660, "", NULL);
	expect_writer(CONFIG_WRITER_USER, unknown_name, 0, 0600, "", NULL);
	expect_writer(CONFIG_WRITER_USER, unknown_name, OWN, 0600, "", NULL);
	expect_writer(CONFIG_WRITER_USER, alice_name, ALICE, 0660, "web",
		"user alice" SOCKET("0660", "web"));
	expect_writer(
		CONFIG_WRITER_USER, bob_name, BOB, 0660, "", "user bob" SOCKET("0660", "unset"));
	expect_writer(
		CONFIG_WRITER_USER, bob_name, BOB, 0640, "web", "user bob" SOCKET("0640", "web"));
	expect_writer(CONFIG_WRITER_USER, unknown_name, 5000, 0660, "web",
		"user unknown" SOCKET("0660", "web"));
	expect_writer(CONFIG_WRITER_USER, unknown_name, 1, 0600, "",
		"user unknown" SOCKET("0600", "unset"));
}

Test(doubt_value, a_group_writes_where_it_is_that_of_the_socket)
{
	expect_writer(CONFIG_WRITER_GROUP, web_name, WEB, 0660, "web", NULL);
	expect_writer(CONFIG_WRITER_GROUP, web_name, WEB, 0606, "", NULL);
	expect_writer(CONFIG_WRITER_GROUP, web_name, OWN_GROUP, 0660, "", NULL);
	expect_writer(
		CONFIG_WRITER_GROUP, web_name, WEB, 0600, "web", "group web" SOCKET("0600", "web"));
	expect_writer(
		CONFIG_WRITER_GROUP, web_name, WEB, 0660, "", "group web" SOCKET("0660", "unset"));
}

Test(doubt_value, an_agent_that_is_not_root_gives_files_to_itself_and_its_groups)
{
	static const struct {
		char *agent_user;
		char *owner; /* of the file */
		unsigned owner_id;
		char *group;
		unsigned group_id;
		const char *of_owner;
		const char *of_group;
	} cases[] = {
		{ nothing, alice_name, ALICE, web_name, WEB, NULL, NULL },
		{ unknown_name, alice_name, ALICE, web_name, WEB, NULL, NULL },
		{ bob_name, nothing, (unsigned)-1, nothing, (unsigned)-1, NULL, NULL },
		{ bob_name, bob_name, BOB, bob_name, BOB, NULL, NULL },
		{ bob_name, alice_name, ALICE, web_name, WEB,
			"only root can give the file to alice: the agent becomes bob", NULL },
		{ alice_name, alice_name, ALICE, web_name, WEB, NULL,
			"only a member can give the file to the group web: the agent becomes "
			"alice" },
		{ alice_name, alice_name, ALICE, web_name, EMPTY, NULL, "only a member" },
		{ alice_name, alice_name, ALICE, web_name, 9999, NULL, "only a member" },
		{ alice_name, alice_name, ALICE, web_name, OWN_GROUP, NULL, NULL },
		{ alice_name, alice_name, ALICE, web_name, 4000, NULL, NULL },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct config_agent agent = { .user = cases[i].agent_user, .group_id = 4000 };
		const struct config_output output = { .owner = cases[i].owner,
			.owner_id = cases[i].owner_id,
			.group = cases[i].group,
			.group_id = cases[i].group_id };
		struct err err = ERR_INIT;
		struct err other = ERR_INIT;
		int code = config_doubt_owner(&output, &agent, &err);
		expect(code, &err, cases[i].of_owner, cases[i].agent_user);
		code = config_doubt_group(&output, &agent, &other);
		expect(code, &other, cases[i].of_group, cases[i].agent_user);
	}
}
