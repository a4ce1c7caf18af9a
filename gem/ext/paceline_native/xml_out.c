/* Bytes into the target: one growing String, escaped text, indentation. The escaping itself is in crates/xml. */
#include "xml.h"

/* How long a String that has just been made its own may become without being moved. */
static long room_of(VALUE string) {
    return FL_TEST_RAW(string, RSTRING_NOEMBED) ? RSTRING(string)->as.heap.aux.capa : (long)rb_str_capacity(string);
}

void xml_open(xml_out *out, VALUE string) {
    /* Raises if it is frozen; gives it bytes of its own if it shares them, as after a dup. */
    rb_str_modify(string);
    out->onto = Qfalse;
    if (RB_UNLIKELY(ENCODING_GET_INLINED(string) != xml_utf8)) {
        /* App code has made another encoding of it in the middle of an element. */
        out->onto = string;
        string = rb_utf8_str_new(NULL, 0);
        rb_str_modify(string);
    }
    out->string = string;
    RSTRING_GETMEM(string, out->bytes, out->length);
    out->room = room_of(string);
}

void xml_grow(xml_out *out, long more) {
    rb_str_set_len(out->string, out->length);
    /* At least twice the size, so that a long document is copied a few times only. */
    rb_str_modify_expand(out->string, more > out->length ? more : out->length);
    out->bytes = RSTRING_PTR(out->string);
    out->room = room_of(out->string);
}

void xml_put_indent(xml_out *out, const xml_builder *builder) {
    long spaces = builder->level * builder->indent;
    if (spaces <= 0) return;
    xml_need(out, spaces);
    memset(out->bytes + out->length, ' ', spaces);
    out->length += spaces;
}

static void put_escaped(xml_out *out, VALUE string, bool attribute) {
    /* What is written to moves when it grows: a target that is written into itself is copied first. */
    if (string == out->string) string = rb_str_new(out->bytes, out->length);
    const char *text = RSTRING_PTR(string);
    long length = RSTRING_LEN(string);
    while (length > 0) {
        size_t read = 0;
        /* Some more than it is long, for each step of the quick ways wants room for the most that it may write. */
        xml_need(out, length + (length < 64 ? 24 : 128));
        out->length += (long)paceline_xml_escape(attribute, (const uint8_t *)text, (size_t)length, (uint8_t *)out->bytes + out->length,
                                                 (size_t)(out->room - out->length), &read);
        text += read;
        length -= (long)read;
    }
    RB_GC_GUARD(string);
}

static void put_digits(xml_out *out, long number) {
    char digits[24];
    int at = sizeof digits;
    unsigned long rest = number < 0 ? 0UL - (unsigned long)number : (unsigned long)number;
    do digits[--at] = (char)('0' + rest % 10);
    while (rest /= 10);
    if (number < 0) digits[--at] = '-';
    xml_put(out, digits + at, (long)sizeof digits - at);
}

/* Ruby keeps what it once found out about a String's bytes. */
static inline int range_of(VALUE string) {
    int range = ENC_CODERANGE(string);
    return range == ENC_CODERANGE_UNKNOWN ? rb_enc_str_coderange(string) : range;
}

bool xml_is_utf8(VALUE string) {
    int range = range_of(string);
    return range == ENC_CODERANGE_7BIT || (range == ENC_CODERANGE_VALID && ENCODING_GET_INLINED(string) == xml_utf8);
}

/* Whether U+FFFD has to be written for one of these bytes of ASCII. */
static bool has_controls(VALUE string) {
    const char *at = RSTRING_PTR(string), *end = at + RSTRING_LEN(string);
    while (at < end && (*at >= ' ' || *at == '\t' || *at == '\n' || *at == '\r')) at++;
    return at < end;
}

bool xml_is_simple(const xml_builder *builder, VALUE value) {
    if (FIXNUM_P(value)) return true;
    if (!RB_TYPE_P(value, T_STRING)) return false;
    int range = range_of(value);
    if (!builder->utf8) return range == ENC_CODERANGE_7BIT && !has_controls(value);
    return range == ENC_CODERANGE_7BIT || (range == ENC_CODERANGE_VALID && ENCODING_GET_INLINED(value) == xml_utf8);
}

void xml_put_value(xml_out *out, VALUE value, bool attribute) {
    if (FIXNUM_P(value)) put_digits(out, FIX2LONG(value));
    else put_escaped(out, value, attribute);
}

static VALUE characters(void) {
    static ID xml, characters;
    if (!xml) {
        xml = rb_intern("XML");
        characters = rb_intern("Characters");
    }
    return rb_const_get(rb_const_get(rb_const_get(rb_cObject, rb_intern("Paceline")), xml), characters);
}

static VALUE text_by_ruby(const xml_builder *builder, VALUE value) {
    return rb_funcall(characters(), rb_intern("encode_as"), 2, builder->encoding, value);
}

VALUE xml_pair_by_ruby(VALUE key, VALUE quote, VALUE value) {
    return rb_funcall(characters(), rb_intern("pair"), 3, key, quote, value);
}

VALUE xml_attribute_by_ruby(const xml_builder *builder, VALUE value) {
    return rb_funcall(characters(), rb_intern("attribute"), 1, text_by_ruby(builder, value));
}

void xml_append_text(const xml_builder *builder, VALUE value) {
    if (xml_is_simple(builder, value)) {
        xml_out out;
        xml_open(&out, builder->target);
        xml_put_value(&out, value, false);
        xml_close(&out);
    } else {
        rb_str_concat(builder->target, text_by_ruby(builder, value));
    }
}

void xml_put_text(const xml_builder *builder, xml_out *out, VALUE text) {
    if (xml_is_simple(builder, text)) {
        xml_put_value(out, text, false);
    } else {
        xml_close(out);
        xml_append_text(builder, xml_copy(text));
        xml_open(out, builder->target);
    }
}

/* Paceline::Native.xml_escape(string): text that is UTF-8 or ASCII as text of an element, for lib/paceline/xml/characters.rb. What stays
 * ASCII keeps its encoding. Unlike Ruby's regular expressions in 3.1 this may be called in several Ractors at once. */
static VALUE escape_string(VALUE native, VALUE string) {
    StringValue(string);
    xml_out out;
    xml_open(&out, rb_enc_associate(rb_str_buf_new(RSTRING_LEN(string)), rb_utf8_encoding()));
    put_escaped(&out, string, false);
    xml_close(&out);
    VALUE escaped = out.string;
    if (rb_enc_str_coderange(escaped) == ENC_CODERANGE_7BIT) rb_enc_copy(escaped, string);
    return escaped;
}

void xml_init_out(VALUE native) {
    rb_ext_ractor_safe(true);
    rb_define_singleton_method(native, "xml_escape", escape_string, 1);
    rb_ext_ractor_safe(false);
}
