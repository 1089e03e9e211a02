/*
 * The service that an endpoint offers, as the labels of names ask for it: _http._tcp.NAME. Pure.
 */
#ifndef LIB_RECORD_SERVICE_H
#define LIB_RECORD_SERVICE_H

#include <stdbool.h>

#include "lib/record/record.h"

/*
 * Compares as labels: letters in lower case, everything but letters and digits as a hyphen. False
 * for an empty text.
 */
bool record_text_is_label(const char *text, const char *label);

/*
 * True when the endpoint's protocol is the label `service`, or the last part of its api is: `rest`
 * of http://example.org/apis/rest, `admin` of urn:admin. Looks at nothing but these two members.
 */
bool record_endpoint_offers(const struct record_endpoint *endpoint, const char *service);

#endif
