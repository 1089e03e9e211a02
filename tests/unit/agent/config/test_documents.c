/*
 * The documents agree with the option table: the table prints conf/berth.full.ini and the list in
 * docs/berth.ini.5. After a change of the table run this test once with BERTH_UPDATE_DOCUMENTS=1,
 * which writes them again.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/config/config.h"
#include "tests/support/config_documents.h"

static const char begin_mark[] = ".\\\" BEGIN: written from the table of options\n";
static const char end_mark[] = ".\\\" END\n";

static char *path_of(const char *name)
{
	const char *source = getenv("BERTH_SRC_DIR");
	char *path;
	cr_assert(asprintf(&path, "%s/%s", source ? source : ".", name) > 0);
	return path;
}

static char *read_document(const char *name)
{
	char *path = path_of(name);
	FILE *stream = fopen(path, "re");
	cr_assert_not_null(stream, "%s cannot be read; is BERTH_SRC_DIR the source tree?", path);
	char *text = NULL;
	size_t size = 0;
	cr_assert(getdelim(&text, &size, '\0', stream) > 0);
	fclose(stream);
	free(path);
	return text;
}

/* `text` with `to` in the place of each `from`; frees `text`. */
static char *replace_take(char *text, const char *from, const char *to)
{
	char *out = NULL;
	size_t len = 0;
	FILE *stream = open_memstream(&out, &len);
	const char *at = text;
	for (const char *next; (next = strstr(at, from)); at = next + strlen(from)) {
		fprintf(stream, "%.*s%s", (int)(next - at), at, to);
	}
	fputs(at, stream);
	fclose(stream);
	free(text);
	return out;
}

/* The output of a printer, with the usual directories in place of those of this build. */
static char *print(void (*printer)(FILE *))
{
	char *text = NULL;
	size_t len = 0;
	FILE *stream = open_memstream(&text, &len);
	printer(stream);
	fclose(stream);
	text = replace_take(text, BERTH_RUNSTATEDIR "/berth", "/run/berth");
	text = replace_take(text, BERTH_STATEDIR "/berth", "/var/lib/berth");
	return replace_take(text, BERTH_SYSCONFDIR "/berth", "/etc/berth");
}

static void compare(const char *name, const char *have, const char *want)
{
	if (strcmp(have, want) != 0 && getenv("BERTH_UPDATE_DOCUMENTS")) {
		char *path = path_of(name);
		FILE *stream = fopen(path, "we");
		cr_assert_not_null(stream);
		fputs(want, stream);
		cr_assert_eq(fclose(stream), 0);
		free(path);
		return;
	}
	cr_assert(strcmp(have, want) == 0,
		"%s is not what the option table says; see the head of this test's source", name);
}

Test(config_documents, the_full_file_is_what_the_table_says)
{
	char *want = print(config_documents_reference);
	char *have = read_document("conf/berth.full.ini");
	compare("conf/berth.full.ini", have, want);
	free(have);
	free(want);
}

Test(config_documents, the_manual_lists_what_the_table_says)
{
	char *list = print(config_documents_manual);
	char *have = read_document("docs/berth.ini.5");
	char *begin = strstr(have, begin_mark);
	char *end = strstr(have, end_mark);
	cr_assert(begin && end && begin < end, "the marks are missing");
	char *want;
	int before = (int)(begin + strlen(begin_mark) - have);
	cr_assert(asprintf(&want, "%.*s%s%s", before, have, list, end) > 0);
	compare("docs/berth.ini.5", have, want);
	free(want);
	free(have);
	free(list);
}

static void check_loads(const char *name, size_t components)
{
	char *path = path_of(name);
	struct config *config = NULL;
	struct config_problems problems;
	int ret = config_load(&config, path, &problems);
	config_problems_print(&problems, stderr);
	cr_assert_eq(ret, 0);
	cr_assert_eq(config->component_count, components);
	config_problems_finish(&problems);
	config_unref(config);
	free(path);
}

Test(config_documents, the_files_that_are_installed_load)
{
	check_loads("conf/berth.ini", 1);
	check_loads("conf/berth.full.ini", 0);
}
