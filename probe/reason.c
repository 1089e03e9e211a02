#include "probe/reason.h"

#include <string.h>

#include "lib/base/array.h"
#include "lib/base/text.h"

/* Of OpenSSL's x509_vfy.h, which libcurl hands on; they are part of its interface. */
enum {
	VERIFY_NOT_YET_VALID = 9,
	VERIFY_EXPIRED = 10,
	VERIFY_SELF_SIGNED = 18,
	VERIFY_SELF_SIGNED_IN_CHAIN = 19,
	VERIFY_NO_ISSUER_LOCALLY = 20,
	VERIFY_NO_ISSUER = 21,
	VERIFY_PURPOSE = 26,
	VERIFY_WEAK_KEY = 66,
	VERIFY_WEAK_DIGEST = 68,
	VERIFY_NAME = 62,
	VERIFY_ADDRESS = 64
};

static void say_name(const struct reason_of *of, char *out)
{
	text_printf(out, REASON_BYTES,
		"the server's certificate is not for %s: set tls_server_name to a name that it has",
		of->name);
}

static void say_verify(const struct reason_of *of, char *out)
{
	long result = 0;
	curl_easy_getinfo(of->curl, CURLINFO_SSL_VERIFYRESULT, &result);
	if (strstr(of->error, "target host name")) {
		result = VERIFY_NAME;
	}
	switch (result) {
	case VERIFY_EXPIRED:
		text_printf(out, REASON_BYTES,
			"the server's certificate, or one above it, has expired: renew it");
		break;
	case VERIFY_NOT_YET_VALID:
		text_printf(out, REASON_BYTES,
			"the server's certificate is not valid yet: set this machine's clock, or "
			"issue another one");
		break;
	case VERIFY_SELF_SIGNED:
	case VERIFY_SELF_SIGNED_IN_CHAIN:
	case VERIFY_NO_ISSUER_LOCALLY:
	case VERIFY_NO_ISSUER:
		text_printf(out, REASON_BYTES,
			"the authority of the server's certificate is not known here: set tls_ca "
			"to the authority's certificate");
		break;
	case VERIFY_PURPOSE:
		text_printf(out, REASON_BYTES,
			"the certificate is not for a server: issue one with the usage serverAuth");
		break;
	case VERIFY_WEAK_KEY:
	case VERIFY_WEAK_DIGEST:
		text_printf(out, REASON_BYTES,
			"the server's certificate has too weak a key or signature: issue another "
			"one");
		break;
	case VERIFY_NAME:
	case VERIFY_ADDRESS:
		say_name(of, out);
		break;
	default:
		text_printf(out, REASON_BYTES,
			"the server's certificate is refused, see tls_ca and tls_server_name: %s",
			of->error);
	}
}

static void say_handshake(const struct reason_of *of, char *out)
{
	static const struct {
		const char *words; /* OpenSSL's */
		const char *reason;
	} reasons[] = {
		{ "wrong version number",
			"the port does not speak TLS: ask it without TLS, or name the port that "
			"does" },
		{ "packet length too long",
			"the port does not speak TLS: ask it without TLS, or name the port that "
			"does" },
		{ "record layer failure",
			"the port does not speak TLS: ask it without TLS, or name the port that "
			"does" },
		{ "unsupported protocol",
			"the server speaks no TLS newer than 1.1: enable TLS 1.2 there" },
		{ "protocol version",
			"the server speaks no TLS newer than 1.1: enable TLS 1.2 there" },
		{ "certificate required",
			"the server wants a client's certificate: set tls_cert and tls_key" },
		{ "unknown ca",
			"the server does not know the authority of our certificate: add it there, "
			"or set another tls_cert" },
		{ "certificate expired",
			"our certificate has expired: renew the one of tls_cert, and reload" },
		{ "bad certificate",
			"the server refuses our certificate: set another tls_cert and tls_key" },
		{ "certificate unknown",
			"the server refuses our certificate: set another tls_cert and tls_key" },
		{ "unrecognized name",
			"the server does not know the name that we ask for: set tls_server_name to "
			"one that it has" },
		{ "internal error",
			"the server has an error in the handshake: see its log, and its "
			"certificate" },
		{ "dh key too small",
			"the server's parameters are too weak: renew its DH parameters" },
		{ "ee key too small", "the server's key is too weak: issue another certificate" },
		{ "unsupported certificate",
			"our certificate is not for a client: issue one with usage clientAuth" },
	};
	for (size_t i = 0; i < ARRAY_LEN(reasons); i++) {
		if (strstr(of->error, reasons[i].words)) {
			text_printf(out, REASON_BYTES, "%s", reasons[i].reason);
			return;
		}
	}
	if (strstr(of->error, "handshake failure")) {
		text_printf(out, REASON_BYTES, "%s",
			of->has_certificate
				? "the server ends the handshake: it refuses our certificate, or "
				  "has no cipher that we have, see its log"
				: "the server ends the handshake: it wants a client's certificate "
				  "(set tls_cert and tls_key), or has no cipher that we have");
	} else if (strstr(of->error, "SSL_ERROR_SYSCALL") || strstr(of->error, "unexpected eof") ||
		strstr(of->error, "SSL_ERROR_ZERO_RETURN")) {
		text_printf(out, REASON_BYTES,
			"the server closes within the TLS handshake: see its log, or "
			"ask it without TLS");
	} else {
		text_printf(out, REASON_BYTES, "the TLS handshake fails, see the server's log: %s",
			of->error);
	}
}

static void say_late(const struct reason_of *of, char *out)
{
	curl_off_t secure_us = 0;
	long own_port = 0; /* of a connection that is there */
	double timeout_s = (double)of->timeout_ms / 1000;
	curl_easy_getinfo(of->curl, CURLINFO_LOCAL_PORT, &own_port);
	curl_easy_getinfo(of->curl, CURLINFO_APPCONNECT_TIME_T, &secure_us);
	if (own_port == 0) {
		text_printf(out, REASON_BYTES,
			"no connection within %.9gs: does a server listen there, and no firewall "
			"drop it?",
			timeout_s);
	} else if (of->tls && secure_us == 0) {
		text_printf(out, REASON_BYTES,
			"no end of the TLS handshake within %.9gs: does the port speak TLS?",
			timeout_s);
	} else {
		text_printf(out, REASON_BYTES,
			"no answer within %.9gs: see the server, or set a longer timeout",
			timeout_s);
	}
}

static void say_unconnected(const struct reason_of *of, char *out)
{
	long error = 0;
	curl_easy_getinfo(of->curl, CURLINFO_OS_ERRNO, &error);
	text_printf(out, REASON_BYTES, "cannot connect: %s: does the server listen at `target`?",
		error ? strerror((int)error) : of->error);
}

static void say_broken(const struct reason_of *of, char *out)
{
	const char *words = of->error;
	const char *reset = strstr(words, "cleanly: ");
	curl_off_t secure_us = 0; /* behind the handshake */
	curl_easy_getinfo(of->curl, CURLINFO_APPCONNECT_TIME_T, &secure_us);
	if (of->tls && (strstr(words, "alert") || strstr(words, "SSL routines"))) {
		say_handshake(of, out);
	} else if (reset) {
		text_printf(out, REASON_BYTES,
			"the server resets the stream (%s): see its log, or its limits",
			reset + strlen("cleanly: "));
	} else if (strstr(words, "tried 5 times")) {
		text_printf(out, REASON_BYTES,
			"the server refuses the stream (REFUSED_STREAM): see its log, or its "
			"limits");
	} else if (secure_us > 0 && of->grpc) {
		text_printf(out, REASON_BYTES, "the server closes behind the TLS handshake: %s",
			of->has_certificate
				? "it may refuse our certificate, see its log"
				: "it may want a client's certificate (set tls_cert and tls_key), "
				  "see its log");
	} else if (of->grpc) {
		text_printf(out, REASON_BYTES,
			"the server does not answer in HTTP/2 (%s): name the port of a gRPC "
			"server, or set tls = %s",
			words, of->tls ? "no" : "yes if it wants TLS");
	} else {
		text_printf(out, REASON_BYTES, "the answer breaks off, see the server's log: %s",
			words);
	}
}

void reason_write(const struct reason_of *of, char out[REASON_BYTES])
{
	switch (of->code) {
	case CURLE_PEER_FAILED_VERIFICATION:
		say_verify(of, out);
		break;
	case CURLE_SSL_CONNECT_ERROR:
		say_handshake(of, out);
		break;
	case CURLE_SSL_CERTPROBLEM:
		text_printf(out, REASON_BYTES,
			"tls_cert and tls_key cannot be used, write a certificate and its own key: "
			"%s",
			of->error);
		break;
	case CURLE_SSL_CACERT_BADFILE:
		text_printf(out, REASON_BYTES,
			"tls_ca cannot be used, write certificates in PEM: %s", of->error);
		break;
	case CURLE_OPERATION_TIMEDOUT:
		say_late(of, out);
		break;
	case CURLE_COULDNT_CONNECT:
		say_unconnected(of, out);
		break;
	case CURLE_GOT_NOTHING:
		if (of->grpc) {
			say_broken(of, out);
		} else {
			text_printf(out, REASON_BYTES,
				"the server closes without an answer: see its log");
		}
		break;
	case CURLE_UNSUPPORTED_PROTOCOL:
	case CURLE_WEIRD_SERVER_REPLY:
		text_printf(out, REASON_BYTES,
			"the answer is not HTTP: name the port of the %s server in `target`",
			of->grpc ? "gRPC" : "HTTP");
		break;
	case CURLE_OUT_OF_MEMORY:
		text_printf(out, REASON_BYTES,
			"the memory of berth-probe is used up: let fewer checks run at a time");
		break;
	default:
		say_broken(of, out);
	}
}
