/* Replies as libc reads them again. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/dns/reply.h"
#include "lib/base/array.h"
#include "tests/unit/agent/dns/message_stage.h"

static struct names_answer answer;

static void add_addresses(unsigned count)
{
	answer.addresses = calloc(count, sizeof(*answer.addresses));
	for (unsigned i = 0; i < count; i++) {
		answer.addresses[i].family = AF_INET;
		answer.addresses[i].bytes[0] = 10;
		answer.addresses[i].bytes[2] = (uint8_t)(i >> 8);
		answer.addresses[i].bytes[3] = (uint8_t)i;
	}
	answer.address_count = count;
}

static void add_targets(unsigned count)
{
	answer.targets = calloc(count, sizeof(*answer.targets));
	for (unsigned i = 0; i < count; i++) {
		char name[64];
		snprintf(name, sizeof(name), "c%u.components.prod.web.joe.users.berth", i);
		answer.targets[i] = (struct names_target){ .priority = 1,
			.weight = 2,
			.port = 8080,
			.name = strdup(name),
			.address = { .family = AF_INET, .bytes = { 10, 0, 0, (uint8_t)i } } };
	}
	answer.target_count = count;
}

static uint8_t reply[DNS_TCP_BYTES];

static ns_msg parse_reply(size_t len)
{
	ns_msg message;
	cr_assert_eq(ns_initparse(reply, (int)len, &message), 0, "%s", strerror(errno));
	cr_assert_eq(ns_msg_id(message), 0x1234);
	cr_assert(ns_msg_getflag(message, ns_f_qr));
	return message;
}

static struct dns_reply_options options = { .domain = "berth", .ttl_s = 1, .serial = 7 };

static ns_msg ask(const char *name, int type, unsigned edns, bool tcp)
{
	struct dns_query query = read_good(make_query(name, type, edns));
	return parse_reply(
		dns_reply_write(reply, dns_reply_limit(&query, tcp), &query, &answer, &options));
}

/* Every record of the reply as text, a line each. */
static const char *records_of(ns_msg message)
{
	static char lines[1 << 16];
	size_t used = 0;
	for (int section = ns_s_an; section < ns_s_max; section++) {
		for (int i = 0; i < ns_msg_count(message, section); i++) {
			char text[1024];
			ns_rr record;
			cr_assert_eq(ns_parserr(&message, section, i, &record), 0);
			if (ns_rr_type(record) == ns_t_opt) {
				used += (size_t)sprintf(
					lines + used, "OPT %d\n", ns_rr_rdlen(record));
				continue;
			}
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
			int len = ns_sprintrrf(ns_msg_base(message), ns_msg_size(message),
				ns_rr_name(record), ns_rr_class(record), ns_rr_type(record),
				ns_rr_ttl(record), ns_rr_rdata(record), ns_rr_rdlen(record), NULL,
				NULL, text, sizeof(text));
#pragma GCC diagnostic pop
			cr_assert_gt(len, 0);
			for (const char *word = strtok(text, " \t\n"); word;
				word = strtok(NULL, " \t\n")) {
				used += (size_t)sprintf(lines + used, "%s ", word);
			}
			used--;
			lines[used++] = '\n';
		}
	}
	lines[used] = '\0';
	return lines;
}

static void forget(void)
{
	names_answer_finish(&answer);
}

TestSuite(dns_reply, .fini = forget);

Test(dns_reply, addresses_keep_the_case_that_was_asked)
{
	answer.status = NAMES_FOUND;
	add_addresses(2);
	ns_msg message = ask("Prod.Web.joe.berth", ns_t_a, 0, false);
	cr_assert(ns_msg_getflag(message, ns_f_aa) && ns_msg_getflag(message, ns_f_rd));
	cr_assert_not(ns_msg_getflag(message, ns_f_tc));
	cr_assert_str_eq(records_of(message),
		"Prod.Web.joe.berth. 1S IN A 10.0.0.0\n"
		"Prod.Web.joe.berth. 1S IN A 10.0.0.1\n");
	options.rotation = 1;
	message = ask("p.berth", ns_t_a, 1232, false);
	cr_assert_str_eq(records_of(message),
		"p.berth. 1S IN A 10.0.0.1\np.berth. 1S IN A 10.0.0.0\nOPT 0\n");
	options.rotation = 0;
}

Test(dns_reply, an_alias_with_what_lies_beyond_however_little_of_it_came)
{
	static const uint8_t address[] = { 192, 0, 2, 1 };
	uint8_t other[DNS_EDNS_BYTES];
	uint8_t query_packet[NS_PACKETSZ];
	struct dns_query beyond;
	struct dns_writer writer;
	cr_assert_gt(dns_query_write(&beyond, query_packet, "mx.example.org", ns_t_a), 0);
	cr_assert_eq(dns_query_write(&beyond, query_packet, "a..b", ns_t_a), 0);
	dns_query_write(&beyond, query_packet, "mx.example.org", ns_t_a);
	dns_writer_start(&writer, other, sizeof(other), &beyond);
	dns_write_name(&writer, NULL, ns_t_cname, 60, "b.example.org");
	dns_write_txt(&writer, 60, "not asked for");
	dns_write_address(&writer, "b.example.org", 60, AF_INET, address);
	size_t len = dns_writer_finish(&writer, ns_r_noerror, true, true);
	answer.status = NAMES_FOUND;
	answer.alias = strdup("mx.example.org");
	for (size_t cut = 12; cut <= len; cut++) {
		uint8_t *exact = malloc(cut); /* so that reading beyond the end is seen */
		memcpy(exact, other, cut);
		options.beyond = exact;
		options.beyond_len = cut;
		const char *records = records_of(ask("m.berth", ns_t_a, 0, false));
		if (cut == len) {
			cr_assert_str_eq(records,
				"m.berth. 1S IN CNAME mx.example.org.\n"
				"mx.example.org. 1M IN CNAME b.example.org.\n"
				"b.example.org. 1M IN A 192.0.2.1\n");
		} else {
			cr_assert_str_eq(
				records, "m.berth. 1S IN CNAME mx.example.org.\n", "%zu", cut);
		}
		free(exact);
	}
	other[2] |= 2; /* truncated: so is ours */
	other[3] |= ns_r_nxdomain;
	options.beyond = other;
	options.beyond_len = len - 1;
	cr_assert_not(ns_msg_getflag(ask("m.berth", ns_t_a, 0, false), ns_f_tc),
		"one that breaks off is not read");
	options.beyond_len = len;
	ns_msg message = ask("m.berth", ns_t_a, 0, false);
	cr_assert(ns_msg_getflag(message, ns_f_tc));
	cr_assert_eq(ns_msg_getflag(message, ns_f_rcode), ns_r_nxdomain);
	options.beyond = NULL;
}

#define ALIAS "m.berth. 1S IN CNAME mx.example.org.\n"

Test(dns_reply, a_name_without_the_type_is_there_but_empty)
{
	static const char soa[] = "berth. 1S IN SOA localhost. nobody.localhost. ( 7 ; serial 1H ; "
				  "refresh 10M ; retry 1D ; expiry 1S ) ; minimum\n";
	answer.status = NAMES_FOUND;
	add_addresses(1);
	ns_msg message = ask("p.berth", ns_t_aaaa, 0, false);
	cr_assert_eq(ns_msg_getflag(message, ns_f_rcode), ns_r_noerror);
	cr_assert_eq(ns_msg_count(message, ns_s_an), 0);
	cr_assert_str_eq(records_of(message), soa);
	answer.status = NAMES_ABSENT;
	message = ask("p.berth", ns_t_a, 0, false);
	cr_assert_eq(ns_msg_getflag(message, ns_f_rcode), ns_r_nxdomain);
	cr_assert_str_eq(records_of(message), soa);
}

Test(dns_reply, services_come_with_the_addresses_of_their_targets)
{
	answer.status = NAMES_FOUND;
	add_targets(2);
	ns_msg message = ask("_http._tcp.prod.web.joe.berth", ns_t_srv, 1232, false);
	cr_assert_str_eq(records_of(message),
		"_http._tcp.prod.web.joe.berth. 1S IN SRV 1 2 8080 "
		"c0.components.prod.web.joe.users.berth.\n"
		"_http._tcp.prod.web.joe.berth. 1S IN SRV 1 2 8080 "
		"c1.components.prod.web.joe.users.berth.\n"
		"c0.components.prod.web.joe.users.berth. 1S IN A 10.0.0.0\n"
		"c1.components.prod.web.joe.users.berth. 1S IN A 10.0.0.1\nOPT 0\n");
}

Test(dns_reply, a_reply_that_is_too_large_is_cut_to_a_usable_part)
{
	answer.status = NAMES_FOUND;
	add_targets(500);
	static const unsigned payloads[] = { 0, 512, 513, 777, 1232 };
	for (size_t i = 0; i < ARRAY_LEN(payloads); i++) {
		ns_msg message = ask("_http._tcp.p.berth", ns_t_srv, payloads[i], false);
		cr_assert(ns_msg_getflag(message, ns_f_tc), "%u", payloads[i]);
		cr_assert_geq(ns_msg_count(message, ns_s_an), 7, "%u", payloads[i]);
		cr_assert_leq(ns_msg_size(message), payloads[i] ? payloads[i] : 512);
		cr_assert_eq(ns_msg_count(message, ns_s_ar), payloads[i] ? 1 : 0);
	}
	for (unsigned payload = 512; payload < 612; payload++) { /* whatever room is left */
		ns_msg cut = ask("_http._tcp.p.berth", ns_t_srv, payload, false);
		cr_assert(ns_msg_getflag(cut, ns_f_tc));
		cr_assert_eq(ns_msg_count(cut, ns_s_ar), 1, "%u", payload);
		for (int i = 0; i < ns_msg_count(cut, ns_s_an); i++) {
			char name[NS_MAXDNAME];
			ns_rr record;
			cr_assert_eq(ns_parserr(&cut, ns_s_an, i, &record), 0);
			const uint8_t *target = ns_rr_rdata(record) + 6;
			cr_assert_eq(dn_expand(ns_msg_base(cut), ns_msg_end(cut), target, name,
					     sizeof(name)),
				ns_rr_rdlen(record) - 6, "%u: it is whole", payload);
		}
	}
	ns_msg message = ask("_http._tcp.p.berth", ns_t_srv, 1232, true);
	cr_assert_not(ns_msg_getflag(message, ns_f_tc));
	cr_assert_eq(ns_msg_count(message, ns_s_an), 500);
	cr_assert_gt(ns_msg_count(message, ns_s_ar), 400);
}

Test(dns_reply, texts_longer_than_a_string_are_split)
{
	char text[600];
	memset(text, 'x', sizeof(text));
	memcpy(text, "key=", 4);
	text[sizeof(text) - 1] = '\0';
	answer.status = NAMES_FOUND;
	answer.texts = calloc(2, sizeof(char *));
	answer.texts[0] = strdup("description=a \"web\"");
	answer.texts[1] = strdup(text);
	answer.text_count = 2;
	ns_msg message = ask("p.berth", ns_t_txt, 1232, false);
	ns_rr record;
	cr_assert_eq(ns_parserr(&message, ns_s_an, 1, &record), 0);
	cr_assert_eq(ns_rr_rdlen(record), sizeof(text) - 1 + 3);
	cr_assert_eq(ns_rr_rdata(record)[0], 255);
	cr_assert_eq(ns_rr_rdata(record)[256], 255);
	cr_assert_eq(ns_rr_rdata(record)[512], 89);
}

Test(dns_reply, an_alias_answers_every_type)
{
	answer.status = NAMES_FOUND;
	answer.alias = strdup("mx.example.org");
	static const int types[] = { ns_t_a, ns_t_aaaa, ns_t_cname, ns_t_txt, ns_t_srv, ns_t_mx,
		ns_t_any };
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		cr_assert_str_eq(records_of(ask("mail.berth", types[i], 0, false)),
			"mail.berth. 1S IN CNAME mx.example.org.\n");
	}
}

Test(dns_reply, the_domain_itself_has_soa_and_ns)
{
	answer.status = NAMES_FOUND;
	answer.apex = true;
	cr_assert_str_eq(
		records_of(ask("berth", ns_t_ns, 0, false)), "berth. 1S IN NS localhost.\n");
	cr_assert_eq(ns_msg_count(ask("berth", ns_t_soa, 0, false), ns_s_an), 1);
	cr_assert_eq(ns_msg_count(ask("berth", ns_t_a, 0, false), ns_s_an), 0);
	cr_assert_str_eq(records_of(ask("berth", ns_t_any, 0, false)),
		"berth. 1S IN HINFO \"RFC8482\" \"\"\n");
}

/* The extended error's number, or -1. */
static int extended_error_of(ns_msg message)
{
	ns_rr record;
	for (int i = 0; i < ns_msg_count(message, ns_s_ar); i++) {
		cr_assert_eq(ns_parserr(&message, ns_s_ar, i, &record), 0);
		if (ns_rr_type(record) == ns_t_opt && ns_rr_rdlen(record) > 0) {
			cr_assert_eq(ns_get16(ns_rr_rdata(record)), 15);
			return (int)ns_get16(ns_rr_rdata(record) + 4);
		}
	}
	return -1;
}

Test(dns_reply, stale_and_unknown_answers_say_so)
{
	answer.status = NAMES_FOUND;
	add_addresses(1);
	options.stale = true;
	options.why = "the registry has been away for 3 s";
	cr_assert_eq(extended_error_of(ask("p.berth", ns_t_a, 1232, false)), DNS_EDE_STALE_ANSWER);
	cr_assert_eq(extended_error_of(ask("p.berth", ns_t_a, 0, false)), -1);
	answer.status = NAMES_ABSENT;
	cr_assert_eq(
		extended_error_of(ask("p.berth", ns_t_a, 1232, false)), DNS_EDE_STALE_NXDOMAIN);
	options.stale = false;
	answer.status = NAMES_UNKNOWN;
	ns_msg message = ask("p.berth", ns_t_a, 1232, false);
	cr_assert_eq(ns_msg_getflag(message, ns_f_rcode), ns_r_servfail);
	cr_assert_eq(extended_error_of(message), DNS_EDE_NO_REACHABLE_AUTHORITY);
	answer.status = NAMES_OUTSIDE;
	message = ask("example.org", ns_t_a, 1232, false);
	cr_assert_eq(ns_msg_getflag(message, ns_f_rcode), ns_r_refused);
	cr_assert_not(ns_msg_getflag(message, ns_f_aa));
	cr_assert_eq(extended_error_of(message), DNS_EDE_NOT_AUTHORITATIVE);
}

/* The OPT record of a reply; fails when there is none. */
static ns_rr opt_of(ns_msg message)
{
	ns_rr record;
	cr_assert_eq(ns_parserr(&message, ns_s_ar, ns_msg_count(message, ns_s_ar) - 1, &record), 0);
	cr_assert_eq(ns_rr_type(record), ns_t_opt);
	return record;
}

Test(dns_reply, an_opt_record_has_our_size_the_clients_bit_and_the_rest_of_the_code)
{
	static const struct {
		bool dnssec_ok;
		int rcode;
		uint32_t ttl;
	} cases[] = { { false, ns_r_noerror, 0 }, { true, ns_r_refused, 0x8000 },
		{ false, DNS_RCODE_BADVERS, 0x01000000 }, { true, DNS_RCODE_BADVERS, 0x01008000 } };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		size_t len = make_query("a.berth", ns_t_a, 4096);
		packet[len - 4] = cases[i].dnssec_ok ? 0x80 : 0;
		struct dns_query query = read_good(len);
		ns_msg message = parse_reply(dns_reply_write_code(
			reply, DNS_UDP_BYTES, &query, cases[i].rcode, DNS_EDE_NONE, i % 2));
		ns_rr record = opt_of(message);
		cr_expect_eq(ns_rr_class(record), 1232);
		cr_expect_eq(ns_rr_ttl(record), cases[i].ttl, "%x", ns_rr_ttl(record));
		cr_expect_eq(ns_rr_rdlen(record), 0);
		cr_expect_eq(ns_msg_getflag(message, ns_f_rcode), cases[i].rcode & 15);
		cr_expect_eq(ns_msg_getflag(message, ns_f_ra), i % 2);
		cr_expect_not(ns_msg_getflag(message, ns_f_aa));
	}
}

/* Record by record, until the message is full to the byte. */
Test(dns_reply, a_reply_is_as_long_as_it_may_be)
{
	answer.status = NAMES_FOUND;
	add_addresses(100);
	size_t bare = make_query("p.berth", ns_t_a, 0);
	for (unsigned count = 1; count < 40; count++) {
		answer.address_count = count;
		struct dns_query query = read_good(make_query("p.berth", ns_t_a, 1232));
		size_t whole = bare + 16UL * count + DNS_OPT_BYTES;
		uint8_t *exact = malloc(whole); /* so that writing beyond the end is seen */
		cr_assert_eq(dns_reply_write(exact, whole, &query, &answer, &options), whole);
		cr_assert_not(exact[2] & 2);
		cr_assert_eq(
			dns_reply_write(exact, whole - 1, &query, &answer, &options), whole - 16);
		cr_assert(exact[2] & 2);
		free(exact);
	}
	options.stale = true;
	options.why = "12345678";
	for (size_t count = 1; count < 20; count++) {
		answer.address_count = count;
		struct dns_query query = read_good(make_query("p.berth", ns_t_a, 1232));
		size_t whole = bare + 16 * count + DNS_OPT_BYTES + 6 + strlen(options.why);
		uint8_t *exact = malloc(whole);
		cr_assert_eq(dns_reply_write(exact, whole, &query, &answer, &options), whole);
		cr_assert_eq(
			dns_reply_write(exact, whole - 1, &query, &answer, &options), whole - 16);
		free(exact);
	}
	options.stale = false;
	options.why = NULL;
	answer.address_count = 100;
}

/* The type that is asked for, and how many records of it there are. */
Test(dns_reply, a_name_has_records_of_a_type_or_the_zones_soa)
{
	answer.status = NAMES_FOUND;
	add_targets(1);
	answer.texts = calloc(1, sizeof(char *));
	answer.texts[0] = strdup("a=b");
	answer.pointers = calloc(1, sizeof(char *));
	answer.pointers[0] = strdup("a.berth");
	add_addresses(1);
	static const int types[] = { ns_t_a, ns_t_srv, ns_t_txt, ns_t_ptr, ns_t_mx };
	for (int there = 0; there < 2; there++) {
		answer.address_count = answer.target_count = (size_t)there;
		answer.text_count = answer.pointer_count = (size_t)there;
		for (size_t i = 0; i < ARRAY_LEN(types); i++) {
			bool has = there && types[i] != ns_t_mx;
			ns_msg message = ask("p.berth", types[i], 0, false);
			cr_expect_eq(ns_msg_count(message, ns_s_an), has, "%d", types[i]);
			cr_expect_eq(ns_msg_count(message, ns_s_ns), !has, "%d", types[i]);
		}
	}
	answer.address_count = answer.target_count = answer.text_count = answer.pointer_count = 1;
}

/* But for the targets of SRV records, a part of a name that was written is pointed to. */
Test(dns_reply, names_are_compressed)
{
	static const char owner[] = "_http._tcp.web.joe.users.berth";
	static const char target[] = "c0.components.prod.web.joe.users.berth";
	answer.status = NAMES_FOUND;
	add_targets(2);
	size_t expected = NS_HFIXEDSZ + (strlen(owner) + 2) + NS_QFIXEDSZ;
	expected += 2 * (2 + 10 + 6 + (strlen(target) + 2));
	expected += strlen("_c0_components_prod") + 2 + 10 + 4;
	expected += strlen("_c1") + 2 + 10 + 4;
	cr_expect_eq(ns_msg_size(ask(owner, ns_t_srv, 0, false)), expected);
}

Test(dns_reply, pointers_begin_with_the_next_one_each_time)
{
	static const char *const expected[] = { "a.berth", "b.berth", "c.berth" };
	enum { COUNT = 3 };
	answer.status = NAMES_FOUND;
	answer.pointers = calloc(COUNT, sizeof(char *));
	for (size_t i = 0; i < COUNT; i++) {
		answer.pointers[i] = strdup(expected[i]);
	}
	answer.pointer_count = COUNT;
	for (unsigned rotation = 0; rotation < 2 * COUNT; rotation++) {
		char records[256] = "";
		for (size_t i = 0; i < COUNT; i++) {
			sprintf(records + strlen(records), "p.arpa. 1S IN PTR %s.\n",
				expected[(rotation + i) % COUNT]);
		}
		options.rotation = rotation;
		cr_expect_str_eq(records_of(ask("p.arpa", ns_t_ptr, 0, false)), records);
	}
	options.rotation = 0;
}

/* ---- the writer ---- */

static struct dns_writer writer;
static struct dns_query asked;

static void start(const char *name, size_t room)
{
	asked = read_good(make_query(name, ns_t_a, 0));
	dns_writer_start(&writer, reply, NS_HFIXEDSZ + asked.question_len + room, &asked);
}

static ns_rr record_of(ns_sect section, int index)
{
	ns_rr record;
	ns_msg message = parse_reply(dns_writer_finish(&writer, ns_r_noerror, true, false));
	cr_assert_eq(ns_parserr(&message, section, index, &record), 0);
	return record;
}

/* Its owner was written already. */
Test(dns_reply, a_name_of_a_record_that_did_not_fit_is_written_anew)
{
	static const uint8_t bytes[16] = { 192, 0, 2, 1 };
	start("a.example", (2 + 2) + 10 + 4);
	dns_write_address(&writer, "b.example", 1, AF_INET6, bytes);
	dns_writer_section(&writer, ns_s_ar);
	dns_write_address(&writer, "b.example", 1, AF_INET, bytes);
	ns_rr record = record_of(ns_s_ar, 0);
	cr_expect_str_eq(ns_rr_name(record), "b.example");
	cr_expect_eq(ns_rr_rdlen(record), 4);
}

Test(dns_reply, a_forwarder_believes_only_the_reply_to_its_question)
{
	answer.status = NAMES_FOUND;
	add_addresses(1);
	struct dns_query query = read_good(make_query("Web.example.org", ns_t_a, 0));
	size_t len = dns_reply_write(reply, 512, &query, &answer, &options);
	cr_assert(dns_reply_matches(reply, len, 0x1234, &query));
	cr_assert_not(dns_reply_matches(reply, len, 0x1235, &query));
	cr_assert_not(dns_reply_matches(reply, len - 1, 0x1234, &query));
	cr_assert_not(dns_reply_matches(
		packet, make_query("web.example.org", ns_t_a, 0), 0x1234, &query));
	struct dns_query other = read_good(make_query("wex.example.org", ns_t_a, 0));
	cr_assert_not(dns_reply_matches(reply, len, 0x1234, &other));
	other = read_good(make_query("web.example.org", ns_t_aaaa, 0));
	cr_assert_not(dns_reply_matches(reply, len, 0x1234, &other));
	other = read_good(make_query("web.EXAMPLE.org", ns_t_a, 0));
	cr_assert(dns_reply_matches(reply, len, 0x1234, &other));
}
