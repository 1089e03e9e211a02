/*
 * The limits of a registry's content. Enforced on every write and reported by name (LimitExceeded).
 * All lengths are bytes without a terminator.
 */
#ifndef LIB_BASE_LIMITS_H
#define LIB_BASE_LIMITS_H

#define RECORD_TYPE "JSONServiceRecord" /* data without this text is not a record */

#define LIMIT_PATH_ELEMENT_BYTES 63 /* RFC 1123 label */
#define LIMIT_PATH_BYTES 1024
#define LIMIT_DNS_NAME_BYTES 253 /* as text, without a final dot */
#define LIMIT_ADDRESS_TYPE_BYTES 64
#define LIMIT_PROTOCOL_BYTES 64
#define LIMIT_API_BYTES 512
#define LIMIT_DESCRIPTION_BYTES 1024
#define LIMIT_ADDRESS_VALUE_BYTES 1024
#define LIMIT_ADDRESSES_PER_ENDPOINT 64
#define LIMIT_ENDPOINTS_PER_RECORD 128
#define LIMIT_RECORD_BYTES (128 * 1024)
#define LIMIT_LIST_BYTES (16 * 1024 * 1024) /* of a list of children, as its paths take memory */
#define LIMIT_JSON_DEPTH 32

#endif
