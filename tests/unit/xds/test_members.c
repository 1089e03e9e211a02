/* Sets of endpoints: localities, priorities, weights, and what a load balancer would refuse. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "xds/members.h"

TestSuite(members, .timeout = 60);

static struct assignment set;
static json_t *members;

static void begin(void)
{
	assignment_init(&set);
	members = json_array();
}

static void end(void)
{
	assignment_finish(&set);
	json_decref(members);
}

/* A member as the agent writes it; `more` begins with a comma. */
static void add(const char *host, int port, const char *more)
{
	char text[1024];
	snprintf(text, sizeof(text), "{\"host\":\"%s\",\"port\":%d,\"tier\":0,\"weight\":1%s}",
		host, port, more);
	json_t *json = json_loads(text, 0, NULL);
	cr_assert(json, "%s", text);
	json_array_append_new(members, json);
}

/* "0 eu/a 3: 10.0.0.1:80*2; …": priority, zone, weight, endpoints with weights. */
static const char *text_of(void)
{
	static char text[2048];
	text[0] = '\0';
	members_read(&set, members);
	for (size_t i = 0; i < set.locality_count; i++) {
		const struct assignment_locality *locality = &set.localities[i];
		size_t used = strlen(text);
		snprintf(text + used, sizeof(text) - used, "%s%u %s %u:", i ? "; " : "",
			locality->priority, locality->zone, locality->weight);
		for (size_t at = 0; at < locality->count; at++) {
			const struct assignment_endpoint *endpoint =
				&set.endpoints[locality->first + at];
			used = strlen(text);
			snprintf(text + used, sizeof(text) - used, " %s:%u*%u", endpoint->host,
				endpoint->port, endpoint->weight);
		}
	}
	return text;
}

Test(members, without_zones_there_is_one_locality, .init = begin, .fini = end)
{
	add("10.0.0.2", 80, ",\"weight\":3");
	add("10.0.0.1", 80, "");
	cr_assert_str_eq(text_of(), "0  4: 10.0.0.1:80*1 10.0.0.2:80*3");
}

Test(members, zones_of_a_tier_have_one_priority_and_priorities_have_no_gaps, .init = begin,
	.fini = end)
{
	add("10.0.0.3", 80, ",\"zone\":\"eu/a/r1\"");
	add("10.0.0.2", 80, ",\"zone\":\"eu/b/r1\",\"tier\":2");
	add("10.0.0.5", 80, ",\"zone\":\"eu/ab/r1\",\"tier\":2");
	add("10.0.0.1", 80, ",\"zone\":\"us/a\",\"tier\":3");
	add("10.0.0.4", 80, ",\"tier\":3");
	add("10.0.0.6", 80, ",\"zone\":\"eu/a/r1\",\"tier\":4");
	cr_assert_str_eq(text_of(),
		"0 eu/a/r1 1: 10.0.0.3:80*1; 1 eu/ab/r1 1: 10.0.0.5:80*1; 1 eu/b/r1 1: "
		"10.0.0.2:80*1; 2  1: 10.0.0.4:80*1; 2 us/a 1: 10.0.0.1:80*1; "
		"3 eu/a/r1 1: 10.0.0.6:80*1");
}

/* gRPC refuses a set with an address twice, or with a locality that is empty. */
Test(members, of_equal_addresses_the_first_member_counts, .init = begin, .fini = end)
{
	add("10.0.0.1", 80, ",\"weight\":7");
	add("10.0.0.1", 80, ",\"zone\":\"eu\"");
	add("10.0.0.1", 81, "");
	cr_assert_str_eq(text_of(), "0  8: 10.0.0.1:80*7 10.0.0.1:81*1");
}

/* gRPC and Envoy refuse a whole set for one host name. */
Test(members, a_host_name_has_the_records_address_or_is_left_out, .init = begin, .fini = end)
{
	add("web1", 80, ",\"attributes\":{\"yarn:ip\":\"10.0.0.9\"}");
	add("web2", 80, "");
	add("web3", 80, ",\"attributes\":{\"yarn:ip\":\"web4\"}");
	add("::1", 80, "");
	add("fe80::1%eth0", 80, "");
	add("10.0.0.1", 0, "");
	cr_assert_str_eq(text_of(), "0  2: 10.0.0.9:80*1 ::1:80*1");
	cr_assert_eq(set.left_out, 4);
}

Test(members, has_the_health_that_the_member_has, .init = begin, .fini = end)
{
	add("10.0.0.1", 80, ",\"health\":\"draining\"");
	add("10.0.0.2", 80, ",\"health\":\"warning\"");
	add("10.0.0.3", 80, ",\"health\":\"passing\"");
	add("10.0.0.4", 80, ",\"weight\":0");
	cr_assert_str_eq(
		text_of(), "0  2: 10.0.0.1:80*1 10.0.0.2:80*1 10.0.0.3:80*1 10.0.0.4:80*1");
	cr_assert_eq(set.endpoints[0].health, RENDER_HEALTH_DRAINING);
	cr_assert_eq(set.endpoints[1].health, RENDER_HEALTH_DEGRADED);
	cr_assert_eq(set.endpoints[2].health, RENDER_HEALTH_UNKNOWN);
	cr_assert_eq(set.endpoints[3].health, RENDER_HEALTH_DRAINING);
}

/* gRPC would have nobody to call. */
Test(members, where_all_are_degraded_none_is, .init = begin, .fini = end)
{
	add("10.0.0.1", 80, ",\"health\":\"draining\"");
	add("10.0.0.2", 80, ",\"health\":\"warning\"");
	text_of();
	cr_assert_eq(set.endpoints[0].health, RENDER_HEALTH_DRAINING);
	cr_assert_eq(set.endpoints[1].health, RENDER_HEALTH_UNKNOWN);
}

/* The set of the members so far; the next one is another. */
static struct assignment take(void)
{
	text_of();
	struct assignment taken = set;
	assignment_init(&set);
	json_array_clear(members);
	return taken;
}

Test(members, sets_are_equal_when_they_are_sent_the_same, .init = begin, .fini = end)
{
	add("10.0.0.1", 80, ",\"zone\":\"eu\"");
	add("10.0.0.2", 80, "");
	struct assignment first = take();
	add("10.0.0.2", 80, "");
	add("10.0.0.1", 80, ",\"zone\":\"eu\"");
	struct assignment other = take();
	cr_assert(assignment_equal(&first, &other));
	add("10.0.0.2", 80, ",\"health\":\"draining\"");
	add("10.0.0.1", 80, ",\"zone\":\"eu\"");
	text_of();
	cr_assert_not(assignment_equal(&other, &set));
	assignment_finish(&first);
	assignment_finish(&other);
}
