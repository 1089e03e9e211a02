#include "tests/sim/question.h"

#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <resolv.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { PORT = 10053, MOST_TURNS = 20, PACKET_BYTES = 4096, ID = 4711 };
enum { STALE_TTL_S = 30 }; /* by default; of a fresh answer 1 */

/*
 * Each process of the simulation asks on loopback addresses of its own, by its number, so that
 * several of them can run at once.
 */
struct sockaddr_in question_address(int agent)
{
	unsigned pid = (unsigned)syscall(SYS_getpid);
	unsigned host = (1 + pid / 250 % 250) << 16 | (1 + pid % 250) << 8 | (10 + (unsigned)agent);
	return (struct sockaddr_in){ .sin_family = AF_INET,
		.sin_port = htons(PORT),
		.sin_addr.s_addr = htonl(0x7f000000u | host) };
}

static int connect_to(int agent, bool tcp)
{
	struct sockaddr_in address = question_address(agent);
	int fd = socket(AF_INET, (tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC, 0);
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address))) {
		close(fd);
		return -1;
	}
	return fd;
}

/* One question, behind two bytes for its length. */
static size_t write_question(unsigned char *out, const char *name)
{
	unsigned char *at = out + 2;
	ns_put16(ID, at);
	memcpy(at + 2, "\1\0\0\1\0\0\0\0\0\0", 10);
	int len = ns_name_compress(name, at + 12, NS_MAXCDNAME, NULL, NULL);
	ns_put16(ns_t_a, at + 12 + len);
	ns_put16(ns_c_in, at + 14 + len);
	ns_put16((unsigned)len + 16, out);
	return (size_t)len + 16;
}

static struct question_answer read_answer(const unsigned char *packet, size_t len)
{
	struct question_answer answer = { .code = -1 };
	ns_msg message;
	size_t used = 0;
	if (ns_initparse(packet, (int)len, &message) || ns_msg_id(message) != ID) {
		return answer;
	}
	for (int i = 0; i < ns_msg_count(message, ns_s_an); i++) {
		ns_rr record;
		char text[INET_ADDRSTRLEN];
		if (ns_parserr(&message, ns_s_an, i, &record) == 0 &&
			ns_rr_type(record) == ns_t_a &&
			inet_ntop(AF_INET, ns_rr_rdata(record), text, sizeof(text))) {
			used += (size_t)snprintf(
				answer.text + used, sizeof(answer.text) - used, "%s ", text);
			answer.stale = answer.stale || ns_rr_ttl(record) >= STALE_TTL_S;
		}
	}
	answer.code = ns_msg_getflag(message, ns_f_rcode);
	return answer;
}

/* The length of the answer; 0: there is none. */
static size_t wait_for_answer(
	struct process *process, int fd, bool tcp, bool wait, unsigned char packet[PACKET_BYTES])
{
	const struct timespec pause = { .tv_nsec = wait ? 1000000 : 20000 };
	unsigned told = process_told_by_kernel(process);
	size_t len = 0;
	for (int turn = 0; turn < MOST_TURNS && !process_has_ended(process); turn++) {
		process_wake_by_kernel(process);
		process_run(process);
		ssize_t more = recv(fd, packet + len, PACKET_BYTES - len, MSG_DONTWAIT);
		len += more > 0 ? (size_t)more : 0;
		if (!tcp && len > 0) {
			return len;
		}
		if (tcp && len > 2 && len >= 2 + ns_get16(packet)) {
			memmove(packet, packet + 2, len - 2);
			return len - 2;
		}
		if (!tcp && !wait && process_told_by_kernel(process) != told) {
			return 0; /* it has the question, and sleeps */
		}
		if (turn > 1) {
			syscall(SYS_nanosleep, &pause, NULL);
		}
	}
	return 0;
}

struct question_answer question_ask(struct process *process, const char *name, bool tcp, bool wait)
{
	unsigned char question[2 + NS_HFIXEDSZ + NS_MAXCDNAME + NS_QFIXEDSZ];
	unsigned char packet[PACKET_BYTES];
	struct question_answer answer = { .code = -1 };
	size_t len = write_question(question, name);
	int fd = connect_to(process_number(process), tcp);
	if (fd < 0) {
		return answer;
	}
	const unsigned char *begin = tcp ? question : question + 2;
	size_t bytes = tcp ? len + 2 : len;
	if (send(fd, begin, bytes, MSG_NOSIGNAL) == (ssize_t)bytes) {
		size_t got = wait_for_answer(process, fd, tcp, wait, packet);
		answer = got ? read_answer(packet, got) : answer;
	}
	close(fd);
	process_wake_by_kernel(process); /* the connection has ended */
	return answer;
}
