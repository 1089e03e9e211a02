/* The meanings of names of resources. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/array.h"
#include "xds/name.h"

TestSuite(name, .timeout = 60);

struct row {
	char name[300];
	char places[600]; /* with a letter for the shape; a guard ends at | */
	char service[20];
};

static void write_places(char *out, size_t size, const struct name_meaning *meaning)
{
	out[0] = '\0';
	for (size_t i = 0; i < meaning->count; i++) {
		const struct name_place *place = &meaning->places[i];
		size_t used = strlen(out);
		int guard = (int)place->guard_len;
		snprintf(out + used, size - used, "%s%c%.*s%s%s", i > 0 ? " " : "",
			"NCI"[place->shape], guard, place -> path, guard > 0 ? "|" : "",
			place->path + guard);
	}
}

ParameterizedTestParameters(name, means_these_places)
{
	static struct row rows[] = {
		{ "prod.web.joe",
			"N/joe|/web/prod I/users/joe/web/prod "
			"I/users/joe/services|/web/prod",
			"" },
		{ "prod.web.joe.berth",
			"N/joe|/web/prod I/users/joe/web/prod "
			"I/users/joe/services|/web/prod",
			"" },
		{ "PROD.Web.joe.",
			"N/joe|/web/prod I/users/joe/web/prod "
			"I/users/joe/services|/web/prod",
			"" },
		{ "_http._tcp.prod.web.joe.berth",
			"N/joe|/web/prod I/users/joe/web/prod "
			"I/users/joe/services|/web/prod",
			"http" },
		{ "prod.web.joe.users", "I/users/joe/web/prod I/users/joe/services|/web/prod", "" },
		{ "prod.web.services.joe.users", "I/users/joe/services/web/prod", "" },
		{ "c1.prod.web.joe.users",
			"N/users/joe/web/prod/c1 N/users/joe/web/prod/components/c1 "
			"N/users/joe/services|/web/prod/components/c1",
			"" },
		{ "c1.components.prod.web.joe.users", "N/users/joe/web/prod/components/c1", "" },
		{ "db.services", "N/services|/db N/users/services/db", "" },
		{ "db", "N/db N/users/db", "" },
		{ "prod.web.joe.east.net",
			"N/net/east/joe|/web/prod I/net/east/users/joe/web/prod "
			"I/net/east/users/joe/services|/web/prod",
			"" },
		{ "_http._tcp.db.services.east.net.berth",
			"N/net/east/services|/db N/net/east/users/services/db", "http" },
		{ "east.net", "N/net|/east N/users/net/east", "" },
		{ "net", "N/net N/users/net", "" },
		{ "/services", "C/services", "" },
		{ "/users/joe/web/prod/components", "C/users/joe/web/prod/components", "" },
		{ "/", "C/", "" },
		{ "/Services", "", "" },
		{ "/services/", "", "" },
		{ "", "", "" },
		{ ".", "", "" },
		{ "a..b", "", "" },
		{ "_http.prod", "", "" },
		{ "_._tcp.prod", "", "" },
		{ "_http._tcp.", "", "" },
		{ "a_b.c", "", "" },
		{ "db/a", "", "" },
		{ "db:8080", "N/db N/users/db", "" },
		{ "berth", "N/berth N/users/berth", "" },
	};
	return cr_make_param_array(struct row, rows, ARRAY_LEN(rows));
}

ParameterizedTest(struct row *row, name, means_these_places)
{
	struct name_meaning meaning;
	char places[800];
	name_read(&meaning, row->name, "berth");
	write_places(places, sizeof(places), &meaning);
	cr_expect_str_eq(places, row->places, "%s: %s", row->name, places);
	cr_expect_str_eq(meaning.service ? meaning.service : "", row->service, "%s", row->name);
	name_meaning_finish(&meaning);
}

Test(name, a_name_that_is_too_long_means_nothing)
{
	struct name_meaning meaning;
	char name[600];
	memset(name, 'a', sizeof(name));
	for (size_t i = 1; i < sizeof(name); i += 2) {
		name[i] = '.';
	}
	name[255] = '\0';
	name_read(&meaning, name, "berth");
	cr_assert_eq(meaning.count, 0);
	/* The longest one of many labels. */
	name[251] = '\0';
	name_read(&meaning, name, "berth");
	name_meaning_finish(&meaning);
}

ParameterizedTestParameters(name, of_a_path)
{
	static struct row rows[] = {
		{ "/users/joe/web/prod/components/c1", "prod.web.joe", "" },
		{ "/users/joe/web/prod", "prod.web.joe", "" },
		{ "/net/east/users/joe/web/prod/components/c1", "prod.web.joe.east.net", "" },
		{ "/net/east/services/db", "db.services.east.net", "" },
		{ "/net/east", "east.net", "" },
		{ "/users/joe/services/web/prod/components/c1", "prod.web.joe", "" },
		{ "/users/joe/web/prod/other/c1", "c1.other.prod.web.joe.users", "" },
		{ "/users/joe/web/prod/components/c1/deep", "deep.c1.components.prod.web.joe.users",
			"" },
		{ "/users/joe", "joe.users", "" },
		{ "/services/db", "db.services", "" },
		{ "/db", "db", "" },
	};
	return cr_make_param_array(struct row, rows, ARRAY_LEN(rows));
}

ParameterizedTest(struct row *row, name, of_a_path)
{
	char name[PATH_DNS_NAME_BYTES];
	cr_assert(name_of_path(name, row->name));
	cr_assert_str_eq(name, row->places, "%s: %s", row->name, name);
}
