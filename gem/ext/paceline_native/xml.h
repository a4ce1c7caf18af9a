/* What the XML files of the native part share, and what they call of crates/xml (Rust). */
#ifndef PACELINE_XML_H
#define PACELINE_XML_H

#include <ruby.h>
#include <ruby/encoding.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* crates/xml/src/ffi.rs */
size_t paceline_xml_escape(int32_t attribute, const uint8_t *text, size_t length, uint8_t *room, size_t size, size_t *read);

/* xml_builder.c: makes `native` able to take Paceline::XML in hand (lib/paceline/xml/builder.rb calls that once). */
void paceline_init_xml(VALUE native);

/* xml_read.c */
void paceline_init_xml_read(VALUE native);

/* xml_state.c: what a builder knows. */

typedef enum {
    /* Driven by the Ruby builder alone, with its instance variables: a subclass has hooks of its own, or the target is no String. */
    XML_GENERIC,
    /* All that there is to know is here. */
    XML_PLAIN,
    /* The instance variables hold the state, because other methods may look at them: read before each step, written after. */
    XML_MIRRORED,
} xml_mode;

typedef struct {
    VALUE target;
    /* The value of its option, as it was given. */
    VALUE nil_handling;
    /* Name of the encoding that text is written in, in lower case. */
    VALUE encoding;
    long level;
    int indent;
    char quote;
    xml_mode mode;
    /* Whether text is written in UTF-8; if not, all but ASCII goes through Ruby. */
    bool utf8;
    /* Whether the class has a tag! of its own, to be called for each element. */
    bool own_tag;
} xml_builder;

/* Names of the instance variables and methods that several files use. */
extern ID xml_id_tag, xml_id_to_s;
/* The index of UTF-8 among Ruby's encodings. */
extern int xml_utf8;
/* "utf-8". */
extern VALUE xml_utf8_name;

void xml_init_state(VALUE builder_class);
/* Paceline::Native.forget_xml_mode: something was defined on Builder. */
VALUE xml_forget_mode(VALUE native);
/* Whether an object, any, is a builder all of whose state is here. */
bool xml_is_plain(VALUE object);
xml_builder *xml_builder_of(VALUE self);
/* The builder, if the next step can be done natively; NULL if the Ruby builder has to do it. */
xml_builder *xml_ready(VALUE self);
/* Takes over what app code that ran in the middle of a step has done to the instance variables, as far as that is native. */
void xml_follow(VALUE self, xml_builder *builder);
/* Writes the instance variables, and keeps them up to date from here on. */
void xml_mirror(VALUE self, xml_builder *builder);
/* Hands the builder over to Ruby for good. */
void xml_leave_to_ruby(VALUE self, xml_builder *builder);
void xml_set_level(VALUE self, xml_builder *builder, long level);
/* Whether text can be written natively in the encoding of this name (nil and other values can't). */
bool xml_takes_encoding(VALUE name);
void xml_set_encoding(VALUE self, xml_builder *builder, VALUE name);

/* xml_out.c: bytes into the target. */

void xml_init_out(VALUE native);

/* A String being written to. Between open and close no Ruby code runs, and nothing raises but what comes of closing first. */
typedef struct {
    VALUE string;
    /* What the String is appended to in the end, with all checks, if it is not the target; else false. */
    VALUE onto;
    char *bytes;
    long length, room;
} xml_out;

void xml_open(xml_out *out, VALUE string);
void xml_grow(xml_out *out, long more);
static inline void xml_close(xml_out *out) {
    rb_str_set_len(out->string, out->length);
    if (RB_UNLIKELY(RTEST(out->onto))) rb_str_concat(out->onto, out->string);
}

/* Builder appends piece by piece: a target that takes one may refuse the next. */
static inline void xml_flush(xml_out *out) {
    if (RB_LIKELY(!RTEST(out->onto))) return;
    VALUE target = out->onto;
    xml_close(out);
    xml_open(out, target);
}

static inline void xml_need(xml_out *out, long more) {
    if (out->room - out->length < more) xml_grow(out, more);
}

static inline void xml_put(xml_out *out, const char *bytes, long length) {
    xml_need(out, length);
    memcpy(out->bytes + out->length, bytes, length);
    out->length += length;
}

static inline void xml_put_char(xml_out *out, char byte) {
    xml_need(out, 1);
    out->bytes[out->length++] = byte;
}

static inline void xml_put_string(xml_out *out, VALUE string) {
    xml_put(out, RSTRING_PTR(string), RSTRING_LEN(string));
}

void xml_put_indent(xml_out *out, const xml_builder *builder);
static inline void xml_put_newline(xml_out *out, const xml_builder *builder) {
    if (builder->indent > 0) xml_put_char(out, '\n');
}

/* Whether the bytes of a String can be written to a target in UTF-8 as they are. */
bool xml_is_utf8(VALUE string);
/* Whether `value` (any object) is text that xml_put_value takes: no Ruby code has to run for it. */
bool xml_is_simple(const xml_builder *builder, VALUE value);
/* Writes a simple value, escaped for an attribute or for text. */
void xml_put_value(xml_out *out, VALUE value, bool attribute);
/* Writes the text of an element. `out` is open before and after; it is not while Ruby code runs. */
void xml_put_text(const xml_builder *builder, xml_out *out, VALUE text);
/* Writes any value as text, whatever has to run for it. Nothing may be open. `value` is what to_s returned. */
void xml_append_text(const xml_builder *builder, VALUE value);
/* ` key="value"` as one String, by Ruby. */
VALUE xml_pair_by_ruby(VALUE key, VALUE quote, VALUE value);
/* Its text escaped for an attribute, as a String, by Ruby. */
VALUE xml_attribute_by_ruby(const xml_builder *builder, VALUE value);

/* xml_element.c */

/* The element `name` (a String) with what Builder's tag! takes, and the block of this call. */
VALUE xml_element(VALUE self, xml_builder *builder, VALUE name, int argc, const VALUE *argv);
/* Writes one attribute. `out` is open before and after; it is not while Ruby code runs. */
void xml_put_attribute(xml_builder *builder, xml_out *out, VALUE key, VALUE value);
/* Text as Builder keeps it from an argument: a String of its own. Raises TypeError for what can't be appended to a String. */
VALUE xml_copy(VALUE text);
void xml_init_element(void);

#endif
