/* Asking for the name that an alias leads to, and taking over what another server says of it. */
#include <netinet/in.h>
#include <resolv.h>
#include <string.h>

#include "agent/dns/message.h"

size_t dns_query_write(
	struct dns_query *ret_query, uint8_t data[NS_PACKETSZ], const char *name, uint16_t type)
{
	static const uint8_t header[NS_HFIXEDSZ] = { [2] = 1 /* recursion desired */, [5] = 1 };
	int rcode;
	memcpy(data, header, sizeof(header));
	int name_len = dn_comp(name, data + NS_HFIXEDSZ, NS_MAXCDNAME, NULL, NULL);
	if (name_len < 0) {
		return 0;
	}
	size_t len = NS_HFIXEDSZ + (size_t)name_len;
	ns_put16(type, data + len);
	ns_put16(ns_c_in, data + len + 2);
	len += NS_QFIXEDSZ;
	return dns_query_read(ret_query, data, len, &rcode) == DNS_ANSWER ? len : 0;
}

static void write_copy(struct dns_writer *writer, const ns_msg *message, const ns_rr *record)
{
	const uint8_t *data = ns_rr_rdata(*record);
	const char *name = ns_rr_name(*record);
	uint32_t ttl = ns_rr_ttl(*record);
	char target[NS_MAXDNAME];
	switch (ns_rr_type(*record)) {
	case ns_t_a:
		if (ns_rr_rdlen(*record) == NS_INADDRSZ) {
			dns_write_address(writer, name, ttl, AF_INET, data);
		}
		break;
	case ns_t_aaaa:
		if (ns_rr_rdlen(*record) == NS_IN6ADDRSZ) {
			dns_write_address(writer, name, ttl, AF_INET6, data);
		}
		break;
	case ns_t_cname:
		if (dn_expand(ns_msg_base(*message), ns_msg_end(*message), data, target,
			    sizeof(target)) >= 0) {
			dns_write_name(writer, name, ns_t_cname, ttl, target);
		}
		break;
	default:
		break;
	}
}

void dns_write_answers_of(struct dns_writer *writer, const uint8_t *data, size_t len)
{
	ns_msg message;
	ns_rr record;
	if (ns_initparse(data, (int)len, &message) != 0) {
		return;
	}
	writer->truncated = writer->truncated || ns_msg_getflag(message, ns_f_tc);
	for (int i = 0; i < ns_msg_count(message, ns_s_an) &&
		ns_parserr(&message, ns_s_an, i, &record) == 0;
		i++) {
		if (ns_rr_class(record) == ns_c_in) {
			write_copy(writer, &message, &record);
		}
	}
}
