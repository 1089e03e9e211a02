#include "cli/options.h"

#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/duration.h"
#include "lib/base/nearest.h"
#include "lib/program/memory.h"

enum { EXIT_USAGE = 2, LONG_OPTION = 256, COUNT_MAX = 1000000 };

/* How a value is read; the type of its member in struct options goes with it. */
enum kind {
	FLAG,        /* bool */
	TEXT,        /* const char * */
	WORD,        /* const char *: one of those in the row's `argument` */
	FORMAT,      /* bool: "json", else "text" */
	ATTRIBUTE,   /* const char *[OPTIONS_ATTRIBUTES + 1]: one more with each */
	COUNT,       /* unsigned, from 1 on */
	PORT,        /* unsigned, 1 to 65535 */
	DURATION_MS, /* int, from 1 on */
	DURATION_S   /* unsigned, from 1 on */
};

#define RENDER_WORDS "lines|json|prometheus|envoy|haproxy|nginx|hosts|env"

/* In the order of enum option_id. */
static const struct row {
	const char *name;
	char letter; /* the short option; 0 for none */
	enum kind kind;
	size_t place;
	const char *argument; /* for people; words with | between them are all there are */
	const char *help;
} rows[] = {
#define ROW(id, name, letter, kind, member, argument, help)                                        \
	[OPTION_##id] = { name, letter, kind, offsetof(struct options, member), argument, help }
	ROW(SOCKET, "socket", 's', TEXT, socket, "PATH", "the agent's socket, else BERTH_SOCKET"),
	ROW(REGISTRY, "registry", 0, TEXT, registry, "URL",
		"the registry itself: dir:…, zookeeper://… or host:…"),
	ROW(FORMAT, "format", 'f', FORMAT, json, "text|json",
		"for people (default) or for programs"),
	ROW(OUTPUT, "output", 'o', FORMAT, json, "text|json", "the same as --format"),
	ROW(JSON, "json", 0, FLAG, json, NULL, "the same as --format json"),
	ROW(TIMEOUT, "timeout", 't', DURATION_MS, timeout_ms, "TIME",
		"how long to wait for each answer (default 10s)"),
	ROW(AUTH_FILE, "auth-file", 0, TEXT, auth_file, "FILE",
		"user:password for the registry (mode 0600)"),
	ROW(HELP, "help", 'h', FLAG, help, NULL, "explain, and do nothing"),
	ROW(VERSION, "version", 'V', FLAG, version, NULL, "print the version"),

	ROW(LONG, "long", 'l', FLAG, long_list, NULL, "a table with time, size and children"),
	ROW(RECURSIVE, "recursive", 'r', FLAG, recursive, NULL, "and everything below"),
	ROW(FORCE, "force", 0, FLAG, force, NULL, "with -r: also what no path can name"),
	ROW(FIRST, "first", 0, FLAG, first, NULL, "only the first address"),
	ROW(RANDOM, "random", 0, FLAG, random, NULL, "only one address, chosen at random"),
	ROW(PLAIN, "plain", 0, FLAG, plain, NULL, "only the addresses, one a line"),
	ROW(API, "api", 0, TEXT, api, "URI", "with this api"),
	ROW(PROTOCOL, "protocol", 0, TEXT, protocol, "NAME", "with this protocol"),
	ROW(SCOPE, "scope", 0, WORD, scope, "external|internal", "of this scope"),
	ROW(ATTRIBUTE, "attribute", 0, ATTRIBUTE, attributes, "NAME=VALUE",
		"of records with this attribute; of several, with all"),
	ROW(TYPE, "type", 0, TEXT, type, "TYPE", "with this type attribute"),
	ROW(ID, "id", 0, TEXT, id, "ID", "with this yarn:id"),
	ROW(PERSISTENCE, "persistence", 0, WORD, persistence,
		"container|application-attempt|application|permanent",
		"with this yarn:persistence"),
	ROW(UNDER, "under", 0, TEXT, under, "PATH", "only at and below this path"),
	ROW(NEAR, "near", 0, TEXT, near, "ZONE|self",
		"those near a zone, or the agent's own, come first"),
	ROW(ONCE, "once", 0, FLAG, once, NULL, "exit after the first picture"),
	ROW(SETTLE, "settle", 0, DURATION_MS, settle_ms, "TIME",
		"run COMMAND once when nothing has changed for so long"),
	ROW(ENDPOINTS, "endpoints", 0, COUNT, endpoints, "N",
		"at least so many addresses (default 1)"),
	ROW(REGISTERED, "registered", 0, FLAG, registered, NULL,
		"for this agent's own components, or the one named"),

	ROW(PARENTS, "parents", 'p', FLAG, parents, NULL, "make missing parents too"),
	ROW(OWNER, "owner", 0, TEXT, owner, "USER",
		"the user who may create and delete below it, or scheme:id"),
	ROW(FILE, "file", 0, TEXT, file, "FILE", "the record as JSON; - is standard input"),
	ROW(OVERWRITE, "overwrite", 0, FLAG, overwrite, NULL, "replace an existing node"),
	ROW(EPHEMERAL, "ephemeral", 0, FLAG, ephemeral, NULL, "hold the record until interrupted"),
	ROW(INTERNAL, "internal", 0, FLAG, internal, NULL, "the endpoint is internal"),
	ROW(URI, "uri", 0, TEXT, uri, "URI", "the endpoint's address"),
	ROW(INET, "inet", 0, TEXT, inet, "HOST:PORT", "the endpoint's address"),
	ROW(WEBUI, "webui", 0, TEXT, webui, "URI", "a web page for people"),
	ROW(REST, "rest", 0, TEXT, rest, "URI", "a REST interface"),
	ROW(DESCRIPTION, "description", 0, TEXT, description, "TEXT", "of the record"),
	ROW(SECURE, "secure", 0, FLAG, secure, NULL, "all may read it, few may write"),
	ROW(SYSTEM_ACCOUNTS, "system-accounts", 0, TEXT, system_accounts, "LIST",
		"accounts that may write too (default: Hadoop's)"),
	ROW(WRITE_ACCESSORS, "write-accessors", 0, TEXT, write_accessors, "LIST",
		"with --secure: further accounts that may change it"),
	ROW(REALM, "realm", 0, TEXT, realm, "REALM", "of system accounts that end in @"),
	ROW(POLICY, "policy", 0, WORD, policy, "all|skip-on-children|fail-on-children",
		"how to treat a match that has children"),
	ROW(DRY_RUN, "dry-run", 0, FLAG, dry_run, NULL, "show what would change, and do nothing"),

	ROW(EXIT_CODE, "exit-code", 0, FLAG, exit_code, NULL,
		"exit 1 unless every component is registered"),
	ROW(PORT, "port", 0, PORT, port, "N", "listen there, not where the kernel chooses"),
	ROW(COUNT, "count", 'n', COUNT, count, "N", "only the last N"),
	ROW(SINCE, "since", 0, DURATION_S, since_s, "TIME", "only those of the last TIME"),
	ROW(FOLLOW, "follow", 0, FLAG, follow, NULL, "then show each new one, until interrupted"),
	ROW(REASON, "reason", 0, TEXT, reason, "TEXT", "shown in status and history"),
	ROW(FOR, "for", 0, DURATION_S, for_s, "TIME", "end by itself after this time"),
	ROW(CONTAINER, "container", 0, TEXT, container, "SOURCE/NAME",
		"of one container of this host, as berth bridge has it"),
	ROW(WAIT, "wait", 0, FLAG, wait, NULL, "return when the registry no longer shows it"),
	ROW(MESSAGE, "message", 0, TEXT, message, "TEXT", "shown in checks, as a command's output"),
	ROW(AWAY_OK, "away-ok", 0, FLAG, away_ok, NULL,
		"also while the registry is away and nothing was lost"),

	ROW(RENDER_FORMAT, "format", 'f', WORD, render_format, RENDER_WORDS,
		"the format of the text (required)"),
	ROW(RENDER_WAIT, "wait", 0, COUNT, instances, "N",
		"first wait for so many components with an endpoint"),
#undef ROW
};

static const uint64_t everywhere = OPTION(SOCKET) | OPTION(REGISTRY) | OPTION(FORMAT) |
	OPTION(OUTPUT) | OPTION(JSON) | OPTION(TIMEOUT) | OPTION(AUTH_FILE) | OPTION(HELP) |
	OPTION(VERSION);

/* ---- nearest words ---- */

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

/* ---- values ---- */

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

/* True when `word` is one of those in `words`, which | separates. */
static bool is_one_of(const char *word, const char *words)
{
	size_t len = strlen(word);
	for (; *words; words += strspn(words, "|")) {
		size_t next = strcspn(words, "|");
		if (len == next && strncmp(word, words, len) == 0) {
			return true;
		}
		words += next;
	}
	return false;
}

/* "a|b|c" as "a, b or c". */
static void list_words(char *out, size_t size, const char *words)
{
	size_t used = 0;
	for (; *words; words += strspn(words, "|")) {
		size_t len = strcspn(words, "|");
		const char *separator = used == 0 ? "" : strchr(words, '|') ? ", " : " or ";
		int put = snprintf(out + used, size - used, "%s%.*s", separator, (int)len, words);
		used += put > 0 && (size_t)put < size - used ? (size_t)put : 0;
		words += len;
	}
}

static int bad_value(const struct row *row, const char *value)
{
	char words[128];
	const char *allowed = words;
	if (row->kind == DURATION_MS) {
		allowed = "a time from 1ms to 596h, such as 500ms, 30s, 2m or 1h";
	} else if (row->kind == DURATION_S) {
		allowed = "a time from 1s to 596h, such as 30s, 2m or 1h";
	} else if (row->kind == COUNT) {
		allowed = "a number from 1 to 1000000";
	} else if (row->kind == ATTRIBUTE) {
		allowed = "NAME=VALUE, or one too many: 16 at most";
	} else if (row->kind == PORT) {
		allowed = "a port, from 1 to 65535";
	} else {
		list_words(words, sizeof(words), row->argument);
	}
	fprintf(stderr, "berth: --%s: \"%s\" is not %s\n", row->name, value, allowed);
	return EXIT_USAGE;
}

static bool parse_count(const char *text, unsigned long max, unsigned *ret)
{
	size_t digits = strspn(text, "0123456789");
	unsigned long number = strtoul(text, NULL, 10);
	if (digits == 0 || digits > 7 || text[digits] || number == 0 || number > max) {
		return false;
	}
	*ret = (unsigned)number;
	return true;
}

static bool add_attribute(const char **attributes, const char *value)
{
	size_t count = 0;
	while (attributes[count]) {
		count++;
	}
	const char *equals = strchr(value, '=');
	if (count == OPTIONS_ATTRIBUTES || !equals || equals == value || !equals[1]) {
		return false;
	}
	attributes[count] = value;
	return true;
}

/* Stores a value in its member; false when it is not a value of the row's kind. */
static bool store(const struct row *row, void *place, const char *value)
{
	int ms = 0;
	switch (row->kind) {
	case FLAG:
		*(bool *)place = true;
		return true;
	case TEXT:
		*(const char **)place = value;
		return true;
	case WORD:
		*(const char **)place = value;
		return is_one_of(value, row->argument);
	case FORMAT:
		*(bool *)place = strcmp(value, "json") == 0;
		return is_one_of(value, row->argument);
	case ATTRIBUTE:
		return add_attribute(place, value);
	case COUNT:
		return parse_count(value, COUNT_MAX, place);
	case PORT:
		return parse_count(value, UINT16_MAX, place);
	case DURATION_MS:
		if (!options_duration_ms(value, &ms) || ms == 0) {
			return false;
		}
		*(int *)place = ms;
		return true;
	case DURATION_S:
		if (!options_duration_ms(value, &ms) || ms < 1000) {
			return false;
		}
		*(unsigned *)place = (unsigned)(ms / 1000);
		return true;
	}
	return false;
}

static int set(struct options *options, const struct row *row, const char *value)
{
	options->given |= UINT64_C(1) << (row - rows);
	return store(row, (char *)options + row->place, value) ? 0 : bad_value(row, value);
}

/* ---- reading ---- */

static int unknown_option(const char *argument)
{
	const char *names[OPTION_END];
	for (size_t i = 0; i < OPTION_END; i++) {
		names[i] = rows[i].name;
	}
	char name[32];
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(argument + strspn(argument, "-"), "="),
		argument + strspn(argument, "-"));
	bool is_long = strncmp(argument, "--", 2) == 0;
	const char *nearest = is_long ? options_nearest(name, names, OPTION_END) : NULL;
	fprintf(stderr, "berth: there is no option %s", argument);
	if (nearest) {
		fprintf(stderr, "; did you mean --%s?", nearest);
	}
	fputc('\n', stderr);
	return EXIT_USAGE;
}

/* Of two options with one name the verb takes the option that it accepts, else the first. */
static bool is_meant(size_t i, uint64_t accepted)
{
	for (size_t j = 0; j < OPTION_END; j++) {
		if (j == i || strcmp(rows[j].name, rows[i].name) != 0) {
			continue;
		}
		bool takes_other = accepted & UINT64_C(1) << j;
		bool takes_this = accepted & UINT64_C(1) << i;
		if (takes_other || (!takes_this && j < i)) {
			return false;
		}
	}
	return true;
}

static const struct row *row_of(int option, uint64_t accepted)
{
	for (size_t i = 0; i < OPTION_END; i++) {
		bool is_letter = rows[i].letter && option == rows[i].letter;
		if (option == LONG_OPTION + (int)i || (is_letter && is_meant(i, accepted))) {
			return &rows[i];
		}
	}
	return NULL;
}

/* The tables of getopt_long(); `letters` starts with "-:", so that operands come in their order. */
static void make_getopt_tables(uint64_t accepted, struct option *names, char *letters)
{
	*letters++ = '-';
	*letters++ = ':';
	for (size_t i = 0; i < OPTION_END; i++) {
		if (!is_meant(i, accepted)) {
			continue;
		}
		int has_argument = rows[i].argument ? required_argument : no_argument;
		*names++ = (struct option){ rows[i].name, has_argument, NULL,
			LONG_OPTION + (int)i };
		if (rows[i].letter) {
			*letters++ = rows[i].letter;
			if (rows[i].argument) {
				*letters++ = ':';
			}
		}
	}
	*names = (struct option){ NULL, 0, NULL, 0 };
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

static int take(struct options *options, int option, uint64_t accepted, char **argv)
{
	const struct row *row = row_of(option, accepted);
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

int options_parse(int argc, char **argv, uint64_t accepted, struct options *ret)
{
	struct option names[OPTION_END + 1];
	char letters[2 * OPTION_END + 3];
	int option;
	*ret = (struct options){
		.operands = memory_must(calloc((size_t)argc + 1, sizeof(char *))),
	};
	make_getopt_tables(accepted, names, letters);
	opterr = 0;
	while ((option = getopt_long(argc, argv, letters, names, NULL)) != -1) {
		int status = take(ret, option, accepted, argv);
		if (status != 0) {
			return status;
		}
	}
	if (optind > 0 && strcmp(argv[optind - 1], "--") == 0) {
		ret->command = argv + optind;
	}
	return 0;
}

int options_check(const struct options *options, uint64_t accepted)
{
	for (size_t i = 0; i < OPTION_END; i++) {
		if (options->given & ~(everywhere | accepted) & (UINT64_C(1) << i)) {
			fprintf(stderr, "berth: %s does not take --%s (berth %s --help)\n",
				options->verb, rows[i].name, options->verb);
			return EXIT_USAGE;
		}
	}
	if (options->registry && (options->near || options->attributes[0])) {
		fprintf(stderr, "berth: --%s is for an agent, not for a registry\n",
			options->near ? "near" : "attribute");
		return EXIT_USAGE;
	}
	return 0;
}

uint64_t options_everywhere(void)
{
	return everywhere;
}

void options_print(uint64_t shown)
{
	for (size_t i = 0; i < OPTION_END; i++) {
		if (!(shown & UINT64_C(1) << i)) {
			continue;
		}
		char left[80];
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

/* Of all options the first of a name; of a verb's and everybody's the verb's. */
static bool is_shown(size_t i, uint64_t chosen)
{
	return is_meant(i, chosen == UINT64_MAX ? 0 : chosen & ~everywhere);
}

void options_each(uint64_t chosen, options_visit *visit, void *context)
{
	for (size_t i = 0; i < OPTION_END; i++) {
		if ((chosen & UINT64_C(1) << i) && is_shown(i, chosen)) {
			const struct row *row = &rows[i];
			bool words = row->kind == WORD || row->kind == FORMAT;
			const struct option_text text = { .name = row->name,
				.letter = row->letter,
				.argument = row->argument,
				.words = words ? row->argument : NULL,
				.help = row->help };
			visit(context, &text);
		}
	}
}
