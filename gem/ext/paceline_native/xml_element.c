/* Elements: Builder's tag!, with its rules for arguments, and in its order: what runs of the app's code runs when it would there. */
#include "xml.h"

typedef struct {
    xml_builder *builder;
    xml_out *out;
    /* Attributes that are written, and whether one is next for which app code has to run. */
    long written;
    bool stopped;
} writing;

static ID id_level, id_target, id_kind_of;

typedef struct {
    VALUE self, name;
} nesting;

/* `name="value"` by Ruby's own means, for what cannot be put natively. As in Builder it is one piece, or nothing if that fails. */
static void append_attribute(xml_builder *builder, VALUE key, VALUE value) {
    rb_str_concat(builder->target, xml_pair_by_ruby(key, rb_utf8_str_new(&builder->quote, 1), value));
}

/* Whether `value` is a String that is what it says, and stays so while the target is written to. */
static bool is_steady(const xml_builder *builder, VALUE value) {
    return RB_TYPE_P(value, T_STRING) && RBASIC_CLASS(value) == rb_cString && value != builder->target;
}

/* Whether an attribute is written without running app code. */
static bool is_ready(const xml_builder *builder, VALUE key, VALUE value) {
    return (SYMBOL_P(key) || is_steady(builder, key)) &&
           (NIL_P(value) || FIXNUM_P(value) || SYMBOL_P(value) || is_steady(builder, value));
}

void xml_put_attribute(xml_builder *builder, xml_out *out, VALUE key, VALUE value) {
    /* A Symbol is written as it is. */
    bool ready = is_ready(builder, key, value), raw = SYMBOL_P(value), empty = NIL_P(value), no_text = false;
    if (raw) value = rb_sym2str(value);
    if (SYMBOL_P(key)) key = rb_sym2str(key);
    if (!ready) {
        xml_close(out);
        key = rb_obj_as_string(key);
        if (!raw && !empty && !FIXNUM_P(value)) {
            value = rb_funcallv_public(value, xml_id_to_s, 0, NULL);
            no_text = !RB_TYPE_P(value, T_STRING);
        }
        /* What it is now; in a moment it begins to change. */
        if (key == builder->target) key = rb_str_dup(key);
        if (value == builder->target) value = rb_str_dup(value);
        xml_open(out, builder->target);
    }
    if (!no_text && xml_is_utf8(key) && (empty || (raw ? xml_is_utf8(value) : xml_is_simple(builder, value)))) {
        xml_put_char(out, ' ');
        xml_put_string(out, key);
        xml_put_char(out, '=');
        xml_put_char(out, builder->quote);
        if (raw) xml_put_string(out, value);
        else if (!empty) xml_put_value(out, value, true);
        xml_put_char(out, builder->quote);
    } else {
        xml_close(out);
        if (FIXNUM_P(value) && !no_text) value = rb_fix2str(value, 10);
        append_attribute(builder, key, raw ? value : xml_attribute_by_ruby(builder, empty ? rb_str_new(NULL, 0) : value));
        xml_open(out, builder->target);
    }
    RB_GC_GUARD(key);
    RB_GC_GUARD(value);
}

/* A key that is a String and not frozen is one of a Hash that compares by identity: there the same name may be twice. */
static bool is_sure(VALUE key) {
    return SYMBOL_P(key) || OBJ_FROZEN(key);
}

static int put_pair(VALUE key, VALUE value, VALUE data) {
    writing *to = (writing *)data;
    if (!is_ready(to->builder, key, value) || !is_sure(key)) {
        to->stopped = true;
        return ST_STOP;
    }
    xml_put_attribute(to->builder, to->out, key, value);
    xml_flush(to->out);
    to->written++;
    return ST_CONTINUE;
}

static int put_rest(VALUE key, VALUE value, VALUE data) {
    writing *to = (writing *)data;
    if (to->written > 0) to->written--;
    else xml_put_attribute(to->builder, to->out, key, value);
    xml_flush(to->out);
    return ST_CONTINUE;
}

/* Writes the attributes. As soon as app code has to run for one, everything that is yet to be written is a copy that it can't reach, as
 * in Builder. */
static void put_attributes(xml_builder *builder, xml_out *out, VALUE attributes, bool own, VALUE *text) {
    writing to = {.builder = builder, .out = out};
    rb_hash_foreach(attributes, put_pair, (VALUE)&to);
    if (!to.stopped) return;

    xml_close(out);
    if (RB_TYPE_P(*text, T_STRING)) *text = xml_copy(*text);
    if (!own) attributes = rb_funcall(rb_hash_new(), rb_intern("merge!"), 1, attributes);
    xml_open(out, builder->target);
    rb_hash_foreach(attributes, put_rest, (VALUE)&to);
    RB_GC_GUARD(attributes);
}

VALUE xml_copy(VALUE text) {
    return rb_str_concat(rb_utf8_str_new(NULL, 0), text);
}

/* What an argument of an element is as text: a String, or an Integer to be written in digits. May run Ruby code. */
static VALUE text_of(const xml_builder *builder, VALUE value) {
    if (FIXNUM_P(value) || is_steady(builder, value)) return value;
    if (SYMBOL_P(value)) return rb_sym2str(value);
    value = rb_funcallv_public(value, xml_id_to_s, 0, NULL);
    if (value == builder->target) return rb_str_dup(value);
    /* Of what is no String `<<` makes a character, or TypeError. */
    return RB_TYPE_P(value, T_STRING) ? value : xml_copy(value);
}

/* Whether a first argument is taken for a namespace: a Symbol, or what calls itself one. */
static bool is_namespace(VALUE value) {
    if (SYMBOL_P(value)) return true;
    if (SPECIAL_CONST_P(value) || rb_method_basic_definition_p(CLASS_OF(value), id_kind_of)) return false;
    return RTEST(rb_funcallv_public(value, id_kind_of, 1, &rb_cSymbol));
}

static VALUE yield_self(VALUE data) {
    return rb_yield(((nesting *)data)->self);
}

static VALUE lower_level(VALUE data) {
    VALUE self = ((nesting *)data)->self;
    return rb_ivar_set(self, id_level, rb_funcall(rb_ivar_get(self, id_level), '-', 1, INT2FIX(1)));
}

static VALUE end_by_hooks(VALUE data) {
    nesting *at = (nesting *)data;
    rb_funcall(at->self, rb_intern("_indent"), 0);
    rb_funcall(at->self, rb_intern("_end_tag"), 1, rb_str_intern(at->name));
    return rb_funcall(at->self, rb_intern("_newline"), 0);
}

static VALUE end_nesting(VALUE data) {
    nesting *at = (nesting *)data;
    xml_builder *builder = xml_ready(at->self);
    /* A level below 0, after somebody has set it, is Ruby's to complain about. */
    if (builder && builder->level == 0) {
        xml_leave_to_ruby(at->self, builder);
        builder = NULL;
    }
    if (builder) {
        xml_out out;
        xml_set_level(at->self, builder, builder->level - 1);
        xml_open(&out, builder->target);
        xml_put_indent(&out, builder);
        xml_put(&out, "</", 2);
        xml_put_string(&out, at->name);
        xml_put_char(&out, '>');
        xml_put_newline(&out, builder);
        xml_close(&out);
    } else {
        /* The block has left the builder to Ruby. */
        rb_ensure(lower_level, data, end_by_hooks, data);
    }
    return Qnil;
}

/* Yields self one level deeper and then writes the end tag, however the block ends. Nobody changes the String `name`. */
static void nest(VALUE self, xml_builder *builder, VALUE name) {
    nesting here = {self, name};
    xml_follow(self, builder);
    xml_set_level(self, builder, builder->level + 1);
    rb_ensure(yield_self, (VALUE)&here, end_nesting, (VALUE)&here);
    RB_GC_GUARD(name);
}

/* An element whose name is not UTF-8. */
static VALUE named_by_ruby(VALUE self, xml_builder *builder, VALUE name, int argc, const VALUE *argv) {
    VALUE stack, *all = ALLOCV_N(VALUE, stack, argc + 1);
    all[0] = rb_str_intern(name);
    MEMCPY(all + 1, argv, VALUE, argc);
    xml_leave_to_ruby(self, builder);
    VALUE returned = rb_funcall_passing_block(self, xml_id_tag, argc + 1, all);
    ALLOCV_END(stack);
    return returned;
}

VALUE xml_element(VALUE self, xml_builder *builder, VALUE name, int argc, const VALUE *argv) {
    VALUE attributes = Qnil, text = Qnil;
    bool own = false, has_text = false, has_block = rb_block_given_p();
    if (argc > 0 && is_namespace(argv[0])) {
        name = rb_str_append(rb_str_cat(rb_str_dup(name), ":", 1), rb_obj_as_string(argv[0]));
        if (!xml_is_utf8(name)) return named_by_ruby(self, builder, name, argc - 1, argv + 1);
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
            if (has_text) text = xml_copy(FIXNUM_P(text) ? rb_fix2str(text, 10) : text);
            VALUE next = text_of(builder, arg);
            text = has_text ? rb_str_concat(text, FIXNUM_P(next) ? rb_fix2str(next, 10) : next) : next;
            has_text = true;
        }
    }
    if (has_block && has_text) rb_raise(rb_eArgError, "XmlMarkup cannot mix a text argument with a block");
    xml_follow(self, builder);

    xml_out out;
    xml_open(&out, builder->target);
    xml_put_indent(&out, builder);
    xml_put_char(&out, '<');
    xml_put_string(&out, name);
    xml_flush(&out);
    if (!NIL_P(attributes)) put_attributes(builder, &out, attributes, own, &text);
    if (has_block) {
        xml_put_char(&out, '>');
        xml_put_newline(&out, builder);
        xml_close(&out);
        nest(self, builder, name);
        if (builder->mode == XML_GENERIC) return rb_ivar_get(self, id_target);
    } else if (!has_text) {
        xml_put(&out, "/>", 2);
        xml_put_newline(&out, builder);
        xml_close(&out);
    } else {
        xml_put_char(&out, '>');
        xml_flush(&out);
        xml_put_text(builder, &out, text);
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

void xml_init_element(void) {
    id_level = rb_intern("@level");
    id_target = rb_intern("@target");
    id_kind_of = rb_intern("kind_of?");
}
