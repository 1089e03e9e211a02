/* The worker's process as the agent's backend sees it: the played one. */
#include "tests/sim/net_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/registry/zookeeper/worker_process.h"
#include "tests/sim/process.h"

static struct end *own_end(void)
{
	return net_in_use->ends[process_number(process_current())];
}

void zk_worker_process_init(struct zk_worker_process *worker)
{
	*worker = (struct zk_worker_process){ .pidfd = -1, .fd = -1, .log_fd = -1 };
	buffer_init(&worker->in, ZK_FRAME_MAX_BYTES);
	buffer_init(&worker->out, ZK_FRAME_MAX_BYTES);
}

int zk_worker_process_start(
	struct zk_worker_process *worker, const struct zk_hello *hello, struct err *err)
{
	(void)err;
	struct process *process = process_pause();
	struct end *end = net_begin_end(process_number(process), hello->session_id);
	end->needs_words = hello->ends_in_silence;
	/* From now on the agent's patience is for the server. */
	wire_report(end, ZK_SESSION_CONNECTING);
	process_resume(process);
	worker->fd = files_own(end->fd);
	worker->pid = 1;
	return 0;
}

int zk_worker_process_send(struct zk_worker_process *worker, const struct zk_request *request)
{
	if (worker->fd < 0) {
		return -1;
	}
	int rc = zk_request_encode(&worker->out, request);
	worker->out.failed = false;
	return rc;
}

void zk_worker_process_say_alive(struct zk_worker_process *worker)
{
	(void)zk_alive_encode(&worker->out);
	worker->out.failed = false;
}

bool zk_worker_process_flush(struct zk_worker_process *worker)
{
	struct end *end = worker->fd >= 0 ? own_end() : NULL;
	struct zk_frame frame;
	long len;
	size_t used = 0;
	struct process *process = process_pause();
	while (end &&
		(len = zk_frame_next(&frame, worker->out.data + used, worker->out.len - used)) >
			0) {
		struct zk_request request;
		if (frame.type == ZK_FRAME_REQUEST) {
			if (zk_request_decode(&request, &frame) < 0) {
				sim_fail("agent %d sends a request that cannot be read",
					end->client.agent);
			}
			wire_submit(end, &request);
		}
		end->said_ms = sim_now_ms();
		used += (size_t)len;
	}
	process_resume(process);
	buffer_consume(&worker->out, used);
	return true;
}

/* The reader of this answer has no memory for it. */
static void fail_allocation(struct end *end)
{
	struct way *way = way_of(end);
	if (way->fail_in > 0 && !end->net->spares_allocations) {
		struct memory *memory = process_memory(process_current());
		memory->fail_in = way->fail_in;
		memory->fail_until_ms = sim_now_ms();
		way->disturbed_ms = sim_now_ms();
		way->fail_in = 0;
	}
}

static void stop_ringing(struct end *end)
{
	uint64_t count;
	if (end->rings && !end->ended) {
		end->rings = false;
		(void)!syscall(SYS_read, end->fd, &count, sizeof(count));
	}
}

int zk_worker_process_receive(struct zk_worker_process *worker)
{
	struct end *end = own_end();
	while (!list_empty(&end->inbox)) {
		struct delivery *delivery = LIST_ITEM(end->inbox.next, struct delivery, link);
		if (delivery->due_ms > sim_now_ms()) {
			break;
		}
		char *place = buffer_reserve(&worker->in, delivery->frame.len);
		if (!place) {
			worker->in.failed = false;
			return 0;
		}
		memcpy(place, delivery->frame.data, delivery->frame.len);
		buffer_added(&worker->in, delivery->frame.len);
		end->requests -= delivery->is_reply;
		bool is_data = delivery->is_data;
		struct process *process = process_pause();
		wire_free_delivery(delivery);
		process_resume(process);
		if (is_data) {
			fail_allocation(end);
		}
	}
	stop_ringing(end);
	return end->ended ? -1 : 0;
}

static void forget(struct zk_worker_process *worker)
{
	buffer_finish(&worker->in);
	buffer_finish(&worker->out);
	worker->pid = 0;
	worker->fd = -1;
}

void zk_worker_process_end(struct zk_worker_process *worker)
{
	if (worker->pid == 0) {
		return;
	}
	struct end *end = own_end();
	struct process *process = process_pause();
	net_finish_end(end, sim_chance(&net_in_use->random, 50));
	process_resume(process);
	forget(worker);
}

bool zk_worker_process_close(struct zk_worker_process *worker, int timeout_ms)
{
	struct end *end = own_end();
	bool reached = end->connected && !end->broken && !end->ended;
	if (reached) {
		/* All that was sent before arrives before. */
		uint64_t session = end->client.session;
		struct net *net = end->net;
		struct process *process = process_pause();
		net_finish_end(end, true);
		net_forget_expiry(net, session);
		world_session_end(net->world, session);
		process_resume(process);
		forget(worker);
		return true;
	}
	int64_t until_ms = sim_now_ms() + timeout_ms;
	while (!end->ended && sim_now_ms() < until_ms) {
		process_sleep_until(until_ms);
	}
	zk_worker_process_end(worker);
	return false;
}

size_t zk_worker_process_read_log(struct zk_worker_process *worker, char *out, size_t size)
{
	(void)worker;
	(void)out;
	(void)size;
	return 0; /* it writes nothing past its frames */
}

bool zk_worker_process_wait(struct zk_worker_process *worker, int timeout_ms)
{
	int64_t until_ms = sim_now_ms() + timeout_ms;
	const struct end *end = own_end();
	while (net_agent_due_ms(end->net, end->client.agent) > sim_now_ms()) {
		if (sim_now_ms() >= until_ms) {
			return false;
		}
		process_sleep_until(until_ms);
	}
	return timeout_ms > 0 && zk_worker_process_receive(worker) == 0;
}
