//! What an `[[sso]]` may say, and what is said of mistakes.

use std::path::Path;

use super::*;
use crate::config::table::{TableItem, TableProblem, TableSetting};

fn read(text: &str) -> Result<Vec<SignOn>, TableProblem> {
    let document: toml_edit::DocumentMut = text.parse().expect("TOML");
    Vec::from_toml(&document["sso"]).expect("tables")
}

const KERBEROS: &str = "[[sso]]\nkerberos = { keytab = \"http.keytab\" }\n";

#[test]
fn a_table_with_everything() {
    let text = r#"
        [[sso]]
        path = ["/*", "/admin"]
        except = ["/up", "/api/*"]
        kerberos = { keytab = "/k", realms = ["A.TEST", "B.TEST"], service = "HTTP/web.a.test", bindings = "require", ntlm = true, groups = "ldap" }
        oidc = { issuer = "https://id.test", client_id = "shop", client_secret_file = "s", scopes = "groups", name_claim = "email", groups_claim = "roles", after_logout = "/bye" }
        basic = { ldap = ["ldaps://a.test", "ldaps://b.test"], base = "dc=a", account = "cn=x", password_file = "p", timeout = "2s", cache = "0s" }
        otherwise = "app"
        local = "keep"
        intranet = ["10.0.0.0/8", "192.0.2.1"]
        lifetime = "8h"
        idle = "off"
        store = "redis://cache.a.test:6379/1"
        store_password_file = "r"
    "#;
    let mut all = read(text).unwrap();
    let one = &mut all[0];
    one.anchor(Path::new("/srv"));
    let kerberos = one.kerberos.as_ref().unwrap();
    assert_eq!((kerberos.keytab.as_path(), &kerberos.services[..]), (Path::new("/k"), &["HTTP/web.a.test".into()][..]));
    assert_eq!(
        (kerberos.bindings, kerberos.ntlm, kerberos.groups),
        (Bindings::Require, true, Some(KerberosGroups::Ldap))
    );
    let oidc = one.oidc.as_ref().unwrap();
    assert_eq!(
        (oidc.client_secret_file.as_deref(), oidc.after_logout.as_deref()),
        (Some(Path::new("/srv/s")), Some("/bye"))
    );
    let basic = one.basic.as_ref().unwrap();
    assert_eq!((basic.ldap.len(), basic.password_file.as_deref()), (2, Some(Path::new("/srv/p"))));
    assert_eq!((one.otherwise, one.local, one.idle), (Otherwise::App, LocalName::Keep, None));
    assert_eq!((one.lifetime, one.intranet.len()), (Duration::from_secs(8 * 3600), 2));
    let Store::Redis { password_file, .. } = &one.store else { panic!("Redis") };
    assert_eq!(password_file.as_deref(), Some(Path::new("/srv/r")));
}

/// Each way at once, and for Active Directory without an account that searches.
#[test]
fn a_table_of_few_lines() {
    let text = r#"
        [[sso]]
        path = "/*"
        except = ["/up", "/api/*", "/assets/*"]
        kerberos = { keytab = "/etc/paceline/http.keytab", realms = ["EXAMPLE.COM"] }
        oidc = { issuer = "https://login.example.com", client_id = "shop", client_secret_file = "secret" }
        basic = { ldap = "ldaps://dc1.example.com", base = "dc=example,dc=com" }
        otherwise = "app"
        allow = ["group:staff"]
    "#;
    let one = &read(text).unwrap()[0];
    assert_eq!(one.basic.as_ref().unwrap().bind_as.as_deref(), Some("{name}@example.com"));
    assert_eq!((one.otherwise, &one.allow[..]), (Otherwise::App, &[Allow::Group("staff".into())][..]));
}

#[test]
fn what_is_not_said_lets_nobody_in() {
    let otherwise = |text: &str| read(text).unwrap()[0].otherwise;
    assert_eq!(otherwise(KERBEROS), Otherwise::Refuse);
    let basic = "basic = { ldap = \"ldaps://a\", base = \"dc=a\", bind_as = \"{name}@a\" }\n";
    assert_eq!(otherwise(&format!("{KERBEROS}{basic}")), Otherwise::Basic);
    let oidc = "oidc = { issuer = \"https://id.test\", client_id = \"a\" }\n";
    assert_eq!(otherwise(&format!("{KERBEROS}{basic}{oidc}")), Otherwise::OpenId);
    let one = &read(KERBEROS).unwrap()[0];
    assert_eq!((&one.paths[..], one.idle.is_some(), &one.store), (&["/*".to_owned()][..], true, &Store::Usual));
    assert_eq!(one.kerberos.as_ref().unwrap().services, Vec::<String>::new());
}

#[test]
fn who_is_allowed() {
    let one = &read(&format!("{KERBEROS}allow = [\"group:a: b\", \"user:bob\", \"realm:A.TEST\"]")).unwrap()[0];
    assert_eq!(one.allow, [Allow::Group("a: b".into()), Allow::User("bob".into()), Allow::Realm("A.TEST".into())]);
}

#[test]
fn mistakes_say_what_where_and_what_to_do() {
    for (text, told) in [
        ("[[sso]]\npath = \"/\"", "needs kerberos, basic or oidc in [[sso]] path = \"/\": add kerberos = {"),
        ("[[sso]]\npath = \"admin\"", "must have plain paths like \"/admin/*\", without %, ? and .. as path in [[sso]], not \"admin\""),
        ("[[sso]]\npath = \"/%61\"", "plain paths"),
        ("[[sso]]\npath = \"/a/../b\"", "plain paths"),
        ("[[sso]]\nkerberos = { keytb = \"a\" }", "has in kerberos of [[sso]] path = \"/*\" keytab, realms, service, bindings, ntlm, groups, not \"keytb\" (did you mean \"keytab\"?)"),
        ("[[sso]]\nkerberos = { realms = [\"A\"] }", "needs keytab in kerberos of [[sso]] path = \"/*\": add keytab ="),
        ("[[sso]]\nkerberos = { keytab = \"a\", service = \"host/x\" }", "\"HTTP@any\" or names like"),
        ("[[sso]]\nkerberos = { keytab = \"a\", bindings = true }", "must have \"off\", \"allow\" or \"require\" as bindings"),
        ("[[sso]]\nkerberos = { keytab = \"a\", groups = \"ldap\" }", "it is where groups = \"ldap\" looks"),
        ("[[sso]]\nkerberos = { keytab = \"a\" }\nexcpt = \"/up\"", "not \"excpt\" (did you mean \"except\"?)"),
        ("[[sso]]\nkerberos = { keytab = \"a\" }\notherwise = \"oidc\"", "needs oidc in"),
        ("[[sso]]\nkerberos = { keytab = \"a\" }\notherwise = \"basic\"", "needs basic in"),
        ("[[sso]]\nkerberos = { keytab = \"a\" }\notherwise = \"no\"", "\"app\", \"oidc\", \"basic\" or \"refuse\""),
        ("[[sso]]\nkerberos = { keytab = \"a\" }\nallow = \"staff\"", "names like \"group:staff\""),
        ("[[sso]]\nkerberos = { keytab = \"a\" }\nallow = []", "without allow everybody"),
        ("[[sso]]\nkerberos = { keytab = \"a\" }\nintranet = \"lan\"", "networks like \"10.0.0.0/8\""),
        ("[[sso]]\nkerberos = { keytab = \"a\" }\nlifetime = 3", "a time like \"12h\""),
        ("[[sso]]\nkerberos = { keytab = \"a\" }\nstore = \"redis://u:p@h/0\"", "store_password_file"),
        ("[[sso]]\nkerberos = { keytab = \"a\" }\nstore = \"http://h\"", "a path, or a URL like"),
        ("[[sso]]\nkerberos = { keytab = \"a\" }\nstore_ca_file = \"c\"", "they are for a store = \"redis://...\""),
        ("[[sso]]\nbasic = { ldap = \"ldaps://a\", base = \"b\" }", "who searches; or bind_as"),
        ("[[sso]]\nbasic = { ldap = \"ldaps://a\", base = \"b\", account = \"c\" }", "needs password_file"),
        ("[[sso]]\nbasic = { ldap = \"ldaps://a\", base = \"b\", account = \"c\", password = \"d\" }", "password_file = \"...\""),
        ("[[sso]]\noidc = { issuer = \"https://a\", client_id = \"b\", client_secret = \"c\" }", "client_secret_file = \"...\""),
        ("[[sso]]\noidc = { issuer = \"http://a.test\", client_id = \"b\" }", "must begin with https://"),
        ("[[sso]]\noidc = { issuer = \"https://a\", client_id = \"b\", after_logout = \"//x\" }", "a path of the site"),
    ] {
        let error = read(text).expect_err(text).to_string();
        assert!(error.contains(told), "{text}\n{error}");
    }
}
