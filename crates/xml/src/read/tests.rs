//! Documents and what becomes of them, written as Ruby would print it.

use super::{document::Source, parse, Document, Limits, Op, Program};

fn show(document: &Document, body: &str, program: &Program) -> String {
    let mut stack: Vec<String> = Vec::new();
    let mut left = 0;
    for op in &program.ops {
        if left > 0 {
            left -= 1;
            continue;
        }
        assert!(stack.len() <= program.stack);
        let shown = match *op {
            Op::Key(name) => format!("{}=>", document.symbol(name)),
            Op::Text(span) => format!(
                "{:?}",
                match span.source {
                    Source::Document => &body[document.skipped()..][span.at as usize..(span.at + span.length) as usize],
                    Source::Beside => &document.beside()[span.at as usize..(span.at + span.length) as usize],
                }
            ),
            Op::Hash(pairs) => {
                let values = stack.split_off(stack.len() - 2 * pairs as usize);
                format!("{{{}}}", values.chunks(2).map(|pair| pair.concat()).collect::<Vec<_>>().join(", "))
            }
            Op::Array(count) => format!("[{}]", stack.split_off(stack.len() - count as usize).join(", ")),
            Op::Nil => "nil".into(),
            Op::Empty => "''".into(),
            Op::Allowed(name) => {
                assert_ne!(document.symbol(name), "yaml");
                continue;
            }
            Op::Convert(name, after) => {
                if document.symbol(name) != "binary" {
                    left = after;
                }
                format!("{}({})", document.symbol(name), stack.pop().unwrap())
            }
            Op::Call => {
                let entity = stack.pop().unwrap();
                format!("{} with {entity}", stack.pop().unwrap())
            }
            Op::File(name) => format!("{} or its {}", stack.pop().unwrap(), document.symbol(name)),
        };
        stack.push(shown);
    }
    assert_eq!(stack.len(), 1);
    stack.pop().unwrap()
}

fn plain(text: &str) -> String {
    let told = |error: super::Error| format!("{}:{}: {}", error.line, error.column, error.message);
    parse(text.as_bytes(), &Limits::default())
        .map(|mut document| {
            let program = document.plain();
            show(&document, text, &program)
        })
        .unwrap_or_else(told)
}

fn converted(text: &str) -> String {
    let mut document = parse(text.as_bytes(), &Limits::default()).unwrap();
    match document.converted(text) {
        Ok(program) => show(&document, text, &program),
        Err(_) => "unusual".into(),
    }
}

#[test]
fn hashes_are_those_of_rexml() {
    let cases = [
        ("<a/>", "{a=>{}}"),
        (
            "\u{FEFF} <?xml version='1.0' encoding=\"x\" standalone='no' ?>\n<!DOCTYPE a><a>\r\n</a>\n<!-- --><?p?>\n",
            "{a=>{__content__=>\"\\n\"}}",
        ),
        (
            "<a b='1' c=\"'\">x<b/> <d>y</d>z<b/></a >",
            "{a=>{b=>[\"1\", {}, {}], c=>\"'\", d=>{__content__=>\"y\"}, __content__=>\"x z\"}}",
        ),
        ("<a> <b/>\u{a0}<!-- x -->\n</a>", "{a=>{b=>{}}}"),
        ("<a>&#32;<b/></a>", "{a=>{b=>{}, __content__=>\" \"}}"),
        ("<a><![CDATA[]]></a>", "{a=>{__content__=>\"\"}}"),
        ("<a>1<![CDATA[<2>&amp;\r\n]]>&lt;3\r<?p?>4</a>", "{a=>{__content__=>\"1<2>&amp;\\n<3\\n4\"}}"),
        (
            "<x:a xmlns:x='u&amp;' x:b='1' xml:lang='e'><x:c/><c/></x:a>",
            "{a=>{xmlns:x=>\"u&\", x:b=>\"1\", xml:lang=>\"e\", c=>[{}, {}]}}",
        ),
        ("<a b='\t1\r\n2&#13;&#10;'/>", "{a=>{b=>\"\\t1\\n2\\r\\n\"}}"),
        ("<a __content__='1'>x<__content__/></a>", "{a=>{__content__=>[\"1\", {}, \"x\"]}}"),
        (
            "<!DOCTYPE a [<!ENTITY e 'v&f;'><!ENTITY f \"&#38;&#x26;\">]><a b='&e;'>&e;</a>",
            "1:65: \"&\" that begins no reference",
        ),
        (
            "<!DOCTYPE a [<!ENTITY e 'v&f;'><!ENTITY f \"w\">]><a b='&e;'>&e;</a>",
            "{a=>{b=>\"vw\", __content__=>\"vw\"}}",
        ),
        ("<\u{e9}\u{b7}>\u{1F600}</\u{e9}\u{b7}>", "{\u{e9}\u{b7}=>{__content__=>\"\u{1F600}\"}}"),
    ];
    for (text, hash) in cases {
        assert_eq!(plain(text), hash, "{text}");
    }
}

#[test]
fn what_is_not_well_formed_is_refused_where_it_stands() {
    let cases = [
        ("", "1:1: the document has no root"),
        (" \n", "2:1: the document has no root"),
        ("x<a/>", "1:1: text outside"),
        ("<a/>x", "1:5: text outside"),
        ("\u{FEFF}\u{FEFF}<a/>", "1:1: text outside"),
        ("<a/>&amp;", "1:5: text outside"),
        ("<a/><![CDATA[]]>", "1:5: a CDATA section outside"),
        ("<a/><b/>", "1:5: a second root"),
        ("<a/><!DOCTYPE a>", "1:5: a document type declaration"),
        ("<a>\n <b></a>", "2:5: end tag \"</a>\" where element \"b\" is open"),
        ("</a>", "1:1: end tag"),
        ("<a></ a>", "1:4: end tag"),
        ("<a>", "1:1: element \"a\" is not closed"),
        ("<a", "1:1: there is no end to a tag"),
        ("<a b='x>", "1:1: there is no end to a tag"),
        ("<a b='1' b='2'/>", "1:10: attribute \"b\" twice"),
        ("<a xmlns:x='1' xmlns:y='1' x:b='' y:b=''/>", "1:3: attribute \"b\" of one namespace twice"),
        ("<a b/>", "1:5: \"=\" is missing"),
        ("<a b=1/>", "1:6: a quote is missing"),
        ("<a b='1'c=''/>", "1:9: white space is missing"),
        ("<a b='<'/>", "1:7: \"<\" in the value"),
        ("<a / >", "1:4: this is no name"),
        ("<a/ >", "1:3: white space is missing"),
        ("< a/>", "1:1: \"<\" that begins no tag"),
        ("<1/>", "1:1: \"<\" that begins no tag"),
        ("<a:/>", "1:2: \"a:\" is no name"),
        ("<x:a/>", "1:2: the prefix \"x\" is not declared"),
        ("<a x:b=''/>", "1:3: the prefix \"x\" is not declared"),
        ("<a>& </a>", "1:4: \"&\" that begins no reference"),
        ("<a>&x y;</a>", "1:4: \"&\" that begins no reference"),
        ("<a>&x", "1:4: \"&\" that begins no reference"),
        ("<a>&nbsp;</a>", "1:4: entity \"nbsp\" is not declared"),
        ("<a>]]></a>", "1:4: \"]]>\" in text"),
        ("<a>\u{1}</a>", "1:4: character U+0001"),
        ("<a><!-- -- --></a>", "1:9: \"--\" within a comment"),
        ("<a><!-- ---></a>", "1:9: \"--\" within a comment"),
        ("<a><!--", "1:4: there is no end to a comment"),
        ("<a><!x></a>", "1:4: \"<!\" that begins nothing"),
        ("<a><?xml version='1.0'?></a>", "1:4: the XML declaration is not at the beginning"),
        ("<?xml version='2.0'?><a/>", "1:1: the XML declaration is not as"),
        ("<?xml encoding='x'?><a/>", "1:1: the XML declaration is not as"),
        ("<a><? x?></a>", "1:4: a processing instruction without a name"),
        ("<!DOCTYPE a [<!ENTITY e SYSTEM 'file:///etc/passwd'>]><a>&e;</a>", "1:58: entity \"e\" lies outside"),
    ];
    for (text, told) in cases {
        assert!(plain(text).starts_with(told), "{text}: {}", plain(text));
    }
    assert_eq!(parse(b"<a>\n\xff</a>", &Limits::default()).err().map(|error| (error.line, error.column)), Some((2, 1)));
}

#[test]
fn limits_hold() {
    let limits = Limits { bytes: 60, depth: 2, elements: 3, attributes: 2, expansion: 5 };
    let told = |text: &str| parse(text.as_bytes(), &limits).err().map_or(String::new(), |error| error.message);
    assert_eq!(told("<a b='1' c='2'><b/><b/></a>"), "");
    assert_eq!(told("<a><b><c/></b></a>"), "The document is too deep");
    assert_eq!(told("<a><b/><b/><b/></a>"), "the document has more than 3 elements");
    assert_eq!(told("<a b='' c='' d=''/>"), "an element has more than 2 attributes");
    assert_eq!(told(&" ".repeat(61)), "the document is larger than 60 bytes");
    assert!(told("<!DOCTYPE a [<!ENTITY e '12'>]><a>&e;&e;</a>").contains("grow beyond its limit"));
}

#[test]
fn bombs_cost_little() {
    let mut laughs = String::from("<!DOCTYPE a [<!ENTITY e0 'ha'>");
    for level in 1..=15 {
        laughs += &format!("<!ENTITY e{level} '{}'>", format!("&e{};", level - 1).repeat(10));
    }
    assert!(plain(&format!("{laughs}]><a>&e15;</a>")).contains("beyond its limit"));
    let long = format!("<!DOCTYPE a [<!ENTITY e '{}'>]><a>{}</a>", "x".repeat(50_000), "&e;".repeat(50_000));
    assert!(plain(&long).contains("beyond its limit"));
}

#[test]
fn conversion_is_that_of_rails() {
    let cases = [
        ("<a-b c-d='1'><e-f> </e-f></a-b>", "{a_b=>{c_d=>\"1\", e_f=>\" \"}}"),
        ("<a><b type='integer'>1</b><b/><c nil='true'/></a>", "{a=>{b=>[integer(\"1\"), nil], c=>nil}}"),
        ("<a type='array'><b>1</b><b type='date'/></a>", "{a=>[\"1\", nil]}"),
        ("<a type='array'> <b>1</b> </a>", "{a=>[\"1\"]}"),
        ("<a type='array'/>", "{a=>[]}"),
        ("<a type='array'>x<b/></a>", "{a=>[nil]}"),
        ("<a type='string'/>", "{a=>''}"),
        ("<a type='string' nil='true'/>", "{a=>nil}"),
        ("<a type='string'>x</a>", "{a=>string(\"x\")}"),
        ("<a type='binary' encoding='base64'>x<b>y</b></a>", "{a=>binary(\"x\") with {type=>\"binary\", encoding=>\"base64\", b=>{__content__=>\"y\"}, __content__=>\"x\"}}"),
        ("<a type='file'/>", "{a=>file(nil)}"),
        ("<a><file type='file'>x</file></a>", "{a=>{file=>file(\"x\")} or its file}"),
        ("<a><type>x</type></a>", "{a=>{type=>\"x\"}}"),
        ("<a b='1'>  </a>", "{a=>{b=>\"1\", __content__=>\"  \"}}"),
        ("<a b='1'> x </a>", "{a=>\" x \"}"),
        ("<a b-c='1' b_c='2'/>", "unusual"),
        ("<a><b-c x='1'/><b_c x='2'/></a>", "unusual"),
        ("<a><type/><type/></a>", "unusual"),
        ("<a __content__='x'/>", "unusual"),
        ("<__content__/>", "unusual"),
    ];
    for (text, value) in cases {
        assert_eq!(converted(text), value, "{text}");
    }
}
