//! A way to look at the pages: `cargo test -p paceline --lib write_samples -- --ignored`. Those of starts are in
//! `crates/startup-report`. It is never part of the program.

use startup_report::Failure;
use unix_user::RunAs;

use super::{exception_page, sites_page, startup_in_production, status_page, words, AppException, SiteLink};

#[test]
fn a_start_that_failed_shows_only_its_id_in_production() {
    let (kind, body) = startup_in_production("3f9a01bc", Some("application/json"));
    assert!(kind.starts_with("application/json") && body.windows(8).any(|part| part == b"3f9a01bc"));
}

/// Writes pages to look at into $PACELINE_SAMPLES (or the temporary directory).
#[test]
#[ignore = "writes files to look at"]
fn write_samples() {
    let to = std::env::var_os("PACELINE_SAMPLES").map_or_else(std::env::temp_dir, Into::into);
    let app = to.join("brewery");
    let file = app.join("app/models/beer.rb");
    std::fs::create_dir_all(app.join("app/models")).unwrap();
    std::fs::write(&file, "class Beer\n  def strength = malts.sum(&:extract) / volume # <percent>\nend\n").unwrap();
    let failure = Failure::Exception {
        class: "ZeroDivisionError".into(),
        message: "divided by 0".into(),
        file: Some(file.clone()),
        line: Some(2),
        backtrace: vec![
            format!("{}:2:in `strength'", file.display()),
            "/usr/share/rubygems-integration/all/gems/actionpack-6.1.7/lib/action_controller/metal/basic_implicit_render.rb:6:in `send_action'".into(),
        ],
        cause: None,
        detail: None,
    };
    let error = AppException {
        read_as: Some(&RunAs::own()),
        failure: &failure,
        suggestion: None,
        root: &app,
        request_line: "GET /beers/7?page=2",
        id: "01H8-77",
    };
    let site = |name: &str, note: &str| SiteLink {
        name: name.into(),
        url: format!("http://{name}.localhost:3000/"),
        note: note.into(),
    };
    let sites = [site("brewery", "rails"), site("shop", "sinatra"), site("handbook", "files")];
    for (name, page) in [
        ("error", exception_page(&error)),
        ("503", status_page(503, words(503).0, words(503).1, Some("3f9a01bc"))),
        ("404", status_page(404, words(404).0, words(404).1, None)),
        ("sites", sites_page("shpo.localhost", &sites)),
    ] {
        std::fs::write(to.join(format!("{name}.html")), page).unwrap();
    }
}
