/* Responses as frames. The twins in Ruby are Headers#encode and Response#whole, which also take whatever is unusual here. */
#include "mailbox.h"
#include <string.h>

#define RESPONSE 0x31
#define MOST_WHOLE (1024 * 1024)
#define MOST_PIECES 64

static VALUE header_classes = Qnil, sent;

/* Characters of a token (RFC 9110 section 5.6.2). */
static uint8_t token[256];

struct pairs {
    VALUE out;
    int unusual;
};

static int put_pair(VALUE name, VALUE value, VALUE argument) {
    struct pairs *pairs = (struct pairs *)argument;
    if (!RB_TYPE_P(name, T_STRING) || !RB_TYPE_P(value, T_STRING)) goto unusual;
    const char *letters = RSTRING_PTR(name), *bytes = RSTRING_PTR(value);
    long length = RSTRING_LEN(name), size = RSTRING_LEN(value);
    if (length == 0 || (length > 5 && memcmp(letters, "rack.", 5) == 0)) goto unusual;
    for (long index = 0; index < length; index++) {
        if (!token[(uint8_t)letters[index]]) goto unusual;
    }
    for (long index = 0; index < size; index++) {
        if (bytes[index] == '\r' || bytes[index] == '\n' || bytes[index] == '\0') goto unusual;
    }
    rb_str_buf_cat(pairs->out, letters, length);
    rb_str_buf_cat(pairs->out, "", 1);
    rb_str_buf_cat(pairs->out, bytes, size);
    rb_str_buf_cat(pairs->out, "", 1);
    return ST_CONTINUE;
unusual:
    pairs->unusual = 1;
    return ST_STOP;
}

static int is_plain_hash(VALUE headers) {
    if (!RB_TYPE_P(headers, T_HASH)) return 0;
    VALUE class = rb_obj_class(headers);
    if (class == rb_cHash) return 1;
    return RB_TYPE_P(header_classes, T_ARRAY) && RTEST(rb_ary_includes(header_classes, class));
}

/* Appends the pairs of `headers`; false when there is something for the twin to look at. */
static int put_pairs(VALUE out, VALUE headers) {
    if (!is_plain_hash(headers)) return 0;
    struct pairs pairs = {out, 0};
    rb_hash_foreach(headers, put_pair, (VALUE)&pairs);
    return !pairs.unusual;
}

/* header_pairs(headers): as Headers#encode; nil when there is something for the twin to look at. */
static VALUE header_pairs(VALUE self, VALUE headers) {
    VALUE out = rb_str_buf_new(512);
    return put_pairs(out, headers) ? out : Qnil;
}

/* header_classes = [...]: subclasses of Hash whose pairs may be read without their `each`. */
static VALUE set_header_classes(VALUE self, VALUE classes) {
    Check_Type(classes, T_ARRAY);
    header_classes = rb_ary_dup(classes);
    return classes;
}

/* Bytes of the body; -1 when a part is no String, or when it is more than goes into one frame. */
static long size_of_body(VALUE parts) {
    long size = 0, count = RARRAY_LEN(parts);
    for (long index = 0; index < count; index++) {
        VALUE part = RARRAY_AREF(parts, index);
        if (!RB_TYPE_P(part, T_STRING)) return -1;
        size += RSTRING_LEN(part);
        if (size > MOST_WHOLE) return -1;
    }
    return size;
}

static uint8_t *put_counters(uint8_t *at, VALUE counted) {
    paceline_put_u32(at, NUM2UINT(RSTRUCT_GET(counted, 0)));
    paceline_put_u32(at + 4, NUM2UINT(RSTRUCT_GET(counted, 1)));
    paceline_put_u32(at + 8, NUM2UINT(RSTRUCT_GET(counted, 2)));
    paceline_put_u64(at + 12, NUM2ULL(RSTRUCT_GET(counted, 3)));
    paceline_put_u64(at + 20, NUM2ULL(RSTRUCT_GET(counted, 4)));
    return at + 28;
}

/* respond(fd, mailbox, number, status, flags, counted, headers, parts): leaves the whole response to request `number` in the mailbox, or sends it, in one system call if the socket takes it. True: it is in the
 * mailbox; :sent: it went by the socket; false: nothing was done, because there is something for the twin to look at. Raises Errno::*. */
static VALUE respond(VALUE self, VALUE fd, VALUE mailbox, VALUE number, VALUE status, VALUE flags, VALUE counted, VALUE headers, VALUE parts) {
    Check_Type(parts, T_ARRAY);
    long size = size_of_body(parts);
    VALUE spans = RSTRUCT_GET(counted, 5);
    if (size < 0 || !RB_TYPE_P(spans, T_STRING) || RSTRING_LEN(spans) > 4096) return Qfalse;

    VALUE out = rb_str_buf_new(512 + (size <= PACELINE_COPIED ? size : 0));
    uint8_t fixed[5 + 8 + 3 + 28 + 2] = {0};
    fixed[4] = RESPONSE;
    paceline_put_u64(fixed + 5, NUM2ULL(number));
    paceline_put_u16(fixed + 13, (uint16_t)NUM2UINT(status));
    fixed[15] = (uint8_t)NUM2UINT(flags);
    paceline_put_u16(put_counters(fixed + 16, counted), (uint16_t)RSTRING_LEN(spans));
    rb_str_buf_cat(out, (char *)fixed, sizeof fixed);
    rb_str_buf_cat(out, RSTRING_PTR(spans), RSTRING_LEN(spans));
    long length_at = RSTRING_LEN(out);
    rb_str_buf_cat(out, "\0\0\0\0", 4);
    if (!put_pairs(out, headers)) return Qfalse;
    uint8_t *bytes = (uint8_t *)RSTRING_PTR(out);
    paceline_put_u32(bytes + length_at, (uint32_t)(RSTRING_LEN(out) - length_at - 4));
    paceline_put_u32(bytes, (uint32_t)(RSTRING_LEN(out) - 5 + size));

    long count = RARRAY_LEN(parts);
    struct iovec pieces[1 + MOST_PIECES];
    /* Frozen, sharing the bytes of the parts: the application may change these while this thread waits. On the stack, so that nothing moves them. */
    volatile VALUE kept[MOST_PIECES];
    int used = 1;
    if (size <= PACELINE_COPIED || count > MOST_PIECES) {
        for (long index = 0; index < count; index++) {
            VALUE part = RARRAY_AREF(parts, index);
            rb_str_buf_cat(out, RSTRING_PTR(part), RSTRING_LEN(part));
        }
    } else {
        for (long index = 0; index < count; index++) {
            VALUE part = RARRAY_AREF(parts, index);
            if (RSTRING_LEN(part) == 0) continue;
            part = kept[used - 1] = rb_str_new_frozen(part);
            pieces[used++] = (struct iovec){RSTRING_PTR(part), RSTRING_LEN(part)};
        }
    }
    pieces[0] = (struct iovec){RSTRING_PTR(out), RSTRING_LEN(out)};
    int left = paceline_mailbox_put(mailbox, NUM2INT(fd), pieces, used);
    if (!left) paceline_send(NUM2INT(fd), pieces, used, 1);
    RB_GC_GUARD(out);
    RB_GC_GUARD(parts);
    return left ? Qtrue : sent;
}

void paceline_init_response(VALUE native) {
    static const char others[] = "!#$%&'*+-.^_`|~";
    for (int letter = 0; letter < 26; letter++) token['a' + letter] = token['A' + letter] = 1;
    for (int digit = '0'; digit <= '9'; digit++) token[digit] = 1;
    for (const char *other = others; *other != '\0'; other++) token[(uint8_t)*other] = 1;
    sent = ID2SYM(rb_intern("sent"));
    rb_gc_register_address(&header_classes);
    rb_define_module_function(native, "header_pairs", header_pairs, 1);
    rb_define_module_function(native, "header_classes=", set_header_classes, 1);
    rb_define_module_function(native, "respond", respond, 8);
}
