/* Queries as they come. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/dns/reply.h"
#include "lib/base/array.h"
#include "tests/unit/agent/dns/message_stage.h"

TestSuite(dns_message);

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
	static const size_t sizes[][2] = { { 1, 512 }, { 511, 512 }, { 512, 512 }, { 513, 513 },
		{ 800, 800 }, { 1231, 1231 }, { 1232, 1232 }, { 1233, 1232 }, { 4096, 1232 },
		{ 65535, 1232 } };
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
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
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
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

Test(dns_message, a_name_has_a_greatest_length)
{
	char name[NS_MAXDNAME] = "";
	for (int i = 0; i < 3; i++) {
		snprintf(name + strlen(name), sizeof(name) - strlen(name), "%063d.", i);
	}
	strcat(name, "0123456789012345678901234567890123456789012345678901234567890");
	size_t len = make_query(name, ns_t_a, 0); /* of 255 bytes */
	cr_assert_eq(len, 12 + 255 + 4);
	struct dns_query query = read_good(len);
	cr_assert_str_eq(query.name, name);
	cr_assert_eq(query.question_len, 255 + 4);
	cr_assert_eq(memcmp(query.question, packet + 12, 255 + 4), 0);
	packet[12 + 3 * 64]++; /* the last label is longer by one byte */
	memmove(packet + 12 + 255, packet + 12 + 254, 5);
	expect_reject(len + 1, ns_r_formerr);
}

Test(dns_message, a_message_has_a_greatest_length)
{
	static uint8_t message[DNS_TCP_BYTES + 1];
	struct dns_query query;
	int rcode;
	size_t len = make_query("a.berth", ns_t_a, 1232);
	memcpy(message, packet, len);
	ns_put16((unsigned)(DNS_TCP_BYTES - len), message + len - 2); /* options of that length */
	memset(message + len, 0, sizeof(message) - len);
	cr_expect_eq(dns_query_read(&query, message, DNS_TCP_BYTES, &rcode), DNS_ANSWER);
	cr_expect_eq(dns_query_read(&query, message, DNS_TCP_BYTES + 1, &rcode), DNS_DROP);
}

/* A record in front of the OPT record, or in place of it. */
static size_t add_additional(size_t len, const char *record, size_t record_len)
{
	memcpy(packet + len, record, record_len);
	packet[11]++;
	return len + record_len;
}

Test(dns_message, other_records_behind_the_question_are_passed_over)
{
	static const char address[] = "\1x\0\0\1\0\1\0\0\0\0\0\4\x7f\0\0\1";
	static const char owned[] = "\1x\0\0\51\4\320\0\0\0\0\0\0";
	size_t len = make_query("a.berth", ns_t_a, 0);
	len = add_additional(len, address, sizeof(address) - 1);
	cr_expect_not(read_good(len).edns);
	len = add_additional(len, EDNS_1232, 11);
	cr_expect_eq(read_good(len).payload, 1232);
	len = add_additional(len, address, sizeof(address) - 1);
	cr_expect(read_good(len).edns);
	len = make_query("a.berth", ns_t_a, 0);
	expect_reject(add_additional(len, owned, sizeof(owned) - 1), ns_r_formerr);
	static const char numbered[] = "\0010\0\0\51\4\320\0\0\0\0\0\0";
	len = make_query("a.berth", ns_t_a, 0);
	expect_reject(add_additional(len, numbered, sizeof(numbered) - 1), ns_r_formerr);
}

/* The question's name is a pointer to a name in the options of the OPT record. */
Test(dns_message, compression_is_refused_in_a_packet_of_any_length)
{
	memset(packet, 0, sizeof(packet));
	memcpy(packet, "\x12\x34\1\0\0\1\0\0\0\0\0\1\xc0\x1d\0\1\0\1", 18);
	memcpy(packet + 18, EDNS_1232, 11);
	ns_put16(300, packet + 27);
	memcpy(packet + 29, "\1x", 2);
	expect_reject(29 + 300, ns_r_formerr);
}

Test(dns_message, a_record_whose_owner_cannot_be_read_is_refused)
{
	static const char loop[] = "\xc0\x19\0\51\4\320\0\0\0\0\0\0";
	size_t len = make_query("a.berth", ns_t_a, 0);
	cr_assert_eq(len, 0x19);
	expect_reject(add_additional(len, loop, sizeof(loop) - 1), ns_r_formerr);
}

Test(dns_message, only_for_the_changes_of_a_zone_a_version_is_given)
{
	static const char soa[] =
		"\0\0\6\0\1\0\0\0\0\0\26\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
	static const struct {
		int type;
		int records;
		bool good;
	} cases[] = { { ns_t_ixfr, 0, true }, { ns_t_ixfr, 1, true }, { ns_t_ixfr, 2, false },
		{ ns_t_axfr, 1, false }, { ns_t_a, 1, false } };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		size_t len = make_query("berth", cases[i].type, 0);
		for (int j = 0; j < cases[i].records; j++) {
			len = add_additional(len, soa, sizeof(soa) - 1);
			packet[11]--;
			packet[9]++;
		}
		if (cases[i].good) {
			cr_expect_not(dns_reply_may_answer(&(struct dns_query){
				.class = ns_c_in, .type = read_good(len).type }));
		} else {
			expect_reject(len, ns_r_formerr);
		}
	}
}

Test(dns_message, questions_of_one_class_and_of_no_transfer_are_answered)
{
	static const struct {
		int class;
		int type;
		bool good;
	} cases[] = { { ns_c_in, ns_t_a, true }, { ns_c_any, ns_t_a, true },
		{ ns_c_chaos, ns_t_txt, false }, { ns_c_none, ns_t_a, false },
		{ ns_c_in, ns_t_axfr, false }, { ns_c_in, ns_t_ixfr, false },
		{ ns_c_any, ns_t_axfr, false }, { ns_c_in, ns_t_any, true } };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		size_t len = make_query("berth", cases[i].type, 0);
		ns_put16((unsigned)cases[i].class, packet + len - 2);
		struct dns_query query = read_good(len);
		cr_expect_eq(dns_reply_may_answer(&query), cases[i].good, "%d %d", cases[i].class,
			cases[i].type);
	}
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
