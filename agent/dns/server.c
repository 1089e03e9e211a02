/* The server as a whole: its listeners, and its options. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "agent/base/log.h"
#include "agent/dns/internal.h"
#include "lib/base/text.h"

/* ---- listeners ---- */

static void on_readable(void *context)
{
	struct dns_listener *listener = context;
	if (listener->socket.tcp) {
		dns_tcp_accept(listener->dns, listener->socket.fd);
	} else {
		dns_udp_receive(listener->dns, listener->socket.fd);
	}
}

static int inherited_fd(const struct dns_options *options, const char *address, bool tcp)
{
	for (size_t i = 0; i < options->inherited_count; i++) {
		const struct dns_socket *socket = &options->inherited[i];
		if (socket->tcp == tcp && strcmp(socket->address, address) == 0) {
			return socket->fd;
		}
	}
	return -1;
}

static int add_listener(struct dns *dns, const struct dns_options *options, const char *address,
	bool tcp, struct err *err)
{
	int fd = inherited_fd(options, address, tcp);
	if (fd >= 0) {
		dns_socket_adopt(fd, address, tcp);
	} else {
		fd = dns_socket_open(address, tcp, err);
	}
	if (fd < 0) {
		return fd;
	}
	struct dns_listener *listener = &dns->listeners[dns->listener_count++];
	listener->dns = dns;
	listener->socket = (struct dns_socket){ .tcp = tcp, .fd = fd };
	text_printf(listener->socket.address, sizeof(listener->socket.address), "%s", address);
	lasting_io_start(&listener->io, dns->loop, fd, "a socket of DNS", on_readable, listener);
	return 0;
}

static int open_listeners(struct dns *dns, const struct dns_options *options, struct err *err)
{
	if (options->listen_count > DNS_MAX_LISTENERS) {
		return err_set(err, BERTH_FAILED, "at most %d addresses are allowed for DNS",
			DNS_MAX_LISTENERS);
	}
	for (size_t i = 0; i < options->listen_count; i++) {
		dns->listen[dns->listen_count++] = allocate_text(options->listen[i]);
		for (int tcp = 0; tcp < 2; tcp++) {
			int code = add_listener(dns, options, options->listen[i], tcp, err);
			if (code) {
				return code;
			}
		}
	}
	return 0;
}

int dns_create(struct dns **ret_dns, struct ev_loop *loop, struct names_lookups *lookups,
	const struct dns_options *options, struct err *err)
{
	struct dns *dns = allocate_zeroed(1, sizeof(*dns));
	dns->loop = loop;
	dns->lookups = lookups;
	dns->zones = options->zones;
	dns->batch = dns_batch_create();
	dns->rate = dns_rate_create();
	dns->domain = allocate_text(options->domain);
	dns->listen = allocate_zeroed(options->listen_count, sizeof(*dns->listen));
	list_init(&dns->exchanges);
	list_init(&dns->connections);
	dns->forward = dns_forward_create(loop);
	int code = open_listeners(dns, options, err);
	if (code) {
		dns_destroy(dns);
		return code;
	}
	dns_forward_on_server(dns->forward, &options->on_server);
	dns_set_options(dns, options);
	for (size_t i = 0; i < dns->listen_count; i++) {
		log_info("dns", "serving names below %s on %s", dns->domain, dns->listen[i]);
	}
	*ret_dns = dns;
	return 0;
}

void dns_destroy(struct dns *dns)
{
	if (!dns) {
		return;
	}
	dns_tcp_close_all(dns);
	while (!list_empty(&dns->exchanges)) {
		dns_exchange_drop(LIST_ITEM(dns->exchanges.next, struct dns_exchange, link));
	}
	for (size_t i = 0; i < dns->listener_count; i++) {
		lasting_io_stop(&dns->listeners[i].io);
		close(dns->listeners[i].socket.fd);
	}
	for (size_t i = 0; i < dns->listen_count; i++) {
		free(dns->listen[i]);
	}
	free(dns->listen);
	dns_forward_destroy(dns->forward);
	free(dns->batch);
	free(dns->rate);
	free(dns->domain);
	free(dns->near);
	free(dns);
}

void dns_set_options(struct dns *dns, const struct dns_options *options)
{
	dns->ttl_s = options->ttl_s;
	dns->stale_ttl_s = options->stale_ttl_s;
	free(dns->near);
	dns->near = options->near ? allocate_text(options->near) : NULL;
	dns_forward_set(dns->forward, options->forward, options->forward_count, dns->listen,
		dns->listen_count);
}

size_t dns_sockets(const struct dns *dns, struct dns_socket *ret_sockets)
{
	for (size_t i = 0; i < dns->listener_count; i++) {
		ret_sockets[i] = dns->listeners[i].socket;
	}
	return dns->listener_count;
}

size_t dns_pass_sockets(struct dns *dns, struct dns_socket *ret_sockets)
{
	size_t count = dns_sockets(dns, ret_sockets);
	for (size_t i = 0; i < count; i++) {
		lasting_io_stop(&dns->listeners[i].io);
	}
	dns->listener_count = 0;
	return count;
}

void dns_look_for_ourselves(struct dns *dns)
{
	dns_forward_look_for_own(dns->forward);
}

const struct dns_counts *dns_counts(struct dns *dns)
{
	return &dns->counts;
}

size_t dns_count_servers(const struct dns *dns, enum dns_server_state state)
{
	return dns_forward_count(dns->forward, state);
}

json_t *dns_json(const struct dns *dns)
{
	json_t *listen = json_array();
	for (size_t i = 0; i < dns->listen_count; i++) {
		json_array_append_new(listen, json_string(dns->listen[i]));
	}
	return json_pack("{s:o, s:s, s:o}", "listen", listen, "domain", dns->domain, "forward",
		dns_forward_json(dns->forward));
}
