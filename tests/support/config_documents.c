#include "tests/support/config_documents.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/config/options.h"
#include "agent/config/value.h"

enum { DESCRIPTION_BYTES = 256, COMMENT_COLUMNS = 98 };

static void print_header(FILE *stream, const char *kind, const char *name)
{
	fprintf(stream, "[%s%s%s]\n", kind, *name ? " " : "", name);
}

static void describe_range(const char *what, char *min_take, char *max_take, char *out, size_t size)
{
	snprintf(out, size, "%s, %s to %s", what, min_take, max_take);
	free(min_take);
	free(max_take);
}

static void describe_words(const char *const *words, char *out, size_t size)
{
	out[0] = '\0';
	for (size_t i = 0; words[i]; i++) {
		size_t used = strlen(out);
		const char *separator = i == 0 ? "" : words[i + 1] ? ", " : " or ";
		snprintf(out + used, size - used, "%s%s", separator, words[i]);
	}
}

/* The allowed values, for people: "duration, 1ms to 24h". */
static void describe_values(const struct config_option *option, char *out, size_t size)
{
	static const char *const names[] = {
		[CONFIG_TEXT] = "text",
		[CONFIG_COMMAND] = "command",
		[CONFIG_FILE] = "absolute file name",
		[CONFIG_BOOLEAN] = "yes or no",
		[CONFIG_NUMBER] = "number, 0.001 to 1000000",
		[CONFIG_MODE] = "octal, 0000 to 0777",
		[CONFIG_LIST] = "list, separated by commas or blanks",
		[CONFIG_NUMBERED] = "text, several by number",
		[CONFIG_PAIRS] = "text",
		[CONFIG_BYTES] = "text with escapes",
		[CONFIG_SIGNAL] = "signal, by name",
		[CONFIG_USER] = "user, by name or number",
		[CONFIG_GROUP] = "group, by name or number",
		[CONFIG_WRITER] = "user:NAME or group:NAME",
	};
	switch (option->type) {
	case CONFIG_CHOICE:
	case CONFIG_WORD:
		describe_words(option->words, out, size);
		break;
	case CONFIG_INTEGER:
		snprintf(out, size, "number, %lld to %lld", (long long)option->min,
			(long long)option->max);
		break;
	case CONFIG_STATUS_RANGES:
		snprintf(out, size, "numbers and ranges, %lld to %lld", (long long)option->min,
			(long long)option->max);
		break;
	case CONFIG_DURATION:
		describe_range("duration", config_format_duration(option->min),
			config_format_duration(option->max), out, size);
		break;
	case CONFIG_SIZE:
		describe_range("size", config_format_size(option->min),
			config_format_size(option->max), out, size);
		break;
	case CONFIG_TEXT:
		if (option->max) {
			snprintf(out, size, "text, at most %lld bytes", (long long)option->max);
			break;
		}
		/* fall through */
	default:
		snprintf(out, size, "%s", names[option->type]);
	}
}

/* The text as comment lines, broken at blanks. */
static void print_comment(const char *text, FILE *stream)
{
	size_t column = 0;
	while (*text) {
		size_t len = strcspn(text, " ");
		if (column > 0 && column + 1 + len > COMMENT_COLUMNS) {
			fputc('\n', stream);
			column = 0;
		}
		column += (size_t)fprintf(stream, "%s%.*s", column ? " " : "; ", (int)len, text);
		text += len + strspn(text + len, " ");
	}
	fputc('\n', stream);
}

/* "text, at most 512 bytes; default: none; for type = tcp, http" */
static char *describe(const struct config_section_type *section, const struct config_option *option)
{
	char allowed[DESCRIPTION_BYTES];
	describe_values(option, allowed, sizeof(allowed));
	char types[DESCRIPTION_BYTES] = "";
	const struct config_option *type = config_option_find(section, "type");
	for (unsigned i = 0; option->for_types && type->words[i]; i++) {
		if (option->for_types & CONFIG_FOR(i)) {
			size_t used = strlen(types);
			snprintf(types + used, sizeof(types) - used, "%s%s",
				used ? ", " : "; for type = ", type->words[i]);
		}
	}
	const char *fallback = option->fallback ? option->fallback : option->automatic;
	return allocate_format("%s%s%s%s%s", allowed, types, fallback ? "; default: " : "",
		fallback ? fallback : "", option->fixed ? "; a reload cannot change it" : "");
}

/* A key as in a file, and the part of it that varies in the documents. */
static const char *family_suffix(const struct config_option *option)
{
	return option->type == CONFIG_PAIRS ? ".NAME" : "";
}

/* Sections that register something are comments, so that the file loads without changes. */
static bool is_live(enum config_section_kind kind)
{
	return config_sections[kind].naming == CONFIG_UNNAMED;
}

static void print_reference_option(const struct config_section_type *type,
	const struct config_option *option, bool live, FILE *stream)
{
	char *description = describe(type, option);
	char *sentence = allocate_format("(%s)", description);
	fputc('\n', stream);
	print_comment(option->help, stream);
	print_comment(sentence, stream);
	fprintf(stream, "%s%s%s = %s\n", live && option->fallback ? "" : ";", option->key,
		family_suffix(option), option->fallback ? option->fallback : option->example);
	free(sentence);
	free(description);
}

void config_documents_reference(FILE *stream)
{
	fputs("; Every key there is, with its default or, behind a ;, an "
	      "example. Written from the table of\n"
	      "; options, as berth.ini(5) is; the file to start from is berth.ini.\n",
		stream);
	for (size_t i = 0; i < CONFIG_SECTION_COUNT; i++) {
		const struct config_section_type *type = &config_sections[i];
		bool live = is_live((enum config_section_kind)i);
		fputc('\n', stream);
		print_comment(type->help, stream);
		fputs(live ? "" : ";", stream);
		print_header(stream, type->kind, type->example_name);
		for (size_t j = 0; type->options[j].key; j++) {
			print_reference_option(type, &type->options[j], live, stream);
		}
	}
}

/* One line a sentence, as mdoc wants it, and no byte that roff would take for its own. */
static void print_roff(const char *text, FILE *stream)
{
	bool line_start = true;
	for (; *text; text++) {
		if (line_start && (*text == '.' || *text == '\'')) {
			fputs("\\&", stream);
		}
		line_start = false;
		if (*text == '\\') {
			fputs("\\e", stream);
		} else if (*text == ' ' && text[-1] == '.') {
			fputc('\n', stream);
			line_start = true;
		} else {
			fputc(*text, stream);
		}
	}
	fputc('\n', stream);
}

static void print_manual_option(
	const struct config_section_type *type, const struct config_option *option, FILE *stream)
{
	char *description = describe(type, option);
	char *sentence = allocate_format("(%s)", description);
	fprintf(stream, ".It Ic %s%s\n", option->key, family_suffix(option));
	print_roff(option->help, stream);
	print_roff(sentence, stream);
	free(sentence);
	free(description);
}

void config_documents_manual(FILE *stream)
{
	for (size_t i = 0; i < CONFIG_SECTION_COUNT; i++) {
		const struct config_section_type *type = &config_sections[i];
		static const char *const arguments[] = { "", " Op Ar NAME", " Ar NAME",
			" Ar GLOB" };
		fprintf(stream, ".Ss Bq Ic %s%s\n", type->kind, arguments[type->naming]);
		print_roff(type->help, stream);
		fputs(".Bl -tag -width Ds\n", stream);
		for (size_t j = 0; type->options[j].key; j++) {
			print_manual_option(type, &type->options[j], stream);
		}
		fputs(".El\n", stream);
	}
}
