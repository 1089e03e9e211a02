/* The end of a transfer in one sentence, which says what to do about it. */
#ifndef PROBE_REASON_H
#define PROBE_REASON_H

#include <curl/curl.h>
#include <stdbool.h>

enum { REASON_BYTES = 256 };

struct reason_of {
	CURL *curl;
	CURLcode code;
	const char *error; /* libcurl's own words */
	const char *name;  /* that the certificate must have */
	bool tls;
	bool grpc;
	bool has_certificate; /* of ours */
	long timeout_ms;
};

void reason_write(const struct reason_of *of, char out[REASON_BYTES]);

#endif
