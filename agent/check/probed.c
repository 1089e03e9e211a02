#include "agent/check/probed.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/base/timer.h"
#include "agent/check/http.h"
#include "agent/check/resolve.h"
#include "lib/base/array.h"
#include "lib/base/buffer.h"

enum { ADDRESSES_BYTES = CHECK_ADDRESSES_MAX * (INET6_ADDRSTRLEN + 24) };

struct check_probed {
	struct ev_loop *loop;
	const struct config_check *config;
	struct check_prober *prober;
	struct check_question *question;
	struct check_resolve resolve;
	struct check_addresses addresses;
	struct timer deadline; /* of the look-up; the rest of the time is the probe's */
	struct buffer fields;
	void (*on_result)(void *context, const struct check_result *result);
	void *context;
};

void check_probed_abandon(struct check_probed *probed)
{
	check_resolve_stop(&probed->resolve);
	timer_stop(&probed->deadline);
	check_prober_abandon(probed->question);
	buffer_finish(&probed->fields);
	free(probed);
}

static void finish(struct check_probed *probed, const struct check_result *result)
{
	void (*on_result)(void *, const struct check_result *) = probed->on_result;
	void *context = probed->context;
	check_probed_abandon(probed);
	on_result(context, result);
}

/* ---- the answer ---- */

static void judge_http(const struct config_check *config, const struct check_prober_answer *answer,
	struct check_result *result)
{
	int status = answer->status;
	bool wants_more = *config->match || config->expect_header_count > 0;
	if (!check_http_judge_status(config, status, result) || !wants_more) {
		return;
	}
	if (*answer->reason) {
		result->verdict = CHECK_FAILING;
		check_result_set_detail(result, "status %d, but: %s", status, answer->reason);
		return;
	}
	if (check_http_judge_head(config, status, answer->fields, answer->fields_len, result) &&
		*config->match) {
		check_http_judge_body(config, status, answer->body, answer->body_len, result);
	}
}

static void on_answer(void *context, const struct check_prober_answer *answer)
{
	static const enum check_verdict verdicts[] = {
		[PROBE_STATUS] = CHECK_FAILING,
		[PROBE_PASSING] = CHECK_PASSING,
		[PROBE_FAILING] = CHECK_FAILING,
		[PROBE_TIMED_OUT] = CHECK_TIMED_OUT,
		[PROBE_COULD_NOT] = CHECK_COULD_NOT_RUN,
	};
	struct check_probed *probed = context;
	struct check_result result = { .verdict = CHECK_FAILING };
	bool known = (size_t)answer->outcome < ARRAY_LEN(verdicts);
	probed->question = NULL;
	if (answer->outcome == PROBE_STATUS) {
		judge_http(probed->config, answer, &result);
	} else {
		result.verdict = known ? verdicts[answer->outcome] : CHECK_COULD_NOT_RUN;
		check_result_set_detail(&result, "%s", answer->reason);
	}
	finish(probed, &result);
}

/* ---- the question ---- */

static bool put_address(char *out, size_t size, size_t *len, const struct check_address *address)
{
	char text[INET6_ADDRSTRLEN];
	const void *bytes = address->address.ss_family == AF_INET6
		? (const void *)&((const struct sockaddr_in6 *)&address->address)->sin6_addr
		: (const void *)&((const struct sockaddr_in *)&address->address)->sin_addr;
	bool ipv6 = address->address.ss_family == AF_INET6;
	if (!inet_ntop(address->address.ss_family, bytes, text, sizeof(text))) {
		return false;
	}
	snprintf(out + *len, size - *len, "%s%s%s%s", *len > 0 ? "," : "", ipv6 ? "[" : "", text,
		ipv6 ? "]" : "");
	*len += strlen(out + *len);
	return true;
}

static unsigned flags_of(const struct config_check *config)
{
	bool http = config->type == CONFIG_CHECK_HTTP;
	return (http ? 0U : PROBE_GRPC) | (config->tls ? PROBE_TLS : 0U) |
		(config->tls_verify ? PROBE_VERIFY : 0U) |
		(http && config->expect_header_count > 0 ? PROBE_WANTS_FIELDS : 0U) |
		(http && *config->match ? PROBE_WANTS_BODY : 0U);
}

static void ask(struct check_probed *probed)
{
	const struct config_check *config = probed->config;
	char addresses[ADDRESSES_BYTES] = "";
	size_t len = 0;
	for (int i = 0; i < probed->addresses.count; i++) {
		put_address(addresses, sizeof(addresses), &len, &probed->addresses.items[i]);
	}
	const struct check_prober_ask question = { .flags = flags_of(config),
		.authorities = config->tls && config->tls_verify ? config->tls_ca_pem : NULL,
		.certificate = config->tls_cert_pem,
		.key = config->tls_key_pem,
		.port = config->target_port,
		.addresses = addresses,
		.name = *config->tls_server_name ? config->tls_server_name : config->target_host,
		.method = config->method,
		.path = config->target_path,
		.fields = buffer_text(&probed->fields),
		.body = config->type == CONFIG_CHECK_HTTP ? config->body : config->service,
		.timeout_ms = timer_left_ms(&probed->deadline) };
	timer_stop(&probed->deadline);
	probed->question = check_prober_start(probed->prober, &question, on_answer, probed);
}

static void on_resolved(void *context)
{
	struct check_probed *probed = context;
	if (probed->addresses.count == 0) {
		struct check_result result = { .verdict = CHECK_FAILING };
		check_result_set_detail(&result, "cannot find the address of the target: %s",
			probed->addresses.problem);
		finish(probed, &result);
		return;
	}
	ask(probed);
}

static void on_deadline(void *context)
{
	struct check_probed *probed = context;
	struct check_result result = { .verdict = CHECK_TIMED_OUT };
	if (*probed->addresses.problem) {
		on_resolved(probed);
		return;
	}
	check_result_set_detail(
		&result, "no address within %.9gs", (double)probed->config->timeout_ms / 1000);
	finish(probed, &result);
}

struct check_probed *check_probed_start(struct ev_loop *loop, const struct config_check *config,
	struct check_prober *prober,
	void (*on_result)(void *context, const struct check_result *result), void *context)
{
	struct check_probed *probed = allocate_zeroed(1, sizeof(*probed));
	probed->loop = loop;
	probed->config = config;
	probed->prober = prober;
	probed->on_result = on_result;
	probed->context = context;
	buffer_init(&probed->fields, CHECK_HTTP_REQUEST_BYTES);
	check_http_append_fields(config, &probed->fields);
	check_resolve_init(&probed->resolve, loop);
	timer_init(&probed->deadline, loop, "check's look-up", on_deadline, probed);
	if (probed->fields.failed) {
		check_probed_abandon(probed);
		return NULL;
	}
	timer_start(&probed->deadline, config->timeout_ms);
	if (check_resolve_start(&probed->resolve, config->target_host, config->target_port,
		    &probed->addresses, on_resolved, probed)) {
		if (probed->addresses.count > 0) {
			ask(probed);
		} else {
			/* Not from here: the caller does not have us yet. */
			timer_start(&probed->deadline, 0);
		}
	}
	return probed;
}
