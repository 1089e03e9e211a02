#include "cli/options.h"

#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/record/record.h"
#include "lib/base/duration.h"
#include "lib/base/nearest.h"

enum { EXIT_USAGE = 2, LONG_OPTION = 256 };

enum kind { FLAG, TEXT, DURATION_MS, DURATION_S, FORMAT, PERSISTENCE };

/* The key names an option in the lists of the verbs; a lower-case one that is no `letter` is only that. */
static const struct row {
	char key;
	char letter; /* the short option; 0 for none */
	const char *name;
	enum kind kind;
	size_t place;
	const char *argument;
	const char *help;
} rows[] = {
#define PLACE(member) offsetof(struct options, member)
	{ 'S', 's', "socket", TEXT, PLACE(socket), "PATH", "the agent's socket, else BERTH_SOCKET" },
	{ 'R', 0, "registry", TEXT, PLACE(registry), "URL",
		"the registry itself: dir:… or zookeeper://…" },
	{ 'F', 'f', "format", FORMAT, PLACE(json), "text|json",
		"for eyes (default) or for programs" },
	{ 'T', 't', "timeout", DURATION_MS, PLACE(timeout_ms), "TIME",
		"wait so long for each answer (default 10s)" },
	{ 'A', 0, "auth-file", TEXT, PLACE(auth_file), "FILE",
		"user:password for the registry (mode 0600)" },
	{ 'H', 'h', "help", FLAG, PLACE(help), NULL, "explain, and do nothing" },
	{ 'V', 'V', "version", FLAG, PLACE(version), NULL, "print the version" },
	{ 'l', 'l', "long", FLAG, PLACE(long_list), NULL, "a table: time, size and children too" },
	{ 'r', 'r', "recursive", FLAG, PLACE(recursive), NULL, "and everything below" },
	{ 'p', 'p', "parents", FLAG, PLACE(parents), NULL, "make what is missing above it too" },
	{ '1', 0, "first", FLAG, PLACE(first), NULL, "only the first address" },
	{ 'x', 0, "random", FLAG, PLACE(random), NULL, "only one address, by chance" },
	{ 'a', 0, "api", TEXT, PLACE(api), "URI", "with this api" },
	{ 'o', 0, "protocol", TEXT, PLACE(protocol), "NAME", "with this protocol" },
	{ 'c', 0, "scope", TEXT, PLACE(scope), "external|internal", "of this scope" },
	{ 'k', 0, "type", TEXT, PLACE(type), "TYPE", "with this type attribute" },
	{ 'i', 0, "id", TEXT, PLACE(id), "ID", "with this yarn:id" },
	{ 'P', 0, "persistence", PERSISTENCE, PLACE(persistence), "KIND",
		"with this yarn:persistence" },
	{ 'u', 0, "under", TEXT, PLACE(under), "PATH", "only at and below this path" },
	{ 'j', 0, "file", TEXT, PLACE(file), "FILE", "the record as JSON; - is standard input" },
	{ 'O', 0, "overwrite", FLAG, PLACE(overwrite), NULL, "replace whatever stands there" },
	{ 'e', 0, "ephemeral", FLAG, PLACE(ephemeral), NULL, "hold the record until interrupted" },
	{ 'I', 0, "internal", FLAG, PLACE(internal), NULL, "the endpoint is internal" },
	{ 'U', 0, "uri", TEXT, PLACE(uri), "URI", "the endpoint's address" },
	{ 'N', 0, "inet", TEXT, PLACE(inet), "HOST:PORT", "the endpoint's address" },
	{ 'W', 0, "webui", TEXT, PLACE(webui), "URI", "a web page for people" },
	{ 'E', 0, "rest", TEXT, PLACE(rest), "URI", "a REST interface" },
	{ 'd', 0, "description", TEXT, PLACE(description), "TEXT", "of the record" },
	{ 'X', 0, "secure", FLAG, PLACE(secure), NULL, "all may read it, few may write" },
	{ 'Y', 0, "system-accounts", TEXT, PLACE(system_accounts), "LIST",
		"accounts that may write too (default: Hadoop's)" },
	{ 'Z', 0, "realm", TEXT, PLACE(realm), "REALM", "of system accounts that end in @" },
	{ 'y', 0, "policy", TEXT, PLACE(policy), "all|skip-on-children|fail-on-children",
		"what becomes of a match with children" },
	{ 'n', 0, "dry-run", FLAG, PLACE(dry_run), NULL, "show what would be deleted" },
	{ 'm', 0, "reason", TEXT, PLACE(reason), "TEXT", "shown in status and history" },
	{ 'D', 0, "for", DURATION_S, PLACE(for_s), "TIME", "end by itself after so long" },
	{ 'w', 0, "wait", FLAG, PLACE(wait), NULL, "return when the registry no longer shows it" },
#undef PLACE
};

enum { ROW_COUNT = sizeof(rows) / sizeof(rows[0]) };

static const char everywhere[] = "SRFTAHV";

/* ---- nearest words ---------------------------------------------------------------------------- */

const char *options_nearest(const char *word, const char *const *words, size_t count)
{
	const char *nearest = NULL;
	size_t least = SIZE_MAX;
	for (size_t i = 0; i < count; i++) {
		size_t distance = nearest_distance(word, strlen(word), words[i]);
		if (nearest_is_close(distance, strlen(word)) && distance < least) {
			nearest = words[i];
			least = distance;
		}
	}
	return nearest;
}

/* ---- values ----------------------------------------------------------------------------------- */

bool options_duration_ms(const char *text, int *ret_ms)
{
	char seconds[32];
	int64_t ms;
	if (*text && strspn(text, "0123456789") == strlen(text)) {
		snprintf(seconds, sizeof(seconds), "%ss", text); /* --timeout 30 */
		text = seconds;
	}
	if (!duration_parse(text, &ms) || ms > INT32_MAX) {
		return false;
	}
	*ret_ms = (int)ms;
	return true;
}

static int bad_value(const struct row *row, const char *value)
{
	const char *allowed = "a time from 1ms to 596h, such as 500ms, 30s, 2m or 1h";
	if (row->kind == DURATION_S) {
		allowed = "a time from 1s to 596h, such as 30s, 2m or 1h";
	} else if (row->kind == FORMAT) {
		allowed = "text or json";
	} else if (row->kind == PERSISTENCE) {
		allowed = "container, application-attempt, application or permanent";
	}
	fprintf(stderr, "berth: --%s: \"%s\" is not %s\n", row->name, value, allowed);
	return EXIT_USAGE;
}

static int set(struct options *options, const struct row *row, const char *value)
{
	char *place = (char *)options + row->place;
	int ms = 0;
	options->given |= 1ULL << (row - rows);
	switch (row->kind) {
	case FLAG:
		*(bool *)place = true;
		return 0;
	case TEXT:
		*(const char **)(void *)place = value;
		return 0;
	case PERSISTENCE:
		*(const char **)(void *)place = value;
		return record_persistence_valid(value) ? 0 : bad_value(row, value);
	case FORMAT:
		*(bool *)place = strcmp(value, "json") == 0;
		return *(bool *)place || strcmp(value, "text") == 0 ? 0 : bad_value(row, value);
	case DURATION_MS:
		if (!options_duration_ms(value, &ms) || ms == 0) {
			return bad_value(row, value);
		}
		*(int *)(void *)place = ms;
		return 0;
	case DURATION_S:
		if (!options_duration_ms(value, &ms) || ms < 1000) {
			return bad_value(row, value);
		}
		*(unsigned *)(void *)place = (unsigned)(ms / 1000);
		return 0;
	}
	return EXIT_USAGE;
}

/* ---- reading ---------------------------------------------------------------------------------- */

static int unknown_option(const char *argument)
{
	const char *names[ROW_COUNT];
	for (size_t i = 0; i < ROW_COUNT; i++) {
		names[i] = rows[i].name;
	}
	char name[32];
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(argument + strspn(argument, "-"), "="),
		argument + strspn(argument, "-"));
	bool is_long = strncmp(argument, "--", 2) == 0;
	const char *nearest = is_long ? options_nearest(name, names, ROW_COUNT) : NULL;
	fprintf(stderr, "berth: there is no option %s", argument);
	if (nearest) {
		fprintf(stderr, "; did you mean --%s?", nearest);
	}
	fputc('\n', stderr);
	return EXIT_USAGE;
}

static const struct row *row_of(int option)
{
	for (size_t i = 0; i < ROW_COUNT; i++) {
		if (option == LONG_OPTION + (int)i || (rows[i].letter && option == rows[i].letter)) {
			return &rows[i];
		}
	}
	return NULL;
}

/* The tables of getopt_long(); `letters` starts with "-:", so that operands come in their order. */
static void make_getopt_tables(struct option *names, char *letters)
{
	*letters++ = '-';
	*letters++ = ':';
	for (size_t i = 0; i < ROW_COUNT; i++) {
		int has_argument = rows[i].argument ? required_argument : no_argument;
		names[i] = (struct option){ rows[i].name, has_argument, NULL, LONG_OPTION + (int)i };
		if (rows[i].letter) {
			*letters++ = rows[i].letter;
			if (rows[i].argument) {
				*letters++ = ':';
			}
		}
	}
	names[ROW_COUNT] = (struct option){ NULL, 0, NULL, 0 };
	*letters = '\0';
}

static void take_operand(struct options *options, char *operand)
{
	if (!options->verb) {
		options->verb = operand;
	} else {
		options->operands[options->operand_count++] = operand;
	}
}

static int take(struct options *options, int option, char **argv)
{
	const struct row *row = row_of(option);
	if (option == 1) {
		take_operand(options, optarg);
		return 0;
	}
	if (row) {
		return set(options, row, optarg);
	}
	if (option == ':') {
		fprintf(stderr, "berth: %s needs a value\n", argv[optind - 1]);
		return EXIT_USAGE;
	}
	char letter[3] = { '-', (char)optopt, '\0' };
	bool is_letter = optopt > 0 && optopt < LONG_OPTION;
	return unknown_option(is_letter ? letter : argv[optind - 1]);
}

int options_parse(int argc, char **argv, struct options *ret)
{
	struct option names[ROW_COUNT + 1];
	char letters[2 * ROW_COUNT + 3];
	int option;
	*ret = (struct options){ .operands = calloc((size_t)argc + 1, sizeof(char *)) };
	if (!ret->operands) {
		fputs("berth: out of memory\n", stderr);
		return EXIT_FAILURE;
	}
	make_getopt_tables(names, letters);
	opterr = 0;
	while ((option = getopt_long(argc, argv, letters, names, NULL)) != -1) {
		int status = take(ret, option, argv);
		if (status != 0) {
			return status;
		}
	}
	if (optind > 0 && strcmp(argv[optind - 1], "--") == 0) {
		ret->command = argv + optind;
	}
	return 0;
}

int options_check(const struct options *options, const char *accepted)
{
	for (size_t i = 0; i < ROW_COUNT; i++) {
		bool given = (options->given >> i) & 1;
		if (given && !strchr(everywhere, rows[i].key) && !strchr(accepted, rows[i].key)) {
			fprintf(stderr, "berth: %s does not take --%s (berth %s --help)\n",
				options->verb, rows[i].name, options->verb);
			return EXIT_USAGE;
		}
	}
	return 0;
}

void options_print(const char *keys)
{
	const char *shown = *keys ? keys : everywhere;
	for (size_t i = 0; i < ROW_COUNT; i++) {
		if (!strchr(shown, rows[i].key)) {
			continue;
		}
		char left[64];
		char letter[5] = "    ";
		if (rows[i].letter) {
			snprintf(letter, sizeof(letter), "-%c, ", rows[i].letter);
		}
		snprintf(left, sizeof(left), "%s--%s%s%s", letter, rows[i].name,
			rows[i].argument ? " " : "", rows[i].argument ? rows[i].argument : "");
		if (strlen(left) > 28) {
			printf("  %s\n  %-28s %s\n", left, "", rows[i].help);
		} else {
			printf("  %-28s %s\n", left, rows[i].help);
		}
	}
}
