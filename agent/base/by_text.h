/*
 * Objects that are found by a text of their own, which no two of an index share.
 *
 * The text is the object's first member, `char *`, and must not change while the object is in. An
 * index that holds nothing is NULL and needs no end. For the 32 bytes that an object costs here, a
 * JSON object whose values are addresses takes 200.
 */
#ifndef AGENT_BASE_BY_TEXT_H
#define AGENT_BASE_BY_TEXT_H

void by_text_add(void **index, void *object);
/* An object that is not in is allowed. */
void by_text_remove(void **index, void *object);
/* NULL: there is none. */
void *by_text_find(void *const *index, const char *text);
/* One of those that are in; NULL: it holds nothing. */
void *by_text_any(void *const *index);

#endif
