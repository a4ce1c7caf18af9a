/* Elements: Builder's tag!, with its rules for arguments, and in its order: what runs of the app's code runs when it would there. */
#include "xml.h"

typedef struct {
    xml_builder *builder;
    xml_out *out;
} writing;

typedef struct {
    VALUE self, holder;
    long at, length;
} nesting;

/* `name="value"` by Ruby's own means, for what cannot be put natively. As in Builder it is one piece, or nothing if that fails. */
static void append_attribute(xml_builder *builder, VALUE key, VALUE value) {
    VALUE piece = rb_utf8_str_new_cstr(" ");
    rb_str_append(piece, key);
    rb_str_cat(piece, "=", 1);
    rb_str_cat(piece, &builder->quote, 1);
    rb_str_append(piece, value);
    rb_str_cat(piece, &builder->quote, 1);
    rb_str_concat(builder->target, piece);
}

void xml_put_attribute(xml_builder *builder, xml_out *out, VALUE key, VALUE value) {
    /* A Symbol is written as it is. */
    bool raw = SYMBOL_P(value), empty = NIL_P(value);
    if (raw) value = rb_sym2str(value);
    if (SYMBOL_P(key)) key = rb_sym2str(key);

    bool text = RB_TYPE_P(value, T_STRING) && (raw || RBASIC_CLASS(value) == rb_cString);
    bool ready = RB_TYPE_P(key, T_STRING) && (empty || text || FIXNUM_P(value));
    if (!ready) {
        xml_close(out);
        if (!RB_TYPE_P(key, T_STRING)) key = rb_obj_as_string(key);
        if (!text && !empty && !FIXNUM_P(value)) value = rb_funcall(value, xml_id_to_s, 0);
        /* What it is now; in a moment it begins to change. */
        if (value == builder->target) value = rb_str_dup(value);
        xml_open(out, builder->target);
    }
    if (xml_is_utf8(key) && (empty || (raw ? xml_is_utf8(value) : xml_is_simple(builder, value)))) {
        xml_put_char(out, ' ');
        xml_put_string(out, key);
        xml_put_char(out, '=');
        xml_put_char(out, builder->quote);
        if (raw) xml_put_string(out, value);
        else if (!empty) xml_put_value(out, value, true);
        xml_put_char(out, builder->quote);
    } else {
        xml_close(out);
        append_attribute(builder, key, raw ? value : xml_attribute_by_ruby(builder, empty ? rb_str_new(NULL, 0) : value));
        xml_open(out, builder->target);
    }
    RB_GC_GUARD(key);
    RB_GC_GUARD(value);
}

static int put_pair(VALUE key, VALUE value, VALUE data) {
    writing *to = (writing *)data;
    xml_put_attribute(to->builder, to->out, key, value);
    return ST_CONTINUE;
}

VALUE xml_text_of(VALUE value) {
    if (FIXNUM_P(value) || (RB_TYPE_P(value, T_STRING) && RBASIC_CLASS(value) == rb_cString)) return value;
    if (SYMBOL_P(value)) return rb_sym2str(value);
    value = rb_funcall(value, xml_id_to_s, 0);
    if (RB_TYPE_P(value, T_STRING)) return value;
    /* What `<<` makes of it: a character, or TypeError. */
    return rb_str_concat(rb_utf8_str_new(NULL, 0), value);
}

/* `text` and the next argument of text, joined. */
static VALUE joined(VALUE text, VALUE next) {
    VALUE both = rb_utf8_str_new(NULL, 0);
    rb_str_concat(both, FIXNUM_P(text) ? rb_fix2str(text, 10) : text);
    return rb_str_concat(both, FIXNUM_P(next) ? rb_fix2str(next, 10) : next);
}

static VALUE yield_self(VALUE data) {
    return rb_yield(((nesting *)data)->self);
}

static VALUE end_nesting(VALUE data) {
    nesting *at = (nesting *)data;
    xml_builder *builder = xml_ready(at->self);
    if (builder) {
        xml_out out;
        xml_set_level(at->self, builder, builder->level - 1);
        xml_open(&out, builder->target);
        xml_put_indent(&out, builder);
        xml_put(&out, "</", 2);
        xml_put(&out, RSTRING_PTR(at->holder) + at->at, at->length);
        xml_put_char(&out, '>');
        xml_put_newline(&out, builder);
        xml_close(&out);
    } else {
        /* The block has left the builder to Ruby. */
        ID level = rb_intern("@level");
        rb_ivar_set(at->self, level, rb_funcall(rb_ivar_get(at->self, level), '-', 1, INT2FIX(1)));
        rb_funcall(at->self, rb_intern("_indent"), 0);
        rb_funcall(at->self, rb_intern("_end_tag"), 1, rb_str_intern(rb_str_subseq(at->holder, at->at, at->length)));
        rb_funcall(at->self, rb_intern("_newline"), 0);
    }
    return Qnil;
}

void xml_nest(VALUE self, xml_builder *builder, VALUE holder, long at, long length) {
    nesting here = {self, holder, at, length};
    xml_set_level(self, builder, builder->level + 1);
    rb_ensure(yield_self, (VALUE)&here, end_nesting, (VALUE)&here);
    RB_GC_GUARD(holder);
}

VALUE xml_element(VALUE self, xml_builder *builder, VALUE name, int argc, const VALUE *argv) {
    VALUE attributes = Qnil, text = Qnil;
    bool own = false, has_text = false, has_block = rb_block_given_p();
    if (argc > 0 && SYMBOL_P(argv[0])) {
        name = rb_str_append(rb_str_cat(rb_str_dup(name), ":", 1), rb_sym2str(argv[0]));
        argc--;
        argv++;
    }
    for (int i = 0; i < argc; i++) {
        VALUE arg = argv[i];
        bool is_nil = NIL_P(arg);
        if (is_nil && !RTEST(builder->nil_handling)) continue;
        if (is_nil || RB_TYPE_P(arg, T_HASH)) {
            if (NIL_P(attributes) && !is_nil) {
                attributes = arg;
                continue;
            }
            if (!own) {
                attributes = NIL_P(attributes) ? rb_hash_new() : rb_funcall(rb_hash_new(), rb_intern("merge!"), 1, attributes);
                own = true;
            }
            if (is_nil) rb_hash_aset(attributes, ID2SYM(rb_intern("nil")), Qtrue);
            else rb_funcall(attributes, rb_intern("merge!"), 1, arg);
        } else {
            VALUE next = xml_text_of(arg);
            text = has_text ? joined(text, next) : next;
            has_text = true;
        }
    }
    if (has_block && has_text) rb_raise(rb_eArgError, "XmlMarkup cannot mix a text argument with a block");

    xml_out out;
    xml_open(&out, builder->target);
    xml_put_indent(&out, builder);
    xml_put_char(&out, '<');
    xml_put_string(&out, name);
    if (!NIL_P(attributes)) {
        writing to = {builder, &out};
        rb_hash_foreach(attributes, put_pair, (VALUE)&to);
    }
    if (has_block) {
        xml_put_char(&out, '>');
        xml_put_newline(&out, builder);
        xml_close(&out);
        xml_nest(self, builder, name, 0, RSTRING_LEN(name));
    } else if (!has_text) {
        xml_put(&out, "/>", 2);
        xml_put_newline(&out, builder);
        xml_close(&out);
    } else {
        xml_put_char(&out, '>');
        if (xml_is_simple(builder, text)) {
            xml_put_value(&out, text, false);
        } else {
            xml_close(&out);
            xml_append_text(builder, text);
            xml_open(&out, builder->target);
        }
        xml_put(&out, "</", 2);
        xml_put_string(&out, name);
        xml_put_char(&out, '>');
        xml_put_newline(&out, builder);
        xml_close(&out);
    }
    RB_GC_GUARD(name);
    RB_GC_GUARD(text);
    return builder->target;
}
