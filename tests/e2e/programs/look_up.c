/*
 * Looks up by one handle: a command is a line on stdin, and its answer a line on stdout.
 *
 *   resolve N PATH    N times; the last answer: "0 stale=0 age=0 JSON", or "CODE message"
 *   lookup N PATH     the same of one berth_lookup, by the address of its first endpoint
 *   name N NAME       all that DNS says
 *   exists N PATH     1, 0 or a code
 *   pick N WHAT       one of those who serve it, near self: how often each was picked
 *   next N WHAT       other members of what was picked from, within N seconds: "0 HOST:PORT …"
 *   shared on|off
 *
 * Around the calls it writes "begin" and "end" to stderr, for a tracer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <berth.h>

static void mark(const char *word, long count)
{
	char text[64];
	int len = snprintf(text, sizeof(text), "%s %ld\n", word, count);
	if (write(2, text, (size_t)len) != len) {
		exit(1);
	}
}

static void print_answer(int code, const struct berth_answer *answer, struct berth_freshness fresh,
	const struct berth_failure *failure)
{
	if (code) {
		printf("%d stale=%d %s\n", code, fresh.stale, failure->message);
	} else {
		printf("0 stale=%d age=%ld %s %s\n", answer->freshness.stale,
			answer->freshness.age_s, answer->tag, answer->json);
	}
}

static void look_up(struct berth *berth, const char *word, long count, const char *what)
{
	struct berth_failure failure = { .code = 0 };
	struct berth_answer answer = { .json = NULL };
	int code = 0;
	mark("begin", count);
	for (long i = 0; i < count; i++) {
		berth_answer_finish(&answer);
		code = strcmp(word, "name") == 0 ? berth_name(berth, what, NULL, &answer, &failure)
						 : berth_resolve(berth, what, &answer, &failure);
	}
	mark("end", count);
	print_answer(code, &answer, berth_last_freshness(berth), &failure);
	berth_answer_finish(&answer);
}

static struct berth_lookup *kept;

static void keep(struct berth *berth, long count, const char *path)
{
	const struct berth_endpoints *found = NULL;
	struct berth_failure failure;
	int code = kept ? 0 : berth_lookup_create(&kept, berth, path, NULL, &failure);
	mark("begin", count);
	for (long i = 0; code == 0 && i < count; i++) {
		code = berth_lookup_get(kept, &found, &failure);
	}
	mark("end", count);
	printf("%d stale=%d age=%ld %s\n", code, found && found->freshness.stale,
		found ? found->freshness.age_s : 0,
		found && found->count ? found->items[0].address : "none");
}

enum { PICKS = 64 };

static struct berth_set *set;

static int open_set(struct berth *berth, const char *what, struct berth_failure *failure)
{
	const struct berth_set_options options = { .near = "self" };
	return set ? 0 : berth_set_open(&set, berth, what, &options, failure);
}

static void pick(struct berth *berth, long count, const char *what)
{
	unsigned ports[PICKS];
	long picks[PICKS] = { 0 };
	size_t known = 0;
	struct berth_failure failure;
	const struct berth_member *member = NULL;
	int code = open_set(berth, what, &failure);
	mark("begin", count);
	for (long i = 0; code == 0 && i < count; i++) {
		size_t at = 0;
		code = berth_pick(set, &member, &failure);
		while (code == 0 && at < known && ports[at] != member->port) {
			at++;
		}
		if (code == 0 && at < PICKS) {
			ports[at] = member->port;
			picks[at]++;
			known += at == known;
		}
	}
	mark("end", count);
	printf("%d", code);
	for (size_t i = 0; i < known; i++) {
		printf(" %u=%ld", ports[i], picks[i]);
	}
	printf("%s%s\n", code ? " " : "", code ? failure.message : "");
}

static void next(struct berth *berth, long seconds, const char *what)
{
	struct berth_failure failure;
	const struct berth_members *members = NULL;
	int code = open_set(berth, what, &failure);
	code = code ? code : berth_set_next(set, (unsigned)seconds, &members, &failure);
	printf("%d", code);
	for (size_t i = 0; code == 0 && i < members->count; i++) {
		printf(" %s:%u", members->items[i].host, members->items[i].port);
	}
	printf("%s%s\n", code ? " " : "", code ? failure.message : "");
}

static void exists(struct berth *berth, long count, const char *path)
{
	int there = 0;
	mark("begin", count);
	for (long i = 0; i < count; i++) {
		there = berth_exists(berth, path, NULL);
	}
	mark("end", count);
	printf("%d\n", there);
}

int main(int argc, char **argv)
{
	struct berth *berth;
	struct berth_options options = { .timeout_ms = 60000 };
	char line[1024];
	if (argc != 2 || berth_open(&berth, argv[1], &options, NULL) != 0) {
		return 1;
	}
	while (fgets(line, sizeof(line), stdin)) {
		char word[16];
		char what[512];
		long count;
		if (sscanf(line, "shared %15s", word) == 1) {
			berth_set_shared(berth, strcmp(word, "on") == 0);
			puts("0");
		} else if (sscanf(line, "%15s %ld %511s", word, &count, what) != 3) {
			puts("what?");
		} else if (strcmp(word, "lookup") == 0) {
			keep(berth, count, what);
		} else if (strcmp(word, "exists") == 0) {
			exists(berth, count, what);
		} else if (strcmp(word, "pick") == 0) {
			pick(berth, count, what);
		} else if (strcmp(word, "next") == 0) {
			next(berth, count, what);
		} else {
			look_up(berth, word, count, what);
		}
		fflush(stdout);
	}
	berth_lookup_free(kept);
	berth_set_close(set);
	berth_close(berth);
	return 0;
}
