/* The addresses of host names in a picture. */
#include "agent/output/hosts.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/run_until.h"
#include "tests/support/shifted_clock.h"

TestSuite(output_hosts);

/* ---- names that only this process knows; the child of a look-up is a copy of it ---- */

static char answers[8][64]; /* "name address address …"; "name hang": nobody answers */
static size_t answer_count;

static void answer(const char *text)
{
	snprintf(answers[answer_count++], sizeof(answers[0]), "%s", text);
}

static struct addrinfo *make(const char *address, struct addrinfo *next)
{
	struct room {
		struct addrinfo info;
		struct sockaddr_in6 address;
	} *room = calloc(1, sizeof(*room));
	bool is_ip6 = strchr(address, ':') != NULL;
	struct sockaddr_in *ip4 = (struct sockaddr_in *)&room->address;
	room->info.ai_addr = (struct sockaddr *)&room->address;
	room->info.ai_addrlen = is_ip6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
	room->info.ai_next = next;
	room->address.sin6_family = is_ip6 ? AF_INET6 : AF_INET;
	cr_assert_eq(inet_pton(room->address.sin6_family, address,
			     is_ip6 ? (void *)&room->address.sin6_addr : (void *)&ip4->sin_addr),
		1);
	return &room->info;
}

int getaddrinfo(const char *restrict name, const char *restrict port,
	const struct addrinfo *restrict hints, struct addrinfo **restrict ret)
{
	cr_assert_str_eq(port, "0");
	*ret = NULL;
	if (hints->ai_flags & AI_NUMERICHOST) {
		return EAI_NONAME;
	}
	for (size_t i = 0; i < answer_count; i++) {
		char copy[64];
		char *rest = copy;
		strcpy(copy, answers[i]);
		if (strcmp(strsep(&rest, " "), name) != 0) {
			continue;
		}
		for (char *word; (word = strsep(&rest, " "));) {
			if (strcmp(word, "hang") == 0) {
				pause();
			}
			*ret = make(word, *ret);
		}
	}
	return *ret ? 0 : EAI_NONAME;
}

void freeaddrinfo(struct addrinfo *info)
{
	while (info) {
		struct addrinfo *next = info->ai_next;
		free(info);
		info = next;
	}
}

/* ---- the stage ---- */

static struct ev_loop *loop;
static struct output_hosts *hosts;
static int changes;
static int context;

static void on_change(void *given)
{
	cr_assert_eq(given, &context);
	changes++;
}

static void begin(void)
{
	loop = ev_default_loop(0); /* it reaps the children */
	hosts = output_hosts_create(loop, on_change, &context);
	answer_count = 0;
}

static void end(void)
{
	output_hosts_destroy(hosts);
	output_hosts_destroy(NULL);
}

/* The names, between blanks, are those of the picture. */
static bool want(const char *names)
{
	struct buffer text;
	char copy[1 << 15];
	char *rest = copy;
	struct record *record;
	buffer_init(&text, 1 << 20);
	snprintf(copy, sizeof(copy), "%s", names);
	buffer_append_text(&text,
		"{\"type\":\"JSONServiceRecord\",\"external\":[{\"api\":\"x\",\"addressType\":"
		"\"host/port\",\"protocol\":\"\",\"addresses\":[{\"host\":\"10.0.0.1\",\"port\":"
		"\"1\"},{\"host\":\"without.port\"}");
	for (char *name; (name = strsep(&rest, " "));) {
		buffer_printf(&text, ",{\"host\":\"%s\",\"port\":\"1\"}", name);
	}
	buffer_append_text(&text, "]}],\"internal\":[]}");
	cr_assert_eq(record_decode(&record, buffer_text(&text), text.len, NULL), 0);
	const struct render_member member = { .path = "/a", .record = record };
	const struct render_picture picture = { "/a", &member, 1 };
	bool known = output_hosts_want(hosts, &picture, &(struct render_filter){ NULL });
	record_free(record);
	buffer_finish(&text);
	return known;
}

static const char *address(const char *name, size_t index)
{
	return output_hosts_address(hosts, name, index);
}

Test(output_hosts, names_are_looked_up_once)
{
	begin();
	answer("a.b 10.0.0.2 10.0.0.1 ::9");
	answer("c 10.0.0.3");
	cr_assert_not(want("a.b c unknown"));
	cr_assert_null(address("a.b", 0));
	RUN_UNTIL(loop, changes == 1);
	cr_assert_str_eq(address("a.b", 0), "10.0.0.1");
	cr_assert_str_eq(address("a.b", 1), "10.0.0.2");
	cr_assert_str_eq(address("a.b", 2), "::9");
	cr_assert_null(address("a.b", 3));
	cr_assert_str_eq(address("c", 0), "10.0.0.3");
	cr_assert_null(address("unknown", 0));
	cr_assert_null(address("other", 0));
	cr_assert_null(address("without.port", 0));
	cr_assert(want("a.b c unknown"));
	cr_assert(want("a.b"));
	for (int i = 0; i < 3; i++) {
		ev_run(loop, EVRUN_NOWAIT);
	}
	cr_assert_eq(changes, 1, "nothing is looked up for what is known");
	cr_assert_null(address("c", 0), "it is forgotten");
	cr_assert_not(want("a.b c"));
	RUN_UNTIL(loop, changes == 2);
	cr_assert_str_eq(address("c", 0), "10.0.0.3");
	cr_assert_str_eq(address("a.b", 0), "10.0.0.1");
	end();
}

/* Every half minute; a name that has lost its answer keeps what it had. */
Test(output_hosts, names_are_looked_up_again)
{
	begin();
	answer("a 10.0.0.1 10.0.0.2");
	answer("b 10.0.0.3");
	cr_assert_not(want("a b"));
	RUN_UNTIL(loop, changes == 1);
	static const struct {
		const char *answer;
		const char *first;
		const char *second;
	} rounds[] = { { "a 10.0.0.2 10.0.0.1 10.0.0.0", "10.0.0.0", "10.0.0.1" },
		{ "a 10.0.0.9", "10.0.0.9", NULL }, { "a 10.0.0.8", "10.0.0.8", NULL } };
	for (int i = 0; i < 3; i++) {
		answer_count = 0;
		answer(rounds[i].answer);
		clock_shift_ms += 30001;
		RUN_UNTIL(loop, changes == 2 + i);
		cr_expect_str_eq(address("a", 0), rounds[i].first);
		cr_expect(rounds[i].second ? strcmp(address("a", 1), rounds[i].second) == 0
					   : !address("a", 1));
		cr_expect_str_eq(address("b", 0), "10.0.0.3");
	}
	end();
}

Test(output_hosts, a_name_that_nobody_answers_holds_no_other)
{
	begin();
	answer("hang1 hang");
	answer("z 10.0.0.3");
	cr_assert_not(want("hang1 hang2 hang3 hang4 hang5 hang6 hang7 hang8 hang9 z"));
	RUN_UNTIL(loop, changes == 1);
	cr_assert_str_eq(address("z", 0), "10.0.0.3");
	cr_assert_null(address("hang1", 0));
	cr_assert(want("hang1 z"));
	end();
}

Test(output_hosts, there_is_a_most_of_names)
{
	static char names[1 << 15];
	char *out = names;
	begin();
	answer("a1 10.0.0.1");
	answer("a2 10.0.0.2");
	for (int i = 1; i < OUTPUT_HOSTS_MAX; i++) {
		out += sprintf(out, "n%03d ", i);
	}
	sprintf(out, "a1 a2"); /* the first ones by name, however far this round comes */
	cr_assert_not(want(names));
	RUN_UNTIL(loop, changes == 1);
	cr_assert_str_eq(address("a1", 0), "10.0.0.1");
	cr_assert_null(address("a2", 0));
	cr_assert(want(names));
	end();
}
