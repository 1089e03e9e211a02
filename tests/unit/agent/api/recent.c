/* The events that a stream keeps for a client that comes again. */
#include "agent/api/recent.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { STREAM_BYTES = 32 * 1024, ALL_BYTES = 4 * 1024 * 1024 };

static size_t all;
static struct recent recent;

static void begin(void)
{
	all = 0;
	recent_init(&recent, &all);
}

static void finish(void)
{
	recent_restart(&recent, 0);
	cr_assert_eq(all, 0);
	cr_assert_eq(recent.bytes, 0);
}

TestSuite(api_recent, .init = begin, .fini = finish);

/* Adds an event of so many bytes in all. */
static void add(struct recent *to, uint64_t sequence, size_t bytes)
{
	size_t len = bytes - sizeof(struct recent_event);
	char *members = malloc(len + 1);
	cr_assert(members);
	memset(members, 'x', len);
	members[len] = '\0';
	recent_add(to, sequence, 1.5, "UPDATED", members);
	free(members);
}

Test(api_recent, a_stream_keeps_32_kib)
{
	add(&recent, 1, STREAM_BYTES / 2);
	add(&recent, 2, STREAM_BYTES / 2);
	cr_expect_eq(list_count(&recent.events), 2);
	cr_expect(recent_reaches(&recent, 0));
	add(&recent, 3, 200);
	cr_expect_eq(list_count(&recent.events), 2, "the oldest one has gone");
	cr_expect(recent_reaches(&recent, 1) && !recent_reaches(&recent, 0));
	add(&recent, 4, STREAM_BYTES / 2 - 200);
	cr_expect_eq(list_count(&recent.events), 3);
	add(&recent, 5, STREAM_BYTES + 1);
	cr_expect(list_empty(&recent.events), "larger than all that there may be");
	cr_expect(recent_reaches(&recent, 5) && !recent_reaches(&recent, 4));
}

Test(api_recent, all_streams_keep_4_mib)
{
	enum { OTHERS = ALL_BYTES / STREAM_BYTES };
	struct recent others[OTHERS];
	for (size_t i = 0; i < OTHERS; i++) {
		recent_init(&others[i], &all);
		add(&others[i], 1, STREAM_BYTES);
	}
	cr_expect_eq(all, ALL_BYTES);
	cr_expect_eq(list_count(&others[OTHERS - 1].events), 1);
	add(&recent, 1, 200);
	cr_expect(list_empty(&recent.events), "the one that adds to it gives way");
	cr_expect(recent_reaches(&recent, 1) && !recent_reaches(&recent, 0));
	cr_expect_eq(all, ALL_BYTES);
	for (size_t i = 0; i < OTHERS; i++) {
		recent_restart(&others[i], 0);
	}
}
