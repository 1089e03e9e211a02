/* Sets of endpoints: localities, priorities, weights, and what a load balancer would refuse. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "xds/assignment.h"

TestSuite(assignment, .timeout = 60);

static struct assignment set;

static void begin(void)
{
	assignment_init(&set);
}

static void end(void)
{
	assignment_finish(&set);
}

static void add_ranked(
	const char *host, int port, const char *more, const char *service, unsigned rank)
{
	char text[1024];
	snprintf(text, sizeof(text),
		"{\"type\":\"JSONServiceRecord\",\"external\":[{\"api\":\"urn:x:rest\","
		"\"addressType\":\"host/port\",\"protocol\":\"HTTP\",\"addresses\":"
		"[{\"host\":\"%s\",\"port\":\"%d\"}]}]%s%s}",
		host, port, *more ? "," : "", more);
	json_t *json = json_loads(text, 0, NULL);
	struct member *member = member_create(json);
	cr_assert(member, "%s", text);
	assignment_add(&set, member, service, rank);
	free(member);
	json_decref(json);
}

static void add_record(const char *host, int port, const char *more, const char *service)
{
	add_ranked(host, port, more, service, 0);
}

/* "0 eu/a 3: 10.0.0.1:80*2; …": priority, zone, weight, endpoints with weights. */
static const char *text_of(void)
{
	static char text[2048];
	text[0] = '\0';
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

Test(assignment, without_zones_there_is_one_locality, .init = begin, .fini = end)
{
	add_record("10.0.0.2", 80, "\"weight\":3", "");
	add_record("10.0.0.1", 80, "", "");
	assignment_complete(&set, NULL);
	cr_assert_str_eq(text_of(), "0  4: 10.0.0.1:80*1 10.0.0.2:80*3");
	cr_assert_eq(set.instances, 2);
}

Test(assignment, zones_are_localities_of_equal_priority_without_a_preference, .init = begin,
	.fini = end)
{
	add_record("10.0.0.1", 80, "\"berth:zone\":\"eu/b\"", "");
	add_record("10.0.0.2", 80, "\"berth:zone\":\"eu/a\"", "");
	assignment_complete(&set, NULL);
	cr_assert_str_eq(text_of(), "0 eu/a 1: 10.0.0.2:80*1; 0 eu/b 1: 10.0.0.1:80*1");
}

Test(assignment, near_zones_come_first_and_priorities_have_no_gaps, .init = begin, .fini = end)
{
	add_record("10.0.0.1", 80, "\"berth:zone\":\"us/a\"", "");
	add_record("10.0.0.2", 80, "\"berth:zone\":\"eu/b/r1\"", "");
	add_record("10.0.0.3", 80, "\"berth:zone\":\"eu/a/r1\"", "");
	add_record("10.0.0.4", 80, "", "");
	add_record("10.0.0.5", 80, "\"berth:zone\":\"eu/ab/r1\"", "");
	assignment_complete(&set, "eu/a/r1");
	cr_assert_str_eq(text_of(),
		"0 eu/a/r1 1: 10.0.0.3:80*1; 1 eu/ab/r1 1: 10.0.0.5:80*1; 1 eu/b/r1 1: "
		"10.0.0.2:80*1; 2  1: 10.0.0.4:80*1; 2 us/a 1: 10.0.0.1:80*1");
}

Test(assignment, the_same_zone_further_down_is_not_near, .init = begin, .fini = end)
{
	add_record("10.0.0.1", 80, "\"berth:zone\":\"us/a\"", "");
	add_record("10.0.0.2", 80, "\"berth:zone\":\"eu\"", "");
	assignment_complete(&set, "eu/a");
	cr_assert_str_eq(text_of(), "0 eu 1: 10.0.0.2:80*1; 1 us/a 1: 10.0.0.1:80*1");
}

/* gRPC refuses a set with an address twice, or with a locality that is empty. */
Test(assignment, of_equal_addresses_the_first_record_counts, .init = begin, .fini = end)
{
	add_record("10.0.0.1", 80, "\"weight\":7", "");
	add_record("10.0.0.1", 80, "\"berth:zone\":\"eu\"", "");
	add_record("10.0.0.1", 81, "", "");
	assignment_complete(&set, NULL);
	cr_assert_str_eq(text_of(), "0  8: 10.0.0.1:80*7 10.0.0.1:81*1");
}

Test(assignment, takes_the_endpoints_of_a_service, .init = begin, .fini = end)
{
	add_record("10.0.0.1", 80, "", "http");
	add_record("10.0.0.2", 80, "", "rest");
	add_record("10.0.0.3", 80, "", "jmx");
	assignment_complete(&set, NULL);
	cr_assert_str_eq(text_of(), "0  2: 10.0.0.1:80*1 10.0.0.2:80*1");
}

/* gRPC and Envoy refuse a whole set for one host name. */
Test(assignment, a_host_name_has_the_records_address_or_is_left_out, .init = begin, .fini = end)
{
	add_record("web1", 80, "\"yarn:ip\":\"10.0.0.9\"", "");
	add_record("web2", 80, "", "");
	add_record("web3", 80, "\"yarn:ip\":\"web4\"", "");
	add_record("::0001", 80, "", "");
	add_record("fe80::1%eth0", 80, "", "");
	assignment_complete(&set, NULL);
	cr_assert_str_eq(text_of(), "0  2: 10.0.0.9:80*1 ::1:80*1");
	cr_assert_eq(set.left_out, 3);
}

Test(assignment, has_the_health_that_the_record_says, .init = begin, .fini = end)
{
	add_record("10.0.0.1", 80, "\"berth:health\":\"draining\"", "");
	add_record("10.0.0.2", 80, "\"berth:health\":\"warning\"", "");
	add_record("10.0.0.3", 80, "", "");
	assignment_complete(&set, NULL);
	cr_assert_eq(set.endpoints[0].health, RENDER_HEALTH_DRAINING);
	cr_assert_eq(set.endpoints[1].health, RENDER_HEALTH_DEGRADED);
	cr_assert_eq(set.endpoints[2].health, RENDER_HEALTH_UNKNOWN);
}

/* gRPC would have nobody to call. */
Test(assignment, where_all_are_degraded_none_is, .init = begin, .fini = end)
{
	add_record("10.0.0.1", 80, "\"berth:health\":\"draining\"", "");
	add_record("10.0.0.2", 80, "\"berth:health\":\"warning\"", "");
	assignment_complete(&set, NULL);
	cr_assert_eq(set.endpoints[0].health, RENDER_HEALTH_DRAINING);
	cr_assert_eq(set.endpoints[1].health, RENDER_HEALTH_UNKNOWN);
}

Test(assignment, sets_are_equal_when_they_are_sent_the_same, .init = begin, .fini = end)
{
	struct assignment other;
	add_record("10.0.0.1", 80, "\"berth:zone\":\"eu\"", "");
	add_record("10.0.0.2", 80, "", "");
	assignment_complete(&set, NULL);
	struct assignment first = set;
	assignment_init(&set);
	add_record("10.0.0.2", 80, "", "");
	add_record("10.0.0.1", 80, "\"berth:zone\":\"eu\"", "");
	assignment_complete(&set, NULL);
	cr_assert(assignment_equal(&first, &set));
	other = set;
	assignment_init(&set);
	add_record("10.0.0.2", 80, "\"berth:health\":\"draining\"", "");
	add_record("10.0.0.1", 80, "\"berth:zone\":\"eu\"", "");
	assignment_complete(&set, NULL);
	cr_assert_not(assignment_equal(&other, &set));
	assignment_finish(&first);
	assignment_finish(&other);
}

Test(assignment, a_further_path_is_behind_all_of_the_nearer_one, .init = begin, .fini = end)
{
	add_ranked("10.0.0.1", 80, "\"berth:zone\":\"eu/a\"", "", 1);
	add_ranked("10.0.0.2", 80, "\"berth:zone\":\"us/a\"", "", 0);
	add_ranked("10.0.0.3", 80, "\"berth:zone\":\"us/a\"", "", 1);
	assignment_complete(&set, "eu/a");
	cr_assert_str_eq(text_of(),
		"0 us/a 1: 10.0.0.2:80*1; 1 eu/a 1: 10.0.0.1:80*1; 2 us/a 1: 10.0.0.3:80*1");
}

Test(assignment, an_agent_without_a_zone_still_prefers_the_nearer_path, .init = begin, .fini = end)
{
	add_ranked("10.0.0.1", 80, "\"berth:zone\":\"eu/a\"", "", 1);
	add_ranked("10.0.0.2", 80, "", "", 0);
	assignment_complete(&set, "");
	cr_assert_str_eq(text_of(), "0  1: 10.0.0.2:80*1; 1 eu/a 1: 10.0.0.1:80*1");
}
