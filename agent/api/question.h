/* A question for a set, as GET /v1/set and the questions of a stream have it. */
#ifndef AGENT_API_QUESTION_H
#define AGENT_API_QUESTION_H

#include "agent/api/internal.h"

enum { API_SET_FURTHER_MOST = 16, API_SET_FURTHER_BYTES = 4096 };

/* A key and its texts. */
struct api_set_question {
	struct set_key key;
	struct api_filter_room filter;
	char further_text[API_SET_FURTHER_BYTES];
	char *further[API_SET_FURTHER_MOST];
};

/*
 * Reads the text behind /v1/set/ (a path without its first slash, which lies before the text, or a
 * name), and the parameters of the request. The key borrows from both, and from *ret_question.
 * False, and err filled: FAILED for a parameter, else that of the path.
 */
bool api_read_set_question(const struct api *api, const struct http_request *request,
	const char *rest, struct api_set_question *ret_question, struct err *err) ERR_REQUIRED(5);

#endif
