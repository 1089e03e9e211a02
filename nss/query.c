#include "nss/query.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/http/reader.h"
#include "nss/memory.h"

#define SOCKET_PATH BERTH_RUNSTATEDIR "/berth/berth.sock"
#define DOMAINS_FILE BERTH_SYSCONFDIR "/berth/nss-domains"
#define DEFAULT_DOMAIN "berth"
#define PATIENCE_MS 3000 /* the agent itself waits 2 s for a name that it has to read */
#define FROZEN_MS 500    /* an agent that has not read a question by then is frozen */
#define AVOIDED_MS 10000 /* how long such an agent is not asked again */
#define MAX_ANSWER_BYTES (256 << 10)
#define REMEMBERED_BYTES 4096 /* longer answers come from the socket */
#define DOMAINS_KEPT_BYTES 256
#define DOMAINS_KEPT_MS 1000

/* The agent sets this for itself and its commands: it must not wait for its own answer. */
static bool may_ask(void)
{
	const char *word = secure_getenv("BERTH_NSS");
	return !word || strcmp(word, "off") != 0;
}

static const char *find_socket(void)
{
	const char *path = secure_getenv("BERTH_SOCKET");
	return path && *path ? path : SOCKET_PATH;
}

static bool may_use_memory(void)
{
	const char *word = secure_getenv("BERTH_SHARED");
	return !word || strcmp(word, "off") != 0;
}

static int connect_to_agent(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const char *path = find_socket();
	if (strlen(path) >= sizeof(address.sun_path)) {
		return -1;
	}
	strcpy(address.sun_path, path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* On a Unix socket connecting is done at once or not at all. */
	if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/* One process waits for an agent that does not answer once, not at every question. */
static _Atomic int64_t avoided_until_ms;

static bool is_avoided(int64_t now_ms)
{
	return now_ms < atomic_load(&avoided_until_ms);
}

static void avoid(void)
{
	atomic_store(&avoided_until_ms, clock_monotonic_ms() + AVOIDED_MS);
}

static bool wait_for(int fd, short events, int64_t deadline_ms)
{
	int64_t left = deadline_ms - clock_monotonic_ms();
	struct pollfd descriptor = { .fd = fd, .events = events };
	return left > 0 && poll(&descriptor, 1, (int)left) > 0;
}

/* False when the agent at the other end of `fd` has taken all that was sent to it. */
static bool is_unread(int fd)
{
	int left = 0;
	return ioctl(fd, SIOCOUTQ, &left) == 0 && left > 0;
}

/*
 * Waits for the answer. A frozen agent has not even read the question, and is given up early; one
 * that has read it may be asking its registry.
 */
static bool wait_for_answer(int fd, int64_t begin_ms)
{
	if (wait_for(fd, POLLIN, begin_ms + FROZEN_MS) ||
		(!is_unread(fd) && wait_for(fd, POLLIN, begin_ms + PATIENCE_MS))) {
		return true;
	}
	avoid();
	return false;
}

/* `shared`: the answer should be in memory for the next question. */
static bool send_request(int fd, const char *name, bool shared, int64_t deadline_ms)
{
	char request[NSS_NAME_BYTES + 128];
	int len = snprintf(request, sizeof(request),
		"GET /v1/names/%s HTTP/1.1\r\nHost: berth\r\nAccept: text/plain\r\n"
		"%sConnection: close\r\n\r\n",
		name, shared ? "Prefer: shared\r\n" : "");
	for (int sent = 0; sent < len;) {
		ssize_t part = send(fd, request + sent, (size_t)(len - sent), MSG_NOSIGNAL);
		if (part >= 0) {
			sent += (int)part;
		} else if (errno != EAGAIN || !wait_for(fd, POLLOUT, deadline_ms)) {
			return false;
		}
	}
	return true;
}

/* The status of the answer, 0 without an answer; `body` receives its body. */
static int read_answer(int fd, struct buffer *body, int64_t begin_ms)
{
	struct http_reader reader;
	char bytes[4096];
	int status = 0;
	http_reader_init(&reader, HTTP_ANSWER);
	while (wait_for_answer(fd, begin_ms)) {
		ssize_t len = recv(fd, bytes, sizeof(bytes), 0);
		if (len <= 0) {
			break;
		}
		const char *at = bytes;
		enum http_event event;
		do {
			event = http_reader_next(&reader, &at, bytes + len);
			if (event == HTTP_EVENT_BODY) {
				buffer_append(body, reader.body, reader.body_len);
			}
		} while (event == HTTP_EVENT_HEAD || event == HTTP_EVENT_BODY);
		if (event == HTTP_EVENT_END && !body->failed) {
			status = reader.status;
		}
		if (event != HTTP_EVENT_MORE) {
			break;
		}
	}
	http_reader_finish(&reader);
	return status;
}

static void add_address(struct nss_answer *answer, int family, const char *text)
{
	struct nss_address *address = &answer->addresses[answer->count];
	if (answer->count < NSS_MAX_ADDRESSES && inet_pton(family, text, &address->bytes) == 1) {
		address->family = family;
		answer->count++;
	}
}

/* Programs write the name of an address into logs and terminals. */
static bool is_host_name(const char *text)
{
	static const char allowed[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.";
	size_t len = strlen(text);
	return len > 0 && len < NSS_NAME_BYTES && strspn(text, allowed) == len;
}

/* Lines of a type, a blank and its data, as PROTOCOL.md has them. */
static void read_lines(struct nss_answer *answer, char *text)
{
	char *rest = text;
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		char *data = strchr(line, ' ');
		if (!data) {
			continue;
		}
		*data++ = '\0';
		if (strcmp(line, "A") == 0) {
			add_address(answer, AF_INET, data);
		} else if (strcmp(line, "AAAA") == 0) {
			add_address(answer, AF_INET6, data);
		} else if ((strcmp(line, "CNAME") == 0 || strcmp(line, "PTR") == 0) &&
			is_host_name(data) && !answer->name[0]) {
			strcpy(answer->name, data);
		}
	}
}

/* FOUND and ABSENT set *ret_status. */
static enum nss_memory_outcome remember(
	struct nss_answer *ret_answer, const char *name, enum nss_query_status *ret_status)
{
	char key[NSS_NAME_BYTES + 32];
	char value[REMEMBERED_BYTES];
	stpcpy(stpcpy(stpcpy(key, "/v1/names/"), name), " text/plain");
	enum nss_memory_outcome outcome = may_ask() && may_use_memory()
		? nss_memory_read(find_socket(), key, value, sizeof(value))
		: NSS_MEMORY_NONE;
	if (outcome == NSS_MEMORY_FOUND) {
		read_lines(ret_answer, value);
	}
	*ret_status = outcome == NSS_MEMORY_FOUND ? NSS_QUERY_FOUND : NSS_QUERY_ABSENT;
	return outcome;
}

/* The agent has just answered: it will not keep this process waiting. */
static void get_map(void)
{
	int64_t deadline_ms = clock_monotonic_ms() + FROZEN_MS;
	int fd = may_use_memory() && nss_memory_wants_map() ? connect_to_agent() : -1;
	if (fd >= 0) {
		nss_memory_fetch(find_socket(), fd, deadline_ms);
		close(fd);
	}
}

static enum nss_query_status ask(struct nss_answer *ret_answer, const char *name)
{
	enum nss_query_status remembered;
	enum nss_memory_outcome outcome = remember(ret_answer, name, &remembered);
	int64_t begin_ms = clock_monotonic_ms();
	if (outcome == NSS_MEMORY_FOUND || outcome == NSS_MEMORY_ABSENT) {
		return remembered;
	}
	if (is_avoided(begin_ms)) {
		return NSS_QUERY_LATER;
	}
	int fd = may_ask() ? connect_to_agent() : -1;
	if (fd < 0) {
		return NSS_QUERY_NO_AGENT;
	}
	struct buffer body;
	buffer_init(&body, MAX_ANSWER_BYTES);
	bool sent = send_request(fd, name, outcome == NSS_MEMORY_UNKNOWN, begin_ms + FROZEN_MS);
	int status = sent ? read_answer(fd, &body, begin_ms) : 0;
	close(fd);
	if (status != 0) {
		get_map();
	}
	if (status == 200 && body.data) {
		read_lines(ret_answer, body.data);
	}
	buffer_finish(&body);
	switch (status) {
	case 200:
		return NSS_QUERY_FOUND;
	case 400:
	case 404:
		return NSS_QUERY_ABSENT;
	default:
		return NSS_QUERY_LATER;
	}
}

/* ---- the module's domains ---- */

static bool is_below(const char *name, const char *domain, size_t domain_len)
{
	size_t len = strlen(name);
	len -= len > 0 && name[len - 1] == '.';
	return len > domain_len + 1 && name[len - domain_len - 1] == '.' &&
		strncasecmp(name + len - domain_len, domain, domain_len) == 0;
}

/*
 * The words of DOMAINS_FILE. The agent itself cannot say which names are its own: whoever
 * had taken it over could then answer for any name in every process of the machine.
 */
static void read_domains(char *out, size_t size)
{
	int fd = open(DOMAINS_FILE, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t len = fd >= 0 ? read(fd, out, size - 1) : -1;
	if (fd >= 0) {
		close(fd);
	}
	if (len < 0) {
		strcpy(out, DEFAULT_DOMAIN);
	} else {
		out[len] = '\0';
	}
}

static bool is_one_of(const char *name, const char *domains)
{
	static const char blanks[] = " \t\r\n";
	for (const char *at = domains + strspn(domains, blanks); *at; at += strspn(at, blanks)) {
		size_t len = strcspn(at, blanks);
		if (is_below(name, at, len)) {
			return true;
		}
		at += len;
	}
	return false;
}

/* Read at most once a second, for each thread; a longer file each time. */
static __thread struct {
	int64_t until_ms;
	char text[DOMAINS_KEPT_BYTES];
} domains_kept;

static bool is_ours(const char *name)
{
	char domains[1024];
	read_domains(domains, sizeof(domains));
	if (strlen(domains) < sizeof(domains_kept.text)) {
		strcpy(domains_kept.text, domains);
		domains_kept.until_ms = clock_monotonic_ms() + DOMAINS_KEPT_MS;
	}
	return is_one_of(name, domains);
}

/* ---- questions ---- */

/* A name with other bytes cannot be in the registry. */
static bool is_possible(const char *name)
{
	static const char allowed[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
	size_t len = strlen(name);
	return len < NSS_NAME_BYTES && strspn(name, allowed) == len;
}

bool nss_query_remembered(
	struct nss_answer *ret_answer, const char *name, enum nss_query_status *ret_status)
{
	ret_answer->count = 0;
	ret_answer->name[0] = '\0';
	if (!is_possible(name) || clock_monotonic_ms() >= domains_kept.until_ms ||
		!is_one_of(name, domains_kept.text)) {
		return false;
	}
	enum nss_memory_outcome outcome = remember(ret_answer, name, ret_status);
	return outcome == NSS_MEMORY_FOUND || outcome == NSS_MEMORY_ABSENT;
}

enum nss_query_status nss_query_name(struct nss_answer *ret_answer, const char *name)
{
	ret_answer->count = 0;
	ret_answer->name[0] = '\0';
	/* Other names do not concern the agent. */
	return is_possible(name) && is_ours(name) ? ask(ret_answer, name) : NSS_QUERY_ABSENT;
}

enum nss_query_status nss_query_address(
	struct nss_answer *ret_answer, int family, const void *address)
{
	char name[NSS_NAME_BYTES];
	const uint8_t *bytes = address;
	char *at = name;
	ret_answer->count = 0;
	ret_answer->name[0] = '\0';
	if (family == AF_INET) {
		snprintf(name, sizeof(name), "%u.%u.%u.%u.in-addr.arpa", bytes[3], bytes[2],
			bytes[1], bytes[0]);
	} else {
		for (size_t i = sizeof(struct in6_addr); i-- > 0;) {
			at += sprintf(at, "%x.%x.", bytes[i] & 15, bytes[i] >> 4);
		}
		strcpy(at, "ip6.arpa");
	}
	enum nss_query_status status = ask(ret_answer, name);
	if (!is_ours(ret_answer->name)) {
		ret_answer->name[0] = '\0';
	}
	return status;
}
