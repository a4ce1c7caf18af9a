/* A REQUEST frame's pairs as a Rack env. The twin in Ruby is Frames.parse_request. */
#include "paceline_native.h"
#include <string.h>

/* Names that most requests have: each is made once, so that a request's env takes no new string for it. Others, whatever a client
 * thinks of, are interned for as long as some env holds them. */
static const char *const KNOWN[] = {
    "REQUEST_METHOD", "SCRIPT_NAME", "PATH_INFO", "QUERY_STRING", "REQUEST_URI", "SERVER_NAME", "SERVER_PORT", "SERVER_PROTOCOL",
    "REMOTE_ADDR", "rack.url_scheme", "HTTPS", "paceline.hijack", "paceline.early_hints", "paceline.input", "paceline.user", "REMOTE_USER", "AUTH_TYPE", "CONTENT_TYPE",
    "CONTENT_LENGTH", "HTTP_HOST", "HTTP_X_REQUEST_ID", "HTTP_X_REQUEST_START", "HTTP_USER_AGENT", "HTTP_ACCEPT",
    "HTTP_ACCEPT_ENCODING", "HTTP_ACCEPT_LANGUAGE", "HTTP_ACCEPT_CHARSET", "HTTP_CONNECTION", "HTTP_COOKIE", "HTTP_REFERER",
    "HTTP_ORIGIN", "HTTP_AUTHORIZATION", "HTTP_CACHE_CONTROL", "HTTP_PRAGMA", "HTTP_IF_NONE_MATCH", "HTTP_IF_MODIFIED_SINCE",
    "HTTP_RANGE", "HTTP_UPGRADE", "HTTP_UPGRADE_INSECURE_REQUESTS", "HTTP_DNT", "HTTP_PRIORITY", "HTTP_TE",
    "HTTP_SEC_FETCH_SITE", "HTTP_SEC_FETCH_MODE", "HTTP_SEC_FETCH_USER", "HTTP_SEC_FETCH_DEST", "HTTP_SEC_CH_UA",
    "HTTP_SEC_CH_UA_MOBILE", "HTTP_SEC_CH_UA_PLATFORM", "HTTP_X_CSRF_TOKEN", "HTTP_X_REQUESTED_WITH", "HTTP_X_FORWARDED_FOR",
    "HTTP_X_FORWARDED_PROTO", "HTTP_X_FORWARDED_HOST", "HTTP_X_FORWARDED_PORT", "HTTP_X_REAL_IP", "HTTP_FORWARDED",
};

#define SLOTS 256
#define MOST_PAIRS 256

static struct {
    VALUE name;
    size_t length;
} slots[SLOTS];

static unsigned slot_of(const char *name, size_t length) {
    unsigned hash = (unsigned)length;
    for (size_t index = 0; index < length; index++) hash = hash * 31 + (unsigned char)name[index];
    return (hash ^ hash >> 8) % SLOTS;
}

static VALUE key(const char *name, size_t length) {
    for (unsigned at = slot_of(name, length); slots[at].name != 0; at = (at + 1) % SLOTS) {
        if (slots[at].length == length && memcmp(RSTRING_PTR(slots[at].name), name, length) == 0) return slots[at].name;
    }
    return rb_enc_interned_str(name, (long)length, rb_ascii8bit_encoding());
}

/* env(frame, defaults): a Hash of `defaults` (frozen names and their values, one after another) and the frame's pairs; nil for a frame
 * that its twin has to look at: broken, or of unusual size. */
static VALUE env(VALUE self, VALUE frame, VALUE defaults) {
    Check_Type(frame, T_STRING);
    Check_Type(defaults, T_ARRAY);
    const uint8_t *bytes = (const uint8_t *)RSTRING_PTR(frame);
    size_t size = (size_t)RSTRING_LEN(frame);
    if (size < PACELINE_REQUEST_HEAD) return Qnil;
    uint32_t length = paceline_u32(bytes + PACELINE_REQUEST_HEAD - 4);
    if (length > size - PACELINE_REQUEST_HEAD) return Qnil;

    VALUE all[2 * MOST_PAIRS];
    long count = RARRAY_LEN(defaults);
    if (count > MOST_PAIRS) return Qnil;
    for (long index = 0; index < count; index++) all[index] = RARRAY_AREF(defaults, index);

    const char *at = (const char *)bytes + PACELINE_REQUEST_HEAD, *end = at + length;
    while (at < end) {
        const char *stop = memchr(at, 0, (size_t)(end - at));
        const char *value = stop == NULL ? end : stop + 1;
        const char *value_stop = value < end ? memchr(value, 0, (size_t)(end - value)) : NULL;
        if (value_stop == NULL || count + 2 > 2 * MOST_PAIRS) return Qnil;
        all[count++] = key(at, (size_t)(stop - at));
        all[count++] = rb_str_new(value, value_stop - value);
        at = value_stop + 1;
    }
    VALUE hash = rb_hash_new();
    rb_hash_bulk_insert(count, all, hash);
    RB_GC_GUARD(frame);
    return hash;
}

void paceline_init_env(VALUE native) {
    for (size_t index = 0; index < sizeof KNOWN / sizeof *KNOWN; index++) {
        size_t length = strlen(KNOWN[index]);
        unsigned at = slot_of(KNOWN[index], length);
        while (slots[at].name != 0) at = (at + 1) % SLOTS;
        slots[at].name = rb_enc_interned_str(KNOWN[index], (long)length, rb_ascii8bit_encoding());
        slots[at].length = length;
        rb_gc_register_address(&slots[at].name);
    }
    rb_define_module_function(native, "env", env, 2);
}
