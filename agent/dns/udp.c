/*
 * Queries over UDP: read and answered a batch at a time, with one system call each way.
 *
 * The replies that are known at once leave together at the end of their batch; the reply to an
 * exchange leaves by itself, later.
 */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/dns/internal.h"

#define BATCH 16
#define BATCHES_A_TURN 4  /* of one socket, before others get their turn */
#define PACKET_BYTES 2048 /* queries are far shorter, and our replies are */

struct packet {
	struct dns_origin origin;
	struct iovec part;
	uint8_t data[PACKET_BYTES];
};

struct dns_batch {
	int fd; /* that is being read; -1: none, replies leave by themselves */
	size_t reply_count;
	struct mmsghdr queries[BATCH];
	struct mmsghdr replies[BATCH];
	struct packet query_packets[BATCH];
	struct packet reply_packets[BATCH];
};

struct dns_batch *dns_batch_create(void)
{
	struct dns_batch *batch = allocate_zeroed(1, sizeof(*batch));
	batch->fd = -1;
	return batch;
}

/* ---- replies ---- */

static struct msghdr reply_header(const struct dns_origin *origin, struct iovec *part)
{
	return (struct msghdr){ .msg_name = (void *)(uintptr_t)&origin->address,
		.msg_namelen = origin->address_len,
		.msg_iov = part,
		.msg_iovlen = 1,
		.msg_control = origin->control_len ? (void *)(uintptr_t)origin->control : NULL,
		.msg_controllen = origin->control_len };
}

/* Sends a reply: with the others of its batch, or at once when that batch is over. */
static void send_reply(const struct dns_origin *origin, const uint8_t *data, size_t len)
{
	struct dns_batch *batch = origin->batch;
	if (origin->fd != batch->fd || batch->reply_count == BATCH || len > PACKET_BYTES) {
		struct iovec part = { (void *)(uintptr_t)data, len };
		struct msghdr message = reply_header(origin, &part);
		/* A reply that cannot be sent is a reply lost: the client asks again. */
		(void)!sendmsg(origin->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
		return;
	}
	struct packet *packet = &batch->reply_packets[batch->reply_count];
	packet->origin = *origin;
	packet->part = (struct iovec){ packet->data, len };
	memcpy(packet->data, data, len);
	batch->replies[batch->reply_count++].msg_hdr = reply_header(&packet->origin, &packet->part);
}

static void send_replies(struct dns_batch *batch)
{
	size_t sent = 0;
	while (sent < batch->reply_count) {
		int count = sendmmsg(batch->fd, batch->replies + sent,
			(unsigned)(batch->reply_count - sent), MSG_DONTWAIT | MSG_NOSIGNAL);
		sent += count > 0 ? (size_t)count
				  : 1; /* the first one is lost, the others are not */
	}
	batch->reply_count = 0;
}

/* ---- queries ---- */

/* Keeps our own address from the kernel, in the form in which a reply returns it. */
static void keep_control(struct dns_origin *origin, struct msghdr *message)
{
	struct cmsghdr *header = CMSG_FIRSTHDR(message);
	origin->control_len = 0;
	if (!header || header->cmsg_len > sizeof(origin->control)) {
		return;
	}
	if (header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_PKTINFO) {
		struct in_pktinfo *info = (struct in_pktinfo *)(void *)CMSG_DATA(header);
		info->ipi_ifindex = 0;
		origin->control_len = CMSG_SPACE(sizeof(*info));
	} else if (header->cmsg_level == IPPROTO_IPV6 && header->cmsg_type == IPV6_PKTINFO) {
		origin->control_len = CMSG_SPACE(sizeof(struct in6_pktinfo));
	}
}

/* The number of packets; 0 when there is none, or on an error. */
static size_t receive(struct dns_batch *batch)
{
	for (size_t i = 0; i < BATCH; i++) {
		struct packet *packet = &batch->query_packets[i];
		packet->part = (struct iovec){ packet->data, sizeof(packet->data) };
		batch->queries[i].msg_hdr = (struct msghdr){ .msg_name = &packet->origin.address,
			.msg_namelen = sizeof(packet->origin.address),
			.msg_iov = &packet->part,
			.msg_iovlen = 1,
			.msg_control = packet->origin.control,
			.msg_controllen = sizeof(packet->origin.control) };
	}
	int count = recvmmsg(batch->fd, batch->queries, BATCH, MSG_DONTWAIT, NULL);
	return count > 0 ? (size_t)count : 0;
}

static void handle(struct dns *dns, struct dns_batch *batch, size_t index)
{
	struct packet *packet = &batch->query_packets[index];
	struct mmsghdr *query = &batch->queries[index];
	if (query->msg_hdr.msg_flags & MSG_TRUNC) {
		dns->counts.dropped++;
		return;
	}
	packet->origin.send = send_reply;
	packet->origin.batch = batch;
	packet->origin.fd = batch->fd;
	packet->origin.address_len = query->msg_hdr.msg_namelen;
	keep_control(&packet->origin, &query->msg_hdr);
	dns_handle(dns, &packet->origin, packet->data, query->msg_len, NULL);
}

void dns_udp_receive(struct dns *dns, int fd)
{
	struct dns_batch *batch = dns->batch;
	size_t count = BATCH;
	for (int turn = 0; turn < BATCHES_A_TURN && count == BATCH; turn++) {
		batch->fd = fd;
		count = receive(batch);
		for (size_t i = 0; i < count; i++) {
			handle(dns, batch, i);
		}
		send_replies(batch);
		batch->fd = -1;
	}
}
