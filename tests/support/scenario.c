#include "tests/support/scenario.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/buffer.h"
#include "tests/support/one_test.h"

enum { MOST_SCENARIOS = 1024, NAME_BYTES = 160, PATH_BYTES = 512 };

struct line {
	int number;
	char *text;
};

struct scenario {
	const struct scenario_stage *stage;
	char file[PATH_BYTES]; /* as the failure names it */
	char name[NAME_BYTES];
	struct line *lines;
	size_t count;
};

/* The scenario that runs. */
static struct {
	const struct scenario *scenario;
	void *stage;
	int line;
	char command[1024];
} now;

static char *copy(const char *text)
{
	char *own = strdup(text);
	if (!own) {
		abort();
	}
	return own;
}

_Noreturn void scenario_fail(const char *format, ...)
{
	char text[4096];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	cr_assert_fail("%s:%d: %s: %s", now.scenario->file, now.line, now.command, text);
	abort();
}

/* ---- words ---- */

int64_t scenario_ms(const char *word)
{
	char *end;
	long long number = strtoll(word, &end, 10);
	if (end == word || !(*end == '\0' || strcmp(end, "ms") == 0 || strcmp(end, "s") == 0)) {
		scenario_fail("no number: %s", word);
	}
	return *end == 's' ? number * 1000 : number;
}

const char *scenario_value(const char *word, const char *name)
{
	size_t len = strlen(name);
	return strncmp(word, name, len) == 0 && word[len] == '=' ? word + len + 1 : NULL;
}

bool scenario_compares(const char *word, const char *name, int64_t value)
{
	size_t len = strlen(name);
	const char *sign = word + len;
	if (strncmp(word, name, len) != 0 || !strchr("=<>", *sign) || *sign == '\0') {
		return false;
	}
	bool equal = sign[0] == '=' || sign[1] == '=';
	int64_t bound = scenario_ms(sign + (sign[0] == '=' || sign[1] != '=' ? 1 : 2));
	bool holds = (equal && value == bound) || (*sign == '<' && value < bound) ||
		(*sign == '>' && value > bound);
	if (!holds) {
		scenario_fail("%s is %lld", name, (long long)value);
	}
	return true;
}

/* Ends the command at its semicolon; returns the next one, or NULL. */
static char *cut_command(char *text)
{
	for (char quote = '\0'; *text; text++) {
		if (quote ? *text == quote : *text == '\'' || *text == '"') {
			quote = quote ? '\0' : *text;
		} else if (*text == ';' && !quote) {
			*text = '\0';
			return text + 1;
		}
	}
	return NULL;
}

/* One word, without its quotes; moves *at behind it. NULL: there is none. */
static char *next_word(char **at)
{
	char *from = *at + strspn(*at, " \t");
	if (*from == '\0') {
		return NULL;
	}
	char *word = from;
	char *to = from;
	char quote = '\0';
	for (; *from && (quote || !strchr(" \t", *from)); from++) {
		if (quote ? *from == quote : *from == '\'' || *from == '"') {
			quote = quote ? '\0' : *from;
		} else {
			*to++ = *from;
		}
	}
	if (quote) {
		scenario_fail("a quote does not end");
	}
	*at = *from ? from + 1 : from;
	*to = '\0';
	return word;
}

/* The word with the number in place of each %. */
static char *numbered(const char *word, int number)
{
	char text[1024];
	size_t len = 0;
	for (; *word && len + 16 < sizeof(text); word++) {
		len += (size_t)snprintf(text + len, sizeof(text) - len, *word == '%' ? "%d" : "%c",
			*word == '%' ? number : *word);
	}
	text[len] = '\0';
	return copy(text);
}

static void repeat(char **words)
{
	char *own[SCENARIO_WORDS] = { NULL };
	if (!words[0] || !words[1]) {
		scenario_fail("usage: each COUNT COMMAND");
	}
	for (int64_t i = 0, count = scenario_ms(words[0]); i < count; i++) {
		for (size_t word = 1; words[word]; word++) {
			own[word - 1] = numbered(words[word], (int)i);
		}
		scenario_command(own);
		for (size_t word = 0; own[word]; word++) {
			free(own[word]);
		}
	}
}

void scenario_command(char **words)
{
	const struct scenario_stage *stage = now.scenario->stage;
	if (strcmp(words[0], "each") == 0) {
		repeat(words + 1);
		return;
	}
	for (size_t i = 0; i < stage->count; i++) {
		const struct scenario_command *command = &stage->commands[i];
		int count = 0;
		while (words[count + 1]) {
			count++;
		}
		if (strcmp(words[0], command->name) != 0) {
			continue;
		}
		if (count < command->least || count > command->most) {
			scenario_fail("usage: %s %s", command->name, command->usage);
		}
		command->run(now.stage, words + 1);
		return;
	}
	scenario_fail("no such command: %s", words[0]);
}

static void run_line(const struct line *line)
{
	char *text = copy(line->text);
	now.line = line->number;
	for (char *at = text, *rest; at; at = rest) {
		char *words[SCENARIO_WORDS + 1] = { NULL };
		size_t count = 0;
		rest = cut_command(at);
		snprintf(now.command, sizeof(now.command), "%s", at + strspn(at, " \t"));
		while (count < SCENARIO_WORDS && (words[count] = next_word(&at))) {
			count++;
		}
		if (count == SCENARIO_WORDS) {
			scenario_fail("too many words");
		}
		if (count > 0) {
			scenario_command(words);
		}
	}
	free(text);
}

void scenario_run(const struct scenario *scenario)
{
	now.scenario = scenario;
	now.line = 0;
	now.stage = scenario->stage->begin();
	for (size_t i = 0; i < scenario->count; i++) {
		run_line(&scenario->lines[i]);
	}
	strcpy(now.command, "the end");
	scenario->stage->end(now.stage);
}

/* ---- files ---- */

static void add_line(struct scenario *scenario, int number, const char *text)
{
	struct line *lines = realloc(scenario->lines, (scenario->count + 1) * sizeof(*lines));
	if (!lines) {
		abort();
	}
	lines[scenario->count++] = (struct line){ .number = number, .text = copy(text) };
	scenario->lines = lines;
}

static _Noreturn void refuse(const char *file, int number, const char *what)
{
	fprintf(stderr, "%s:%d: %s\n", file, number, what);
	exit(1);
}

/* The name of a test: its words, with _ between them. */
static void name_from(const char *text, char *ret_name)
{
	size_t len = 0;
	for (; *text && len + 1 < NAME_BYTES; text++) {
		ret_name[len++] = isalnum((unsigned char)*text) ? *text : '_';
	}
	ret_name[len] = '\0';
}

static size_t read_file(const struct scenario_stage *stage, const char *path, const char *file,
	struct scenario **scenarios, size_t room)
{
	struct scenario head = { .stage = stage };
	size_t count = 0;
	char *text = NULL;
	size_t size = 0;
	ssize_t len;
	FILE *stream = fopen(path, "re");
	if (!stream) {
		refuse(file, 0, "cannot be opened");
	}
	for (int number = 1; (len = getline(&text, &size, stream)) >= 0; number++) {
		while (len > 0 && isspace((unsigned char)text[len - 1])) {
			text[--len] = '\0';
		}
		if (text[0] == '#' || text[0] == '\0') {
			continue;
		}
		if (strncmp(text, "scenario ", 9) != 0) {
			add_line(count ? scenarios[count - 1] : &head, number, text);
			continue;
		}
		struct scenario *scenario = calloc(1, sizeof(*scenario));
		if (!scenario || count == room) {
			refuse(file, number, "too many scenarios");
		}
		scenario->stage = stage;
		snprintf(scenario->file, sizeof(scenario->file), "%s", file);
		name_from(text + 9, scenario->name);
		for (size_t i = 0; i < head.count; i++) {
			add_line(scenario, head.lines[i].number, head.lines[i].text);
		}
		scenarios[count++] = scenario;
	}
	for (size_t i = 0; i < head.count; i++) {
		free(head.lines[i].text);
	}
	free(head.lines);
	free(text);
	fclose(stream);
	if (count == 0) {
		refuse(file, 1, "no scenario is in it");
	}
	return count;
}

static int is_visible(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

struct criterion_test_params scenario_read(const struct scenario_stage *stage)
{
	static struct scenario *scenarios[MOST_SCENARIOS];
	char folder[PATH_BYTES];
	struct dirent **files;
	size_t count = 0;
	const char *sources = getenv("BERTH_SRC_DIR");
	snprintf(folder, sizeof(folder), "%s/tests/scenarios/%s", sources ? sources : ".",
		stage->folder);
	int found = scandir(folder, &files, is_visible, alphasort);
	if (found <= 0) {
		refuse(folder, 0,
			"no scenarios; BERTH_SRC_DIR has to be the folder of the sources");
	}
	for (int i = 0; i < found; i++) {
		char path[2 * PATH_BYTES];
		char file[PATH_BYTES];
		snprintf(path, sizeof(path), "%s/%s", folder, files[i]->d_name);
		snprintf(file, sizeof(file), "tests/scenarios/%.200s/%.200s", stage->folder,
			files[i]->d_name);
		count += read_file(stage, path, file, scenarios + count, MOST_SCENARIOS - count);
		free(files[i]);
	}
	free(files);
	return cr_make_param_array(struct scenario *, scenarios, count, NULL);
}

/* For tests/support/all_tests.c. */
const char *one_test_parameter_name(void *parameter)
{
	return (*(struct scenario **)parameter)->name;
}
