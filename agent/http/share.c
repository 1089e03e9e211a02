/*
 * The share of one client in connections, watchers, searches and bytes. A client is a user (on the
 * Unix socket), a container (on its own) or an address (over TCP): lib/base/share.h, as is the rule
 * that holds for all of them.
 */
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "agent/base/allocate.h"
#include "agent/http/internal.h"
#include "lib/base/share.h"

enum {
	/*
	 * A connection holds so much without being counted: the number of connections is bounded.
	 */
	FREE_BYTES = 4096,
	AF_CONTAINER = AF_MAX /* of our own: no socket has it */
};

/* ---- clients ---- */

struct client {
	struct list link;
	struct share_client key;
	size_t references; /* connections, and responses that it pays for */
	size_t connections;
	size_t watchers;
	size_t searches;
	size_t bytes;
	struct connection *receiver; /* the last one by which a descriptor went to it; or NULL */
	bool refused;                /* and the log says so */
	struct log_rate lines;       /* of the log */
};

/* Clients without connections that are kept until their lines in the log are forgotten. */
enum { IDLE_CLIENTS = 256 };

/* A container is one client, whoever of it connects. */
static struct share_client container_of(const struct listener *listener)
{
	struct share_client key = { .family = AF_CONTAINER };
	_Static_assert(sizeof(listener->container) <= sizeof(key.bytes), "a container fits");
	memcpy(key.bytes, &listener->container, sizeof(listener->container));
	return key;
}

static void forget(struct client *client)
{
	list_remove(&client->link);
	free(client);
}

/* Forgets others that need not be known any more. */
static struct client *find(struct http *http, const struct share_client *key)
{
	struct client *found = NULL;
	struct list *next;
	size_t idle = 0;
	for (struct list *at = http->clients.prev; at != &http->clients; at = next) {
		struct client *client = LIST_ITEM(at, struct client, link);
		next = at->prev;
		if (share_client_same(&client->key, key)) {
			found = client;
		} else if (client->references == 0 &&
			(log_rate_is_new(&client->lines) || ++idle > IDLE_CLIENTS)) {
			forget(client);
		}
	}
	return found;
}

struct client *http_client_get(const struct listener *listener, int fd)
{
	struct http *http = listener->http;
	struct share_client key = listener->container ? container_of(listener)
						      : share_client_of(fd);
	struct client *client = find(http, &key);
	if (!client) {
		client = allocate_zeroed(1, sizeof(*client));
		client->key = key;
		client->lines.all = &http->lines;
		list_append(&http->clients, &client->link);
	}
	client->references++;
	return client;
}

void http_client_release(struct client *client)
{
	client->references--;
}

void http_clients_finish(struct http *http)
{
	while (!list_empty(&http->clients)) {
		forget(LIST_ITEM(http->clients.next, struct client, link));
	}
}

struct log_rate *http_log_rate(const struct http_request *request)
{
	return &http_connection_of(request)->client->lines;
}

struct log_rate *http_client_log_rate(struct client *client)
{
	return &client->lines;
}

/* ---- connections and watchers ---- */

bool http_client_may_connect(struct client *client, const struct listener *listener)
{
	/* This one is counted already. */
	return share_allows(client->connections - 1, listener->pool->connections - 1,
		listener->pool->max_connections);
}

void http_client_count(struct client *client, int connections)
{
	client->connections += (size_t)connections;
}

bool http_client_note_refusal(struct client *client, bool refused)
{
	bool first = refused && !client->refused;
	client->refused = refused;
	return first;
}

bool http_watch(struct http_request *request, size_t total, size_t limit)
{
	struct connection *connection = http_connection_of(request);
	if (!share_allows(connection->client->watchers, total, limit)) {
		return false;
	}
	connection->watches = true;
	connection->client->watchers++;
	return true;
}

void http_end_watch(struct connection *connection)
{
	if (connection->watches) {
		connection->client->watchers--;
		connection->watches = false;
	}
}

bool http_search(struct http_request *request, size_t total, size_t limit)
{
	struct connection *connection = http_connection_of(request);
	if (!share_allows(connection->client->searches, total, limit)) {
		return false;
	}
	connection->client->searches += !connection->searches;
	connection->searches = true;
	return true;
}

void http_end_search(const struct http_request *request)
{
	struct connection *connection = http_connection_of(request);
	connection->client->searches -= connection->searches;
	connection->searches = false;
}

/* ---- descriptors ---- */

/* The kernel counts the descriptors that clients have not read as the agent's. */
static bool is_unread(const struct connection *connection)
{
	int left = 0;
	return connection->handing || (ioctl(connection->io.fd, SIOCOUTQ, &left) == 0 && left > 0);
}

bool http_may_hand_over(const struct http_request *request)
{
	const struct connection *connection = http_connection_of(request);
	const struct connection *receiver = connection->client->receiver;
	/* Once the connection has ended, nobody could tell whether the client reads. */
	return request->local && !connection->half_closed && !(receiver && is_unread(receiver));
}

void http_hand_over_begin(struct connection *connection, struct http_response *response)
{
	response->references++;
	connection->handing = response;
	connection->client->receiver = connection;
}

void http_hand_over_end(struct connection *connection)
{
	http_response_free(connection->handing);
	connection->handing = NULL;
}

void http_hand_over_forget(struct connection *connection)
{
	http_hand_over_end(connection);
	if (connection->client->receiver == connection) {
		connection->client->receiver = NULL;
	}
}

/* ---- bytes ---- */

static bool has_room(const struct client *client, const struct http *http)
{
	return share_allows(client->bytes, http->held, HTTP_HELD_BYTES);
}

bool http_has_room(const struct http_request *request)
{
	const struct connection *connection = http_connection_of(request);
	return has_room(connection->client, connection->http);
}

static size_t count_held(const struct connection *connection)
{
	size_t own = connection->input.size + connection->body.size + connection->out.size +
		connection->reader.text.size;
	return connection->stream_bytes + (own > FREE_BYTES ? own - FREE_BYTES : 0);
}

bool http_account(struct connection *connection)
{
	size_t held = count_held(connection);
	size_t before = connection->held;
	if (held == before) {
		return true;
	}
	connection->held = held;
	connection->http->held += held - before;
	connection->client->bytes += held - before;
	return held < before || has_room(connection->client, connection->http);
}

void http_hold(struct http_request *request, size_t bytes)
{
	struct connection *connection = http_connection_of(request);
	connection->stream_bytes = bytes;
	(void)http_account(connection);
}

/*
 * A response that several connections have to write is held once, and the first of their clients
 * pays for it.
 */
bool http_response_hold(struct connection *connection, struct http_response *response)
{
	if (!response->payer && !has_room(connection->client, connection->http)) {
		return false;
	}
	response->references++;
	if (response->writers++ == 0) {
		response->payer = connection->client;
		response->payer->references++;
		response->payer->bytes += response->len;
		connection->http->held += response->len;
	}
	connection->response = response;
	return true;
}

void http_response_drop(struct connection *connection)
{
	struct http_response *response = connection->response;
	if (!response) {
		return;
	}
	connection->response = NULL;
	if (--response->writers == 0) {
		response->payer->bytes -= response->len;
		connection->http->held -= response->len;
		http_client_release(response->payer);
		response->payer = NULL;
	}
	http_response_free(response);
}
