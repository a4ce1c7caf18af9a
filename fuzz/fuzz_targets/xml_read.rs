//! XML: what is read comes out whole and bounded, and read the same when it is written plainly. Input: a document.
#![cfg_attr(fuzzing, no_main)]

use libfuzzer_sys::fuzz_target;
use paceline_xml::read::{parse, Document, Limits, Op, Program, Source};

/// Small, so that the fuzzer finds them.
const LIMITS: Limits = Limits { bytes: 4096, depth: 12, elements: 100, attributes: 8, expansion: 300 };
/// What is written plainly is longer than what was read.
const LARGER: Limits = Limits { bytes: 1 << 20, ..LIMITS };
const CONTENT: &str = "__content__";

#[derive(Debug, Clone, PartialEq)]
enum Value {
    Nil,
    Name(String),
    Text(String),
    Array(Vec<Value>),
    Hash(Vec<(String, Value)>),
}

fuzz_target!(|data: &[u8]| {
    let mut document = match parse(data, &LIMITS) {
        Ok(document) => document,
        Err(error) => {
            let lines = data.iter().filter(|byte| **byte == b'\n').count() + 1;
            assert!(!error.message.is_empty() && error.line <= lines && error.column <= data.len() + 1, "{error:?}");
            assert_eq!(error.line == 0, data.len() > LIMITS.bytes, "{error:?}");
            return;
        }
    };
    let text = std::str::from_utf8(data).expect("only UTF-8 is read");
    // A byte comes from the document, or an entity has paid for it.
    assert!(document.beside().len() <= data.len() + LIMITS.expansion);
    let program = document.plain();
    let value = run(&document, text, &program);
    let Value::Hash(root) = &value else { panic!("{value:?}") };
    assert_eq!(root.len(), 1);
    // An element or an attribute that bears the name that text has can't be told from text.
    if !text.contains(CONTENT) {
        let mut written = String::new();
        write(&root[0].0, &root[0].1, &mut written);
        let mut again = match parse(written.as_bytes(), &LARGER) {
            Ok(again) => again,
            Err(error) => panic!("{written:?}: {error:?}"),
        };
        let program = again.plain();
        assert_eq!(run(&again, &written, &program), value, "{written:?}");
    }
    if let Ok(program) = document.converted(text) {
        run(&document, text, &program);
    }
});

/// Does the steps, with all that they promise about the stack and about text.
fn run(document: &Document, text: &str, program: &Program) -> Value {
    let mut stack: Vec<Value> = Vec::new();
    let mut left = 0;
    for op in &program.ops {
        if left > 0 {
            left -= 1;
            continue;
        }
        let value = match *op {
            Op::Key(name) => Value::Name(document.symbol(name).to_owned()),
            Op::Text(span) => {
                let range = span.at as usize..(span.at + span.length) as usize;
                Value::Text(match span.source {
                    Source::Document => text[document.skipped()..][range].to_owned(),
                    Source::Beside => document.beside()[range].to_owned(),
                })
            }
            Op::Hash(pairs) => {
                let mut pairs = stack.split_off(stack.len() - 2 * pairs as usize).into_iter();
                let mut hash: Vec<(String, Value)> = Vec::new();
                while let (Some(key), Some(value)) = (pairs.next(), pairs.next()) {
                    let Value::Name(key) = key else { panic!("{key:?} is no key") };
                    assert!(!matches!(value, Value::Name(_)) && hash.iter().all(|(other, _)| *other != key));
                    hash.push((key, value));
                }
                Value::Hash(hash)
            }
            Op::Array(count) => Value::Array(stack.split_off(stack.len() - count as usize)),
            Op::Nil => Value::Nil,
            Op::Empty => Value::Text(String::new()),
            Op::Allowed(name) => {
                document.symbol(name);
                continue;
            }
            Op::Convert(name, after) => {
                // Some take the hash too.
                left = if document.symbol(name).len() % 2 == 0 { after } else { 0 };
                assert!(matches!(stack.pop(), Some(Value::Text(_) | Value::Nil)));
                Value::Nil
            }
            Op::Call => {
                assert!(matches!(stack.pop(), Some(Value::Hash(_))));
                stack.pop().expect("the text is under the hash")
            }
            Op::File(_) => stack.pop().expect("a hash"),
        };
        stack.push(value);
        assert!(stack.len() <= program.stack);
    }
    assert!(stack.len() == 1 && left == 0);
    stack.remove(0)
}

fn write(name: &str, value: &Value, out: &mut String) {
    let Value::Hash(pairs) = value else { panic!("{value:?} is no element") };
    out.push_str(&format!("<{name}"));
    let list = |value: &Value| match value {
        Value::Array(values) => values.clone(),
        one => vec![one.clone()],
    };
    for (key, value) in pairs.iter().filter(|(key, _)| key != CONTENT) {
        for value in list(value) {
            if let Value::Text(text) = value {
                out.push_str(&format!(" {key}=\"{}\"", escaped(&text)));
            }
        }
    }
    out.push('>');
    for (key, value) in pairs {
        for value in list(value) {
            match value {
                Value::Hash(_) => write(key, &value, out),
                Value::Text(text) if key == CONTENT && text.is_empty() => out.push_str("<![CDATA[]]>"),
                Value::Text(text) if key == CONTENT => out.push_str(&escaped(&text)),
                _ => {}
            }
        }
    }
    out.push_str(&format!("</{name}>"));
}

/// White space by reference too, which is never taken for what stands between elements.
fn escaped(text: &str) -> String {
    text.chars()
        .map(|character| match character {
            '<' | '>' | '&' | '"' => format!("&#{};", u32::from(character)),
            character if character.is_whitespace() => format!("&#x{:X};", u32::from(character)),
            character => character.to_string(),
        })
        .collect()
}
