//! What the file of names and passwords promises. No server is started.

use super::*;
use crate::config::test_folder::Folder;

/// Of "password", by `htpasswd -nbBC 4`, and by argon2's reference implementation.
const BCRYPT: &str = "$2y$04$sSViL2OFEAjZyEHOBASyAOxgRdqX/SO3N1Ok4MEEZ4H6bFxiOz7u6";
const ARGON2: &str = "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4";

fn right() -> Secret {
    Secret::new("password")
}

fn waited<T>(future: impl std::future::Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn check(file: &Arc<PasswordFile>, name: &str, password: &str) -> Result<Verdict, PasswordFileError> {
    waited(file.check(name, &Secret::new(password), source(100)))
}

/// An address that has failed never, and may so often.
fn source(failures: u32) -> Source {
    let limit = sign_in::FailureLimit { failures, within: 600_000 };
    let failures = Box::leak(Box::new(Failures::new(Some(limit), None, 100)));
    Source { address: [192, 0, 2, 1].into(), failures }
}

fn recalled(file: &Arc<PasswordFile>, name: &str, password: &str) -> Option<Verdict> {
    let lines = file.current().unwrap();
    file.recall(file.digest(name, &Secret::new(password), lines.line_of(name)))
}

#[test]
fn hashes_of_both_kinds() {
    for hash in [BCRYPT, ARGON2] {
        assert!(is_of(hash, &right()) && !is_of(hash, &Secret::new("Password")) && !is_of(hash, &Secret::new("")));
    }
}

#[test]
fn a_file_with_its_mistakes() {
    let good = format!("# staff\n\nalice:{BCRYPT}\n bob:{ARGON2} \n");
    assert_eq!(hashes(&good).unwrap().len(), 2);
    for (line, why) in [
        ("alice", LineError::Form),
        (":x", LineError::Form),
        ("alice:", LineError::Form),
        ("alice:{SHA}VBPuJHI7uixaa6LQGWx4s+5GKNE=", LineError::Hash("alice".into())),
        ("alice:$apr1$abc$def", LineError::Hash("alice".into())),
        ("alice:plain", LineError::Hash("alice".into())),
        ("alice:$2y$05$short", LineError::Damaged("alice".into())),
        ("alice:$argon2id$v=19$m=8,t=1,p=1$x", LineError::Damaged("alice".into())),
    ] {
        assert_eq!(hashes(&format!("\n{line}\n")).unwrap_err(), (2, why), "{line}");
    }
    let costly = BCRYPT.replacen("$04$", "$20$", 1);
    assert_eq!(hashes(&format!("a:{costly}")).unwrap_err(), (1, LineError::Cost(20)));
    let large = ARGON2.replacen("m=256,", "m=4194304,", 1);
    assert_eq!(hashes(&format!("a:{large}")).unwrap_err(), (1, LineError::Memory(4 << 20)));
    assert_eq!(hashes(&format!("a:{BCRYPT}\na:{BCRYPT}")).unwrap_err(), (2, LineError::Twice("a".into())));
}

#[test]
fn what_was_proved_is_known_until_its_line_changes() {
    let folder = Folder::with(&[("staff", &format!("alice:{BCRYPT}\n"))]);
    let file = Arc::new(PasswordFile::new(&folder.0.join("staff")));
    assert!(!file.knows("alice", &right()), "nothing has been read");
    assert_eq!(check(&file, "alice", "password").unwrap(), Verdict::Right);
    assert!(file.knows("alice", &right()));
    assert!(!file.knows("alice", &Secret::new("other")) && !file.knows("bob", &right()));
    assert_eq!(check(&file, "alice", "other").unwrap(), Verdict::Wrong);
    assert_eq!(recalled(&file, "alice", "other"), Some(Verdict::Wrong));
    assert_eq!(recalled(&file, "alice", "password"), Some(Verdict::Right));
    assert_eq!(recalled(&file, "bob", "password"), None);
    assert_eq!(check(&file, "bob", "password").unwrap(), Verdict::Wrong);
    // Another line for alice: what was proved before proves nothing.
    folder.write("staff", &format!("alice:{ARGON2}\nbob:{BCRYPT}\n"));
    file.load().unwrap();
    assert!(!file.knows("alice", &right()));
    assert_eq!(recalled(&file, "alice", "password"), None);
    assert_eq!(check(&file, "alice", "password").unwrap(), Verdict::Right);
    assert_eq!(recalled(&file, "bob", "password"), None, "what was wrong without a line may be right with one");
    assert_eq!(check(&file, "bob", "password").unwrap(), Verdict::Right);
}

#[test]
fn a_client_that_goes_away_frees_no_turn_and_is_counted() {
    let folder = Folder::with(&[("staff", &format!("alice:{}\n", BCRYPT.replacen("$04$", "$08$", 1)))]);
    let file = Arc::new(PasswordFile::new(&folder.0.join("staff")));
    let from = source(1);
    waited(async {
        file.load().unwrap();
        let password = Secret::new("guess");
        let mut asked = Box::pin(file.check("alice", &password, from));
        while from.failures.check(from.address, None, clock::unix_millis()).is_ok() {
            assert!(answer_now(asked.as_mut()).await.is_none(), "it was not counted");
        }
        drop(asked);
        // All turns are free only when the hash has ended.
        let _all = CHECKS.acquire_many(u32::try_from(most_checks()).unwrap()).await.unwrap();
        assert_eq!(recalled(&file, "alice", "guess"), Some(Verdict::Wrong));
    });
    let other = waited(file.check("alice", &Secret::new("other"), from)).unwrap();
    assert!(matches!(other, Verdict::TooOften(_)), "{other:?}");
}

/// What a future has now. None: nothing yet.
async fn answer_now<F: std::future::Future>(mut future: std::pin::Pin<&mut F>) -> Option<F::Output> {
    tokio::task::yield_now().await;
    std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
        std::task::Poll::Ready(is) => std::task::Poll::Ready(Some(is)),
        std::task::Poll::Pending => std::task::Poll::Ready(None),
    })
    .await
}

#[test]
fn no_more_tries_at_the_same_time_than_may_fail() {
    let folder = Folder::with(&[("staff", &format!("alice:{BCRYPT}\n"))]);
    let file = Arc::new(PasswordFile::new(&folder.0.join("staff")));
    let from = source(3);
    let verdicts = waited(async {
        let tries = (0..30).map(|number| {
            let file = file.clone();
            let password = Secret::new(format!("guess {number}"));
            tokio::spawn(async move { file.check("alice", &password, from).await.unwrap() })
        });
        let mut verdicts = Vec::new();
        for one in tries.collect::<Vec<_>>() {
            verdicts.push(one.await.unwrap());
        }
        verdicts
    });
    assert_eq!(verdicts.iter().filter(|verdict| **verdict == Verdict::Wrong).count(), 3, "{verdicts:?}");
    assert_eq!(check(&file, "alice", "password").unwrap(), Verdict::Right);
}

#[test]
fn a_right_password_is_no_failure() {
    let folder = Folder::with(&[("staff", &format!("alice:{BCRYPT}\nbob:{ARGON2}\n"))]);
    let file = Arc::new(PasswordFile::new(&folder.0.join("staff")));
    let from = source(1);
    for name in ["alice", "bob"] {
        assert_eq!(waited(file.check(name, &right(), from)).unwrap(), Verdict::Right, "{name}");
    }
}

#[test]
fn an_unknown_name_takes_as_long_as_most_others() {
    let lines = format!("a:{ARGON2}\nb:{BCRYPT}\nc:{}\nd:{BCRYPT}\n", BCRYPT.replacen("$04$", "$12$", 1));
    assert_eq!(decoy(&hashes(&lines).unwrap()).as_deref(), Some(BCRYPT));
    assert_eq!((kind(BCRYPT), kind(ARGON2)), ("04", "$argon2id$v=19$m=256,t=2,p=1"));
    assert_eq!(decoy(&HashMap::new()), None);
}

#[test]
fn a_file_that_is_wrong_lets_nobody_in() {
    let folder = Folder::with(&[("staff", &format!("alice:{BCRYPT}\n")), ("empty", "# nobody\n")]);
    let file = Arc::new(PasswordFile::new(&folder.0.join("staff")));
    assert_eq!(check(&file, "alice", "password").unwrap(), Verdict::Right);
    folder.write("staff", &format!("alice:{BCRYPT}\nbob:plain\n"));
    let error = file.load().unwrap_err().to_string();
    assert!(
        error.ends_with(
            "staff:2: has a hash that is neither bcrypt nor argon2: make a new one with htpasswd -B FILE bob"
        ),
        "{error}"
    );
    assert!(!file.knows("alice", &right()) && check(&file, "alice", "password").is_err());
    for name in ["empty", "none"] {
        let file = PasswordFile::new(&folder.0.join(name));
        assert!(file.load().is_err(), "{name}");
    }
}

#[test]
fn nothing_of_a_password_is_kept() {
    let folder = Folder::with(&[("staff", &format!("alice:{BCRYPT}\n"))]);
    let [one, other] = [(); 2].map(|()| Arc::new(PasswordFile::new(&folder.0.join("staff"))));
    let digest = |file: &PasswordFile| file.digest("alice", &right(), BCRYPT);
    assert_ne!(digest(&one), digest(&other), "the key is each file's own");
    assert_ne!(one.digest("a", &Secret::new("bc"), ""), one.digest("ab", &Secret::new("c"), ""));
    assert_eq!(format!("{one:?}"), format!("PasswordFile({})", folder.0.join("staff").display()));
}

#[test]
fn memory_is_bounded_however_many_passwords_are_tried() {
    let file = PasswordFile::new(Path::new("/none"));
    let mut digests = Digests::default();
    for number in 0..5 * MAX_DIGESTS {
        let digest = file.digest(&number.to_string(), &right(), "").unwrap();
        digests.keep(digest, number % 2 == 0);
    }
    assert!((1..=MAX_DIGESTS).contains(&digests.wrong.len()) && (1..=MAX_DIGESTS).contains(&digests.right.len()));
}
