/* The DNS server with a domain that is answered from Registrar's nodes. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <resolv.h>
#include <string.h>

#include "agent/base/socket_address.h"
#include "agent/dns/internal.h"
#include "agent/dns/reply.h"
#include "agent/dns/reply_zone.h"
#include "lib/base/array.h"
#include "lib/base/text.h"
#include "tests/support/cache_stage.h"
#include "tests/support/memory_backend.h"
#include "tests/support/names_stage.h"
#include "tests/support/shifted_clock.h"
#include "tests/support/staged.h"

#define HOST(address) "{\"type\":\"moray_host\",\"moray_host\":{\"address\":\"" address "\"}}"
#define SERVICE(name)                                                                              \
	"{\"type\":\"service\",\"service\":{\"srvce\":\"" name "\",\"proto\":\"_tcp\",\"port\":8}}"

enum { STALE_TTL_S = 7, MOST_EXCHANGES = 1024 };

struct stage {
	struct cache_stage cache;
	struct registry *registry; /* with the nodes */
	struct zones *zones;
	struct names_lookups *lookups;
	struct dns *dns;
};

static void put_many(struct stage *stage, int count)
{
	memory_put(stage->registry, "//org/z/many", SERVICE("_x"));
	for (int i = 0; i < count; i++) {
		char path[64];
		char data[128];
		text_printf(path, sizeof(path), "//org/z/many/instance-%03d", i);
		text_printf(data, sizeof(data), HOST("10.1.0.%d"), i);
		memory_put(stage->registry, path, data);
	}
}

static struct stage *stage_begin(struct stage *stage)
{
	const struct registry_options options = { .foreign_paths = true };
	const struct zone_options zone = { .domain = "z.org", .unknown = ns_r_nxdomain };
	struct err err = ERR_INIT;
	clock_stands = true;
	clock_shift_ms = 1000000;
	cache_stage_open(&stage->cache, &(struct cache_options){ .resync_ms = 600000 });
	stage->registry = memory_open("zone", &options);
	memory_put(stage->registry, "//org", "");
	memory_put(stage->registry, "//org/z", "");
	memory_put(stage->registry, "//org/z/web", SERVICE("_x"));
	memory_put(stage->registry, "//org/z/web/a", HOST("10.0.0.1"));
	memory_put(stage->registry, "//org/z/web/b", HOST("10.0.0.2"));
	put_many(stage, 100);
	stage->zones = zones_create(stage->cache.loop, stage->registry, stage->cache.cache);
	zones_set(stage->zones, &zone, 1);
	ev_run(stage->cache.loop, EVRUN_NOWAIT);
	stage->lookups = names_stage_create(stage->cache.loop, stage->cache.cache);
	const struct dns_options dns = {
		.domain = "berth", .zones = stage->zones, .stale_ttl_s = STALE_TTL_S
	};
	cr_assert_eq(dns_create(&stage->dns, stage->cache.loop, stage->lookups, &dns, &err), 0);
	return stage;
}

static void stage_end(struct stage *stage)
{
	dns_destroy(stage->dns);
	names_stage_destroy(stage->lookups);
	zones_destroy(stage->zones);
	registry_close(stage->registry);
	cache_stage_close(&stage->cache);
}

#define STAGED(name)                                                                               \
	STAGED_TEST(dns_zone, name, struct stage *, stage, stage_begin(&(struct stage){ 0 }),      \
		stage_end)

/* The registry says everything that it has. */
static void turn(struct stage *stage)
{
	for (int i = 0; i < 20; i++) {
		registry_dispatch(stage->registry, 0);
		cache_stage_turn(&stage->cache);
	}
}

/* ---- replies as text ---- */

static uint8_t reply[DNS_TCP_BYTES];
static size_t reply_len;
static unsigned replies;

static void keep_reply(const struct dns_origin *origin, const uint8_t *data, size_t len)
{
	(void)origin;
	memcpy(reply, data, len);
	reply_len = len;
	replies++;
}

static const char *name_at(ns_msg *message, const uint8_t **at)
{
	static char names[2][NS_MAXDNAME];
	static unsigned next;
	char *name = names[next++ % 2];
	int len = dn_expand(ns_msg_base(*message), ns_msg_end(*message), *at, name, NS_MAXDNAME);
	cr_assert_gt(len, 0);
	*at += len;
	return name;
}

static void add_options(struct buffer *line, const ns_rr *record)
{
	const uint8_t *data = ns_rr_rdata(*record);
	if (ns_rr_rdlen(*record) > 0) {
		buffer_printf(line, " error %u %.*s", ns_get16(data + 4),
			(int)ns_rr_rdlen(*record) - 6, (const char *)data + 6);
	}
}

static void add_record(struct buffer *line, ns_msg *message, const ns_rr *record)
{
	const uint8_t *data = ns_rr_rdata(*record);
	char text[INET_ADDRSTRLEN];
	if (ns_rr_type(*record) == ns_t_opt) {
		add_options(line, record);
		return;
	}
	cr_assert_eq(ns_rr_class(*record), ns_c_in);
	buffer_printf(line, " %s %u", ns_rr_name(*record), ns_rr_ttl(*record));
	switch ((int)ns_rr_type(*record)) {
	case ns_t_a:
		buffer_printf(line, " A %s", inet_ntop(AF_INET, data, text, sizeof(text)));
		break;
	case ns_t_srv:
		buffer_printf(line, " SRV %u %u %u", ns_get16(data), ns_get16(data + 2),
			ns_get16(data + 4));
		data += 6;
		buffer_printf(line, " %s", name_at(message, &data));
		break;
	case ns_t_ptr:
		buffer_printf(line, " PTR %s", name_at(message, &data));
		break;
	case ns_t_soa:
		buffer_printf(line, " SOA %s", name_at(message, &data));
		buffer_printf(line, " %s", name_at(message, &data));
		for (int i = 0; i < 5; i++) {
			buffer_printf(line, " %lu", ns_get32(data + 4 * i));
		}
		break;
	default:
		cr_assert_fail("type %d", (int)ns_rr_type(*record));
	}
}

/* "CODE aa ra tc | answers | authority | additional", with the flags that are set. */
static const char *reply_text(void)
{
	static char text[1 << 16];
	struct buffer line;
	ns_msg message;
	cr_assert_eq(ns_initparse(reply, (int)reply_len, &message), 0);
	buffer_init(&line, sizeof(text) - 1);
	buffer_printf(&line, "%d%s%s%s", ns_msg_getflag(message, ns_f_rcode),
		ns_msg_getflag(message, ns_f_aa) ? " aa" : "",
		ns_msg_getflag(message, ns_f_ra) ? " ra" : "",
		ns_msg_getflag(message, ns_f_tc) ? " tc" : "");
	for (int section = ns_s_an; section < ns_s_max; section++) {
		buffer_append_text(&line, " |");
		for (int i = 0; i < ns_msg_count(message, section); i++) {
			ns_rr record;
			cr_assert_eq(ns_parserr(&message, section, i, &record), 0);
			add_record(&line, &message, &record);
		}
	}
	strcpy(text, buffer_text(&line));
	buffer_finish(&line);
	return text;
}

static int count_in(ns_sect section)
{
	ns_msg message;
	cr_assert_eq(ns_initparse(reply, (int)reply_len, &message), 0);
	return ns_msg_count(message, section);
}

/* A question with EDNS, of so many bytes; 0: without. */
static void send_question(struct stage *stage, const char *name, int type, unsigned payload)
{
	uint8_t packet[NS_PACKETSZ];
	struct dns_query query;
	struct dns_origin origin = { .send = keep_reply };
	socklen_t ignored;
	cr_assert(socket_address_read(&origin.address, &ignored, "127.0.0.1:53"));
	size_t len = dns_query_write(&query, packet, name, (uint16_t)type);
	if (payload) {
		memcpy(packet + len, "\0\0\51\0\0\0\0\0\0\0\0", DNS_OPT_BYTES);
		ns_put16(payload, packet + len + 3);
		packet[11] = 1;
		len += DNS_OPT_BYTES;
	}
	dns_handle(stage->dns, &origin, packet, len, NULL);
}

static const char *ask(struct stage *stage, const char *name, int type)
{
	unsigned before = replies;
	send_question(stage, name, type, DNS_EDNS_BYTES);
	cr_assert_eq(replies, before + 1, "%s", name);
	return reply_text();
}

/* ---- answers ---- */

#define SOA "z.org 30 SOA z.org hostmaster.z.org 0 86400 7200 1209600 30"

STAGED(each_question_has_the_answer_of_its_nodes)
{
	static const struct {
		const char *name;
		int type;
		const char *text;
	} rows[] = {
		{ "web.z.org", ns_t_a,
			"0 aa | web.z.org 30 A 10.0.0.1 web.z.org 30 A 10.0.0.2 | |" },
		{ "a.Web.z.org", ns_t_a, "0 aa | a.Web.z.org 30 A 10.0.0.1 | |" },
		{ "_x._tcp.web.z.org", ns_t_srv,
			"0 aa | _x._tcp.web.z.org 30 SRV 0 10 8 a.web.z.org"
			" _x._tcp.web.z.org 30 SRV 0 10 8 b.web.z.org |"
			" | a.web.z.org 30 A 10.0.0.1 b.web.z.org 30 A 10.0.0.2" },
		{ "2.0.0.10.in-addr.arpa", ns_t_ptr,
			"0 aa | 2.0.0.10.in-addr.arpa 30 PTR b.web.z.org | |" },
		{ "web.z.org", ns_t_txt, "0 aa | | " SOA " |" },
		{ "none.z.org", ns_t_a, "3 aa | | " SOA " |" },
		{ "berth", ns_t_a, "0 aa | | berth 0 SOA localhost nobody.localhost" },
		{ "www.example", ns_t_a, "5 | | | error 20 " },
	};
	turn(stage);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		stage->dns->rotation = 0;
		const char *text = ask(stage, rows[i].name, rows[i].type);
		/* The rest of the last SOA but one is the time. */
		cr_expect_eq(strncmp(text, rows[i].text, strlen(rows[i].text)), 0, "%s", text);
		cr_expect(strncmp(rows[i].text, "0 aa | | berth", 14) == 0 ||
				strlen(text) == strlen(rows[i].text),
			"%s", text);
	}
	cr_expect_eq(dns_counts(stage->dns)->stale, 0);
	cr_expect_eq(dns_counts(stage->dns)->exchanges, 0);
	cr_expect_eq(dns_counts(stage->dns)->replies[ns_r_nxdomain], 1);
}

STAGED(the_next_question_begins_with_the_next_instance)
{
	turn(stage);
	stage->dns->rotation = 0;
	ask(stage, "web.z.org", ns_t_a);
	cr_expect_str_eq(ask(stage, "web.z.org", ns_t_a),
		"0 aa | web.z.org 30 A 10.0.0.2 web.z.org 30 A 10.0.0.1 | |");
	ask(stage, "web.z.org", ns_t_a);
	cr_expect_str_eq(ask(stage, "_x._tcp.web.z.org", ns_t_srv),
		"0 aa | _x._tcp.web.z.org 30 SRV 0 10 8 b.web.z.org"
		" _x._tcp.web.z.org 30 SRV 0 10 8 a.web.z.org |"
		" | b.web.z.org 30 A 10.0.0.2 a.web.z.org 30 A 10.0.0.1");
}

/* ---- replies that are too large ---- */

STAGED(an_answer_that_does_not_fit_is_cut_and_has_no_glue)
{
	turn(stage);
	send_question(stage, "_x._tcp.many.z.org", ns_t_srv, 0);
	cr_expect_not_null(strstr(reply_text(), " aa tc |"), "%s", reply_text());
	cr_expect_leq(reply_len, 512);
	cr_expect(count_in(ns_s_an) > 5 && count_in(ns_s_an) < 100, "%d", count_in(ns_s_an));
	cr_expect_eq(count_in(ns_s_ar), 0);
	cr_expect_eq(dns_counts(stage->dns)->truncated, 1);
	/* The answers of that length leave no room for another one. */
	cr_expect_gt(reply_len, 512 - 60);
}

STAGED(glue_that_does_not_fit_is_left_out)
{
	memory_remove(stage->registry, "//org/z/many/instance-000");
	for (int i = 10; i < 100; i++) {
		char path[64];
		text_printf(path, sizeof(path), "//org/z/many/instance-%03d", i);
		memory_remove(stage->registry, path);
	}
	turn(stage);
	send_question(stage, "_x._tcp.many.z.org", ns_t_srv, 0);
	cr_expect_eq(strncmp(reply_text(), "0 aa |", 6), 0, "%s", reply_text());
	cr_expect_eq(count_in(ns_s_an), 9);
	cr_expect(count_in(ns_s_ar) < 9, "%d", count_in(ns_s_ar));
	send_question(stage, "_x._tcp.many.z.org", ns_t_srv, DNS_EDNS_BYTES);
	cr_expect_eq(count_in(ns_s_ar), 10, "all, and the OPT record");
}

/* ---- questions that wait ---- */

STAGED(a_question_waits_until_the_nodes_are_read)
{
	unsigned before = replies;
	send_question(stage, "a.web.z.org", ns_t_a, DNS_EDNS_BYTES);
	send_question(stage, "1.0.0.10.in-addr.arpa", ns_t_ptr, DNS_EDNS_BYTES);
	cr_expect_eq(replies, before);
	cr_expect_eq(dns_counts(stage->dns)->exchanges, 2);
	turn(stage);
	cr_expect_eq(replies, before + 2);
	cr_expect_str_eq(reply_text(), "0 aa | 1.0.0.10.in-addr.arpa 30 PTR a.web.z.org | |");
	cr_expect_eq(dns_counts(stage->dns)->exchanges, 0);
}

STAGED(an_address_that_no_node_has_may_be_that_of_a_record)
{
	memory_put(stage->cache.registry, "/a",
		"{\"type\":\"JSONServiceRecord\",\"yarn:ip\":\"10.2.0.1\",\"external\":[],"
		"\"internal\":[]}");
	send_question(stage, "a.berth", ns_t_a, 0);
	cache_stage_turn(&stage->cache);
	unsigned before = replies;
	send_question(stage, "1.0.2.10.in-addr.arpa", ns_t_ptr, 0);
	send_question(stage, "2.0.2.10.in-addr.arpa", ns_t_ptr, 0);
	cr_expect_eq(replies, before);
	turn(stage);
	cr_expect_eq(replies, before + 2);
	cr_expect_eq(dns_counts(stage->dns)->exchanges, 0);
	send_question(stage, "1.0.2.10.in-addr.arpa", ns_t_ptr, 0);
	cr_expect_str_eq(reply_text(), "0 aa | 1.0.2.10.in-addr.arpa 0 PTR a.berth | |");
	send_question(stage, "2.0.2.10.in-addr.arpa", ns_t_ptr, 0);
	cr_expect_eq(dns_counts(stage->dns)->replies[ns_r_noerror], 3);
	cr_expect_eq(dns_counts(stage->dns)->replies[ns_r_refused], 2, "nobody has it");
}

STAGED(a_question_whose_nodes_do_not_come_fails)
{
	unsigned before = replies;
	send_question(stage, "a.web.z.org", ns_t_a, DNS_EDNS_BYTES);
	clock_shift_ms += ZONE_PATIENCE_MS + 1;
	ev_run(stage->cache.loop, EVRUN_NOWAIT);
	cr_assert_eq(replies, before + 1);
	cr_expect_str_eq(reply_text(), "2 | | | error 22 ");
	cr_expect_eq(dns_counts(stage->dns)->exchanges, 0);
}

STAGED(a_question_whose_domain_goes_meanwhile_is_refused)
{
	unsigned before = replies;
	send_question(stage, "a.web.z.org", ns_t_a, DNS_EDNS_BYTES);
	zones_set(stage->zones, NULL, 0);
	ev_run(stage->cache.loop, EVRUN_NOWAIT);
	cr_assert_eq(replies, before + 1);
	cr_expect_str_eq(reply_text(), "5 | | | error 20 ");
	cr_expect_eq(dns_counts(stage->dns)->exchanges, 0);
}

STAGED(a_name_whose_domain_goes_meanwhile_may_be_one_of_the_registry)
{
	const struct zone_options zone = { .domain = "z.berth", .unknown = ns_r_nxdomain };
	unsigned before = replies;
	zones_set(stage->zones, &zone, 1);
	send_question(stage, "a.z.berth", ns_t_a, DNS_EDNS_BYTES);
	zones_set(stage->zones, NULL, 0);
	ev_run(stage->cache.loop, EVRUN_NOWAIT);
	cr_expect_eq(replies, before, "it has to be read first");
	cr_expect_eq(dns_counts(stage->dns)->exchanges, 1);
	turn(stage);
	cr_assert_eq(replies, before + 1);
	cr_expect_eq(strncmp(reply_text(), "3 aa | | berth 0 SOA", 20), 0, "%s", reply_text());
	cr_expect_eq(dns_counts(stage->dns)->exchanges, 0);
}

STAGED(more_questions_than_may_wait_fail_at_once)
{
	static const char *const names[] = { "a.web.z.org", "1.0.0.10.in-addr.arpa" };
	unsigned before = replies;
	for (int i = 0; i < MOST_EXCHANGES; i++) {
		send_question(stage, names[i % 2], i % 2 ? ns_t_ptr : ns_t_a, DNS_EDNS_BYTES);
	}
	cr_expect_eq(replies, before);
	cr_expect_str_eq(ask(stage, names[0], ns_t_a), "2 | | | error 22 ");
	cr_expect_eq(dns_counts(stage->dns)->exchanges, MOST_EXCHANGES);
	turn(stage);
	cr_expect_eq(replies, before + MOST_EXCHANGES + 1);
	cr_expect_eq(dns_counts(stage->dns)->exchanges, 0);
}

/* ---- stale answers ---- */

STAGED(while_the_registry_is_away_answers_live_for_a_shorter_time_and_say_so)
{
	static const char soa[] =
		"z.org 7 SOA z.org hostmaster.z.org 0 86400 7200 1209600 7 | error ";
	turn(stage);
	memory_set_state(stage->cache.registry, REGISTRY_AWAY);
	turn(stage);
	cr_expect_str_eq(ask(stage, "a.web.z.org", ns_t_a),
		"0 aa | a.web.z.org 7 A 10.0.0.1 | | error 3 the registry is away");
	cr_expect_str_eq(ask(stage, "1.0.0.10.in-addr.arpa", ns_t_ptr),
		"0 aa | 1.0.0.10.in-addr.arpa 7 PTR a.web.z.org | | error 3 the registry is away");
	const char *text = ask(stage, "none.z.org", ns_t_a);
	cr_expect_eq(strncmp(text, "3 aa | | ", 9), 0, "%s", text);
	cr_expect_eq(strncmp(text + 9, soa, strlen(soa)), 0, "%s", text);
	cr_expect_str_eq(text + 9 + strlen(soa), "19 the registry is away");
	cr_expect_eq(dns_counts(stage->dns)->stale, 3);
	cr_expect_eq(dns_counts(stage->dns)->exchanges, 0);
	send_question(stage, "a.web.z.org", ns_t_a, 0);
	cr_expect_str_eq(reply_text(), "0 aa | a.web.z.org 7 A 10.0.0.1 | |");
}
