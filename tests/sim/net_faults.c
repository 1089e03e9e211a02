#include "tests/sim/net_internal.h"

/* ---- sessions ---- */

void net_expire_sessions(struct net *net)
{
	for (size_t i = 0; i < net->expiry_count; i++) {
		struct expiry *expiry = &net->expiries[i];
		if (expiry->at_ms <= sim_now_ms()) {
			uint64_t session = expiry->session;
			*expiry = net->expiries[--net->expiry_count];
			i--;
			sim_trace("session %llu expires", (unsigned long long)session);
			world_session_end(net->world, session);
		}
	}
}

void net_forget_expiry(struct net *net, uint64_t session)
{
	for (size_t i = 0; i < net->expiry_count; i++) {
		if (net->expiries[i].session == session) {
			net->expiries[i] = net->expiries[--net->expiry_count];
			return;
		}
	}
}

void net_expire_later(struct net *net, uint64_t session)
{
	if (session && world_session_lives(net->world, session) &&
		net->expiry_count < NET_MOST_EXPIRIES) {
		net_forget_expiry(net, session);
		net->expiries[net->expiry_count++] = (struct expiry){ session,
			sim_now_ms() + NET_SESSION_TIMEOUT_MS +
				(int64_t)sim_below(&net->random, NET_SESSION_TIMEOUT_MS / 10) };
	}
}

/* ---- connections ---- */

/* Requests under way never arrive. */
static void lose_requests(struct end *end)
{
	struct net *net = end->net;
	for (struct list *at = net->requests.next, *next; at != &net->requests; at = next) {
		struct request *request = LIST_ITEM(at, struct request, link);
		next = at->next;
		if (request->end == end) {
			wire_free_request(request);
		}
	}
}

static void break_off(struct end *end, int64_t for_ms, enum net_cut cut, int64_t notice_in_ms)
{
	struct net *net = end->net;
	way_of(end)->cut_until_ms = sim_now_ms() + for_ms;
	way_of(end)->disturbed_ms = sim_now_ms();
	end->broken = true;
	end->cut = cut;
	end->notice_ms = sim_now_ms() + notice_in_ms;
	if (cut != NET_CUT_REQUESTS) {
		wire_clear_inbox(end);
		world_unwatch_all(net->world, &end->client);
	}
	if (cut != NET_CUT_REPLIES) {
		lose_requests(end);
	}
	net_expire_later(net, end->client.session);
}

static struct end *whole_end(const struct net *net, int agent)
{
	struct end *end = net->ends[agent];
	return end && end->connected && !end->broken && !end->ended ? end : NULL;
}

void net_cut(struct net *net, int agent, int64_t for_ms, enum net_cut cut)
{
	static const char *const words[] = { "", ", replies only", ", requests only" };
	struct end *end = whole_end(net, agent);
	if (end) {
		int64_t notice_ms = (int64_t)sim_below(
			&net->random, NET_SESSION_TIMEOUT_MS * 2 / 3);
		sim_trace(
			"agent %d is cut off for %lld ms%s", agent, (long long)for_ms, words[cut]);
		break_off(end, for_ms, cut, earlier_of(notice_ms, for_ms));
	} else if (!net->ends[agent]) {
		sim_trace("agent %d will reach nothing for %lld ms", agent, (long long)for_ms);
		net->ways[agent].cut_until_ms = sim_now_ms() + for_ms;
	}
}

void net_drop(struct net *net, int agent)
{
	struct end *end = whole_end(net, agent);
	if (end) {
		sim_trace("the worker of agent %d dies", agent);
		break_off(end, 0, NET_CUT_BOTH, 0);
		end->notice_ms = INT64_MAX;
		end->ended = true;
	}
}

void net_stall(struct net *net, int agent, int64_t for_ms)
{
	struct end *end = whole_end(net, agent);
	if (end) {
		sim_trace("agent %d hears nothing for %lld ms", agent, (long long)for_ms);
		end->last_delivery_ms = later_of(end->last_delivery_ms, sim_now_ms() + for_ms);
	}
}

void net_break_after_change(struct net *net, int agent)
{
	if (net->ends[agent]) {
		net->ends[agent]->breaks = true;
	}
}

void net_expire(struct net *net, int agent)
{
	struct end *end = net->ends[agent];
	if (end && end->client.session) {
		uint64_t session = end->client.session;
		net_cut(net, agent, 1, NET_CUT_BOTH);
		net_forget_expiry(net, session);
		sim_trace("session %llu is ended by the registry", (unsigned long long)session);
		world_session_end(net->world, session);
	}
}

void net_fail_allocation(struct net *net, int agent, unsigned in)
{
	net->ways[agent].fail_in = in;
}

void net_spare_allocations(struct net *net, bool spare)
{
	net->spares_allocations = spare;
}

/* ---- the server ---- */

void net_slow(struct net *net, int64_t for_ms, int64_t most_ms)
{
	net->slow_until_ms = sim_now_ms() + for_ms;
	net->slow_most_ms = most_ms;
}

void net_reorder(struct net *net, int64_t for_ms)
{
	net->reorder_until_ms = sim_now_ms() + for_ms;
}

void net_exceed_quota(struct net *net, int64_t for_ms)
{
	net->quota_until_ms = sim_now_ms() + for_ms;
}

void net_refuse(struct net *net, int agent, int64_t for_ms)
{
	net->ways[agent].refuse_until_ms = sim_now_ms() + for_ms;
}
