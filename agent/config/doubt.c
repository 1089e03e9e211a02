#include "agent/config/doubt.h"

#include <ctype.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "agent/config/shellwords.h"
#include "lib/base/array.h"
#include "lib/base/hex.h"

static int doubt_comment(const char *value, struct err *err)
{
	for (const char *at = strpbrk(value, " \t"); at; at = strpbrk(at + 1, " \t")) {
		if (at[1] == '#' || at[1] == ';') {
			return err_set(err, BERTH_FAILED,
				"`%.20s` is part of the value: a comment has a line of its own",
				at + 1);
		}
	}
	return 0;
}

/* A word processor writes these for a quote. */
static const char *const typographic[] = { "\u201c", "\u201d", "\u201e", "\u2018", "\u2019" };

static bool has_typographic_quote(const char *value)
{
	for (size_t i = 0; i < ARRAY_LEN(typographic); i++) {
		if (strstr(value, typographic[i])) {
			return true;
		}
	}
	return false;
}

static int doubt_quotes(const char *value, struct err *err)
{
	size_t len = strlen(value);
	bool quoted = len > 1 && (*value == '"' || *value == '\'') && value[len - 1] == *value;
	return quoted || has_typographic_quote(value)
		? err_set(err, BERTH_FAILED, "the quotes are part of the value: write it without")
		: 0;
}

/* The length of a variable's name that begins here. */
static size_t name_len(const char *text)
{
	static const char bytes[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
	return isalpha((unsigned char)*text) || *text == '_' ? strspn(text, bytes) : 0;
}

/* Two hexadecimal digits behind a percent sign are an escape in a URI, but not in %ADDRESS%. */
static bool is_escape(const char *text, size_t len)
{
	static const char upper[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_";
	return *text == '%' && hex_digit(text[1]) >= 0 && hex_digit(text[2]) >= 0 &&
		(len < 4 || strspn(text + 1, upper) < len);
}

/* The length of a name between marks of a template, %(host)s or @HOST@, that begins here. */
static size_t template_name_len(const char *text)
{
	static const char *const around[][2] = { { "%(", ")s" }, { "%", "%" }, { "<", ">" },
		{ "@", "@" }, { "[[", "]]" } };
	for (size_t i = 0; i < ARRAY_LEN(around); i++) {
		size_t begin = strlen(around[i][0]);
		size_t len = strncmp(text, around[i][0], begin) == 0 ? name_len(text + begin) : 0;
		size_t end = strlen(around[i][1]);
		if (len > 0 && !is_escape(text, len) &&
			strncmp(text + begin + len, around[i][1], end) == 0) {
			return begin + len + end;
		}
	}
	return 0;
}

/* __HOST__, which is a name itself: in upper case, with nothing of a name around it. */
static size_t upper_name_len(const char *value, const char *text)
{
	bool at_begin = text == value || !isalnum((unsigned char)text[-1]);
	size_t len = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
	bool marked = at_begin && len > 4 && strncmp(text, "__", 2) == 0 &&
		strncmp(text + len - 2, "__", 2) == 0;
	return marked && !isalnum((unsigned char)text[len]) ? len : 0;
}

static int doubt_name(const char *value, struct err *err)
{
	for (const char *at = value; *at; at++) {
		size_t len = template_name_len(at);
		len = len > 0 ? len : upper_name_len(value, at);
		if (len > 0) {
			return err_set(err, BERTH_FAILED,
				"`%.*s` is a mark of a template that has not been filled in",
				len > 40 ? 40 : (int)len, at);
		}
	}
	return 0;
}

static int doubt_template(const char *value, struct err *err)
{
	static const char *const marks[] = { "{{", "{%", "<%", "%{", "#{", "<no value>", "@@" };
	for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
		if (strstr(value, marks[i])) {
			return err_set(err, BERTH_FAILED,
				"`%s` is a mark of a template that has not been filled in",
				marks[i]);
		}
	}
	return 0;
}

int config_doubt_value(const struct config_option *option, const char *raw, struct err *err)
{
	if (option->verbatim || option->type == CONFIG_BYTES) {
		return 0;
	}
	if (option->type == CONFIG_COMMAND) {
		return has_typographic_quote(raw) ? err_set(err, BERTH_FAILED,
							    "a typographic quote quotes nothing: "
							    "write \" or '")
						  : 0;
	}
	if (!option->prose && doubt_comment(raw, err)) {
		return err->code;
	}
	bool doubted = doubt_quotes(raw, err) || doubt_template(raw, err) ||
		(!option->prose && doubt_name(raw, err));
	return doubted ? err->code : 0;
}

int config_doubt_regex(const char *value, struct err *err)
{
	for (const char *at = strchr(value, '\\'); at && at[1]; at = strchr(at + 2, '\\')) {
		if (strchr("dDtnxAzZ", at[1])) {
			return err_set(err, BERTH_FAILED,
				"\\%c means the letter %c in a POSIX extended regular expression%s",
				at[1], at[1],
				tolower((unsigned char)at[1]) == 'd' ? "; write [0-9] for a digit"
								     : "");
		}
	}
	return 0;
}

/* `at` is on a dollar. */
static int doubt_dollar_at(const char *at, struct err *err)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
	const char *name = at + 1;
	int len = (int)strspn(name, letters);
	if (len > 0 && !isdigit((unsigned char)*name)) {
		return err_set(err, BERTH_FAILED,
			"`$%.*s` stays as it is; write ${%.*s} for the variable, or $$ for "
			"a dollar that means itself",
			len, name, len, name);
	}
	if (*name == '(') {
		return err_set(err, BERTH_FAILED,
			"`$(…)` stays as it is: no command is run for a value; write $$ for "
			"a dollar that means itself");
	}
	return 0;
}

int config_doubt_dollar(const char *raw, bool is_command, struct err *err)
{
	bool in_double_quotes = false;
	for (const char *at = raw; *at; at++) {
		if ((*at == '$' && at[1] == '$') || (is_command && *at == '\\' && at[1])) {
			at++;
		} else if (*at == '$' && doubt_dollar_at(at, err)) {
			return err->code;
		} else if (is_command && *at == '"') {
			in_double_quotes = !in_double_quotes;
		} else if (is_command && *at == '\'' && !in_double_quotes) {
			/* Meant for the program, which may be a shell. */
			const char *close = strchr(at + 1, '\'');
			at = close ? close : at;
		}
	}
	return 0;
}

int config_doubt_shell_syntax(const char *raw, struct err *err)
{
	size_t len;
	const char *found = shellwords_find_syntax(raw, &len);
	return found ? err_set(err, BERTH_FAILED,
			       "`%.*s` is passed to the program as it is; with `shell = "
			       "yes` a shell runs the command",
			       (int)len, found)
		     : 0;
}

static bool is_program(const char *path)
{
	struct stat status;
	return stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0;
}

static bool is_on_path(const char *program)
{
	const char *path = getenv("PATH");
	char *places = allocate_text(path ? path : "/bin:/usr/bin");
	bool found = false;
	char *rest;
	for (char *place = strtok_r(places, ":", &rest); place && !found;
		place = strtok_r(NULL, ":", &rest)) {
		char *file = allocate_format("%s/%s", place, program);
		found = is_program(file);
		free(file);
	}
	free(places);
	return found;
}

int config_doubt_program(const char *program, const char *cwd, struct err *err)
{
	bool found;
	if (!strchr(program, '/')) {
		found = is_on_path(program);
	} else if (*program == '/' || !*cwd) {
		found = is_program(program);
	} else {
		char *file = allocate_format("%s/%s", cwd, program);
		found = is_program(file);
		free(file);
	}
	return found ? 0 : err_set(err, BERTH_FAILED, "there is no program %s here", program);
}

int config_doubt_user(const char *user, const char *label, struct err *err)
{
	static const char folded[] = "_ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	size_t len = strcspn(user, "/@");
	/* An odd name, such as "Joe Smith", has a longer label with a mark that is its own. */
	bool marked = strlen(label) != len && strncmp(label, "xn--", strlen("xn--")) != 0;
	if (strcspn(user, folded) >= len || marked) {
		return 0;
	}
	return err_set(err, BERTH_FAILED,
		"\"%.*s\" has the home /users/%s, which a user named %s would share", (int)len,
		user, label, label);
}

static bool user_in_group(const struct passwd *user, gid_t group)
{
	if (user->pw_gid == group) {
		return true;
	}
	const struct group *entry = getgrgid(group);
	for (char **member = entry ? entry->gr_mem : NULL; member && *member; member++) {
		if (strcmp(*member, user->pw_name) == 0) {
			return true;
		}
	}
	return false;
}

static bool may_connect(const struct config_writer *writer, unsigned mode, gid_t group)
{
	if (mode & S_IWOTH) {
		return true;
	}
	if (writer->kind == CONFIG_WRITER_GROUP) {
		return (mode & S_IWGRP) && writer->id == group;
	}
	if (writer->id == 0 || writer->id == geteuid()) {
		return true;
	}
	const struct passwd *user = getpwuid(writer->id);
	return (mode & S_IWGRP) && user && user_in_group(user, group);
}

int config_doubt_writer(
	const struct config_writer *writer, const struct config_agent *agent, struct err *err)
{
	gid_t group = *agent->socket_group ? agent->socket_group_id : getegid();
	if (writer->kind == CONFIG_WRITER_NONE || may_connect(writer, agent->socket_mode, group)) {
		return 0;
	}
	return err_set(err, BERTH_FAILED,
		"%s %s cannot connect to the socket, with its socket_mode %04o and socket_group %s",
		writer->kind == CONFIG_WRITER_USER ? "user" : "group", writer->name,
		agent->socket_mode, *agent->socket_group ? agent->socket_group : "unset");
}

int config_doubt_owner(
	const struct config_output *output, const struct config_agent *agent, struct err *err)
{
	const struct passwd *user = *agent->user ? getpwnam(agent->user) : NULL;
	if (!user || !*output->owner || output->owner_id == user->pw_uid) {
		return 0;
	}
	return err_set(err, BERTH_FAILED,
		"only root can give the file to %s: the agent becomes %s, as [agent] user says",
		output->owner, agent->user);
}

int config_doubt_group(
	const struct config_output *output, const struct config_agent *agent, struct err *err)
{
	const struct passwd *user = *agent->user ? getpwnam(agent->user) : NULL;
	if (!user || !*output->group || output->group_id == agent->group_id ||
		user_in_group(user, output->group_id)) {
		return 0;
	}
	return err_set(err, BERTH_FAILED,
		"only a member can give the file to the group %s: the agent becomes %s, as [agent] "
		"user says",
		output->group, agent->user);
}
