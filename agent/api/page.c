/* The page for people. */
#include "agent/api/internal.h"

/*
 * GET / for browsers: one page that shows what GET /v1/agent/watch streams. The build makes
 * page.inc of page.html, one string a line.
 */

static const char page[] =
#include "agent/api/page.inc"
	;

/*
 * The page may run its own script and use its own style, and talk to this agent: nothing else. The
 * hashes are those of the text between the tags of page.html; tests/lint/page knows them.
 */
#define SCRIPT "'sha256-DKpQjjbAI+m4anum64fDIPrlgfCA7NhBs95sUgWzj0A='"
#define STYLE "'sha256-uaKLJ6eMk+Y4ym6QeylbiPy9EXgsq+dVQmgmIPBKEW8='"
#define POLICY                                                                                     \
	"default-src 'none'; script-src " SCRIPT "; style-src " STYLE                              \
	"; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "               \
	"frame-ancestors 'none'"

void api_page(struct http_request *request)
{
	struct http_response *response = http_response_create_borrowed(
		"text/html; charset=utf-8", page, sizeof(page) - 1, NULL, NULL);
	http_response_header(response, "Content-Security-Policy", POLICY);
	http_response_header(response, "X-Content-Type-Options", "nosniff");
	http_response_header(response, "Referrer-Policy", "no-referrer");
	http_response_header(response, "Cache-Control", "no-cache");
	http_response_header(response, "Vary", "Accept");
	http_answer(request, 200, response);
	http_response_free(response);
}
