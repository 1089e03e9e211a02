/*
 * The part of Cyrus SASL's header that the worker uses, so that its SASL variant compiles without
 * that library.
 */
#ifndef TESTS_STUB_SASL_H
#define TESTS_STUB_SASL_H

enum { SASL_OK = 0 };
enum {
	SASL_CB_LIST_END = 0,
	SASL_CB_USER = 0x4001,
	SASL_CB_AUTHNAME = 0x4002,
	SASL_CB_PASS = 0x4004
};

typedef struct sasl_conn sasl_conn_t;

typedef struct sasl_secret {
	unsigned long len;
	unsigned char data[1];
} sasl_secret_t;

typedef struct sasl_callback {
	unsigned long id;
	int (*proc)(void);
	void *context;
} sasl_callback_t;

int sasl_client_init(const sasl_callback_t *callbacks);

#endif
