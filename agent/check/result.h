/* The result of one run of a check. Log, API and metrics keep the kinds apart. */
#ifndef AGENT_CHECK_RESULT_H
#define AGENT_CHECK_RESULT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define CHECK_OUTPUT_BYTES 4096

enum check_verdict {
	CHECK_PASSING,
	CHECK_WARNING, /* counts as passing */
	CHECK_FAILING,
	CHECK_TIMED_OUT, /* counts as failing, as does */
	CHECK_COULD_NOT_RUN
};
#define CHECK_VERDICT_COUNT 5

struct check_result {
	enum check_verdict verdict;
	/* why: "exit status 2", "killed by signal 9", "status 503", "no answer within 5s" */
	char detail[256];
	char output[CHECK_OUTPUT_BYTES +
		1]; /* the first bytes of the output, valid UTF-8; a NUL ends it */
	bool output_cut;
	double started; /* wall clock, seconds since 1970 */
	double duration_s;
};

/* The owner of one run of a check hears of its end. */
struct check_run_callbacks {
	/* Once; the result is complete. */
	void (*on_result)(void *context, const struct check_result *result);
	/*
	 * Once, after on_result, when nothing of the run is left; its handle is freed by then.
	 */
	void (*on_gone)(void *context);
	void *context;
};

/* "passing" "warning" "failing" "timed-out" "could-not-run" */
const char *check_verdict_name(enum check_verdict verdict);
/* -1 for an unknown name. */
int check_verdict_from_name(const char *name);
/* Passing or warning. */
bool check_verdict_good(enum check_verdict verdict);

/* Fills `detail`; long text is cut. */
void check_result_set_detail(struct check_result *result, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/*
 * Fills `output`; every byte of invalid UTF-8, and NUL, becomes '?'. `cut`: there was more output.
 */
void check_result_set_output(struct check_result *result, const char *data, size_t len, bool cut);

/*
 * The last line of the output that is not blank, without blanks around it; "" when there is none.
 */
void check_result_last_line(const struct check_result *result, char *out, size_t size);

/* {"verdict","detail","output","output_cut","started","duration"}; new reference. */
json_t *check_result_json(const struct check_result *result);
/* The inverse; false when the shape is wrong. */
bool check_result_from_json(struct check_result *result, const json_t *json);

#endif
