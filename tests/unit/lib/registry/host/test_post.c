/* The host: backend: its questions, and the connection that they take. */

#include "tests/unit/lib/registry/host/host_stage.h"

Test(registry_host_post, a_question_has_ten_seconds)
{
	struct answer answer = { 0 };
	begin();
	registry_get(stage.registry, "/a", answer_take, &answer);
	int64_t before_ms = clock_monotonic_ms();
	read_question();
	int64_t after_ms = clock_monotonic_ms();
	registry_dispatch(stage.registry, before_ms + 9999);
	cr_expect_eq(stage.state, REGISTRY_CONNECTED);
	registry_dispatch(stage.registry, after_ms + 10000);
	registry_dispatch(stage.registry, after_ms + 10000);
	cr_expect_eq(stage.state, REGISTRY_AWAY);
	answer_clear(&answer);
	close_stage();
}

static void hang_up(void)
{
	close(stage.post);
	stage.post = -1;
	dispatch();
}

Test(registry_host_post, a_connection_that_ends_between_questions_is_made_again)
{
	struct answer answer = { 0 };
	begin();
	hang_up();
	registry_get(stage.registry, "/a", answer_take, &answer);
	read_question();
	answer_question("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
	hang_up();
	registry_get(stage.registry, "/b", answer_take, &answer);
	take_question();
	cr_expect(asks("\"path\":\"/b\""), "%s", stage.asked);
	cr_expect_eq(stage.state, REGISTRY_CONNECTED);
	send_text(stage.post, "HTTP/1.1 204 No Content\r\n\r\n");
	dispatch();
	dispatch();
	cr_expect_eq(stage.state, REGISTRY_AWAY, "nobody asked");
	answer_clear(&answer);
	close_stage();
}

Test(registry_host_post, more_reads_than_a_question_holds_are_in_the_next_one)
{
	enum { READS = 800 };
	struct answer answer = { 0 };
	char path[160];
	size_t asked = 0;
	begin();
	for (int i = 0; i < READS; i++) {
		snprintf(path, sizeof(path), "/%050d", i);
		registry_get(stage.registry, path, answer_take, &answer);
	}
	for (int questions = 0; asked < READS; questions++) {
		cr_assert_lt(questions, 20);
		take_question();
		const char *body = strstr(stage.asked, "\r\n\r\n") + 4;
		cr_assert_leq(strlen(body), 60 * 1024);
		json_t *json = json_loads(body, 0, NULL);
		cr_assert_not_null(json);
		asked += json_array_size(json_object_get(json, "reads"));
		cr_assert(asked > 100);
		cr_assert(questions > 0 || asked < READS);
		json_decref(json);
	}
	cr_expect_eq(asked, READS);
	answer_clear(&answer);
	close_stage();
}

/* ---- calls that fail ---- */

enum { LESS = 0 }; /* the call does a part of its work */
