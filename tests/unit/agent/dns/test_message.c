/* Queries as they come, replies as libc reads them again. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <resolv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/dns/reply.h"
#include "lib/base/buffer.h"

TestSuite(dns_message);

#define EDNS_1232 "\0\0\51\4\320\0\0\0\0\0\0"

static uint8_t packet[1024];

/* A query as a resolver writes it; `edns` is the client's payload size, 0 for none. */
static size_t make_query(const char *name, int type, unsigned edns)
{
	memset(packet, 0, sizeof(packet));
	memcpy(packet, "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00", 12);
	size_t len = 12;
	int name_len = dn_comp(name, packet + len, 300, NULL, NULL);
	cr_assert_gt(name_len, 0, "%s", name);
	len += (size_t)name_len;
	ns_put16((unsigned)type, packet + len);
	ns_put16(ns_c_in, packet + len + 2);
	len += 4;
	if (edns) {
		memcpy(packet + len, EDNS_1232, 11);
		ns_put16(edns, packet + len + 3);
		packet[11] = 1;
		len += 11;
	}
	return len;
}

static struct dns_query read_good(size_t len)
{
	struct dns_query query;
	int rcode = -1;
	cr_assert_eq(dns_query_read(&query, packet, len, &rcode), DNS_ANSWER, "rcode %d", rcode);
	return query;
}

static void expect_reject(size_t len, int expected)
{
	struct dns_query query;
	uint8_t reply[DNS_UDP_BYTES];
	int rcode = -1;
	cr_assert_eq(dns_query_read(&query, packet, len, &rcode), DNS_REJECT);
	cr_assert_eq(rcode, expected);
	size_t reply_len = dns_reply_write_code(
		reply, sizeof(reply), &query, rcode, DNS_EDE_NONE, false);
	ns_msg message;
	cr_assert_eq(ns_initparse(reply, (int)reply_len, &message), 0);
	cr_assert_eq(ns_msg_id(message), 0x1234);
	cr_assert_eq(ns_msg_getflag(message, ns_f_opcode), packet[2] >> 3 & 15);
	cr_assert_eq(ns_msg_getflag(message, ns_f_rcode), expected & 15);
}

Test(dns_message, a_query_is_read_as_it_was_asked)
{
	struct dns_query query = read_good(make_query("Db.Services.BERTH", ns_t_srv, 0));
	cr_assert_str_eq(query.name, "Db.Services.BERTH");
	cr_assert_eq(query.type, ns_t_srv);
	cr_assert_eq(query.class, ns_c_in);
	cr_assert(query.recursion_desired && !query.edns);
	cr_assert_eq(dns_reply_limit(&query, false), 512);
	cr_assert_eq(dns_reply_limit(&query, true), 65535);
	query = read_good(make_query(".", ns_t_ns, 0));
	cr_assert_str_eq(query.name, "");
}

Test(dns_message, the_clients_size_counts_up_to_ours)
{
	static const size_t sizes[][2] = { { 1, 512 }, { 511, 512 }, { 800, 800 }, { 1232, 1232 },
		{ 4096, 1232 }, { 65535, 1232 } };
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct dns_query query = read_good(
			make_query("a.berth", ns_t_a, (unsigned)sizes[i][0]));
		cr_assert_eq(dns_reply_limit(&query, false), sizes[i][1]);
	}
}

Test(dns_message, every_query_that_is_cut_off_is_refused)
{
	size_t len = make_query("db.services.berth", ns_t_a, 1232);
	for (size_t cut = 0; cut < len; cut++) {
		struct dns_query query;
		int rcode;
		uint8_t *exact = malloc(cut + 1); /* so that reading beyond the end is seen */
		memcpy(exact, packet, cut);
		cr_assert_eq(dns_query_read(&query, exact, cut, &rcode),
			cut < 12 ? DNS_DROP : DNS_REJECT, "%zu", cut);
		free(exact);
	}
}

Test(dns_message, a_packet_that_is_no_query_is_refused)
{
	size_t len = make_query("a.berth", ns_t_a, 1232);
	packet[2] |= 0x80;
	struct dns_query query;
	int rcode;
	cr_assert_eq(dns_query_read(&query, packet, len, &rcode), DNS_DROP);
	make_query("a.berth", ns_t_a, 1232);
	static const int others[] = { ns_o_iquery, ns_o_status, 3, ns_o_notify, ns_o_update, 15 };
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		make_query("a.berth", ns_t_a, 1232);
		packet[2] |= (uint8_t)(others[i] << 3);
		expect_reject(len, ns_r_notimpl);
	}
	for (size_t count = 5; count <= 11; count += 2) {
		make_query("a.berth", ns_t_a, 1232);
		packet[count]++; /* a count that lies */
		expect_reject(len, ns_r_formerr);
	}
	make_query("a.berth", ns_t_a, 1232);
	packet[len] = 0; /* something behind the end */
	expect_reject(len + 1, ns_r_formerr);
	make_query("a.berth", ns_t_a, 1232);
	packet[len - 5] = 1; /* EDNS version 1 */
	expect_reject(len, DNS_RCODE_BADVERS);
	make_query("a.berth", ns_t_a, 1232);
	memcpy(packet + len, EDNS_1232, 11); /* a second OPT record */
	packet[11] = 2;
	expect_reject(len + 11, ns_r_formerr);
}

Test(dns_message, compression_in_a_question_is_refused)
{
	static const uint8_t targets[] = { 0, 12, 13, 14, 255 };
	for (size_t i = 0; i < sizeof(targets); i++) {
		size_t len = make_query("a.berth", ns_t_a, 0);
		packet[12] = 0xc0;
		packet[13] = targets[i];
		expect_reject(len, ns_r_formerr);
	}
}

/* ---- replies ---- */

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
	ns_msg message = ask("m.berth", ns_t_a, 0, false);
	cr_assert(ns_msg_getflag(message, ns_f_tc));
	cr_assert_eq(ns_msg_getflag(message, ns_f_rcode), ns_r_nxdomain);
	options.beyond = NULL;
}

Test(dns_reply, an_alias_with_an_address_of_ipv6_beyond)
{
	static const uint8_t address[] = { 0x20, 1, 0xd, 0xb8, [15] = 1 };
	uint8_t other[DNS_EDNS_BYTES];
	uint8_t query_packet[NS_PACKETSZ];
	struct dns_query beyond;
	struct dns_writer writer;
	cr_assert_gt(dns_query_write(&beyond, query_packet, "mx.example.org", ns_t_aaaa), 0);
	dns_writer_start(&writer, other, sizeof(other), &beyond);
	dns_write_address(&writer, NULL, 60, AF_INET6, address);
	options.beyond_len = dns_writer_finish(&writer, ns_r_noerror, true, true);
	options.beyond = other;
	answer.status = NAMES_FOUND;
	answer.alias = strdup("mx.example.org");
	cr_assert_str_eq(records_of(ask("m.berth", ns_t_aaaa, 0, false)),
		"m.berth. 1S IN CNAME mx.example.org.\n"
		"mx.example.org. 1M IN AAAA 2001:db8::1\n");
	options.beyond = NULL;
}

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
	for (size_t i = 0; i < sizeof(payloads) / sizeof(payloads[0]); i++) {
		ns_msg message = ask("_http._tcp.p.berth", ns_t_srv, payloads[i], false);
		cr_assert(ns_msg_getflag(message, ns_f_tc), "%u", payloads[i]);
		cr_assert_geq(ns_msg_count(message, ns_s_an), 7, "%u", payloads[i]);
		cr_assert_leq(ns_msg_size(message), payloads[i] ? payloads[i] : 512);
		cr_assert_eq(ns_msg_count(message, ns_s_ar), payloads[i] ? 1 : 0);
	}
	ns_msg message = ask("_http._tcp.p.berth", ns_t_srv, 1232, true);
	cr_assert_not(ns_msg_getflag(message, ns_f_tc));
	cr_assert_eq(ns_msg_count(message, ns_s_an), 500);
	cr_assert_gt(ns_msg_count(message, ns_s_ar), 400);
}

Test(dns_reply, a_set_beyond_a_message_is_cut_over_tcp_too)
{
	answer.status = NAMES_FOUND;
	add_addresses(5000);
	ns_msg message = ask("p.berth", ns_t_a, 0, true);
	cr_assert(ns_msg_getflag(message, ns_f_tc));
	cr_assert_gt(ns_msg_count(message, ns_s_an), 4000);
	cr_assert_leq(ns_msg_size(message), 65535);
}

Test(dns_reply, glue_that_does_not_fit_is_left_out_without_a_word)
{
	answer.status = NAMES_FOUND;
	add_targets(7);
	ns_msg message = ask("_http._tcp.p.berth", ns_t_srv, 512, false);
	cr_assert_eq(ns_msg_count(message, ns_s_an), 7);
	cr_assert_lt(ns_msg_count(message, ns_s_ar), 8);
	cr_assert_not(ns_msg_getflag(message, ns_f_tc));
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
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
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
